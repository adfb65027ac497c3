"""What a GPU in MIG mode did: its instances by their size, and whose each of them was."""

from collections.abc import Iterable
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.activity import Activity
from exporter.model.attribution import Attribution, ContainerRow, DeviceRow, UnattributedReason
from exporter.model.device import DeviceTrouble, GpuProcess, MigInstance
from exporter.model.holding import Holding
from tests.builders import (
    G0,
    a_gpu_process,
    a_mig,
    a_mig_device,
    a_pod,
    a_policy,
    a_snapshot,
    a_task,
    an_activity,
    container_id,
    holds,
    mig_uuid,
    missing,
    pod_cgroup,
)

R = UnattributedReason
PODS = [a_pod(number=number, name=f"m-{number}") for number in (1, 2)]
TASKS = [
    a_task(pid=4000 + number, cgroup=pod_cgroup(uid=pod.uid, container=container_id(number)))
    for number, pod in enumerate(PODS, start=1)
] + [a_task(pid=9, cgroup="0::/system.slice/ollama.service")]


def _mig(number: int, ratio: float | None, **changes: Any) -> MigInstance:
    """One slice of seven, at this figure for the whole cycle."""
    return a_mig(number=number, **({"activity": an_activity((5.0, ratio))} | changes))


def _node(
    migs: Iterable[MigInstance], *holdings: Holding, processes: Iterable[GpuProcess] | None = (), **changes: Any
) -> Attribution:
    listed = None if processes is None else tuple(processes)
    device = a_mig_device(migs=migs, processes=listed)
    parts: dict[str, Any] = {"devices": (device,), "pods": PODS, "holdings": holdings, "tasks": TASKS}
    return attribute(a_snapshot(**(parts | changes)), a_policy())


def _first(pod: int, number: int) -> Holding:
    return holds(PODS[pod - 1], mig_uuid(number))


def _device(attribution: Attribution) -> DeviceRow:
    [row] = attribution.devices
    return row


def _row(attribution: Attribution, pod: str = "m-1") -> ContainerRow:
    [row] = [row for row in attribution.containers if row.container.pod == pod]
    return row


def _rest(attribution: Attribution) -> dict[str, float]:
    return {reason: round(part, 9) for reason, part in _device(attribution).unattributed_ratios.items()}


def test_gpu_did_what_its_instances_did_by_their_size() -> None:
    """A third of seven slices at 0.6 and a seventh at 0.1 make the GPU's own figure, in one span."""
    row = _device(_node([_mig(1, 0.6, compute_slices=3), _mig(2, 0.1)]))
    assert row.utilization_ratio == pytest.approx((3 * 0.6 + 0.1) / 7)
    assert row.activity is not None
    assert [(span.seconds, span.ratio) for span in row.activity.spans] == [(5.0, row.utilization_ratio)]
    assert row.device.utilization_ratio is None


def test_two_compute_instances_of_a_gpu_instance_count_together_once() -> None:
    """Each carries the figure of the whole GPU instance; both sizes make its weight."""
    activity = an_activity((5.0, 0.5))
    migs = [a_mig(number=at, gi=1, ci=at, slices=2, activity=activity) for at in (0, 1)]
    assert _device(_node(migs)).utilization_ratio == pytest.approx(4 / 7 * 0.5)


@pytest.mark.parametrize(
    "migs",
    [
        [],
        [_mig(1, 0.5), _mig(2, 0.0, activity=None)],
        [_mig(1, 0.5), _mig(2, 0.5, compute_slices=None, profile="")],
        [_mig(1, 0.5, compute_slices=4), _mig(2, 0.5, compute_slices=4)],
    ],
    ids=["no instance", "one not measured", "one of unknown size", "more than the GPU"],
)
def test_gpu_is_not_measured_as_soon_as_one_instance_is_not(migs: list[MigInstance]) -> None:
    """A sum over some of the parts would be too small, and be taken for idle."""
    row = _device(_node(migs))
    assert (row.activity, row.utilization_ratio, row.unattributed_ratios) == (None, None, {})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (an_activity((4.0, 0.5), (1.0, None)), an_activity((4.0, 1 / 7), (1.0, None))),
        (an_activity((5.0, None)), an_activity((5.0, None))),
        (an_activity((4.9, None)), an_activity((5.0, None))),
    ],
    ids=["in part", "whole", "whole, of a shorter window"],
)
def test_time_that_one_instance_lost_is_lost_for_the_gpu(other: Activity, expected: Activity) -> None:
    """What one of the parts did then is not known."""
    row = _device(_node([_mig(1, 0.5), _mig(2, None, activity=other)]))
    assert row.activity is not None
    assert [(span.seconds, span.ratio) for span in row.activity.spans] == [
        (span.seconds, None if span.ratio is None else pytest.approx(span.ratio)) for span in expected.spans
    ]


def test_gpu_that_does_not_answer_is_not_measured() -> None:
    """A last figure of an instance is nobody's."""
    device = a_mig_device(migs=[_mig(1, 0.5)], trouble=DeviceTrouble.LOST)
    assert _device(attribute(a_snapshot(devices=(device,)), a_policy())).activity is None


