"""Values for tests: keyword-only, with defaults that make a healthy node, so that a test says only what it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from exporter.model.activity import Activity, Span
from exporter.model.device import Device, GpuProcess, MigInstance, MigMode, NvmlState, ProcessKind, ProcessUse
from exporter.model.holding import Holding, Holdings
from exporter.model.ids import ContainerId, DeviceUuid, MigUuid, PodUid, ProcessKey
from exporter.model.policy import ClassRule, OwnerField, OwnershipPolicy, WorkloadClass
from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.reading import Fresh, Missing, MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import (
    Container,
    ContainerKind,
    LookupFailure,
    NamespaceTable,
    NodeMeta,
    ObjectMeta,
    OwnerReference,
    OwnerTable,
    Pod,
    PodPhase,
    PodStore,
)

T = TypeVar("T")

GIB = 1 << 30
MIB = 1 << 20
NOW = 1000.0
"""Monotonic seconds at which everything in a snapshot was read."""
TIMESTAMP = 1_796_000_000.0
"""Unix time of the same instant: 2026-11-30."""
NODE = "gpu-n1"
CYCLE_SECONDS = 5.0


def gpu_uuid(number: int) -> DeviceUuid:
    """UUID of the GPU with this number."""
    return DeviceUuid(f"GPU-0a0a0a0a-1111-4222-8333-{number:012x}")


def mig_uuid(number: int) -> MigUuid:
    """UUID of the MIG device with this number."""
    return MigUuid(f"MIG-5f4a2b1c-0000-5aaa-9bbb-{number:012x}")


def pod_uid(number: int) -> PodUid:
    """UID of the pod with this number."""
    return PodUid(f"11111111-2222-4333-8444-5555555555{number:02x}")


def container_id(number: int) -> ContainerId:
    """Id of the container with this number."""
    return ContainerId(f"{0xC0FFEE:x}".ljust(60, "0") + f"{number:04x}")


G0 = gpu_uuid(0)
G1 = gpu_uuid(1)
U1 = pod_uid(1)
C1 = container_id(1)


def an_activity(*pieces: tuple[float, float | None]) -> Activity:
    """(seconds, ratio) pieces of a cycle."""
    return Activity(tuple(Span(seconds, ratio) for seconds, ratio in pieces))


def a_device(*, number: int = 0, **changes: Any) -> Device:
    """A GPU without MIG, idle and empty; its activity is a whole cycle at its utilisation, unless said otherwise."""
    ratio = changes.get("utilization_ratio", 0.0)
    changes.setdefault("activity", None if ratio is None else an_activity((CYCLE_SECONDS, ratio)))
    device = Device(
        uuid=gpu_uuid(number),
        index=number,
        model="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{0x10 + number:02x}:00.0",
        minor_number=number,
        architecture="hopper",
        mig_mode=MigMode.DISABLED,
        utilization_ratio=0.0,
        memory_used_bytes=0,
        memory_reserved_bytes=0,
        memory_total_bytes=80 * GIB,
        power_watts=70.0,
        power_limit_watts=700.0,
        temperature_celsius=35.0,
        energy_joules=5000.0,
        processes=(),
        process_use=(),
    )
    return replace(device, **changes)


def a_mig_device(*, number: int = 0, migs: Iterable[MigInstance] = (), **changes: Any) -> Device:
    """A GPU in MIG mode: the driver tells no utilisation, neither its own nor its processes'."""
    settings: dict[str, Any] = {"mig_mode": MigMode.ENABLED, "mig_slices": 7, "utilization_ratio": None, "process_use": None}
    return a_device(number=number, mig_instances=tuple(migs), **(settings | changes))


def a_mig(*, number: int = 1, gi: int | None = None, ci: int = 0, slices: int | None = 1, **changes: Any) -> MigInstance:
    """A MIG instance; its GPU instance has its number."""
    mig = MigInstance(
        uuid=mig_uuid(number),
        gpu_instance_id=number if gi is None else gi,
        compute_instance_id=ci,
        profile="" if slices is None else f"{slices}g.{slices * 10}gb",
        compute_slices=slices,
        memory_used_bytes=0,
        memory_total_bytes=10 * GIB,
    )
    return replace(mig, **changes)


def a_gpu_process(
    *, pid: int = 4001, memory: int | None = 20 * GIB, gi: int | None = None, ci: int | None = None, kinds: str = "compute"
) -> GpuProcess:
    """A process on a device; kinds separated by blanks."""
    return GpuProcess(pid, frozenset(ProcessKind(kind) for kind in kinds.split()), memory, gi, ci)


