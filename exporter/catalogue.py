"""Every metric family in one table: name, type, labels, help, unit, stability, group, and when it is absent.

``docs/metrics.md`` is generated from this table, and nothing is published that does not stand in it (``process_*`` excepted,
which `prometheus_client` names). Metrics are API: a stable family is renamed only with both names for one release.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from exporter.model.attribution import (
    ConflictKind,
    HoldingSource,
    Sharing,
    State,
    UnallocatedReason,
    UnattributedReason,
    UnresolvedReason,
)
from exporter.model.device import DeviceTrouble, MigMode
from exporter.model.policy import OwnerSource, WorkloadClass
from exporter.model.reading import MissingReason


@unique
class FamilyType(StrEnum):
    """What the samples are."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"
    """A gauge whose value is always 1: what it says stands in its labels."""


@unique
class Stability(StrEnum):
    """What may happen to the name and the labels."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"


@unique
class Group(StrEnum):
    """Chapter of the metrics page."""

    DEVICE = "device"
    MIG = "mig"
    CONTAINER = "container"
    OWNER = "owner"
    POD = "pod"
    NODE = "node"
    EXPORTER = "exporter"


D = ("node", "gpu", "uuid")
"""A physical GPU."""
M = ("gpu_instance_id", "compute_instance_id", "mig_profile")
"""A MIG instance; on container families only where the container holds or uses one."""
C = ("namespace", "pod", "container")
"""The container of the workload."""
O = ("workload_type", "workload", "workload_class", "team", "cost_center")  # noqa: E741 - the contract's name for the set
"""The owner; ``extra_labels`` of the configuration are added at run time."""
P = ("namespace", "pod", "uid", "node")
"""A pod."""
W = ("node", "model", "namespace", "team", "cost_center", "workload_class")
"""An owner, over all its pods; ``extra_labels`` of the configuration are added at run time."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family."""

    name: str
    """As it stands on the page, with ``_total`` for counters."""
    type: FamilyType
    labels: tuple[str, ...]
    """Every label that a sample can have, extra owner labels aside."""
    help: str
    """One sentence with unit and definition."""
    unit: str
    """OpenMetrics unit, the end of the name; empty for counts and info."""
    stability: Stability
    group: Group
    absent_when: str
    """When there is no sample; completes "Absent ..."."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels with a closed set of values."""

    @property
    def base_name(self) -> str:
        """Without ``_total``, as OpenMetrics names a counter family."""
        return self.name.removesuffix("_total") if self.type is FamilyType.COUNTER else self.name

    @property
    def owned(self) -> bool:
        """True if the owner labels, and with them the configured extra labels, are on it."""
        return set(O) <= set(self.labels) or set(W) <= set(self.labels)


_UNITS = ("ratio", "bytes", "seconds", "watts", "joules", "celsius")


def _family(
    name: str,
    type_: FamilyType,
    labels: tuple[str, ...],
    group: Group,
    help_: str,
    absent_when: str,
    values: Mapping[str, Iterable[str]] | None = None,
) -> Family:
    stem = name.removesuffix("_total")
    unit = next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")
    closed = {label: tuple(str(value) for value in allowed) for label, allowed in (values or {}).items()}
    return Family(name, type_, labels, help_, unit, Stability.STABLE, group, absent_when, closed)


_NVML_MISSING = "while NVML as a whole is missing or released"
_NO_ANSWER = f"{_NVML_MISSING}, while the device does not answer, and where the driver cannot say"
_CLASSES = {"workload_class": tuple(WorkloadClass)}
_OF_GPU_INSTANCE = (
    "once for each GPU instance: without compute_instance_id and mig_profile where several compute instances share it"
)
_UNTIL_MEASURED = "until its activity has been measured once"
_WITHOUT_PRICE = "while no price is known for it"
_UNTIL_PRICE = "until a price is known for it"
_LINGERS = f"{_NVML_MISSING}, `ledger.ended_retention` after the container has ended, and before its owner is known"
_OWNER_LINGERS = "`ledger.owner_retention` after its last increment"

# --------------------------------------------------------------------------------------------------------------- device

