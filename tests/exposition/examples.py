"""Example values: a node of eight GPUs with every situation that the page and the families show."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from exporter.accounting.booking import container_subject
from exporter.accounting.distribution import BOUNDS_RATIO
from exporter.model.activity import Activity, Span
from exporter.model.attribution import (
    Allocation,
    Attribution,
    Conflict,
    ConflictKind,
    ContainerRow,
    DeviceRow,
    HoldingSource,
    Ownership,
    PodRow,
    Sharing,
    State,
    UnattributedReason,
    UnresolvedAllocation,
    UnresolvedPid,
    UnresolvedReason,
)
from exporter.model.device import Device, DeviceTrouble, MigInstance, MigMode, NvmlState
from exporter.model.ids import ContainerKey, DeviceUuid, MigUuid, PodUid
from exporter.model.ledger import (
    Account,
    DeviceSubject,
    Distribution,
    Histogram,
    IdleClock,
    Ledger,
    MigSubject,
    MonotoneCounter,
    OwnerSubject,
    Quantity,
    Subject,
    Tally,
    UseKey,
)
from exporter.model.policy import WorkloadClass
from exporter.model.published import Build, Published, SourceHealth
from exporter.model.reading import Fresh, Missing, MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import NodeMeta

GIB = 1 << 30
MIB = 1 << 20
NOW = 1_796_025_600.0
BUILD = Build(version="0.1.0", commit="abc1234", python="3.11.9", simulated=False)

T = TypeVar("T")


def uuid(index: int) -> DeviceUuid:
    return DeviceUuid(f"GPU-0a0a0a0a-1111-4222-8333-{index:012d}")


def fresh(value: T) -> Observed[T]:
    return Observed(usable=Fresh(value, 100.0), missing=None)


def gone(reason: MissingReason, detail: str = "") -> Observed[Any]:
    return Observed(usable=None, missing=Missing(reason, 100.0, detail))


def an_owner(team: str = "red", **changes: Any) -> Ownership:
    owner = Ownership(
        workload_type="deployment",
        workload="train",
        workload_class=WorkloadClass.TRAINING,
        team=team,
        cost_center="cc-1042",
        team_source="namespace_label",
        cost_center_source="namespace_annotation",
    )
    return replace(owner, **changes)


def a_device(index: int = 0, **changes: Any) -> Device:
    device = Device(
        uuid=uuid(index),
        index=index,
        model="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{index + 1:02x}:00.0",
        minor_number=index,
        architecture="hopper",
        mig_mode=MigMode.DISABLED,
        utilization_ratio=0.4,
        memory_used_bytes=20 * GIB,
        memory_reserved_bytes=600 * MIB,
        memory_total_bytes=80 * GIB,
        power_watts=210.0,
        power_limit_watts=700.0,
        temperature_celsius=54.0,
        row_remap_pending=False,
        sm_active_ratio=0.3,
        tensor_active_ratio=0.1,
    )
    return replace(device, **changes)


def a_device_row(device: Device, sharing: Sharing, allocated: float | None, **changes: Any) -> DeviceRow:
    """A row that says of the device's utilisation what the device says."""
    row = DeviceRow(device, sharing, allocated, utilization_ratio=device.utilization_ratio)
    return replace(row, **changes)


def a_row(index: int = 0, pod: str = "train-0", **changes: Any) -> ContainerRow:
    row = ContainerRow(
        container=ContainerKey(PodUid(f"uid-{pod}"), "team-red", pod, "main"),
        device=uuid(index),
        mig=None,
        owner=an_owner(),
        allocations=(Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, uuid(index)),),
        share_ratio=1.0,
        utilization_ratio=0.4,
        memory_used_bytes=20 * GIB,
        processes=1,
        state=State.ACTIVE,
        state_evidence="A kernel ran in 40 % of the time; the threshold is 1 %.",
    )
    return replace(row, **changes)


def a_pod(pod: str = "train-0", **changes: Any) -> PodRow:
    row = PodRow(
        uid=PodUid(f"uid-{pod}"),
        namespace="team-red",
        pod=pod,
        owner=an_owner(),
        priority_class="high",
        requested=1,
        assigned=1,
        idle=0,
        start_timestamp_seconds=NOW - 3600,
    )
    return replace(row, **changes)


def a_mig(gi: int, profile: str = "1g.10gb", **changes: Any) -> MigInstance:
    instance = MigInstance(
        uuid=MigUuid(f"MIG-bbbbbbbb-0000-4000-8000-{gi:012d}"),
        gpu_instance_id=gi,
        compute_instance_id=0,
        profile=profile,
        compute_slices=1,
        memory_used_bytes=2 * GIB,
        memory_total_bytes=10 * GIB,
        activity=Activity((Span(5.0, 0.25),)),
        sm_active_ratio=0.2,
        tensor_active_ratio=0.1,
    )
    return replace(instance, **changes)


