"""Who answers and who pays for a pod: its workload, and the values that pod, workload and namespace name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.attribution.controllers import Workload, find_workload
from exporter.attribution.lookups import Lookups, pending, unreadable
from exporter.model.attribution import Ownership
from exporter.model.policy import ClassRule, OwnerField, OwnershipPolicy, OwnerSource, WorkloadClass
from exporter.model.workload import ObjectMeta, Pod

QUEUE_LABELS = (
    "kueue.x-k8s.io/local-queue-name",
    "kueue.x-k8s.io/queue-name",
    "volcano.sh/queue-name",
    "kai.scheduler/queue",
)
QUEUE_ANNOTATIONS = ("volcano.sh/queue-name",)
UNKNOWN_WORKLOAD = "unknown"
"""Type and name where nothing is known of the pod."""
_CLASSES = {workload_class.value: workload_class for workload_class in WorkloadClass}
NAMESPACE_SOURCES = frozenset({OwnerSource.NAMESPACE_LABEL, OwnerSource.NAMESPACE_ANNOTATION})
WORKLOAD_SOURCES = frozenset({OwnerSource.WORKLOAD_LABEL, OwnerSource.WORKLOAD_ANNOTATION})


@dataclass(frozen=True, slots=True)
class _Metadata:
    """All that names owners of one pod."""

    by_source: Mapping[OwnerSource, Mapping[str, str]]
    queue: str
    unreadable: frozenset[OwnerSource] = field(default_factory=frozenset)
    """Sources of which we do not know what they say."""


def resolve_ownership(pod: Pod | None, lookups: Lookups, policy: OwnershipPolicy, *, complete: bool = True) -> Ownership:
    """Work out all owner labels of a pod.

    Args:
        pod: None if nothing is known of it.
        lookups: Answers about the objects above it.
        policy: What the configuration decides.
        complete: For an unknown pod: whether asking again soon will not help.
    """
    if pod is None:
        return _unknown(policy, complete=complete)
    workload = find_workload(pod, lookups)
    namespace = lookups.namespace(pod.namespace)
    metadata = _metadata(pod, workload, lookups)
    team, team_source = _value(policy.team, metadata, policy, queue=True)
    cost_center, cost_center_source = _value(policy.cost_center, metadata, policy, queue=True)
    return Ownership(
        workload_type=_cut(workload.type, policy) or UNKNOWN_WORKLOAD,
        workload=_cut(workload.name, policy) or UNKNOWN_WORKLOAD,
        workload_class=_workload_class(pod, workload, metadata, policy),
        team=team,
        cost_center=cost_center,
        extra=tuple((one.name, _value(one, metadata, policy, queue=False)[0]) for one in policy.extra),
        team_source=team_source,
        cost_center_source=cost_center_source,
        queue=_cut(metadata.queue, policy),
        complete=not workload.pending and not pending(namespace),
    )


def _unknown(policy: OwnershipPolicy, *, complete: bool) -> Ownership:
    return Ownership(
        workload_type=UNKNOWN_WORKLOAD,
        workload=UNKNOWN_WORKLOAD,
        workload_class=WorkloadClass.OTHER,
        team=policy.unknown,
        cost_center=policy.unknown,
        extra=tuple((one.name, policy.unknown) for one in policy.extra),
        complete=complete,
    )


def _metadata(pod: Pod, workload: Workload, lookups: Lookups) -> _Metadata:
    namespace = lookups.namespace(pod.namespace)
    labels, annotations = (namespace.labels, namespace.annotations) if isinstance(namespace, ObjectMeta) else ({}, {})
    unread_above: frozenset[OwnerSource] = WORKLOAD_SOURCES if workload.unreadable else frozenset()
    unread = unread_above | (NAMESPACE_SOURCES if unreadable(namespace) else frozenset())
    return _Metadata(
        by_source={
            OwnerSource.POD_LABEL: pod.labels,
            OwnerSource.POD_ANNOTATION: pod.annotations,
            OwnerSource.WORKLOAD_LABEL: workload.labels,
            OwnerSource.WORKLOAD_ANNOTATION: workload.annotations,
            OwnerSource.NAMESPACE_LABEL: labels,
            OwnerSource.NAMESPACE_ANNOTATION: annotations,
        },
        queue=_queue(pod.labels, pod.annotations) or _queue(workload.labels, workload.annotations),
        unreadable=unread,
    )


def _queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    listed = [labels.get(key, "") for key in QUEUE_LABELS] + [annotations.get(key, "") for key in QUEUE_ANNOTATIONS]
    return next((queue for text in listed if (queue := text.strip())), "")


def _value(wanted: OwnerField, metadata: _Metadata, policy: OwnershipPolicy, *, queue: bool) -> tuple[str, str]:
    """(value, source): the first that is not empty; what is missing is unowned only if everything could be read.

    A queue has no keys: its name is the value, of a team and a cost centre, not of whatever else is configured.
    """
    for source in policy.precedence:
        said = [metadata.by_source[source].get(key, "") for key in wanted.keys] if source in metadata.by_source else []
        listed = [metadata.queue] if source is OwnerSource.QUEUE and queue else said
        found = next((value for text in listed if (value := _normal(text, wanted, policy))), "")
        if found:
            return found, source.value
    return (policy.unknown if metadata.unreadable & set(policy.precedence) else policy.unowned), ""


def _normal(text: str, wanted: OwnerField, policy: OwnershipPolicy) -> str:
    """As configured: an alias of the value as written wins over one of its lower-case form."""
    written = text.strip()
    folded = written.lower() if wanted.lower else written
    return _cut(wanted.aliases.get(written) or wanted.aliases.get(folded) or folded, policy)


def _cut(text: str, policy: OwnershipPolicy) -> str:
    return text[: policy.max_length].strip()


def named_class(annotations: Mapping[str, str], policy: OwnershipPolicy) -> WorkloadClass | None:
    """The class that an annotation names; None if there is none, or none that we know."""
    return _CLASSES.get(annotations.get(policy.class_annotation, "").strip())


def _workload_class(pod: Pod, workload: Workload, metadata: _Metadata, policy: OwnershipPolicy) -> WorkloadClass:
    for source in (OwnerSource.POD_ANNOTATION, OwnerSource.WORKLOAD_ANNOTATION, OwnerSource.NAMESPACE_ANNOTATION):
        named = named_class(metadata.by_source[source], policy)
        if named is not None:
            return named
    labels = pod.labels.keys() | workload.labels.keys()
    matching = (rule.workload_class for rule in policy.classes if _applies(rule, workload, labels))
    return next(matching, WorkloadClass.OTHER)


def _applies(rule: ClassRule, workload: Workload, labels: set[str]) -> bool:
    """One condition is enough: a notebook is one by its controller or by its label."""
    return workload.type in rule.workload_types or not rule.label_exists.isdisjoint(labels)
