"""Rows as attribution hands them over, by hand: the accounting room takes nothing else."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from exporter.model.activity import Activity, Span
from exporter.model.attribution import (
    Allocation,
    Attribution,
    ContainerRow,
    DeviceRow,
    HoldingSource,
    Ownership,
    Sharing,
    UnallocatedReason,
)
from exporter.model.device import Device, NvmlState
from exporter.model.ids import ContainerKey, DeviceUuid, PodUid
from exporter.model.policy import WorkloadClass
from exporter.model.reading import Fresh, Missing, MissingReason, Observed
from exporter.model.snapshot import Snapshot

GPU = DeviceUuid("GPU-0")
RED = Ownership("job", "train", WorkloadClass.TRAINING, "red", "4711")
BLUE = replace(RED, workload="serve", workload_class=WorkloadClass.SERVING, team="blue", cost_center="4712")
ALLOCATION = Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, "GPU-0")
CYCLE_SECONDS = 5.0
START_TIMESTAMP = 1_796_000_000.0
OFF: Observed[Any] = Observed(None, Missing(MissingReason.DISABLED, 0.0))
AWAY: Observed[Any] = Observed(None, Missing(MissingReason.TIMEOUT, 0.0))


def spans(*pieces: tuple[float, float | None]) -> Activity:
    """(seconds, ratio) pieces."""
    return Activity(tuple(Span(seconds, ratio) for seconds, ratio in pieces))


def steady(ratio: float | None) -> Activity:
    """A whole cycle at one figure."""
    return spans((CYCLE_SECONDS, ratio))


def a_device_row(*, activity: Activity | None, free: float = 0.0, unknown: float = 0.0, **changes: Any) -> DeviceRow:
    """A GPU of which this part is free and this part unknown."""
    device = Device(uuid=GPU, index=0, model="H100", power_limit_watts=700.0)
    row = DeviceRow(
        device=device,
        sharing=Sharing.NONE,
        allocated_ratio=None if unknown else 1.0 - free,
        activity=activity,
        utilization_ratio=None if activity is None else activity.utilization_ratio,
        unallocated_ratios={UnallocatedReason.FREE: free} if free else {},
        allocation_unknown_ratio=unknown,
    )
    return replace(row, **changes)


def a_holder(
    *, pod: str = "train-0", share: float | None = 1.0, activity: Activity | None, owner: Ownership = RED, **changes: Any
) -> ContainerRow:
    """A container that holds this share of the GPU, with one process on it."""
    row = ContainerRow(
        container=ContainerKey(PodUid(f"uid-{pod}"), "team-red", pod, "main"),
        device=GPU,
        mig=None,
        owner=owner,
        allocations=(ALLOCATION,),
        share_ratio=share,
        utilization_ratio=None if activity is None else activity.utilization_ratio,
        activity=activity,
        memory_used_bytes=1 << 30,
        processes=1,
    )
    return replace(row, **changes)


def a_user(*, pod: str = "guest-0", activity: Activity | None, **changes: Any) -> ContainerRow:
    """A container that uses the GPU without holding it."""
    return a_holder(pod=pod, share=0.0, activity=activity, allocations=(), uses_unheld=True, **changes)


def an_attribution(*containers: ContainerRow, device: DeviceRow, currency: str = "") -> Attribution:
    """One device and whoever is on it."""
    return Attribution(devices=(device,), containers=containers, currency=currency)


def a_cycle_snapshot(number: int, devices: Iterable[Device] | None, cycle_seconds: float = CYCLE_SECONDS) -> Snapshot:
    """The snapshot of this cycle; None: NVML as a whole is missing."""
    at = 100.0 + number * cycle_seconds
    nvml: Observed[NvmlState] = AWAY if devices is None else Observed(Fresh(NvmlState("575", tuple(devices)), at), None)
    return Snapshot(
        node="n",
        taken_at=at,
        timestamp_seconds=START_TIMESTAMP + number * cycle_seconds,
        nvml=nvml,
        pod_resources=OFF,
        pods=OFF,
        node_meta=OFF,
        procfs=OFF,
        owners=OFF,
        namespaces=OFF,
    )