def a_published(
    *,
    devices: tuple[DeviceRow, ...] | None = (a_device_row(a_device(), Sharing.NONE, 1.0),),
    containers: tuple[ContainerRow, ...] = (),
    pods: tuple[PodRow, ...] = (),
    ledger: Ledger | None = None,
    build: Build = BUILD,
    generation: int = 1,
    sources: Mapping[str, SourceHealth] | None = None,
    node: str = "gpu-n1",
    taken_at: float = 100.0,
    node_meta: Observed[NodeMeta] | None = None,
    unidentified: tuple[tuple[int, DeviceTrouble], ...] = (),
    **attribution: Any,
) -> Published:
    """A published value; `devices` of None: NVML is missing."""
    rows = devices or ()
    state = NvmlState("575.57.08", tuple(row.device for row in rows), unidentified)
    snapshot = Snapshot(
        node=node,
        taken_at=taken_at,
        timestamp_seconds=NOW,
        nvml=gone(MissingReason.DRIVER_NOT_LOADED) if devices is None else fresh(state),
        pod_resources=gone(MissingReason.STARTING),
        pods=gone(MissingReason.STARTING),
        node_meta=node_meta or gone(MissingReason.FORBIDDEN),
        procfs=gone(MissingReason.STARTING),
        owners=gone(MissingReason.STARTING),
        namespaces=gone(MissingReason.STARTING),
    )
    return Published(
        generation=generation,
        snapshot=snapshot,
        attribution=Attribution(devices=rows, containers=containers, pods=pods, **attribution),
        ledger=ledger or Ledger(),
        build=build,
        interval_seconds=5.0,
        sources={"nvml": SourceHealth(up=devices is not None)} if sources is None else sources,
    )


def a_ledger() -> Ledger:
    return Ledger(
        energy_joules={uuid(index): MonotoneCounter(5000.0, 5000.0 + index) for index in range(8)},
        ecc_errors={(uuid(0), "corrected"): MonotoneCounter(3, 3), (uuid(0), "uncorrected"): MonotoneCounter(0, 0)},
        clock_event_seconds={(uuid(0), "sw_power"): MonotoneCounter(1.5, 1.5)},
        device_errors={(uuid(7), "lost"): 12},
        source_errors={("owners", "forbidden"): 2},
        source_last_success_timestamp_seconds={"nvml": NOW, "pod_resources": NOW - 3},
        source_durations={"nvml": Histogram((0.01, 0.1, 1.0), (4, 2, 0, 1), 2.25)},
        rejected_readings={("utilization", "out_of_range"): 1},
        cycle_duration=Histogram((0.1, 1.0), (9, 0, 0), 0.45),
    )


def ledger_of(devices: tuple[DeviceRow, ...], containers: tuple[ContainerRow, ...], ledger: Ledger) -> Ledger:
    """The ledger with an hour of counters for everybody who is there."""
    by_uuid = {row.device.uuid: row for row in devices}
    tallies: dict[Account, Tally] = {}
    distributions: dict[Subject, Distribution] = {}
    clocks: dict[UseKey, IdleClock] = {}
    for each in devices:
        tallies |= {account: Tally(0.0, amount) for account, amount in _of_device(each).items()}
    for row in containers:
        device = by_uuid[row.device]
        owner = OwnerSubject(
            device.device.model,
            row.container.namespace,
            row.owner.team,
            row.owner.cost_center,
            row.owner.workload_class,
            row.owner.extra,
        )
        subject = container_subject(device, row)
        share = row.share_ratio or 0.0
        amounts: dict[Account, float] = {
            Account(subject, Quantity.BUSY_SECONDS): 100.0,
            Account(subject, Quantity.ENERGY_JOULES): 1000.0,
        }
        for state in State if row.holds else ():
            amounts[Account(subject, Quantity.HELD_SECONDS, state)] = 800.0 * share
            amounts[Account(owner, Quantity.HELD_SECONDS, state)] = 800.0 * share
            amounts[Account(owner, Quantity.COST, f"USD/{state}")] = 0.5
        for quantity in (Quantity.MEASURED_SECONDS, Quantity.BUSY_SECONDS, Quantity.ENERGY_JOULES):
            amounts[Account(owner, quantity)] = 90.0
        if not row.holds:
            amounts[Account(owner, Quantity.UNHELD_BUSY_SECONDS)] = 12.0
        tallies |= {account: Tally(0.0, amount) for account, amount in amounts.items()}
        if row.holds:
            shown = Histogram(BOUNDS_RATIO, (300, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0), 50.0)
            distributions |= {subject: Distribution(0.0, shown, shown), owner: Distribution(0.0, shown, shown)}
            key = UseKey(row.container, row.device, None if row.mig is None else row.mig.key)
            clocks[key] = IdleClock(NOW - 7800, ever_active=row.state is not State.IDLE_EMPTY, from_start=True, seen_at=0.0)
    return replace(ledger, tallies=tallies, distributions=distributions, idle_clocks=clocks)


