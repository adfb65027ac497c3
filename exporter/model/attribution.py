"""Whose each device and each measured use is, with the reason for whatever could not be said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from exporter.model.activity import Activity
from exporter.model.device import Device, MigInstance
from exporter.model.holding import Holding
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey, PodUid
from exporter.model.policy import WorkloadClass


@unique
class Sharing(StrEnum):
    """How containers share a GPU."""

    NONE = "none"
    TIME_SLICING = "time_slicing"
    MPS = "mps"
    MIG = "mig"
    UNKNOWN = "unknown"
    """Shared, and nothing says whether by time-slicing or by MPS; or nothing is known of its sharing."""


@unique
class HoldingSource(StrEnum):
    """Which evidence says that the container holds the device."""

    POD_RESOURCES = "pod_resources"
    DRA = "dra"
    ANNOTATION = "annotation"


@unique
class State(StrEnum):
    """What a held device did in this cycle."""

    ACTIVE = "active"
    IDLE_HELD = "idle_held"
    """Not active, and a process or memory of the container is on it."""
    IDLE_EMPTY = "idle_empty"
    """Not active, and no process of the container is on it."""
    UNKNOWN = "unknown"
    """Could not be measured. Never idle."""


@unique
class UnattributedReason(StrEnum):
    """Why a measured use is nobody's."""

    HOST_PROCESS = "host_process"
    """A process of the host, in no pod."""
    NO_PROCESS = "no_process"
    """Used, and no process accounts for it."""
    DEAD_PROCESS = "dead_process"
    """The driver names a process that is gone."""
    UNRESOLVED_PID = "unresolved_pid"
    """Its /proc entry cannot be read, or its pod is not known."""
    NOT_IN_POD = "not_in_pod"
    """In a container that belongs to no pod of this node."""
    MPS_SERVER = "mps_server"
    """Held by the MPS server on behalf of clients that the driver does not tell apart."""
    NOT_MEASURED = "not_measured"
    """Used, and nobody could measure by whom; of energy: drawn while nobody watched."""
    UNALLOCATED = "unallocated"
    """Of energy: the part of the GPU that nobody held."""


@unique
class UnallocatedReason(StrEnum):
    """Why nobody holds a part of a GPU; stands in ``gpu_unallocated_seconds_total{reason}``."""

    FREE = "free"
    """It could be given to somebody."""
    CORDONED = "cordoned"
    """The node is unschedulable."""
    UNHEALTHY = "unhealthy"
    """The device does not answer, or the kubelet does not give it out."""
    FRAGMENT = "fragment"
    """A part of a GPU in MIG mode that is in no instance, or a replica that nobody took while others did."""


@unique
class UnresolvedReason(StrEnum):
    """Why an allocation could not be laid on a device."""

    UNKNOWN_DEVICE = "unknown_device"
    """NVML answered and does not know this device."""
    UNKNOWN_FORMAT = "unknown_format"
    """The id is in no known form; the resource's name says that it is a GPU."""
    PASSTHROUGH = "passthrough"
    """Bound to a virtual machine: an IOMMU group or a PCI address that NVML cannot see."""
    NVML_MISSING = "nvml_missing"
    """NVML did not answer in this cycle."""
    CLAIM_UNRESOLVED = "claim_unresolved"
    """A DRA device whose slice is not known."""


