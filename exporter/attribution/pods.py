"""The pods of this node, found by everything that other sources call them by."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.cgroup import PodPlace
from exporter.model.ids import ContainerId, ContainerKey, PodUid
from exporter.model.workload import Pod, PodStore


@dataclass(frozen=True, slots=True)
class PodIndex:
    """What the pods source can be asked."""

    known: bool = False
    """False if the source has no usable answer: then nothing can be said of any pod."""
    complete: bool = False
    """True if the answer is this cycle's and nothing was left out: a pod that is not in it does not exist."""
    live: tuple[Pod, ...] = ()
    """Pods that the API lists, terminal ones included; sorted."""
    by_cgroup_uid: Mapping[str, Pod] = field(default_factory=dict)
    """By UID without dashes; a pod has several if it is static; recently deleted ones included."""
    by_name: Mapping[tuple[str, str], Pod] = field(default_factory=dict)
    """Live pods only: the kubelet's answer has nothing better than names."""
    by_container: Mapping[ContainerId, Pod] = field(default_factory=dict)
    remembered: Mapping[tuple[str, str], PodUid] = field(default_factory=dict)
    """UIDs of holders of the cycle before, by name, for as long as the source has no usable answer."""

    def in_cgroup(self, place: PodPlace) -> Pod | None:
        """The pod at this place of a path: by its UID, else by its container."""
        found = self.by_cgroup_uid.get(_folded(place.pod_uid))
        return found or (self.by_container.get(place.container_id) if place.container_id else None)


def index_pods(store: PodStore | None, *, fresh: bool) -> PodIndex:
    """Build the index.

    Args:
        store: The usable answer of the pods source, if there is one.
        fresh: True if it is this cycle's, not one kept from before.
    """
    if store is None:
        return PodIndex()
    live = tuple(sorted(store.pods.values(), key=_standing))
    everyone = (*sorted(store.recently_deleted.values(), key=_standing), *live)
    return PodIndex(
        known=True,
        complete=fresh and store.malformed == 0,
        live=tuple(sorted(live, key=pod_order)),
        by_cgroup_uid=_aliases(everyone) | {_folded(pod.uid): pod for pod in everyone},
        by_name={(pod.namespace, pod.name): pod for pod in live},
        by_container={container_id: pod for pod in everyone for container_id in pod.container_names},
    )


def container_key(pod: Pod, container: str) -> ContainerKey:
    """Identity of one of the pod's containers; an empty name where the pod is known and the container is not."""
    return ContainerKey(pod.uid, pod.namespace, pod.name, container)


def unique_pods(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Each UID once, in a stable order."""
    return tuple(sorted({pod.uid: pod for pod in pods}.values(), key=pod_order))


def pod_order(pod: Pod) -> tuple[str, str, str]:
    """Sort key for people."""
    return (pod.namespace, pod.name, pod.uid)


def _aliases(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Pods by the further UIDs that their annotations claim.

    Anybody can write such an annotation. So a claim never beats the pod whose UID it is, and that of a static pod beats
    others; between equals nobody can say whose it is, and it is nobody's.
    """
    claims: dict[str, list[Pod]] = {}
    for pod in pods:
        for uid in set(map(_folded, pod.cgroup_uids)):
            claims.setdefault(uid, []).append(pod)
    trusted = {uid: [pod for pod in claiming if pod.is_mirror] or claiming for uid, claiming in claims.items()}
    return {uid: claiming[0] for uid, claiming in trusted.items() if len(claiming) == 1}


def _standing(pod: Pod) -> tuple[bool, float, str]:
    """Later in this order wins a name: a pod that is not terminal, then the younger one."""
    return (not pod.terminal, pod.start_timestamp_seconds or 0.0, pod.uid)


def _folded(uid: PodUid) -> str:
    return uid.replace("-", "").lower()
