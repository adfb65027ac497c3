"""What has been counted: only `accounting` makes a new one, and no published number in it ever falls.

Every counter is kept under the labels with which it is published (`Subject`), so that it is monotone and free of duplicates by
construction. Time in the ledger is its own clock, `Ledger.clock_seconds`: seconds in which the exporter ran, down times
between two runs left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from exporter.model.attribution import Ownership
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey
from exporter.model.policy import WorkloadClass


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket (not cumulative; the last is +Inf), and the sum of what was observed."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class MonotoneCounter:
    """A counter that somebody else keeps and may reset: what it said last, and what it has added up to."""

    last_reading: float
    """The last one that was believed."""
    total: float
    read_timestamp_seconds: float = 0.0
    """Unix time of that reading."""
    doubted_reading: float | None = None
    """A reading that does not follow from the last one; the next one tells whether it was a new beginning or a mistake."""
    doubted_timestamp_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DeviceSubject:
    """Labels D without the node."""

    gpu: int
    """NVML's index at first sight."""
    uuid: DeviceUuid


@dataclass(frozen=True, slots=True)
class MigSubject:
    """Labels D and M."""

    device: DeviceSubject
    gpu_instance_id: int
    compute_instance_id: int | None
    """None for what all compute instances of the GPU instance have in common."""
    profile: str


@dataclass(frozen=True, slots=True)
class OwnerLabels:
    """Labels O."""

    workload_type: str
    workload: str
    workload_class: WorkloadClass
    team: str
    cost_center: str
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, owner: Ownership) -> "OwnerLabels":
        """What of an ownership stands in labels."""
        return cls(owner.workload_type, owner.workload, owner.workload_class, owner.team, owner.cost_center, owner.extra)


@dataclass(frozen=True, slots=True)
class ContainerSubject:
    """Labels D, M, C and O."""

    device: DeviceSubject
    mig: MigSubject | None
    namespace: str
    pod: str
    container: str
    owner: OwnerLabels


@dataclass(frozen=True, slots=True)
class OwnerSubject:
    """Labels of the owner families: they survive the pods."""

    model: str
    namespace: str
    team: str
    cost_center: str
    workload_class: WorkloadClass
    extra: tuple[tuple[str, str], ...] = ()


Subject = DeviceSubject | MigSubject | ContainerSubject | OwnerSubject


@unique
class Quantity(StrEnum):
    """What is counted of a subject, and of which label its detail is the value. Seconds are GPU-seconds unless said."""

    PROVISIONED_SECONDS = "provisioned_seconds"
    """Device."""
    PROVISIONED_COST = "provisioned_cost"
    """Device; by currency."""
    OBSERVED_SECONDS = "observed_seconds"
    """Device."""
    UNALLOCATED_SECONDS = "unallocated_seconds"
    """Device; by reason."""
    UNALLOCATED_COST = "unallocated_cost"
    """Device; by currency."""
    ALLOCATION_UNKNOWN_SECONDS = "allocation_unknown_seconds"
    """Device."""
    ALLOCATION_UNKNOWN_COST = "allocation_unknown_cost"
    """Device; by currency."""
    UNATTRIBUTED_BUSY_SECONDS = "unattributed_busy_seconds"
    """Device; by reason."""
    UNATTRIBUTED_ENERGY_JOULES = "unattributed_energy_joules"
    """Device; by reason."""
    BUSY_SECONDS = "busy_seconds"
    """Device, container, owner (on devices held), and MIG instance (there in the instance's own seconds)."""
    UNHELD_BUSY_SECONDS = "unheld_busy_seconds"
    """Owner: on devices that it does not hold."""
    HELD_SECONDS = "held_seconds"
    """Container, owner; by state."""
    MEASURED_SECONDS = "measured_seconds"
    """Owner: held and measured."""
    ENERGY_JOULES = "energy_joules"
    """Container, owner (on devices held)."""
    COST = "cost"
    """Owner; by ``currency/state``."""