@unique
class ConflictKind(StrEnum):
    """Sources that contradict each other."""

    TWO_HOLDERS = "two_holders"
    """Two containers hold one device exclusively."""
    SOURCE_DISAGREEMENT = "source_disagreement"
    """One source names a holder that another source says does not exist."""
    ALLOCATED_HERE_RUNNING_THERE = "allocated_here_running_there"
    """A container holds one device and runs on another one only."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who answers and who pays for a pod."""

    workload_type: str
    """Lower case: ``deployment``, ``cronjob``, ``barepod``, ``staticpod`` ...; never empty."""
    workload: str
    """Name of the top controller; the pod's own name for a bare pod; never empty."""
    workload_class: WorkloadClass
    team: str
    cost_center: str
    extra: tuple[tuple[str, str], ...] = ()
    """(label, value) of the configured extra labels."""
    team_source: str = ""
    """An `OwnerSource`, or empty for unowned and unknown."""
    cost_center_source: str = ""
    queue: str = ""
    complete: bool = True
    """False while a look-up is pending: usage is held back until it is true or 30 s have passed."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A device that a container holds, by one resource and one piece of evidence."""

    resource: str
    source: HoldingSource
    device_id: str
    """As the source gave it; several replicas are several allocations."""


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """One container on one device (GPU, or MIG instance): what it holds there and what it uses there."""

    container: ContainerKey
    device: DeviceUuid
    mig: MigInstance | None
    owner: Ownership
    allocations: tuple[Allocation, ...] = ()
    """Empty: it uses a device that it does not hold."""
    share_ratio: float | None = 0.0
    """Part of the physical GPU that it holds, 0 to 1; 0 where it holds nothing; None: the size of its instance is unknown."""
    uses_unheld: bool = False
    """True if it is certain that it was not given the device that it uses; False also where nobody can say."""
    place_ratio: float | None = 1.0
    """Size of the device it runs on as a part of the physical GPU: 1, or the slices of a MIG instance; None: unknown."""
    utilization_ratio: float | None = None
    """Part of the device it runs on (GPU or MIG instance) that it kept busy in this cycle, 0 to 1; None: unknown."""
    activity: Activity | None = None
    """The same sample by sample for a sole user; a sharer's is flat, at its mean; None: unknown."""
    memory_used_bytes: int | None = None
    """Summed over its processes on the device; None: unknown."""
    processes: int | None = None
    """None: the driver's list or /proc could not be read."""
    state: State = State.UNKNOWN
    state_evidence: str = ""
    """One sentence for people: why this state."""
    started_timestamp_seconds: float | None = None
    """When the container started, else its pod; None: unknown."""

    @property
    def holds(self) -> bool:
        """True if some source says that it was given the device."""
        return bool(self.allocations)


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One physical GPU: what is held of it, and what of its use is nobody's."""

    device: Device
    sharing: Sharing
    allocated_ratio: float | None
    """Sum of the shares held, 0 to 1; None while no source can say."""
    activity: Activity | None = None
    """What the GPU did in this cycle; in MIG mode the sum over its instances by their size; None: not measured."""
    utilization_ratio: float | None = None
    """Mean over the cycle, 0 to 1; in the first cycle the driver's own last period."""
    unattributed_ratios: Mapping[UnattributedReason, float] = field(default_factory=dict)
    """Parts of `utilization_ratio` that are nobody's, above 0; they and what rows have of it add up to it."""
    unallocated_ratios: Mapping[UnallocatedReason, float] = field(default_factory=dict)
    """Parts of the GPU that nobody holds, above 0."""
    allocation_unknown_ratio: float = 0.0
    """Part of the GPU of which no source can say who holds it. Shares, unallocated parts and this add up to 1."""
    price_per_hour: float | None = None
    """Of the whole GPU at this moment, in the currency of `Attribution.currency`; None: no price is known."""
    unattributed_memory_bytes: Mapping[UnattributedReason, int] = field(default_factory=dict)
    mig_share_ratios: Mapping[MigKey, float] = field(default_factory=dict)
    """Part of the physical GPU that each MIG instance is, 0 to 1."""


@dataclass(frozen=True, slots=True)
class PodRow:
    """A pod that asks for, holds or uses a GPU."""

    uid: PodUid
    namespace: str
    pod: str
    owner: Ownership
    priority_class: str = ""
    requested: int | None = None
    """Units of GPU resources in the pod spec's limits; None where the pod spec is not known."""
    assigned: int | None = None
    """Units held, as limits count them (two replicas of one GPU are two), resolved or not; None while no source can say."""
    idle: int | None = None
    """GPUs and MIG instances held in an idle state in this cycle; None if the state of any is unknown."""
    start_timestamp_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class UnresolvedAllocation:
    """An allocation that the kubelet names and that could not be laid on a device."""

    namespace: str
    pod: str
    container: str
    resource: str
    device_id: str
    reason: UnresolvedReason


@dataclass(frozen=True, slots=True, order=True)
class UnresolvedPid:
    """A process on a device that could not be laid on a pod."""

    pid: int
    device: DeviceUuid
    reason: UnattributedReason


@dataclass(frozen=True, slots=True, order=True)
class Conflict:
    """Two sources, or two holders, that cannot both be right."""

    kind: ConflictKind
    subject: str
    """A device's UUID or a pod's namespace/name."""
    detail: str
    """One sentence for people, names in it sorted."""


PlaceKey = tuple[DeviceUuid, MigKey | None]
"""A whole GPU, or a MIG instance on it."""


@dataclass(frozen=True, slots=True)
class Recollection:
    """What one join hands to the next: what the kubelet said before, and may be unable to say now."""

    advertised: Mapping[PlaceKey, int] = field(default_factory=dict)
    """Replicas of each place when they were last advertised."""
    highest: Mapping[PlaceKey, int] = field(default_factory=dict)
    """Highest replica number ever seen, + 1."""
    listed: Mapping[Holding, float] = field(default_factory=dict)
    """When the kubelet last named each holding, in monotonic seconds."""
    owners: Mapping[PodUid, Ownership] = field(default_factory=dict)
    """The last complete ownership of each pod that is still there: what a failed look-up falls back to."""
    holders: Mapping[tuple[str, str], PodUid] = field(default_factory=dict)
    """UID of each pod that held something in the cycle before, by namespace and name."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The join of one snapshot; every tuple is sorted, so that the same node gives the same rows."""

    devices: tuple[DeviceRow, ...] = ()
    containers: tuple[ContainerRow, ...] = ()
    pods: tuple[PodRow, ...] = ()
    unresolved_allocations: tuple[UnresolvedAllocation, ...] = ()
    unresolved_pids: tuple[UnresolvedPid, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Device-plugin units by GPU resource that the kubelet can give out."""
    allocated: Mapping[str, int] = field(default_factory=dict)
    """Device-plugin units by GPU resource that pods hold."""
    recollection: Recollection = field(default_factory=Recollection)
    currency: str = ""
    """Of all prices."""
