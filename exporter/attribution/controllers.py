"""The top controller of a pod: what a person created, not what a controller made of it.

References are followed as far as the API lets itself be read. Where it does not, the name in the last reference, and
labels and names that well-known controllers write, say what they can.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.lookups import Lookups, pending, unreadable
from exporter.model.reading import MissingReason
from exporter.model.workload import Lookup, LookupFailure, ObjectMeta, OwnerReference, Pod

MAX_HOPS = 8
_JOB_OF_CRONJOB = re.compile(r"(?P<name>.+)-(?P<when>[0-9]{8}|[0-9]{10})")
_NOT_ANSWERED = frozenset({MissingReason.NOT_FOUND, MissingReason.FORBIDDEN, MissingReason.DISABLED})
_TEN_YEARS_SECONDS = 10 * 365 * 86_400
_MINUTES_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """The top controller, as far as it is known."""

    type: str
    """Kind in lower case; ``barepod`` and ``staticpod`` for pods without a controller."""
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the controller object; empty where it could not be read or is the pod itself."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    pending: bool = False
    """True while a look-up on the way up may still be answered."""
    unreadable: bool = False
    """True if an object on the way up exists, or may, and could not be read."""
    read: bool = True
    """False if type and name are the best guess: the last object on the way up was refused, or is there no more."""


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Labels by which a well-known controller names what a person created, on the pods far below it."""

    name_label: str
    workload_type: str = ""
    requires: str = ""
    """A further label that has to be there."""
    type_label: str = ""
    """The label that names the controller, and by it the kind, instead of `workload_type`."""


# First match wins. Further controllers belong here: Spark, Argo, Volcano, Dynamo and Grove, Coder, JupyterHub, KubeVirt ...
LABEL_RULES = (
    LabelRule("training.kubeflow.org/job-name", type_label="training.kubeflow.org/operator-name"),
    LabelRule("jobset.sigs.k8s.io/jobset-name", "trainjob", requires="trainer.kubeflow.org/trainjob-ancestor-step"),
    LabelRule("jobset.sigs.k8s.io/jobset-name", "jobset"),
    LabelRule("leaderworkerset.sigs.k8s.io/name", "leaderworkerset"),
    LabelRule("ray.io/cluster", "raycluster"),
    LabelRule("notebook-name", "notebook"),
    LabelRule("serving.kserve.io/inferenceservice", "inferenceservice"),
)
# The controller writes the hash that it appends to the ReplicaSet's name onto the pod, so that this is no guess.
_REPLICA_SET_HASHES = (("pod-template-hash", "deployment"), ("rollouts-pod-template-hash", "rollout"))
# Kinds that other controllers build upon: what is above them may be worth more than they are.
_BUILDING_BLOCKS = frozenset({"replicaset", "deployment", "statefulset", "daemonset", "job", "pod", "barepod"})


def controller(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    """The one reference that manages the object; others only keep it from being collected."""
    return next((reference for reference in owners if reference.controller), None)


def is_static(pod: Pod) -> bool:
    """True for a pod that the kubelet runs from a file of its node."""
    reference = controller(pod.owners)
    return pod.is_mirror or (reference is not None and reference.kind == "Node")


def find_workload(pod: Pod, lookups: Lookups) -> Workload:
    """Walk up from the pod."""
    if is_static(pod):
        return Workload("staticpod", pod.name)
    reference = controller(pod.owners)
    if reference is None:
        return Workload("barepod", pod.name)
    for _ in range(MAX_HOPS):
        found = lookups.owner(pod.namespace, reference)
        above = None if isinstance(found, LookupFailure) else controller(found.owners)
        if above is None or above.kind == "Node":
            return _top(pod, reference, found)
        reference = above
    return _top(pod, reference, lookups.owner(pod.namespace, reference))


def _top(pod: Pod, reference: OwnerReference, found: Lookup) -> Workload:
    kind = "barepod" if reference.kind == "Pod" else reference.kind.lower() or "unknown"
    name = reference.name or pod.name
    if isinstance(found, ObjectMeta):
        return Workload(kind, name, found.labels, found.annotations)
    kind, name = _without_the_object(pod, reference, found, (kind, name))
    return Workload(kind, name, pending=pending(found), unreadable=unreadable(found), read=False)


def _without_the_object(pod: Pod, reference: OwnerReference, why: LookupFailure, fallback: tuple[str, str]) -> tuple[str, str]:
    """Type and name where the last object on the way up could not be read."""
    kind, name = fallback
    if kind not in _BUILDING_BLOCKS:
        return fallback
    if (labelled := _by_labels(pod.labels)) is not None:
        return labelled
    if kind == "replicaset":
        return _above_replica_set(name, pod.labels) or fallback
    if kind == "job" and reference.api_version.startswith("batch/") and why.reason in _NOT_ANSWERED:
        return _cron_job(name, pod.start_timestamp_seconds) or fallback
    return fallback


def _by_labels(labels: Mapping[str, str]) -> tuple[str, str] | None:
    for rule in LABEL_RULES:
        name = labels.get(rule.name_label)
        kind = _kind_of_operator(labels.get(rule.type_label, "")) if rule.type_label else rule.workload_type
        if name and kind and (not rule.requires or rule.requires in labels):
            return kind, name
    return None


def _kind_of_operator(operator: str) -> str:
    """``pytorchjob-controller`` makes PyTorchJobs; ``mpi-operator`` makes MPIJobs."""
    return "mpijob" if operator == "mpi-operator" else operator.removesuffix("-controller").lower()


def _above_replica_set(name: str, labels: Mapping[str, str]) -> tuple[str, str] | None:
    for label, kind in _REPLICA_SET_HASHES:
        suffix = f"-{labels.get(label, '')}"
        if len(suffix) > 1 and name.endswith(suffix) and name != suffix:
            return kind, name.removesuffix(suffix)
    return None


def _cron_job(job: str, start_timestamp_seconds: float | None) -> tuple[str, str] | None:
    """A CronJob appends the minute (or, before 1.21, the second) of its schedule since the epoch to the names of its Jobs.

    A date that a person appends (``train-20260801``) has eight digits too, and is a minute of the year 2008.
    """
    match = _JOB_OF_CRONJOB.fullmatch(job)
    if match is None:
        return None
    when = int(match["when"]) * (60 if len(match["when"]) == _MINUTES_DIGITS else 1)
    plausible = start_timestamp_seconds is None or abs(when - start_timestamp_seconds) < _TEN_YEARS_SECONDS
    return ("cronjob", match["name"]) if plausible else None
