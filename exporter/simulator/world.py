"""The world that the four stand-ins show: plain values, replaced whole. Units as the real interfaces have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GIB = 1 << 30
MIB = 1 << 20
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF
"""NVML's all-ones for a memory value that it cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimMig:
    """A MIG device. `gi` and `ci` as the driver numbers them."""

    uuid: str
    gi: int
    ci: int = 0
    profile: str = "1g.10gb"
    compute_slices: int = 1
    gpu_slices: int = 1
    memory_total: int = 10 * GIB
    memory_used: int | None = None
    """Bytes; None: the sum over its processes."""
    slot: int | None = None
    """Its index under the GPU, where slots between may be empty; None: its place among the GPU's MIG devices."""
    utilization: int | None = None
    """Percent, as GPM tells it of its GPU instance without a script; None: the GPU's `utilization`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimProcess:
    """A process on a device, by PID; what /proc says of it stands in `SimTask`."""

    pid: int
    memory: int = 0
    """Bytes, or NOT_AVAILABLE."""
    gi: int | None = None
    ci: int | None = None
    """None: all ones, as outside MIG mode."""
    lists: frozenset[str] = frozenset({"compute"})
    """``compute``, ``graphics``, ``mps``."""
    sm: int | None = None
    """Percent since the last call, as nvmlDeviceGetProcessUtilization gives it without a script; None: not in its answer."""
    sm_timestamp: int | None = None
    """Microseconds; what its entry there bears, told even when older than asked for; None: the time of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimBurst:
    """Work of one process between two moments of the GPU's clock.

    What several do at once is sliced between them: a kernel then runs in the sum of their shares, up to all the time, and each
    slot of the ring names one of them, evenly. The process need not be among `SimDevice.processes`, nor stay there.
    """

    pid: int
    start_us: int
    end_us: int
    """Microseconds of the GPU's clock, end excluded. With `SimDevice.load_period_us` they repeat with that period."""
    percent: int = 100
    """Share of the time in which a kernel runs."""
    gi: int | None = None
    """The GPU instance in which it runs, in MIG mode. The GPU as a whole has the work of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSample:
    """A sample as the ring holds it, right or wrong: any 64-bit time and any 32-bit percent."""

    timestamp_us: int
    percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimDevice:
    """A physical GPU. A value of None makes the call for it answer NVML_ERROR_NOT_SUPPORTED."""

    uuid: str
    index: int
    minor: int | None = None
    """None: the same as the index."""
    name: str = "NVIDIA H100 80GB HBM3"
    pci_bus_id: str = ""
    """Empty: made up from the index."""
    architecture: int = 9
    """NVML_DEVICE_ARCH_*: 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell."""
    mig_mode: int | None = 0
    max_mig_devices: int = 7
    migs: tuple[SimMig, ...] = ()
    utilization: int | None = 0
    """Percent; any 32-bit value can be served."""
    memory_total: int | None = 80 * GIB
    memory_used: int | None = None
    """Bytes, allocations only; None: the sum over its processes."""
    memory_reserved: int = 0
    power: int | None = 70_000
    """Milliwatts."""
    power_limit: int | None = 700_000
    temperature: int | None = 35
    energy: int | None = 5_000_000
    """Millijoules since driver load."""
    ecc_corrected: int | None = 0
    ecc_uncorrected: int | None = 0
    row_remap_pending: int | None = 0
    clock_event_ns: Mapping[int, int] = field(default_factory=dict)
    """Field id (74, 76, 269, 270, 271) to nanoseconds; absent ids are not supported."""
    processes: tuple[SimProcess, ...] = ()
    load: tuple[SimBurst, ...] | None = None
    """A scripted load: ring, process utilisation, GPM, accounting, utilisation rates and energy all follow from it, as
    functions of the GPU's clock. Once part of it is past, only its future may change, or counters do not fit together.

    None: no ring (nvmlDeviceGetSamples answers NOT_FOUND), and the other figures are those given above and by the processes.
    """
    load_period_us: int = 0
    """The script repeats with this period, from the clock's zero on; 0: once."""
    busy_power: int = 0
    """Milliwatts that a kernel draws on top of `power`, with a script: the power that is told follows it.

    `energy` is what had been drawn when the driver was loaded, and grows by both from then on: `power` should stay as it is.
    """
    ring_rests: bool = True
    """True: slots in which nothing ran are not recorded, as on an idle GPU. False: they are recorded as 0."""
    ring: tuple[SimSample, ...] | None = None
    """The ring's very content, told whole and in this order whatever was asked for; for faults. Beats `load` in
    nvmlDeviceGetSamples, and there alone."""
    gpm: bool = False
    """True: GPM is supported (Hopper and newer): graphics, SM and any tensor activity, by the script or `utilization`."""
    sm_percent_of_busy: int = 80
    """GPM: part of the busy time's SM cycles that are active."""
    tensor_percent_of_busy: int = 50
    """The same of its tensor cores."""
    accounting: bool = False
    """True: an admin has switched accounting mode on. Not in MIG mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFault:
    """From now on calls of `symbol` (on `device`, or on every device) answer `code`, after `delay` seconds."""

    symbol: str
    """C symbol, e.g. ``nvmlDeviceGetUtilizationRates``; ``*`` for every call that takes a device."""
    device: int | None = None
    code: int | None = None
    """nvmlReturn_t; None: the call succeeds after the delay."""
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimTask:
    """A process as /proc shows it."""

    pid: int
    cgroup: tuple[str, ...] = ("0::/",)
    """Lines of /proc/<pid>/cgroup."""
    parent: int = 1
    start_ticks: int = 1000
    comm: str = "python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimContainer:
    """A container of a pod: its spec and what the kubelet says of it."""

    name: str = "main"
    id: str = ""
    """64 hex digits; empty: not started."""
    limits: Mapping[str, str] = field(default_factory=dict)
    kind: str = "main"
    """``main``, ``init``, ``sidecar``, ``ephemeral``."""
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(resource name, device ids) as List names them, one ContainerDevices entry each."""
    topology: bool = True
    claims: tuple[tuple[str, str, str, str], ...] = ()
    """(claim name, driver, pool, device) as List names them under dynamic_resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPod:
    """A pod as the API and the kubelet know it."""

    name: str
    uid: str
    namespace: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Mapping[str, Any], ...] = ()
    """Entries of ownerReferences, as JSON objects."""
    phase: str = "Running"
    start_time: str = "2026-11-30T08:00:00Z"
    """RFC 3339; empty: none yet."""
    priority_class: str = ""
    containers: tuple[SimContainer, ...] = (SimContainer(),)
    in_api: bool = True
    in_kubelet: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SimObject:
    """An owner object that the API serves by GET: path as the client asks for it, metadata as JSON."""

    path: str
    """e.g. ``/apis/apps/v1/namespaces/team-red/replicasets/train-6f``."""
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFault:
    """Requests whose path starts with `path` answer `status` (None: as usual) after `delay_seconds`."""

    path: str
    status: int | None = None
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFault:
    """What the pod-resources server does instead of answering `method` (``List``, ``GetAllocatableResources`` or ``*``)."""

    method: str = "*"
    code: str | None = None
    """Name of a grpc.StatusCode, e.g. ``RESOURCE_EXHAUSTED``."""
    message: str = ""
    delay_seconds: float = 0.0
    garbage: bool = False
    """Answer with bytes that are no message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that the four stand-ins show."""

    node: str = "gpu-n1"
    driver_version: str = "575.57.08"
    devices: tuple[SimDevice, ...] = ()
    nvml_faults: tuple[NvmlFault, ...] = ()
    tasks: tuple[SimTask, ...] = ()
    host_view: bool = True
    """True: /proc also shows the host's PIDs 1 (systemd) and 2 (kthreadd). False: `tasks` alone, as without hostPID."""
    pods: tuple[SimPod, ...] = ()
    allocatable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Resource name to device ids, as GetAllocatableResources lists them."""
    kubelet_faults: tuple[KubeletFault, ...] = ()
    kubelet_lists_terminal: bool = False
    """True: List names Succeeded and Failed pods too, with their devices, as kubelets before 1.34 do."""
    list_response: bytes | None = None
    """Recorded bytes of a ListPodResourcesResponse, served as they are in place of the pods' own."""
    allocatable_response: bytes | None = None
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Namespace name to its metadata as JSON (labels, annotations)."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    node_provider_id: str = "sim:///gpu-n1"
    node_created: str = "2026-11-01T00:00:00Z"
    node_capacity: Mapping[str, str] = field(default_factory=dict)
    node_unschedulable: bool = False
    objects: tuple[SimObject, ...] = ()
    pod_list: Mapping[str, Any] | None = None
    """A recorded PodList, served as it is in place of the pods' own."""
    api_faults: tuple[ApiFault, ...] = ()