def a_use(*, pid: int = 4001, sm: float = 0.4) -> ProcessUse:
    """What one process did."""
    return ProcessUse(pid, sm)


def pod_cgroup(*, uid: str = U1, container: str | None = C1) -> str:
    """Cgroup v2 line of a container under containerd and systemd."""
    scope = "" if container is None else f"/cri-containerd-{container}.scope"
    pod = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    return f"0::/kubepods.slice/kubepods-burstable.slice/{pod}{scope}"


def a_task(
    *, pid: int = 4001, cgroup: str | tuple[str, ...] | None = None, parent: int = 1, name: str = "python3"
) -> ProcessRecord:
    """A process as /proc shows it; by default in the container C1 of the pod U1."""
    lines = pod_cgroup() if cgroup is None else cgroup
    return ProcessRecord(ProcessKey(pid, 1000 + pid), parent, name, (lines,) if isinstance(lines, str) else lines)


def a_process_table(
    *tasks: ProcessRecord, troubles: Mapping[int, ProcessTrouble] | None = None, **changes: Any
) -> ProcessTable:
    """What /proc says of these processes."""
    return replace(ProcessTable({task.key.pid: task for task in tasks}, troubles or {}), **changes)


def a_container(
    *, name: str = "main", kind: ContainerKind = ContainerKind.MAIN, gpus: int = 1, limits: Mapping[str, int] | None = None
) -> Container:
    """A container that asks for GPUs, and for whatever else `limits` names."""
    return Container(name, kind, ({"nvidia.com/gpu": gpus} if gpus else {}) | dict(limits or {}))


def an_owner(*, kind: str = "ReplicaSet", name: str = "train-6f", uid: str = "rs-1", **changes: Any) -> OwnerReference:
    """A controller reference."""
    return replace(OwnerReference("apps/v1", kind, name, uid, controller=True), **changes)


def an_object(*, kind: str = "Deployment", name: str = "train", uid: str = "d-1", **changes: Any) -> ObjectMeta:
    """An owner object, or a namespace."""
    return replace(ObjectMeta("apps/v1", kind, "team-red", name, uid), **changes)


def a_pod(*, number: int = 1, **changes: Any) -> Pod:
    """A running pod in team-red with one container `main` that has one GPU; without owners or labels."""
    pod = Pod(
        uid=pod_uid(number),
        namespace="team-red",
        name=f"pod-{number}",
        phase=PodPhase.RUNNING,
        containers=(a_container(),),
        container_names={container_id(number): "main"},
        start_timestamp_seconds=TIMESTAMP - 3600,
    )
    return replace(pod, **changes)


def train_0(**changes: Any) -> Pod:
    """Pod P1 of the baseline: a Deployment's."""
    defaults: dict[str, Any] = {"name": "train-0", "labels": {"pod-template-hash": "6f"}, "owners": (an_owner(),)}
    return a_pod(**(defaults | changes))


def a_holding(
    *,
    device_id: str = G0,
    pod: str = "train-0",
    namespace: str = "team-red",
    container: str = "main",
    resource: str = "nvidia.com/gpu",
) -> Holding:
    """One device id that one container was given."""
    return Holding(namespace, pod, container, resource, device_id)


def holds(pod: Pod, device_id: str, **changes: Any) -> Holding:
    """A device id that this pod's first container was given."""
    return a_holding(device_id=device_id, pod=pod.name, namespace=pod.namespace, **changes)


def some_holdings(*holdings: Holding, allocatable: Mapping[str, Iterable[str]] | None = None) -> Holdings:
    """The kubelet's answer."""
    given = None if allocatable is None else {resource: frozenset(ids) for resource, ids in allocatable.items()}
    return Holdings(holdings, pods=frozenset((one.namespace, one.pod) for one in holdings), allocatable=given)


def a_pod_store(*pods: Pod, deleted: Iterable[Pod] = (), malformed: int = 0) -> PodStore:
    """The API's answer."""
    return PodStore({pod.uid: pod for pod in pods}, {pod.uid: pod for pod in deleted}, malformed)


def fresh(value: T) -> Observed[T]:
    """A source that has just answered."""
    return Observed(usable=Fresh(value, NOW), missing=None)


def kept(value: T, *, reason: MissingReason = MissingReason.TIMEOUT) -> Observed[T]:
    """A source whose last good answer is still in use."""
    return Observed(usable=Fresh(value, NOW - 30), missing=Missing(reason, NOW))


def missing(reason: MissingReason = MissingReason.TIMEOUT) -> Observed[Any]:
    """A source without any usable answer."""
    return Observed(usable=None, missing=Missing(reason, NOW))


