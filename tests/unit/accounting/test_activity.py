"""One verdict for each holder: active, idle_held, idle_empty or unknown."""

from dataclasses import replace

import pytest

from exporter.accounting.activity import judge
from exporter.model.attribution import (
    Allocation,
    Attribution,
    ContainerRow,
    HoldingSource,
    Ownership,
    PodRow,
    State,
)
from exporter.model.ids import ContainerKey, DeviceUuid, PodUid
from exporter.model.policy import WorkloadClass

OWNER = Ownership("barepod", "p", WorkloadClass.OTHER, "red", "1")
GPU = DeviceUuid("GPU-0")
ALLOCATION = Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, "GPU-0")
HOLDER = ContainerRow(
    container=ContainerKey(PodUid("u"), "ns", "p", "main"),
    device=GPU,
    mig=None,
    owner=OWNER,
    allocations=(ALLOCATION,),
    share_ratio=1.0,
    utilization_ratio=0.0,
    memory_used_bytes=0,
    processes=0,
)
POD = PodRow(uid=PodUid("u"), namespace="ns", pod="p", owner=OWNER, requested=1, assigned=1)


def _judged(*rows: ContainerRow, pod: PodRow = POD) -> Attribution:
    return judge(Attribution(containers=rows, pods=(pod,)), active_above_ratio=0.01)


@pytest.mark.parametrize(
    ("utilization", "processes", "memory", "expected"),
    [
        (0.5, 1, 1 << 30, State.ACTIVE),
        (0.011, 0, 0, State.ACTIVE),
        (0.01, 1, 1 << 30, State.IDLE_HELD),
        (0.0, 1, None, State.IDLE_HELD),
        (0.0, 0, 1 << 30, State.IDLE_HELD),
        (0.0, 0, 0, State.IDLE_EMPTY),
        (0.0, 0, None, State.IDLE_EMPTY),
        (None, 1, 1 << 30, State.UNKNOWN),
        (None, 0, 0, State.UNKNOWN),
        (0.0, None, None, State.UNKNOWN),
        (0.9, None, None, State.ACTIVE),
    ],
)
def test_row_with_these_readings_gets_this_state(
    utilization: float | None, processes: int | None, memory: int | None, expected: State
) -> None:
    """Missing is never idle; active needs no process list; at the threshold is not above it."""
    row = replace(HOLDER, utilization_ratio=utilization, processes=processes, memory_used_bytes=memory)
    judged = _judged(row).containers[0]
    assert judged.state is expected
    assert judged.state_evidence


def test_user_without_a_holding_is_never_idle() -> None:
    """Only what is held can be idle."""
    judged = _judged(
        replace(HOLDER, allocations=(), uses_unheld=True), replace(HOLDER, allocations=(), device=DeviceUuid("GPU-1"))
    ).containers
    assert [row.state for row in judged] == [State.UNKNOWN, State.UNKNOWN]
    assert "does not hold" in judged[0].state_evidence
    assert "does not hold" not in judged[1].state_evidence


def test_pod_with_one_idle_of_two_devices_counts_one() -> None:
    """Two of eight idle is visible: idle devices are counted, not pods."""
    other = Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, "GPU-1")
    busy = replace(HOLDER, device=DeviceUuid("GPU-1"), utilization_ratio=0.8, allocations=(other,))
    assert _judged(HOLDER, busy, pod=replace(POD, assigned=2)).pods[0].idle == 1


def test_device_that_two_containers_of_a_pod_hold_is_busy_if_one_is() -> None:
    """A device is idle for its pod only if every container that holds it is idle."""
    sibling = replace(HOLDER, container=replace(HOLDER.container, container="side"), utilization_ratio=0.8)
    assert _judged(HOLDER, sibling).pods[0].idle == 0


def test_pod_with_an_unknown_device_has_no_idle_count() -> None:
    """A count that leaves out what could not be measured would be a lie."""
    unknown = replace(HOLDER, device=DeviceUuid("GPU-1"), utilization_ratio=None)
    assert _judged(HOLDER, unknown).pods[0].idle is None


def test_pod_that_holds_nothing_has_zero_idle_devices() -> None:
    """Nothing held, nothing idle; where holdings are unknown there is no count at all."""
    assert _judged(pod=replace(POD, assigned=0)).pods[0].idle == 0
    assert _judged(pod=replace(POD, assigned=None)).pods[0].idle is None


def test_pod_whose_units_are_not_all_resolved_has_no_idle_count() -> None:
    """Two assigned and one of them laid on a device: of the other one nothing is known."""
    assert _judged(HOLDER, pod=replace(POD, assigned=2)).pods[0].idle is None
    assert _judged(pod=replace(POD, assigned=1)).pods[0].idle is None
