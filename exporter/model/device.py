"""What NVML says of this node: physical GPUs, their MIG instances, the processes on them. Measured values are never reused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from exporter.model.activity import Activity
from exporter.model.ids import DeviceUuid, MigKey, MigUuid


@unique
class MigMode(StrEnum):
    """The current (not the pending) MIG mode."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


@unique
class DeviceTrouble(StrEnum):
    """Why a device did not answer in this cycle; stands in ``gpu_exporter_device_errors_total{reason}``."""

    LOST = "lost"
    RESET_REQUIRED = "reset_required"
    TIMEOUT = "timeout"
    NO_PERMISSION = "no_permission"
    UNKNOWN = "unknown"


@unique
class ProcessKind(StrEnum):
    """Which of NVML's lists named the process."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a device, merged over NVML's three lists (by PID and instance: the largest memory, never the sum)."""

    pid: int
    kinds: frozenset[ProcessKind]
    memory_used_bytes: int | None
    """None where the driver says "not available" (all ones). Source: nvmlProcessInfo_t.usedGpuMemory."""
    gpu_instance_id: int | None = None
    """None outside MIG mode (all ones there)."""
    compute_instance_id: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What one process did on a device since the last cycle."""

    pid: int
    sm_ratio: float | None
    """Share of the measured time of the device's activity in which this process was on it, 0 to 1. A statistical estimate.

    None: it has a sample, and that cannot be true. Each slot of the driver's ring names one process: the one that was on the
    engine when the sample was taken. Source: nvmlDeviceGetProcessesUtilizationInfo().smUtil or
    nvmlDeviceGetProcessUtilization().smUtil, in percent of the samples there; or the growth of
    nvmlAccountingStats_v2_t.sumGpuUtil where accounting mode is on.
    """


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG device: one compute instance in one GPU instance."""

    uuid: MigUuid
    gpu_instance_id: int
    compute_instance_id: int
    profile: str
    """Profile as the driver names it (``1g.10gb``, ``1c.3g.40gb``); empty where it cannot be read. Never derived from sizes."""
    compute_slices: int | None
    """Compute slices of the compute instance; None where neither attributes nor profile tell."""
    memory_used_bytes: int | None
    """Shared by all compute instances of one GPU instance."""
    memory_total_bytes: int | None
    activity: Activity | None = None
    """Graphics engine activity of the GPU instance (GPM) since the last cycle; None: no GPM, or no earlier sample.

    Of the whole GPU instance: with several compute instances in it, each of them carries the same figure.
    """
    sm_active_ratio: float | None = None
    """GPM, mean since the last cycle; of the whole GPU instance."""
    tensor_active_ratio: float | None = None
    """GPM, mean since the last cycle; of the whole GPU instance."""

    @property
    def key(self) -> MigKey:
        """Identity on its GPU."""
        return MigKey(self.gpu_instance_id, self.compute_instance_id, self.uuid)


@dataclass(frozen=True, slots=True)
class RejectedReading:
    """A value that cannot be true (out of its physical range) and was dropped."""

    reading: str
    """What was read, e.g. ``utilization``."""
    reason: str
    """``out_of_range``, ``not_available``, ``stale``, ``duplicate``, ``foreign``, ``fell``."""


@dataclass(frozen=True, slots=True)
class Device:
    """One physical GPU in one cycle. None in a measured field: this driver, mode or moment cannot say. Never 0 for unknown."""

    uuid: DeviceUuid
    index: int
    """NVML's index when this UUID was first seen: a lost neighbour renames nobody."""
    model: str = ""
    pci_bus_id: str = ""
    """Domain with 8 digits, lower case, as nvmlPciInfo_t.busId."""
    minor_number: int | None = None
    """N of /dev/nvidiaN; not the index in general."""
    architecture: str = ""
    mig_mode: MigMode = MigMode.UNKNOWN
    mig_slices: int | None = None
    """Compute slices of the whole GPU (7 on A100 and H100, 4 on A30); None where MIG is off or unknown."""
    mig_instances: tuple[MigInstance, ...] = ()
    trouble: DeviceTrouble | None = None
    """Set if the device did not answer; measured fields are None then, identity is the last known."""

    utilization_ratio: float | None = None
    """Share of time in which a kernel ran, 0 to 1: the mean over `activity`; None in MIG mode, where the driver cannot say.

    In the first cycle, which has no stretch of time yet, NVML's own last sample period.
    """
    activity: Activity | None = None
    """Everything that the driver sampled since the last cycle; None in the first one, in MIG mode, and where it cannot say.

    Source: nvmlDeviceGetSamples(GPU_UTILIZATION_SAMPLES); nvmlDeviceGetUtilizationRates().gpu where there is no ring.
    """
    sm_active_ratio: float | None = None
    """Share of the SMs that were active, 0 to 1, mean since the last cycle. Source: GPM, Hopper and newer."""
    tensor_active_ratio: float | None = None
    """Share of cycles in which a tensor pipe was active, 0 to 1, mean since the last cycle. Source: GPM."""
    memory_used_bytes: int | None = None
    """Allocations only where the driver tells them apart (memory v2), else reserved included (v1)."""
    memory_reserved_bytes: int | None = None
    """Held by the driver and firmware; None with memory v1."""
    memory_total_bytes: int | None = None
    power_watts: float | None = None
    """Source: nvmlDeviceGetPowerUsage, milliwatts there."""
    power_limit_watts: float | None = None
    """Source: nvmlDeviceGetEnforcedPowerLimit."""
    temperature_celsius: float | None = None
    energy_joules: float | None = None
    """Since the driver was loaded: falls back to 0 with a driver reload. Source: nvmlDeviceGetTotalEnergyConsumption, mJ."""
    ecc_errors: Mapping[str, int] = field(default_factory=dict)
    """Aggregate count by ``corrected`` and ``uncorrected``; a missing key could not be read."""
    row_remap_pending: bool | None = None
    clock_event_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds the clocks were held down, by reason, since driver load; only reasons that the driver counts."""

    processes: tuple[GpuProcess, ...] | None = None
    """All processes on the device; None if a list could not be read: then no process count and no memory is known."""
    process_use: tuple[ProcessUse, ...] | None = None
    """Per-process activity; empty: the driver says nobody ran; None: the driver cannot say (MIG, old driver)."""
    rejected: tuple[RejectedReading, ...] = ()
    failed_calls: tuple[tuple[str, str], ...] = ()
    """(NVML call, reason) of calls that failed in this cycle for a cause other than "not supported"."""

    @property
    def up(self) -> bool:
        """True if the device answered in this cycle."""
        return self.trouble is None


@dataclass(frozen=True, slots=True)
class NvmlState:
    """NVML's answer for the whole node in one cycle."""

    driver_version: str
    devices: tuple[Device, ...]
    """In order of their index; a lost device stays, with `trouble`."""
    unidentified_devices: tuple[tuple[int, DeviceTrouble], ...] = ()
    """(index, why) of devices that are counted by the driver and never told their UUID since we started."""