def forbidden() -> LookupFailure:
    """A look-up that a missing role refuses."""
    return LookupFailure(MissingReason.FORBIDDEN, definitive=True)


def a_namespace(*, name: str = "team-red", **changes: Any) -> ObjectMeta:
    """A namespace that names its team."""
    namespace = ObjectMeta("v1", "Namespace", "", name, f"ns-{name}", {"team": "red"}, {"finops.org/cost-center": "CC-1"})
    return replace(namespace, **changes)


def a_policy(**changes: Any) -> OwnershipPolicy:
    """The contract's defaults, cut down."""
    policy = OwnershipPolicy(
        team=OwnerField("team", ("team", "finops.org/team", "squad")),
        cost_center=OwnerField("cost_center", ("cost-center", "finops.org/cost-center")),
        classes=(
            ClassRule(WorkloadClass.NOTEBOOK, frozenset({"notebook"})),
            ClassRule(WorkloadClass.NOTEBOOK, label_exists=frozenset({"notebook-name"})),
            ClassRule(WorkloadClass.TRAINING, frozenset({"job", "cronjob", "pytorchjob", "rayjob"})),
        ),
    )
    return replace(policy, **changes)


def a_snapshot(
    *,
    devices: Iterable[Device] | Observed[NvmlState] = (),
    holdings: Iterable[Holding] | Holdings | Observed[Holdings] = (),
    pods: Iterable[Pod] | PodStore | Observed[PodStore] = (),
    tasks: Iterable[ProcessRecord] | ProcessTable | Observed[ProcessTable] = (),
    **changes: Any,
) -> Snapshot:
    """A node on which every source answers, except those that are given as `missing` or `kept`."""
    replica_set = an_object(
        kind="ReplicaSet", name="train-6f", uid="rs-1", owners=(an_owner(kind="Deployment", name="train", uid="d-1"),)
    )
    blue = a_namespace(name="team-blue", labels={"team": "blue"})
    snapshot = Snapshot(
        node=NODE,
        taken_at=NOW,
        timestamp_seconds=TIMESTAMP,
        nvml=devices if isinstance(devices, Observed) else fresh(NvmlState("575.57.08", tuple(devices))),
        pod_resources=_observed_holdings(holdings),
        pods=_observed_pods(pods),
        node_meta=fresh(NodeMeta(NODE)),
        procfs=_observed_tasks(tasks),
        owners=fresh(OwnerTable({"rs-1": replica_set, "d-1": an_object()})),
        namespaces=fresh(NamespaceTable({"team-red": a_namespace(), "team-blue": blue})),
    )
    return replace(snapshot, **changes)


def later(snapshot: Snapshot, seconds: float = CYCLE_SECONDS, **changes: Any) -> Snapshot:
    """The same node this much later, but for what has changed meanwhile."""
    then = {"taken_at": snapshot.taken_at + seconds, "timestamp_seconds": snapshot.timestamp_seconds + seconds}
    return replace(snapshot, **(then | changes))


def _observed_holdings(holdings: Iterable[Holding] | Holdings | Observed[Holdings]) -> Observed[Holdings]:
    if isinstance(holdings, Observed):
        return holdings
    return fresh(holdings if isinstance(holdings, Holdings) else some_holdings(*holdings))


def _observed_pods(pods: Iterable[Pod] | PodStore | Observed[PodStore]) -> Observed[PodStore]:
    if isinstance(pods, Observed):
        return pods
    return fresh(pods if isinstance(pods, PodStore) else a_pod_store(*pods))


def _observed_tasks(tasks: Iterable[ProcessRecord] | ProcessTable | Observed[ProcessTable]) -> Observed[ProcessTable]:
    if isinstance(tasks, Observed):
        return tasks
    return fresh(tasks if isinstance(tasks, ProcessTable) else a_process_table(*tasks))


def b0_devices() -> tuple[Device, Device]:
    """G0 with the baseline's process, and G1 with nothing but the driver's own."""
    g0 = a_device(
        utilization_ratio=0.4,
        memory_used_bytes=20 * GIB,
        power_watts=210.0,
        processes=(a_gpu_process(),),
        process_use=(a_use(),),
    )
    return g0, a_device(number=1, memory_used_bytes=8 * MIB)


def b0(**changes: Any) -> Snapshot:
    """The case book's baseline: P1 holds and uses G0, G1 is idle."""
    parts: dict[str, Any] = {
        "devices": b0_devices(),
        "holdings": (a_holding(),),
        "pods": (train_0(),),
        "tasks": (a_task(),),
    }
    return a_snapshot(**(parts | changes))