@dataclass(frozen=True, slots=True)
class Account:
    """One counter: a subject, what is counted of it, and the value of the further label (empty: there is none)."""

    subject: Subject
    quantity: Quantity
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """State of one counter."""

    born_at: float
    """Ledger clock."""
    shown: float = 0.0
    """What is published."""
    waiting: float = 0.0
    """What the hold after its birth keeps back."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """State of one histogram of utilisation, by measured seconds."""

    born_at: float
    """Ledger clock."""
    shown: Histogram
    waiting: Histogram
    remainder_seconds: float = 0.0
    """Measured and not yet a whole second."""


@dataclass(frozen=True, slots=True)
class Life:
    """When a subject was last seen."""

    seen_at: float
    """Ledger clock of the last cycle in which it existed."""
    booked_at: float
    """Ledger clock of its last increment."""


@dataclass(frozen=True, slots=True)
class UseKey:
    """A container on a device in time: what idle clocks and pending bookings belong to."""

    container: ContainerKey
    device: DeviceUuid
    mig: MigKey | None


@dataclass(frozen=True, slots=True)
class IdleClock:
    """Since when a container has not worked on a device."""

    last_active_timestamp_seconds: float
    """When it was last active; if never, when watching began."""
    ever_active: bool
    from_start: bool
    """True if it was watched from its start, without a gap in which it was not measured."""
    seen_at: float
    """Ledger clock."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What is booked for a container whose owner is not known for certain yet."""

    since_at: float
    """Ledger clock."""
    container: ContainerSubject
    """As last known."""
    owner: OwnerSubject
    amounts: Mapping[tuple[str, Quantity, str], float] = field(default_factory=dict)
    """By (``container`` or ``owner``, quantity, detail)."""
    observations: tuple[tuple[float, float], ...] = ()
    """(utilisation, measured seconds) of each cycle."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counters by the labels under which they are published."""

    clock_seconds: float = 0.0
    """How long this ledger has been running."""
    watching_since_timestamp_seconds: float | None = None
    """Unix time since which devices have been read without a gap; None while they are not."""
    tallies: Mapping[Account, Tally] = field(default_factory=dict)
    distributions: Mapping[Subject, Distribution] = field(default_factory=dict)
    lives: Mapping[Subject, Life] = field(default_factory=dict)
    pending: Mapping[UseKey, Pending] = field(default_factory=dict)
    idle_clocks: Mapping[UseKey, IdleClock] = field(default_factory=dict)
    gpu_indexes: Mapping[DeviceUuid, int] = field(default_factory=dict)
    """The ``gpu`` label of every UUID that was ever seen."""
    lost_sample_seconds: float = 0.0

    energy_joules: Mapping[DeviceUuid, MonotoneCounter] = field(default_factory=dict)
    ecc_errors: Mapping[tuple[DeviceUuid, str], MonotoneCounter] = field(default_factory=dict)
    """By (device, type)."""
    clock_event_seconds: Mapping[tuple[DeviceUuid, str], MonotoneCounter] = field(default_factory=dict)
    """By (device, reason)."""
    device_errors: Mapping[tuple[DeviceUuid, str], int] = field(default_factory=dict)
    """Cycles in which a device did not answer, by (device, reason)."""
    unidentified_errors: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """The same of devices that never told their UUID, by (index, reason)."""
    source_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Failed reads by (source, reason)."""
    source_last_success_timestamp_seconds: Mapping[str, float] = field(default_factory=dict)
    source_durations: Mapping[str, Histogram] = field(default_factory=dict)
    rejected_readings: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By (reading, reason)."""
    cycle_duration: Histogram | None = None


@dataclass(frozen=True, slots=True)
class LedgerRules:
    """How the ledger publishes."""

    active_above_ratio: float = 0.01
    birth_hold_seconds: float = 30.0
    metadata_hold_seconds: float = 30.0
    """Longest wait for an owner that is still being looked up."""
    ended_retention_seconds: float = 300.0
    owner_retention_seconds: float = 86_400.0
    container_distribution: bool = True
