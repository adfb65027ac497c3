"""Pods and what stands above them, cut down to the fields that attribution uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from exporter.model.ids import ContainerId, PodUid
from exporter.model.reading import MissingReason


@unique
class PodPhase(StrEnum):
    """``status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@unique
class ContainerKind(StrEnum):
    """Where in the pod spec the container stands."""

    MAIN = "main"
    INIT = "init"
    SIDECAR = "sidecar"
    """An init container with restartPolicy Always."""
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """One entry of ``metadata.ownerReferences``."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the pod spec."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, int]
    """Extended resources only (names with a slash), in whole units."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of this node."""

    uid: PodUid
    namespace: str
    name: str
    phase: PodPhase
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only keys that the configuration or the attribution asks for; the rest is never kept."""
    owners: tuple[OwnerReference, ...] = ()
    containers: tuple[Container, ...] = ()
    container_names: Mapping[ContainerId, str] = field(default_factory=dict)
    """Container id to name, for all kinds of containers, the last terminated instance included."""
    container_starts: Mapping[str, float] = field(default_factory=dict)
    """Container name to Unix time at which it began to run; running containers only."""
    cgroup_uids: tuple[PodUid, ...] = ()
    """Further UIDs under which the kubelet knows it: a static pod's configuration hash, dashes removed, lower case."""
    is_mirror: bool = False
    priority_class: str = ""
    start_timestamp_seconds: float | None = None
    """``status.startTime``."""
    deletion_timestamp_seconds: float | None = None

    @property
    def terminal(self) -> bool:
        """True once all its containers have ended for good: it holds nothing, whatever the kubelet lists."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class PodStore:
    """All pods of this node, and those deleted in the last minutes (a GPU process can outlive its API object)."""

    pods: Mapping[PodUid, Pod]
    recently_deleted: Mapping[PodUid, Pod] = field(default_factory=dict)
    malformed: int = 0
    """Objects of the last list that could not be understood and were left out."""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """Metadata of an owner (ReplicaSet, Job, custom resource) or a namespace."""

    api_version: str
    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[OwnerReference, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupFailure:
    """A look-up without a result."""

    reason: MissingReason
    definitive: bool
    """True if asking again soon will not help (403, 404, switched off): metadata is complete without it."""


Lookup = ObjectMeta | LookupFailure


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """What is asked for in an owner look-up; by UID, since names are reused."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class OwnerTable:
    """Answers to owner look-ups: for each reference asked for, and for each of its ancestors that was reached."""

    objects: Mapping[str, Lookup]
    """By UID of the owner."""
    trouble: MissingReason | None = None
    """What most failed look-ups failed for, also where an older answer stands in; a 404 is an answer and does not count."""


@dataclass(frozen=True, slots=True)
class NamespaceTable:
    """Answers to namespace look-ups."""

    namespaces: Mapping[str, Lookup]
    """By name."""
    trouble: MissingReason | None = None
    """As in `OwnerTable`."""


@dataclass(frozen=True, slots=True)
class NodeMeta:
    """This node as the API knows it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    provider_id: str = ""
    created_timestamp_seconds: float | None = None
    unschedulable: bool = False
    capacity: Mapping[str, int] = field(default_factory=dict)
    """``status.capacity`` of extended resources."""