GPU_INFO = _family(
    "gpu_info",
    FamilyType.INFO,
    (*D, "model", "pci_bus_id", "minor", "driver_version", "mig_mode", "sharing", "architecture"),
    Group.DEVICE,
    "Identity of a physical GPU, always 1; minor is N of /dev/nvidiaN, sharing says how containers share it.",
    _NVML_MISSING,
    {"mig_mode": MigMode, "sharing": Sharing},
)
GPU_UP = _family(
    "gpu_up",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "1 if the GPU answered in this cycle, 0 if it is lost, needs a reset or does not answer in time.",
    f"{_NVML_MISSING}; without uuid for a GPU that the driver counts and that never told its UUID",
)
GPU_UTILIZATION_RATIO = _family(
    "gpu_utilization_ratio",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Share of time, 0 to 1, in which at least one kernel ran on the GPU (NVML's definition; not how much of it was filled).",
    f"{_NO_ANSWER} (MIG mode)",
)
GPU_BUSY_SECONDS_TOTAL = _family(
    "gpu_busy_seconds_total",
    FamilyType.COUNTER,
    D,
    Group.DEVICE,
    "Integral of the GPU's utilisation over every sample of the driver, in seconds: no burst between two scrapes is lost.",
    f"{_NVML_MISSING}, and {_UNTIL_MEASURED}",
)
GPU_SM_ACTIVE_RATIO = _family(
    "gpu_sm_active_ratio",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Share of the SMs that were active, 0 to 1, mean over the cycle (GPM, Hopper and newer).",
    f"{_NO_ANSWER} (older GPUs, MIG mode)",
)
GPU_TENSOR_ACTIVE_RATIO = _family(
    "gpu_tensor_active_ratio",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Share of cycles in which a tensor pipe was active, 0 to 1, mean over the cycle (GPM, Hopper and newer).",
    f"{_NO_ANSWER} (older GPUs, MIG mode)",
)
GPU_MEMORY_USED_BYTES = _family(
    "gpu_memory_used_bytes",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "GPU memory in use by allocations, in bytes; what driver and firmware reserve is apart where the driver tells them apart.",
    _NO_ANSWER,
)
GPU_MEMORY_RESERVED_BYTES = _family(
    "gpu_memory_reserved_bytes",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "GPU memory held back by driver and firmware, in bytes.",
    f"{_NO_ANSWER} (old drivers count it as used)",
)
GPU_MEMORY_TOTAL_BYTES = _family(
    "gpu_memory_total_bytes",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Size of the GPU's memory, in bytes.",
    f"{_NO_ANSWER} (GPUs that share the host's memory)",
)
GPU_POWER_WATTS = _family(
    "gpu_power_watts",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Power that the physical GPU draws, in watts.",
    _NO_ANSWER,
)
GPU_POWER_LIMIT_WATTS = _family(
    "gpu_power_limit_watts",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Power limit that the driver enforces on the physical GPU, in watts.",
    _NO_ANSWER,
)
GPU_TEMPERATURE_CELSIUS = _family(
    "gpu_temperature_celsius",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Temperature of the GPU's core, in degrees Celsius.",
    _NO_ANSWER,
)
GPU_ENERGY_JOULES_TOTAL = _family(
    "gpu_energy_joules_total",
    FamilyType.COUNTER,
    D,
    Group.DEVICE,
    "Energy that the physical GPU drew, in joules, since its driver was loaded as first seen; never falls, also over a reload.",
    f"{_NVML_MISSING}, and until the driver has said it once",
)
GPU_ALLOCATED_RATIO = _family(
    "gpu_allocated_ratio",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "Sum of the shares of the physical GPU that containers hold, 0 to 1.",
    f"{_NVML_MISSING}, and while no source can say who holds it",
)
GPU_PROVISIONED_SECONDS_TOTAL = _family(
    "gpu_provisioned_seconds_total",
    FamilyType.COUNTER,
    D,
    Group.DEVICE,
    "Time in which the physical GPU was there and the exporter watched, in seconds: the whole of which the others are parts.",
    _NVML_MISSING,
)
GPU_UNALLOCATED_SECONDS_TOTAL = _family(
    "gpu_unallocated_seconds_total",
    FamilyType.COUNTER,
    (*D, "reason"),
    Group.DEVICE,
    "Part of the provisioned GPU-seconds that nobody held, in seconds, by reason.",
    f"{_NVML_MISSING}; a reason other than free appears when it first occurs",
    {"reason": UnallocatedReason},
)
GPU_ALLOCATION_UNKNOWN_SECONDS_TOTAL = _family(
    "gpu_allocation_unknown_seconds_total",
    FamilyType.COUNTER,
    D,
    Group.DEVICE,
    "Part of the provisioned GPU-seconds of which no source could say who held them, in seconds.",
    _NVML_MISSING,
)
GPU_PROVISIONED_COST_TOTAL = _family(
    "gpu_provisioned_cost_total",
    FamilyType.COUNTER,
    (*D, "currency"),
    Group.DEVICE,
    "The provisioned GPU-seconds in money, accrued at the price of the moment.",
    f"{_NVML_MISSING}, and {_UNTIL_PRICE}",
)
GPU_UNALLOCATED_COST_TOTAL = _family(
    "gpu_unallocated_cost_total",
    FamilyType.COUNTER,
    (*D, "currency"),
    Group.DEVICE,
    "The unallocated GPU-seconds in money, accrued at the price of the moment.",
    f"{_NVML_MISSING}, and {_UNTIL_PRICE}",
)
GPU_ALLOCATION_UNKNOWN_COST_TOTAL = _family(
    "gpu_allocation_unknown_cost_total",
    FamilyType.COUNTER,
    (*D, "currency"),
    Group.DEVICE,
    "The GPU-seconds of unknown allocation in money, accrued at the price of the moment.",
    f"{_NVML_MISSING}, and {_UNTIL_PRICE}",
)
GPU_OBSERVED_SECONDS_TOTAL = _family(
    "gpu_observed_seconds_total",
    FamilyType.COUNTER,
    D,
    Group.DEVICE,
    "Time in which the GPU's activity was really measured, in seconds: the honest denominator, and the coverage.",
    _NVML_MISSING,
)
GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL = _family(
    "gpu_unattributed_busy_seconds_total",
    FamilyType.COUNTER,
    (*D, "reason"),
    Group.DEVICE,
    "Busy time of the GPU that could not be laid on a container, in seconds, by reason.",
    f"{_NVML_MISSING}; a reason appears when it first occurs",
    {"reason": UnattributedReason},
)
GPU_UNATTRIBUTED_ENERGY_JOULES_TOTAL = _family(
    "gpu_unattributed_energy_joules_total",
    FamilyType.COUNTER,
    (*D, "reason"),
    Group.DEVICE,
    "Energy of the GPU that is no container's, in joules, by reason; not_measured is what was drawn while nobody watched.",
    f"{_NVML_MISSING}; a reason appears when it first occurs",
    {"reason": UnattributedReason},
)
GPU_PRICE_PER_HOUR = _family(
    "gpu_price_per_hour",
    FamilyType.GAUGE,
    (*D, "currency", "capacity"),
    Group.DEVICE,
    "Price of the whole GPU by the hour at this moment, in the currency that the label names.",
    f"{_NVML_MISSING}, and {_WITHOUT_PRICE}",
    {"capacity": ("on_demand", "spot", "unknown")},
)
GPU_UNATTRIBUTED_MEMORY_BYTES = _family(
    "gpu_unattributed_memory_bytes",
    FamilyType.GAUGE,
    (*D, "reason"),
    Group.DEVICE,
    "GPU memory in use that could not be laid on a container, in bytes, by reason.",
    f"{_NVML_MISSING}; a reason appears when it first occurs",
    {"reason": UnattributedReason},
)
GPU_CLOCK_EVENT_SECONDS_TOTAL = _family(
    "gpu_clock_event_seconds_total",
    FamilyType.COUNTER,
    (*D, "reason"),
    Group.DEVICE,
    "Time in which the GPU's clocks were held down, in seconds, by reason, as the driver counts it.",
    f"{_NVML_MISSING}, and for reasons that the driver does not count",
)
GPU_ECC_ERRORS_TOTAL = _family(
    "gpu_ecc_errors_total",
    FamilyType.COUNTER,
    (*D, "type"),
    Group.DEVICE,
    "Memory errors found by ECC over the life of the GPU, by type.",
    f"{_NVML_MISSING}, and where ECC is off or unsupported",
    {"type": ("corrected", "uncorrected")},
)
GPU_ROW_REMAP_PENDING = _family(
    "gpu_row_remap_pending",
    FamilyType.GAUGE,
    D,
    Group.DEVICE,
    "1 if a memory row waits to be remapped at the next reset of the GPU, else 0.",
    _NO_ANSWER,
)
GPU_EXPORTER_DEVICE_ERRORS_TOTAL = _family(
    "gpu_exporter_device_errors_total",
    FamilyType.COUNTER,
    (*D, "reason"),
    Group.DEVICE,
    "Cycles in which the GPU did not answer, by reason.",
    f"{_NVML_MISSING}; a reason appears when it first occurs",
    {"reason": DeviceTrouble},
)

# ------------------------------------------------------------------------------------------------------------------ mig

GPU_MIG_INFO = _family(
    "gpu_mig_info",
    FamilyType.INFO,
    (*D, *M, "mig_uuid"),
    Group.MIG,
    "Identity of a MIG instance, always 1; uuid is that of the physical GPU, mig_uuid its own.",
    f"{_NVML_MISSING}, and outside MIG mode",
)
GPU_MIG_UTILIZATION_RATIO = _family(
    "gpu_mig_utilization_ratio",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Share of time in which the instance's graphics or compute engine was active, 0 to 1, mean over the cycle (GPM).",
    f"{_NO_ANSWER} (no GPM before Hopper); {_OF_GPU_INSTANCE}",
)
GPU_MIG_BUSY_SECONDS_TOTAL = _family(
    "gpu_mig_busy_seconds_total",
    FamilyType.COUNTER,
    (*D, *M),
    Group.MIG,
    "Integral of the instance's utilisation, in seconds of the instance (not of the GPU).",
    f"{_NVML_MISSING}, and {_UNTIL_MEASURED}; {_OF_GPU_INSTANCE}",
)
GPU_MIG_SM_ACTIVE_RATIO = _family(
    "gpu_mig_sm_active_ratio",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Share of the instance's SMs that were active, 0 to 1, mean over the cycle (GPM).",
    f"{_NO_ANSWER} (no GPM before Hopper); {_OF_GPU_INSTANCE}",
)
GPU_MIG_TENSOR_ACTIVE_RATIO = _family(
    "gpu_mig_tensor_active_ratio",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Share of cycles in which a tensor pipe of the instance was active, 0 to 1, mean over the cycle (GPM).",
    f"{_NO_ANSWER} (no GPM before Hopper); {_OF_GPU_INSTANCE}",
)
GPU_MIG_MEMORY_USED_BYTES = _family(
    "gpu_mig_memory_used_bytes",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Memory of the MIG instance in use, in bytes; shared by all compute instances of one GPU instance.",
    f"{_NO_ANSWER}; {_OF_GPU_INSTANCE}",
)
GPU_MIG_MEMORY_TOTAL_BYTES = _family(
    "gpu_mig_memory_total_bytes",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Size of the MIG instance's memory, in bytes; shared by all compute instances of one GPU instance.",
    f"{_NO_ANSWER}; {_OF_GPU_INSTANCE}",
)
GPU_MIG_SHARE_RATIO = _family(
    "gpu_mig_share_ratio",
    FamilyType.GAUGE,
    (*D, *M),
    Group.MIG,
    "Part of the physical GPU that the MIG instance is, 0 to 1: its compute slices over those of the GPU.",
    f"{_NVML_MISSING}, and where neither attributes nor profile tell its slices",
)

# ------------------------------------------------------------------------------------------------------------ container

_CONTAINER = (*D, *M, *C, *O)

GPU_CONTAINER_ALLOCATION_RATIO = _family(
    "gpu_container_allocation_ratio",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "Share of the physical GPU that the container holds, 0 to 1.",
    "for a container that uses a device without holding it",
    _CLASSES,
)
GPU_CONTAINER_ALLOCATION_INFO = _family(
    "gpu_container_allocation_info",
    FamilyType.INFO,
    (*_CONTAINER, "resource", "source", "device_id", "mig_uuid"),
    Group.CONTAINER,
    "A device that the container holds, always 1: by which resource, which source says so, and the id as that source gave it.",
    "for a container that uses a device without holding it",
    {**_CLASSES, "source": HoldingSource},
)
GPU_CONTAINER_HELD_SECONDS_TOTAL = _family(
    "gpu_container_held_seconds_total",
    FamilyType.COUNTER,
    (*_CONTAINER, "state"),
    Group.CONTAINER,
    "GPU-seconds that the container held, by share of the physical GPU, in seconds, by state; all are there from the start.",
    f"for a container that holds nothing, {_LINGERS}",
    {**_CLASSES, "state": State},
)
GPU_CONTAINER_BUSY_SECONDS_TOTAL = _family(
    "gpu_container_busy_seconds_total",
    FamilyType.COUNTER,
    _CONTAINER,
    Group.CONTAINER,
    "Busy time that is the container's, in seconds of the physical GPU: a MIG instance's activity counts by its share.",
    f"{_UNTIL_MEASURED}; {_LINGERS}",
    _CLASSES,
)
GPU_CONTAINER_UTILIZATION_DISTRIBUTION_RATIO = _family(
    "gpu_container_utilization_distribution_ratio",
    FamilyType.HISTOGRAM,
    _CONTAINER,
    Group.CONTAINER,
    "How busy the container kept the device that it holds, one observation of the cycle's mean for each measured second.",
    f"{_UNTIL_MEASURED}, with `ledger.container_distribution: false`; {_LINGERS}",
    _CLASSES,
)
GPU_CONTAINER_ENERGY_JOULES_TOTAL = _family(
    "gpu_container_energy_joules_total",
    FamilyType.COUNTER,
    _CONTAINER,
    Group.CONTAINER,
    "Energy of the GPU that is the container's, in joules: by busy time among its users, by share where that is unknown.",
    f"where the driver does not count energy; {_LINGERS}",
    _CLASSES,
)
GPU_CONTAINER_LAST_ACTIVE_TIMESTAMP_SECONDS = _family(
    "gpu_container_last_active_timestamp_seconds",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "When the container last worked on the device, in seconds since 1970; if it never did, when watching it began.",
    "for a container that holds nothing, and while its activity cannot be measured",
    _CLASSES,
)
GPU_CONTAINER_EVER_ACTIVE = _family(
    "gpu_container_ever_active",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "1 if the container has ever worked on the device that it holds, 0 if it has not since it started.",
    "for a container that holds nothing, and unless it was watched from its start without a gap",
    _CLASSES,
)
GPU_CONTAINER_UTILIZATION_RATIO = _family(
    "gpu_container_utilization_ratio",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "Share of time, 0 to 1, in which a kernel of the container ran on its device (GPU or MIG instance), in this cycle.",
    "where it could not be measured or not be told apart from others",
    _CLASSES,
)
GPU_CONTAINER_MEMORY_USED_BYTES = _family(
    "gpu_container_memory_used_bytes",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "Memory of the device in use by the container, in bytes, summed over its processes.",
    "where the driver's process list or /proc could not be read",
    _CLASSES,
)
GPU_CONTAINER_PROCESSES = _family(
    "gpu_container_processes",
    FamilyType.GAUGE,
    _CONTAINER,
    Group.CONTAINER,
    "Processes of the container on the device; an explicit 0 for a holder without one.",
    "where the driver's process list or /proc could not be read",
    _CLASSES,
)
GPU_CONTAINER_UNALLOCATED_USE = _family(
    "gpu_container_unallocated_use",
    FamilyType.INFO,
    _CONTAINER,
    Group.CONTAINER,
    "The container uses a device that it does not hold, always 1.",
    "for every container that holds what it uses",
    _CLASSES,
)

# ---------------------------------------------------------------------------------------------------------------- owner

GPU_OWNER_HELD_SECONDS_TOTAL = _family(
    "gpu_owner_held_seconds_total",
    FamilyType.COUNTER,
    (*W, "state"),
    Group.OWNER,
    "GPU-seconds that the owner's containers held, by share of the physical GPU, in seconds, by state.",
    _OWNER_LINGERS,
    {**_CLASSES, "state": State},
)
GPU_OWNER_MEASURED_SECONDS_TOTAL = _family(
    "gpu_owner_measured_seconds_total",
    FamilyType.COUNTER,
    W,
    Group.OWNER,
    "Part of the held GPU-seconds in which activity was measured, in seconds: what busy seconds are divided by.",
    _OWNER_LINGERS,
    _CLASSES,
)
GPU_OWNER_BUSY_SECONDS_TOTAL = _family(
    "gpu_owner_busy_seconds_total",
    FamilyType.COUNTER,
    W,
    Group.OWNER,
    "Busy time of the owner's containers on devices that they hold, in seconds of the physical GPU.",
    f"{_UNTIL_MEASURED}; {_OWNER_LINGERS}",
    _CLASSES,
)
GPU_OWNER_UNHELD_BUSY_SECONDS_TOTAL = _family(
    "gpu_owner_unheld_busy_seconds_total",
    FamilyType.COUNTER,
    W,
    Group.OWNER,
    "Busy time of the owner's containers on devices that they do not hold, in seconds of the physical GPU.",
    f"until it occurs; {_OWNER_LINGERS}",
    _CLASSES,
)
GPU_OWNER_ENERGY_JOULES_TOTAL = _family(
    "gpu_owner_energy_joules_total",
    FamilyType.COUNTER,
    W,
    Group.OWNER,
    "Energy of the owner's containers on devices that they hold, in joules.",
    f"where the driver does not count energy; {_OWNER_LINGERS}",
    _CLASSES,
)
GPU_OWNER_COST_TOTAL = _family(
    "gpu_owner_cost_total",
    FamilyType.COUNTER,
    (*W, "currency", "state"),
    Group.OWNER,
    "Money for the held GPU-seconds, accrued at the price of the moment, by state.",
    f"{_UNTIL_PRICE}; {_OWNER_LINGERS}",
    {**_CLASSES, "state": State},
)
GPU_OWNER_UTILIZATION_DISTRIBUTION_RATIO = _family(
    "gpu_owner_utilization_distribution_ratio",
    FamilyType.HISTOGRAM,
    W,
    Group.OWNER,
    "How busy the owner's containers kept the devices that they hold, one observation for each measured second of each.",
    f"{_UNTIL_MEASURED}; {_OWNER_LINGERS}",
    _CLASSES,
)

# ------------------------------------------------------------------------------------------------------------------ pod

_POD = (*P, *O)

GPU_POD_OWNER_INFO = _family(
    "gpu_pod_owner_info",
    FamilyType.INFO,
    (*_POD, "team_source", "cost_center_source", "queue", "priority_class"),
    Group.POD,
    "Who answers and who pays for a pod that asks for, holds or uses a GPU, always 1; to join with any other per-pod series.",
    "for pods that have nothing to do with a GPU; team_source and cost_center_source where nobody was named",
    {**_CLASSES, "team_source": OwnerSource, "cost_center_source": OwnerSource},
)
GPU_POD_DEVICES_REQUESTED = _family(
    "gpu_pod_devices_requested",
    FamilyType.GAUGE,
    _POD,
    Group.POD,
    "Units of GPU resources in the limits of the pod's lasting containers (init containers aside).",
    "while the pod's spec is not known",
    _CLASSES,
)
GPU_POD_DEVICES_ASSIGNED = _family(
    "gpu_pod_devices_assigned",
    FamilyType.GAUGE,
    _POD,
    Group.POD,
    "Units that the pod's containers hold, resolved or not, as its limits count them: two replicas of one GPU are two.",
    "while no source can say",
    _CLASSES,
)
GPU_POD_DEVICES_IDLE = _family(
    "gpu_pod_devices_idle",
    FamilyType.GAUGE,
    _POD,
    Group.POD,
    "GPUs and MIG instances that the pod holds and that did no work for it in this cycle.",
    "while the state of any of its devices is unknown",
    _CLASSES,
)
GPU_POD_LAST_ACTIVE_TIMESTAMP_SECONDS = _family(
    "gpu_pod_last_active_timestamp_seconds",
    FamilyType.GAUGE,
    _POD,
    Group.POD,
    "When the pod last worked on any device that it holds, in seconds since 1970; if it never did, when watching it began.",
    "for a pod that holds nothing, and while one of its devices, or its activity there, is unknown and it works on no other",
    _CLASSES,
)
GPU_POD_START_TIMESTAMP_SECONDS = _family(
    "gpu_pod_start_timestamp_seconds",
    FamilyType.GAUGE,
    _POD,
    Group.POD,
    "When the kubelet accepted the pod, in seconds since 1970.",
    "before the pod has started, and while its status is not known",
    _CLASSES,
)

# ----------------------------------------------------------------------------------------------------------------- node

GPU_NODE_INFO = _family(
    "gpu_node_info",
    FamilyType.INFO,
    ("node", "provider_id", "instance_type", "region", "zone", "node_pool", "capacity"),
    Group.NODE,
    "Identity of the node at its provider, always 1: the key to the bill.",
    "while the Node object could not be read",
    {"capacity": ("on_demand", "spot", "unknown")},
)
GPU_NODE_CREATED_TIMESTAMP_SECONDS = _family(
    "gpu_node_created_timestamp_seconds",
    FamilyType.GAUGE,
    ("node",),
    Group.NODE,
    "When the node joined the cluster, in seconds since 1970.",
    "while the Node object could not be read",
)
GPU_NODE_ALLOCATABLE_DEVICES = _family(
    "gpu_node_allocatable_devices",
    FamilyType.GAUGE,
    ("node", "resource"),
    Group.NODE,
    "Device-plugin units of a GPU resource that the kubelet can give out.",
    "while the kubelet cannot say",
)
GPU_NODE_ALLOCATED_DEVICES = _family(
    "gpu_node_allocated_devices",
    FamilyType.GAUGE,
    ("node", "resource"),
    Group.NODE,
    "Device-plugin units of a GPU resource that pods hold.",
    "while the kubelet cannot say",
)

# ------------------------------------------------------------------------------------------------------------- exporter

GPU_EXPORTER_BUILD_INFO = _family(
    "gpu_exporter_build_info",
    FamilyType.INFO,
    ("version", "commit", "python", "simulated"),
    Group.EXPORTER,
    "What is running, always 1; simulated is true if every figure is made up.",
    "never",
    {"simulated": ("true", "false")},
)
GPU_EXPORTER_SOURCE_UP = _family(
    "gpu_exporter_source_up",
    FamilyType.GAUGE,
    ("source",),
    Group.EXPORTER,
    "1 if the source answered when it was last read, else 0.",
    "for sources that are switched off, and before the first cycle",
)
GPU_EXPORTER_SOURCE_MISSING = _family(
    "gpu_exporter_source_missing",
    FamilyType.INFO,
    ("source", "reason"),
    Group.EXPORTER,
    "Why a source has no answer, always 1; of state_file also why the file that was found was refused.",
    "for every source that answers, a refused state_file aside",
    {"reason": MissingReason},
)
GPU_EXPORTER_SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS = _family(
    "gpu_exporter_source_last_success_timestamp_seconds",
    FamilyType.GAUGE,
    ("source",),
    Group.EXPORTER,
    "When the source last answered, in seconds since 1970.",
    "for a source that has not answered yet",
)
GPU_EXPORTER_SOURCE_DURATION_SECONDS = _family(
    "gpu_exporter_source_duration_seconds",
    FamilyType.HISTOGRAM,
    ("source",),
    Group.EXPORTER,
    "How long reads of the source took, in seconds.",
    "before the first read",
)
GPU_EXPORTER_SOURCE_ERRORS_TOTAL = _family(
    "gpu_exporter_source_errors_total",
    FamilyType.COUNTER,
    ("source", "reason"),
    Group.EXPORTER,
    "Reads of the source that gave no answer, by reason.",
    "until it first occurs",
    {"reason": MissingReason},
)
GPU_EXPORTER_UNRESOLVED_DEVICES = _family(
    "gpu_exporter_unresolved_devices",
    FamilyType.GAUGE,
    ("reason",),
    Group.EXPORTER,
    "Allocations that could not be laid on a GPU, by reason.",
    "while there is none for the reason",
    {"reason": UnresolvedReason},
)
GPU_EXPORTER_UNRESOLVED_PIDS = _family(
    "gpu_exporter_unresolved_pids",
    FamilyType.GAUGE,
    ("reason",),
    Group.EXPORTER,
    "Processes on GPUs that may be a pod's and could not be laid on one, by reason; a process of the host is no gap.",
    "while there is none for the reason",
    {"reason": (UnattributedReason.DEAD_PROCESS, UnattributedReason.UNRESOLVED_PID, UnattributedReason.NOT_IN_POD)},
)
GPU_EXPORTER_UNRESOLVED_ALLOCATION_INFO = _family(
    "gpu_exporter_unresolved_allocation_info",
    FamilyType.INFO,
    ("namespace", "pod", "container", "resource", "device_id", "reason"),
    Group.EXPORTER,
    "An allocation that could not be laid on a GPU, always 1, and why.",
    "while there is none",
    {"reason": UnresolvedReason},
)
GPU_EXPORTER_CONFLICTS = _family(
    "gpu_exporter_conflicts",
    FamilyType.GAUGE,
    ("kind",),
    Group.EXPORTER,
    "Contradictions between sources or holders in this cycle, by kind; the node page names them.",
    "while there is none of the kind",
    {"kind": ConflictKind},
)
GPU_EXPORTER_REJECTED_READINGS_TOTAL = _family(
    "gpu_exporter_rejected_readings_total",
    FamilyType.COUNTER,
    ("reading", "reason"),
    Group.EXPORTER,
    "Values that cannot be true and were dropped, by what was read and why.",
    "until it first occurs",
)
GPU_EXPORTER_LOST_SAMPLE_SECONDS_TOTAL = _family(
    "gpu_exporter_lost_sample_seconds_total",
    FamilyType.COUNTER,
    (),
    Group.EXPORTER,
    "Time of GPUs, in seconds, of which the driver's samples were overwritten before they were read, or could not be true.",
    "never",
)
GPU_EXPORTER_CYCLE_DURATION_SECONDS = _family(
    "gpu_exporter_cycle_duration_seconds",
    FamilyType.HISTOGRAM,
    (),
    Group.EXPORTER,
    "How long cycles took, in seconds, from the first read to the published result.",
    "before the first cycle",
)
GPU_EXPORTER_LAST_CYCLE_TIMESTAMP_SECONDS = _family(
    "gpu_exporter_last_cycle_timestamp_seconds",
    FamilyType.GAUGE,
    (),
    Group.EXPORTER,
    "When the last cycle took its readings, in seconds since 1970.",
    "before the first cycle",
)

ALL: tuple[Family, ...] = (
    GPU_INFO,
    GPU_UP,
    GPU_UTILIZATION_RATIO,
    GPU_BUSY_SECONDS_TOTAL,
    GPU_SM_ACTIVE_RATIO,
    GPU_TENSOR_ACTIVE_RATIO,
    GPU_MEMORY_USED_BYTES,
    GPU_MEMORY_RESERVED_BYTES,
    GPU_MEMORY_TOTAL_BYTES,
    GPU_POWER_WATTS,
    GPU_POWER_LIMIT_WATTS,
    GPU_TEMPERATURE_CELSIUS,
    GPU_ENERGY_JOULES_TOTAL,
    GPU_ALLOCATED_RATIO,
    GPU_PROVISIONED_SECONDS_TOTAL,
    GPU_UNALLOCATED_SECONDS_TOTAL,
    GPU_ALLOCATION_UNKNOWN_SECONDS_TOTAL,
    GPU_PROVISIONED_COST_TOTAL,
    GPU_UNALLOCATED_COST_TOTAL,
    GPU_ALLOCATION_UNKNOWN_COST_TOTAL,
    GPU_OBSERVED_SECONDS_TOTAL,
    GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL,
    GPU_UNATTRIBUTED_ENERGY_JOULES_TOTAL,
    GPU_PRICE_PER_HOUR,
    GPU_UNATTRIBUTED_MEMORY_BYTES,
    GPU_CLOCK_EVENT_SECONDS_TOTAL,
    GPU_ECC_ERRORS_TOTAL,
    GPU_ROW_REMAP_PENDING,
    GPU_EXPORTER_DEVICE_ERRORS_TOTAL,
    GPU_MIG_INFO,
    GPU_MIG_UTILIZATION_RATIO,
    GPU_MIG_BUSY_SECONDS_TOTAL,
    GPU_MIG_SM_ACTIVE_RATIO,
    GPU_MIG_TENSOR_ACTIVE_RATIO,
    GPU_MIG_MEMORY_USED_BYTES,
    GPU_MIG_MEMORY_TOTAL_BYTES,
    GPU_MIG_SHARE_RATIO,
    GPU_CONTAINER_ALLOCATION_RATIO,
    GPU_CONTAINER_ALLOCATION_INFO,
    GPU_CONTAINER_HELD_SECONDS_TOTAL,
    GPU_CONTAINER_BUSY_SECONDS_TOTAL,
    GPU_CONTAINER_UTILIZATION_DISTRIBUTION_RATIO,
    GPU_CONTAINER_ENERGY_JOULES_TOTAL,
    GPU_CONTAINER_LAST_ACTIVE_TIMESTAMP_SECONDS,
    GPU_CONTAINER_EVER_ACTIVE,
    GPU_CONTAINER_UTILIZATION_RATIO,
    GPU_CONTAINER_MEMORY_USED_BYTES,
    GPU_CONTAINER_PROCESSES,
    GPU_CONTAINER_UNALLOCATED_USE,
    GPU_OWNER_HELD_SECONDS_TOTAL,
    GPU_OWNER_MEASURED_SECONDS_TOTAL,
    GPU_OWNER_BUSY_SECONDS_TOTAL,
    GPU_OWNER_UNHELD_BUSY_SECONDS_TOTAL,
    GPU_OWNER_ENERGY_JOULES_TOTAL,
    GPU_OWNER_COST_TOTAL,
    GPU_OWNER_UTILIZATION_DISTRIBUTION_RATIO,
    GPU_POD_OWNER_INFO,
    GPU_POD_DEVICES_REQUESTED,
    GPU_POD_DEVICES_ASSIGNED,
    GPU_POD_DEVICES_IDLE,
    GPU_POD_LAST_ACTIVE_TIMESTAMP_SECONDS,
    GPU_POD_START_TIMESTAMP_SECONDS,
    GPU_NODE_INFO,
    GPU_NODE_CREATED_TIMESTAMP_SECONDS,
    GPU_NODE_ALLOCATABLE_DEVICES,
    GPU_NODE_ALLOCATED_DEVICES,
    GPU_EXPORTER_BUILD_INFO,
    GPU_EXPORTER_SOURCE_UP,
    GPU_EXPORTER_SOURCE_MISSING,
    GPU_EXPORTER_SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
    GPU_EXPORTER_SOURCE_DURATION_SECONDS,
    GPU_EXPORTER_SOURCE_ERRORS_TOTAL,
    GPU_EXPORTER_UNRESOLVED_DEVICES,
    GPU_EXPORTER_UNRESOLVED_PIDS,
    GPU_EXPORTER_UNRESOLVED_ALLOCATION_INFO,
    GPU_EXPORTER_CONFLICTS,
    GPU_EXPORTER_REJECTED_READINGS_TOTAL,
    GPU_EXPORTER_LOST_SAMPLE_SECONDS_TOTAL,
    GPU_EXPORTER_CYCLE_DURATION_SECONDS,
    GPU_EXPORTER_LAST_CYCLE_TIMESTAMP_SECONDS,
)
"""In the order of the page."""

RESERVED_LABELS: frozenset[str] = frozenset(label for family in ALL for label in family.labels) | {
    "le",
    "quantile",
    "job",
    "instance",
    "cluster",
    "exempt_by",
    "timeout_source",
    "xid",
}
"""Names that an extra owner label cannot have: those in use, those that Prometheus adds, and those kept for later families."""