def _of_device(row: DeviceRow) -> dict[Account, float]:
    subject = DeviceSubject(row.device.index, row.device.uuid)
    amounts = {
        Account(subject, Quantity.PROVISIONED_SECONDS): 3600.0,
        Account(subject, Quantity.OBSERVED_SECONDS): 3500.0,
        Account(subject, Quantity.BUSY_SECONDS): 1000.0,
        Account(subject, Quantity.UNALLOCATED_SECONDS, "free"): 200.0,
        Account(subject, Quantity.ALLOCATION_UNKNOWN_SECONDS): 100.0,
        Account(subject, Quantity.UNATTRIBUTED_BUSY_SECONDS, "host_process"): 50.0,
        Account(subject, Quantity.UNATTRIBUTED_ENERGY_JOULES, "unallocated"): 500.0,
    }
    for quantity in (Quantity.PROVISIONED_COST, Quantity.UNALLOCATED_COST, Quantity.ALLOCATION_UNKNOWN_COST):
        amounts[Account(subject, quantity, "USD")] = 2.0
    for instance in row.device.mig_instances:
        mig = MigSubject(subject, instance.gpu_instance_id, instance.compute_instance_id, instance.profile)
        amounts[Account(mig, Quantity.BUSY_SECONDS)] = 40.0
    return amounts


def _mig_gpu() -> tuple[DeviceRow, tuple[ContainerRow, ...]]:
    first, second, third = (
        a_mig(1, "3g.40gb", compute_slices=3, memory_total_bytes=40 * GIB),
        a_mig(7),
        a_mig(8, memory_used_bytes=0),
    )
    device = a_device(
        3,
        mig_mode=MigMode.ENABLED,
        mig_slices=7,
        mig_instances=(first, second, third),
        utilization_ratio=None,
        memory_used_bytes=30 * GIB,
        power_watts=288.0,
    )
    row = a_device_row(device, Sharing.MIG, 4 / 7, mig_share_ratios={first.key: 3 / 7, second.key: 1 / 7, third.key: 1 / 7})
    blue = an_owner("blue", workload="llama", workload_type="inferenceservice", workload_class=WorkloadClass.SERVING)
    notebook = an_owner("green", workload="jupyter-ada", workload_type="notebook", workload_class=WorkloadClass.NOTEBOOK)
    return row, (
        a_row(
            3,
            "llama-0",
            mig=first,
            owner=blue,
            share_ratio=3 / 7,
            utilization_ratio=None,
            memory_used_bytes=28 * GIB,
            state=State.UNKNOWN,
            state_evidence="The driver cannot say what a MIG instance does; GPM is not there.",
            allocations=(Allocation("nvidia.com/mig-3g.40gb", HoldingSource.POD_RESOURCES, first.uuid),),
        ),
        a_row(
            3,
            "jupyter-ada-0",
            mig=second,
            owner=notebook,
            share_ratio=1 / 7,
            utilization_ratio=0.0,
            memory_used_bytes=0,
            processes=0,
            state=State.IDLE_EMPTY,
            state_evidence="No process of the container is on the instance.",
            allocations=(Allocation("nvidia.com/mig-1g.10gb", HoldingSource.DRA, second.uuid),),
        ),
    )


