"""The owner of every pod that has to do with a GPU, worked out once a cycle; what was known of a pod is not unlearned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from exporter.attribution.lookups import Lookups, is_definitive
from exporter.attribution.ownership import resolve_ownership
from exporter.attribution.pods import PodIndex
from exporter.model.attribution import Ownership
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.policy import OwnershipPolicy
from exporter.model.snapshot import Snapshot
from exporter.model.workload import Pod

_OF_WORKLOAD = "workload_"


@dataclass(frozen=True, slots=True)
class OwnerBook:
    """Owners by pod; each pod is worked out when it is first asked for."""

    policy: OwnershipPolicy
    lookups: Lookups
    pods: Mapping[PodUid, Pod]
    remembered: Mapping[PodUid, Ownership]
    """The last complete ownership of pods that were there in the cycle before."""
    final: bool
    """True if a pod that is not known will not become known soon."""
    _found: dict[PodUid, Ownership] = field(default_factory=dict)

    def of(self, container: ContainerKey) -> Ownership:
        """Owner of the container's pod."""
        uid = container.pod_uid
        if uid not in self._found:
            self._found[uid] = self._work_out(uid)
        return self._found[uid]

    def remember(self, present: Iterable[PodUid]) -> dict[PodUid, Ownership]:
        """The complete ownerships of these pods, for the next cycle."""
        return {uid: owner for uid in present if uid and (owner := self._found.get(uid)) is not None and owner.complete}

    def _work_out(self, uid: PodUid) -> Ownership:
        pod, before = self.pods.get(uid), self.remembered.get(uid) if uid else None
        if before is not None and pod is None:
            return before
        now = resolve_ownership(pod, self.lookups, self.policy, complete=self.final)
        if before is None:
            return now
        return _kept(before, now, self.policy) if now.complete else before


def owners_of_pods(
    snapshot: Snapshot, pods: PodIndex, policy: OwnershipPolicy, remembered: Mapping[PodUid, Ownership]
) -> OwnerBook:
    """Open the book of this cycle.

    Args:
        snapshot: This cycle's look-ups.
        pods: Pods by their UIDs.
        policy: What the configuration decides.
        remembered: Complete ownerships of the cycle before; a failed look-up keeps what was known.
    """
    missing = snapshot.pods.missing
    return OwnerBook(
        policy=policy,
        lookups=Lookups(snapshot.owners, snapshot.namespaces),
        pods={pod.uid: pod for pod in pods.by_cgroup_uid.values()},
        remembered=remembered,
        final=missing is not None and is_definitive(missing.reason),
    )


def _kept(before: Ownership, now: Ownership, policy: OwnershipPolicy) -> Ownership:
    """The new answer, without what it has only lost: an owner deleted meanwhile, or metadata that is refused now.

    A pod keeps its controller for life; labels may change, and then change the owner from that moment.
    """
    moved = before.workload != "unknown" and (before.workload_type, before.workload) != (now.workload_type, now.workload)
    if moved:
        now = replace(now, workload_type=before.workload_type, workload=before.workload, workload_class=before.workload_class)

    def lost(was: str, source: str, becomes: str) -> bool:
        return (moved and source.startswith(_OF_WORKLOAD)) or (becomes == policy.unknown != was)

    if lost(before.team, before.team_source, now.team):
        now = replace(now, team=before.team, team_source=before.team_source)
    if lost(before.cost_center, before.cost_center_source, now.cost_center):
        now = replace(now, cost_center=before.cost_center, cost_center_source=before.cost_center_source)
    known = dict(before.extra)
    extra = tuple((name, known.get(name, value) if value == policy.unknown else value) for name, value in now.extra)
    return replace(now, extra=extra)
