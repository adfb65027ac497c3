"""The owner of every pod that has to do with a GPU, worked out once a cycle."""

from collections.abc import Callable

from exporter.attribution.lookups import Lookups, is_definitive
from exporter.attribution.ownership import resolve_ownership
from exporter.attribution.pods import PodIndex
from exporter.model.attribution import Ownership
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.policy import OwnershipPolicy
from exporter.model.snapshot import Snapshot


def owners_of_pods(snapshot: Snapshot, pods: PodIndex, policy: OwnershipPolicy) -> Callable[[ContainerKey], Ownership]:
    """A function from a container to its pod's owner; each pod is worked out when it is first asked for."""
    lookups = Lookups(snapshot.owners, snapshot.namespaces)
    by_uid = {pod.uid: pod for pod in pods.by_cgroup_uid.values()}
    missing = snapshot.pods.missing
    final = missing is not None and is_definitive(missing.reason)
    done: dict[PodUid, Ownership] = {}

    def owner_of(container: ContainerKey) -> Ownership:
        uid = container.pod_uid
        if uid not in done:
            done[uid] = resolve_ownership(by_uid.get(uid), lookups, policy, complete=final)
        return done[uid]

    return owner_of
