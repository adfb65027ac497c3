"""The owner of every pod that has to do with a GPU, worked out once a cycle; what was known of a pod is not unlearned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from exporter.attribution.controllers import find_workload
from exporter.attribution.lookups import Lookups, is_definitive
from exporter.attribution.ownership import (
    NAMESPACE_SOURCES,
    UNKNOWN_WORKLOAD,
    WORKLOAD_SOURCES,
    named_class,
    resolve_ownership,
)
from exporter.attribution.pods import PodIndex
from exporter.model.attribution import Ownership
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.policy import OwnershipPolicy, OwnerSource, WorkloadClass
from exporter.model.snapshot import Snapshot
from exporter.model.workload import LookupFailure, Pod

OF_WORKLOAD = WORKLOAD_SOURCES | {OwnerSource.QUEUE}
"""What goes with the workload; a queue that the pod itself names is read anew."""


@dataclass(frozen=True, slots=True)
class OwnerBook:
    """Owners by pod; each pod is worked out when it is first asked for."""

    policy: OwnershipPolicy
    lookups: Lookups
    pods: Mapping[PodUid, Pod]
    remembered: Mapping[PodUid, Ownership]
    """The last complete ownership of pods that were there in the cycle before."""
    listed: frozenset[PodUid] | None
    """Pods in the API's answer; None without a usable one: then nobody can say that a pod is gone."""
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
        """For the next cycle: the complete ownerships of these pods, and of those known before that are still there."""
        still_there = self.remembered.keys() if self.listed is None else self.remembered.keys() & self.listed
        now = {uid: owner for uid in present if uid and (owner := self._found.get(uid)) is not None and owner.complete}
        return {uid: self.remembered[uid] for uid in still_there} | now

    def _work_out(self, uid: PodUid) -> Ownership:
        pod, before = self.pods.get(uid), self.remembered.get(uid) if uid else None
        if before is not None and pod is None:
            return before
        now = resolve_ownership(pod, self.lookups, self.policy, complete=self.final)
        if before is None or pod is None or now == before:
            return now
        return _kept(before, now, self._lost(pod), pod, self.policy) if now.complete else before

    def _lost(self, pod: Pod) -> frozenset[OwnerSource]:
        """Sources above the pod that cannot be read now, be it that the object is there no more."""
        above: frozenset[OwnerSource] = frozenset() if find_workload(pod, self.lookups).read else OF_WORKLOAD
        namespace_read = not isinstance(self.lookups.namespace(pod.namespace), LookupFailure)
        return above if namespace_read else above | NAMESPACE_SOURCES


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
        listed=frozenset(pod.uid for pod in pods.live) if pods.known else None,
        final=missing is not None and is_definitive(missing.reason),
    )


def _kept(before: Ownership, now: Ownership, lost: frozenset[OwnerSource], pod: Pod, policy: OwnershipPolicy) -> Ownership:
    """The new answer, without what it has only lost: an owner deleted meanwhile, or metadata that is refused now.

    What was read anew counts from this moment, also where it says less than before.
    """
    if lost & OF_WORKLOAD:
        now = _with_workload_of(before, now, named_class(pod.annotations, policy))
    if _is_lost((before.team, before.team_source), (now.team, now.team_source), lost, policy):
        now = replace(now, team=before.team, team_source=before.team_source)
    cost_center = (before.cost_center, before.cost_center_source)
    if _is_lost(cost_center, (now.cost_center, now.cost_center_source), lost, policy):
        now = replace(now, cost_center=before.cost_center, cost_center_source=before.cost_center_source)
    known = dict(before.extra)
    extra = tuple((name, known.get(name, value) if value == policy.unknown else value) for name, value in now.extra)
    return replace(now, extra=extra)


def _with_workload_of(before: Ownership, now: Ownership, workload_class: WorkloadClass | None) -> Ownership:
    """What the lost workload said; the pod's own word on its class and its queue stands."""
    now = replace(now, queue=now.queue or before.queue)
    if before.workload == UNKNOWN_WORKLOAD:
        return now
    workload_class = workload_class or before.workload_class
    return replace(now, workload_type=before.workload_type, workload=before.workload, workload_class=workload_class)


def _is_lost(before: tuple[str, str], now: tuple[str, str], lost: frozenset[OwnerSource], policy: OwnershipPolicy) -> bool:
    """True if the value before is from a source that is lost, and nothing nearer has a say now."""
    (was, source), (becomes, source_now) = before, now
    if not source:
        return becomes == policy.unknown != was
    order = [one.value for one in policy.precedence]
    if source not in order or OwnerSource(source) not in lost:
        return False
    return source_now not in order or order.index(source_now) > order.index(source)
