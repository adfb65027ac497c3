"""One row for each pod that asks for, holds or uses a GPU."""

from collections.abc import Callable, Iterable, Mapping

from exporter.attribution.holders import Holders
from exporter.attribution.pods import container_key
from exporter.attribution.wanted import devices_requested
from exporter.model.attribution import Ownership, PodRow
from exporter.model.ids import ContainerKey
from exporter.model.workload import Pod


def pod_rows(
    pods: Iterable[Pod],
    holders: Holders,
    resources: frozenset[str],
    owner_of: Callable[[ContainerKey], Ownership],
    *,
    holdings_known: bool,
) -> tuple[PodRow, ...]:
    """Known pods, and those that only the kubelet names.

    Args:
        pods: Pods that have to do with a GPU.
        holders: Who holds what.
        resources: Resources that turned out to be GPUs.
        owner_of: Owner of a pod, by any of its containers.
        holdings_known: False if the kubelet has no usable answer.
    """
    assigned = _assigned(holders)
    known = {container_key(pod, ""): pod for pod in pods}
    return tuple(
        _row(key, known.get(key), owner_of(key), resources, assigned.get(key, 0) if holdings_known else None)
        for key in sorted(known.keys() | assigned.keys(), key=lambda key: (key.namespace, key.pod, key.pod_uid))
    )


def _assigned(holders: Holders) -> Mapping[ContainerKey, int]:
    """Units of each pod, as its limits count them: two replicas of one GPU are two; what could not be resolved counts, too."""
    units: dict[ContainerKey, set[tuple[str, str]]] = {}
    for held in holders.held:
        units.setdefault(_of_pod(held.container), set()).add((held.allocation.resource, held.allocation.device_id))
    for container, allocation in holders.unresolved:
        units.setdefault(_of_pod(container), set()).add((allocation.resource, allocation.device_id))
    return {key: len(found) for key, found in units.items()}


def _of_pod(container: ContainerKey) -> ContainerKey:
    return ContainerKey(container.pod_uid, container.namespace, container.pod, "")


def _row(key: ContainerKey, pod: Pod | None, owner: Ownership, resources: frozenset[str], assigned: int | None) -> PodRow:
    if pod is None:
        return PodRow(uid=key.pod_uid, namespace=key.namespace, pod=key.pod, owner=owner, assigned=assigned)
    return PodRow(
        uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        owner=owner,
        priority_class=pod.priority_class,
        requested=devices_requested(pod, resources),
        assigned=assigned,
        start_timestamp_seconds=pod.start_timestamp_seconds,
    )