def a_busy_node(*, simulated: bool = False) -> Published:
    """Eight GPUs: held and active, held and idle, time-sliced, MIG, free, used without holding, unknown, lost."""
    mig, mig_rows = _mig_gpu()
    blue = an_owner("blue", workload="embed", workload_class=WorkloadClass.BATCH_INFERENCE, workload_type="cronjob")
    unowned = an_owner(
        "unowned", workload="debug", cost_center="unowned", workload_type="barepod", workload_class=WorkloadClass.OTHER
    )
    replica = [Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, f"{uuid(2)}::{number}") for number in range(4)]
    devices = (
        a_device_row(
            a_device(0, utilization_ratio=0.97, memory_used_bytes=71 * GIB, power_watts=662.0),
            Sharing.NONE,
            1.0,
            price_per_hour=3.5,
        ),
        a_device_row(
            a_device(1, utilization_ratio=0.0, memory_used_bytes=38 * GIB, power_watts=118.0, temperature_celsius=37.0),
            Sharing.NONE,
            1.0,
        ),
        a_device_row(a_device(2, utilization_ratio=0.36, memory_used_bytes=24 * GIB), Sharing.TIME_SLICING, 0.75),
        mig,
        a_device_row(
            a_device(4, utilization_ratio=0.0, memory_used_bytes=8 * MIB, power_watts=71.0, temperature_celsius=31.0),
            Sharing.NONE,
            0.0,
        ),
        a_device_row(
            a_device(5, utilization_ratio=0.12, memory_used_bytes=9 * GIB),
            Sharing.NONE,
            0.0,
            unattributed_memory_bytes={UnattributedReason.HOST_PROCESS: 3 * GIB},
        ),
        a_device_row(
            a_device(6, utilization_ratio=0.005, memory_used_bytes=4 * GIB, power_limit_watts=None), Sharing.UNKNOWN, None
        ),
        a_device_row(Device(uuid(7), 7, "NVIDIA H100 80GB HBM3", trouble=DeviceTrouble.LOST), Sharing.NONE, 1.0),
    )
    containers = (
        a_row(0, "train-0", utilization_ratio=0.97, memory_used_bytes=71 * GIB, processes=8),
        a_row(
            1,
            "train-1",
            utilization_ratio=0.0,
            memory_used_bytes=38 * GIB,
            state=State.IDLE_HELD,
            state_evidence="No kernel ran, and a process holds 38 GiB.",
        ),
        a_row(
            2,
            "embed-28391-x2x8k",
            owner=blue,
            share_ratio=0.5,
            allocations=tuple(replica[:2]),
            utilization_ratio=0.3,
            memory_used_bytes=16 * GIB,
        ),
        a_row(
            2,
            "embed-28392-9sl2f",
            owner=blue,
            share_ratio=0.25,
            allocations=tuple(replica[2:3]),
            utilization_ratio=0.06,
            memory_used_bytes=8 * GIB,
        ),
        *mig_rows,
        a_row(
            5,
            "debug",
            owner=unowned,
            allocations=(),
            uses_unheld=True,
            share_ratio=0.0,
            utilization_ratio=0.12,
            memory_used_bytes=6 * GIB,
            state=State.UNKNOWN,
            state_evidence="Its process runs on a GPU that nobody gave to it: privileged, or NVIDIA_VISIBLE_DEVICES=all.",
        ),
        a_row(
            7,
            "train-7",
            utilization_ratio=None,
            memory_used_bytes=None,
            processes=None,
            state=State.UNKNOWN,
            state_evidence="The GPU does not answer.",
        ),
    )
    pods = (
        a_pod("train-0"),
        a_pod("train-1", idle=1),
        a_pod("embed-28391-x2x8k", owner=blue, requested=2, assigned=2),
        a_pod("jupyter-ada-0", owner=mig_rows[1].owner, idle=1),
        a_pod("llama-0", owner=mig_rows[0].owner, idle=None),
        a_pod("waiting", owner=unowned, requested=8, assigned=0, idle=None, start_timestamp_seconds=None),
    )
    meta = NodeMeta(
        "gpu-n1",
        {
            "node.kubernetes.io/instance-type": "p5.48xlarge",
            "topology.kubernetes.io/region": "eu-west-1",
            "topology.kubernetes.io/zone": "eu-west-1b",
            "eks.amazonaws.com/nodegroup": "h100",
            "eks.amazonaws.com/capacityType": "SPOT",
        },
        provider_id="aws:///eu-west-1b/i-0abc",
        created_timestamp_seconds=NOW - 86400,
    )
    return a_published(
        devices=devices,
        containers=containers,
        pods=pods,
        ledger=ledger_of(devices, containers, a_ledger()),
        currency="USD",
        build=replace(BUILD, simulated=simulated),
        node_meta=fresh(meta),
        sources={
            "nvml": SourceHealth(up=True),
            "pod_resources": SourceHealth(up=True),
            "procfs": SourceHealth(up=True),
            "pods": SourceHealth(
                up=False, reason="timeout", detail="GET https://10.0.0.1/api/v1/pods", kept_since_seconds=12.0
            ),
            "owners": SourceHealth(up=False, reason="forbidden", detail="403 replicasets.apps"),
        },
        allocatable={"nvidia.com/gpu": 10, "nvidia.com/mig-1g.10gb": 2},
        allocated={"nvidia.com/gpu": 6, "nvidia.com/mig-1g.10gb": 1},
        conflicts=(
            Conflict(ConflictKind.TWO_HOLDERS, uuid(0), "team-blue/a and team-red/b both hold it; it is split evenly."),
        ),
        unresolved_allocations=(
            UnresolvedAllocation("team-red", "vm-0", "main", "nvidia.com/gpu", "GPU-gone", UnresolvedReason.UNKNOWN_DEVICE),
        ),
        unresolved_pids=(
            UnresolvedPid(4711, uuid(5), UnattributedReason.NOT_IN_POD),
            UnresolvedPid(4711, uuid(6), UnattributedReason.NOT_IN_POD),
        ),
    )