def test_sole_holder_has_its_instances_course() -> None:
    """Its figure is of the instance, and by the place's size it is a part of the GPU's own."""
    activity = an_activity((1.0, 0.0), (4.0, 0.5))
    attribution = _node(
        [_mig(1, 0.0, activity=activity), _mig(2, 0.0)], _first(1, 1), processes=[a_gpu_process(pid=4001, gi=1, ci=0)]
    )
    row = _row(attribution)
    assert row.activity == activity
    assert row.utilization_ratio == pytest.approx(0.4)
    assert row.place_ratio == pytest.approx(1 / 7)
    assert _device(attribution).utilization_ratio == pytest.approx(0.4 / 7)
    assert _rest(attribution) == {}


def test_holder_of_an_unmeasured_neighbour_changes_nothing_for_the_measured() -> None:
    """The GPU's own figure is unknown, the instance's is not."""
    attribution = _node([_mig(1, 0.5), _mig(2, 0.0, activity=None)], _first(1, 1), _first(2, 2))
    assert (_row(attribution).utilization_ratio, _row(attribution, "m-2").utilization_ratio) == (0.5, None)


def test_sharers_of_a_busy_instance_are_unknown() -> None:
    """Nothing tells its processes apart."""
    attribution = _node([_mig(1, 0.7)], holds(PODS[0], f"{mig_uuid(1)}::0"), holds(PODS[1], f"{mig_uuid(1)}::1"))
    assert [(row.utilization_ratio, row.activity) for row in attribution.containers] == [(None, None)] * 2
    assert _rest(attribution) == {R.NOT_MEASURED: 0.1}


def test_sharers_of_an_instance_at_rest_are_at_rest() -> None:
    """0 is 0 for all."""
    attribution = _node([_mig(1, 0.0)], holds(PODS[0], f"{mig_uuid(1)}::0"), holds(PODS[1], f"{mig_uuid(1)}::1"))
    assert [(row.utilization_ratio, row.activity) for row in attribution.containers] == [(0.0, an_activity((5.0, 0.0)))] * 2


@pytest.mark.parametrize(("ratio", "known"), [(0.7, None), (0.0, 0.0)])
def test_several_compute_instances_are_known_only_at_rest(ratio: float, known: float | None) -> None:
    """The figure is that of the whole GPU instance, of which a compute instance is a part."""
    migs = [a_mig(number=at, gi=1, ci=at, activity=an_activity((5.0, ratio))) for at in (0, 1)]
    assert _row(_node(migs, _first(1, 0))).utilization_ratio == known


@pytest.mark.parametrize(
    "process", [a_gpu_process(pid=9, gi=1, ci=0), a_gpu_process(pid=4002, gi=1, ci=0), a_gpu_process(pid=4002)]
)
def test_somebody_else_on_the_instance_ends_the_sole_holders_claim(process: GpuProcess) -> None:
    """Be it the host, another pod, or a process that names no instance and may be on this one."""
    attribution = _node([_mig(1, 0.7)], _first(1, 1), processes=[a_gpu_process(pid=4001, gi=1, ci=0), process])
    assert _row(attribution).utilization_ratio is None
    assert _rest(attribution) == {R.NOT_MEASURED: 0.1}


@pytest.mark.parametrize("changes", [{"processes": None}, {"tasks": missing()}], ids=["list unread", "no /proc"])
def test_nobody_is_sole_while_processes_cannot_be_seen(changes: dict[str, Any]) -> None:
    """An empty list proves nothing then; rest is rest all the same."""
    assert _row(_node([_mig(1, 0.7)], _first(1, 1), **changes)).utilization_ratio is None
    assert _rest(_node([_mig(1, 0.7)], _first(1, 1), **changes)) == {R.NOT_MEASURED: 0.1}
    assert _row(_node([_mig(1, 0.0)], _first(1, 1), **changes)).utilization_ratio == 0.0


def test_holder_of_the_whole_gpu_has_no_instances_figure() -> None:
    """In MIG mode it is on one of them, and nobody can say on which."""
    attribution = _node([_mig(1, 0.7), _mig(2, 0.35)], holds(PODS[0], G0))
    assert (_row(attribution).place_ratio, _row(attribution).utilization_ratio) == (1.0, None)
    assert _rest(attribution) == {R.NOT_MEASURED: 0.15}


@pytest.mark.parametrize(("second", "known"), [(0.0, 0.0), (0.7, None), (None, None)])
def test_whoever_is_on_no_clear_instance_is_at_rest_only_if_all_are(second: float | None, known: float | None) -> None:
    """A device at 0 means that everybody on it is at 0."""
    attribution = _node([_mig(1, 0.0), _mig(2, second)], processes=[a_gpu_process(pid=4001)])
    assert (_row(attribution).mig, _row(attribution).utilization_ratio) == (None, known)


@pytest.mark.parametrize(
    ("processes", "reason"),
    [((), R.NO_PROCESS), ([a_gpu_process(pid=9, gi=1, ci=0)], R.HOST_PROCESS), (None, R.NOT_MEASURED)],
)
def test_busy_instance_that_nobody_holds_has_its_reason(
    processes: Iterable[GpuProcess] | None, reason: UnattributedReason
) -> None:
    """It counts by its size."""
    assert _rest(_node([_mig(1, 0.7)], processes=processes)) == {reason: 0.1}
