"""What a GPU without MIG did, over time: whose it was, and the reason for what was nobody's."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.activity import Activity
from exporter.model.attribution import Attribution, UnattributedReason
from exporter.model.device import Device, DeviceTrouble, GpuProcess, ProcessUse
from exporter.model.process import ProcessRecord, ProcessTrouble
from tests.builders import (
    G0,
    GIB,
    a_device,
    a_gpu_process,
    a_holding,
    a_pod,
    a_policy,
    a_process_table,
    a_snapshot,
    a_task,
    a_use,
    an_activity,
    b0,
    container_id,
    holds,
    missing,
    pod_cgroup,
    pod_uid,
)

R = UnattributedReason
HOST = "0::/system.slice/ollama.service"
NO_POD = f"0::/docker/{'f' * 64}"
NO_SUCH_POD = pod_cgroup(uid="0" * 32, container=container_id(99))


def _g0(
    *pids: int, use: Iterable[ProcessUse] | None = (), ratio: float | None = 0.5, kinds: str = "compute", **changes: Any
) -> Device:
    """G0 at this utilisation, with these processes and samples."""
    processes: tuple[GpuProcess, ...] = tuple(a_gpu_process(pid=pid, kinds=kinds) for pid in pids)
    settings: dict[str, Any] = {"processes": processes, "process_use": None if use is None else tuple(use)}
    return a_device(utilization_ratio=ratio, **(settings | changes))


def _task(pid: int, cgroup: str) -> ProcessRecord:
    return a_task(pid=pid, cgroup=cgroup)


def _shared(device: Device, *tasks: ProcessRecord, **changes: Any) -> Attribution:
    """G0 divided between s-1 and s-2; process 400N is in the container of s-N."""
    pods = [a_pod(number=number, name=f"s-{number}") for number in (1, 2)]
    own = [_task(4000 + at, pod_cgroup(uid=pod.uid, container=container_id(at))) for at, pod in enumerate(pods, start=1)]
    parts: dict[str, Any] = {
        "devices": (device,),
        "pods": pods,
        "holdings": [holds(pod, f"{G0}::{at}") for at, pod in enumerate(pods)],
        "tasks": [*own, *tasks],
    }
    return attribute(a_snapshot(**(parts | changes)), a_policy())


def _activities(attribution: Attribution) -> dict[str, Activity | None]:
    return {row.container.pod: row.activity for row in attribution.containers}


def _rest(attribution: Attribution) -> Mapping[str, float]:
    return {reason: round(part, 9) for reason, part in attribution.devices[0].unattributed_ratios.items()}


BURST = an_activity((1.0, 0.0), (1.0, 0.9), (2.5, 0.1), (0.5, None))


def test_device_row_carries_what_the_device_did() -> None:
    """Outside MIG the GPU's own course and mean are the row's."""
    [row] = attribute(a_snapshot(devices=(_g0(ratio=0.25, activity=BURST),)), a_policy()).devices
    assert (row.activity, row.utilization_ratio) == (BURST, 0.25)


def test_sole_holder_has_the_devices_course() -> None:
    """Sample by sample, so that a burst of one second is one second, and what was lost stays lost."""
    attribution = attribute(b0(devices=(_g0(4001, ratio=0.25, activity=BURST),)), a_policy())
    assert _activities(attribution) == {"train-0": BURST}
    assert [(row.utilization_ratio, row.place_ratio) for row in attribution.containers] == [(0.25, 1.0)]
    assert _rest(attribution) == {}


def test_sharers_course_is_flat_at_its_own_figure() -> None:
    """Nobody can say which burst was whose; the lost part is everybody's."""
    device = _g0(4001, 4002, ratio=0.25, activity=BURST, use=(a_use(pid=4001, sm=0.2), a_use(pid=4002, sm=0.05)))
    flat = {"s-1": an_activity((4.5, 0.2), (0.5, None)), "s-2": an_activity((4.5, 0.05), (0.5, None))}
    assert _activities(_shared(device)) == flat


def test_device_at_rest_leaves_every_sharer_at_rest() -> None:
    """At 0 everybody's figure is known, whatever the driver can tell of processes."""
    activity = an_activity((4.0, 0.0), (1.0, None))
    attribution = _shared(_g0(4001, 4002, ratio=0.0, activity=activity, use=None))
    assert _activities(attribution) == dict.fromkeys(("s-1", "s-2"), activity)
    assert _rest(attribution) == {}


def test_first_cycle_has_a_figure_and_no_course() -> None:
    """NVML's last period says how busy, and not since when."""
    attribution = attribute(b0(devices=(_g0(4001, ratio=0.5, activity=None),)), a_policy())
    assert [(row.utilization_ratio, row.activity) for row in attribution.containers] == [(0.5, None)]
    assert [(row.utilization_ratio, row.activity) for row in attribution.devices] == [(0.5, None)]


def test_cycle_that_was_lost_whole_is_kept_as_lost() -> None:
    """The lost time can be counted only if it is handed on; nobody has a figure for it."""
    lost = an_activity((5.0, None))
    attribution = attribute(b0(devices=(_g0(4001, activity=lost, ratio=None),)), a_policy())
    assert [(row.activity, row.utilization_ratio) for row in attribution.devices] == [(lost, None)]
    assert [(row.activity, row.utilization_ratio) for row in attribution.containers] == [(None, None)]
    assert _rest(attribution) == {}


def test_device_that_does_not_answer_did_nothing_that_we_know() -> None:
    """Figures beside a trouble are nobody's."""
    [row] = attribute(b0(devices=(_g0(4001, trouble=DeviceTrouble.LOST),)), a_policy()).devices
    assert (row.activity, row.utilization_ratio, row.unattributed_ratios) == (None, None, {})


@pytest.mark.parametrize(
    ("cgroup", "reason"), [(HOST, R.HOST_PROCESS), (NO_POD, R.NOT_IN_POD), (NO_SUCH_POD, R.UNRESOLVED_PID)]
)
def test_what_a_process_without_a_container_did_has_its_reason(cgroup: str, reason: UnattributedReason) -> None:
    """Its samples are its own, and no pod pays for them."""
    device = _g0(4001, 4002, 9, use=(a_use(pid=4001, sm=0.1), a_use(pid=4002, sm=0.1), a_use(pid=9, sm=0.3)))
    assert _rest(_shared(device, _task(9, cgroup))) == {reason: 0.3}


def test_what_a_dead_process_did_has_its_reason() -> None:
    """It ran within the cycle and was gone before anybody could look it up."""
    table = a_process_table(
        a_task(cgroup=pod_cgroup(uid=a_pod(number=1).uid, container=container_id(1))), troubles={9: ProcessTrouble.GONE}
    )
    device = _g0(4001, use=(a_use(pid=4001, sm=0.2), a_use(pid=9, sm=0.3)))
    assert _rest(_shared(device, tasks=table)) == {R.DEAD_PROCESS: 0.3}


def test_what_is_nobodys_is_scaled_with_the_rest() -> None:
    """Samples that sum to more than the device did shrink by one factor, whoever they belong to."""
    device = _g0(4001, 9, use=(a_use(pid=4001, sm=0.5), a_use(pid=9, sm=0.5)))
    attribution = _shared(device, _task(9, HOST))
    assert {row.container.pod: row.utilization_ratio for row in attribution.containers} == {"s-1": 0.25, "s-2": 0.0}
    assert _rest(attribution) == {R.HOST_PROCESS: 0.25}


def test_what_no_sample_names_is_no_process_if_all_were_sampled() -> None:
    """Everybody on the list has a figure, and it is not enough: the rest is no process's."""
    device = _g0(4001, 4002, use=(a_use(pid=4001, sm=0.2), a_use(pid=4002, sm=0.1)))
    assert _rest(_shared(device)) == {R.NO_PROCESS: 0.2}


def test_what_no_sample_names_is_not_measured_beside_a_process_without_one() -> None:
    """It may be that process's."""
    device = _g0(4001, 4002, use=(a_use(pid=4001, sm=0.2),))
    assert _rest(_shared(device)) == {R.NOT_MEASURED: 0.3}


def test_sharer_whose_sample_cannot_be_true_is_not_known() -> None:
    """What was misread is not 0: its neighbour keeps its own figure."""
    device = _g0(4001, 4002, use=[ProcessUse(4001, None), a_use(pid=4002, sm=0.5)])
    ratios = {row.container.pod: row.utilization_ratio for row in _shared(device).containers}
    assert ratios == {"s-1": None, "s-2": 0.5}


def test_sharer_that_no_sample_names_beside_an_unexplained_rest_is_not_known() -> None:
    """The rest may be its: neither idle nor a guess."""
    device = _g0(4001, 4002, use=[a_use(pid=4001, sm=0.2)], ratio=0.8)
    ratios = {row.container.pod: row.utilization_ratio for row in _shared(device).containers}
    assert ratios == {"s-1": 0.2, "s-2": None}


def test_what_no_sample_names_is_the_hosts_if_only_the_host_is_left() -> None:
    """All processes without a sample are of one kind that is nobody's."""
    device = _g0(4001, 9, use=(a_use(pid=4001, sm=0.2),))
    assert _rest(_shared(device, _task(9, HOST))) == {R.HOST_PROCESS: 0.3}


def test_busy_device_without_any_process_was_used_by_none() -> None:
    """A list that could be read and is empty."""
    assert _rest(attribute(a_snapshot(devices=(_g0(),)), a_policy())) == {R.NO_PROCESS: 0.5}


@pytest.mark.parametrize(
    ("device", "changes"),
    [
        (_g0(4001, 4002, use=None), {}),
        (_g0(4001, 4002, use=(a_use(pid=4001),)), {"tasks": missing()}),
        (_g0(4001, 4002, use=(a_use(pid=4001),), kinds="mps"), {}),
        (_g0(4001, 4002, use=()), {}),
    ],
    ids=["old driver", "no /proc", "mps", "no samples"],
)
def test_use_that_cannot_be_told_apart_is_not_measured(device: Device, changes: dict[str, Any]) -> None:
    """Sharers are unknown, and the whole of it has one place all the same."""
    attribution = _shared(device, **changes)
    assert [(row.utilization_ratio, row.activity) for row in attribution.containers] == [(None, None)] * 2
    assert _rest(attribution) == {R.NOT_MEASURED: 0.5}


def test_rest_is_not_measured_while_the_list_cannot_be_read() -> None:
    """Nobody can say then that all who are there were sampled."""
    device = _g0(use=(a_use(pid=4001, sm=0.4),), processes=None)
    assert _rest(_shared(device)) == {R.NOT_MEASURED: 0.1}


def test_use_behind_an_mps_server_is_the_servers() -> None:
    """Its clients cannot be told apart, and the server is nobody's."""
    server = a_task(pid=7000, name="nvidia-cuda-mps", cgroup=HOST)
    attribution = _shared(_g0(7000, use=(a_use(pid=7000, sm=0.5),)), server)
    assert {row.utilization_ratio for row in attribution.containers} == {None}
    assert _rest(attribution) == {R.MPS_SERVER: 0.5}


def test_use_without_a_holder_is_a_rows_and_not_nobodys() -> None:
    """A container that was not given the device has its part all the same."""
    device = _g0(4001, use=(a_use(pid=4001, sm=0.5),))
    attribution = attribute(b0(devices=(device,), holdings=()), a_policy())
    assert [(row.uses_unheld, row.utilization_ratio, row.activity) for row in attribution.containers] == [
        (True, 0.5, an_activity((5.0, 0.5)))
    ]
    assert _rest(attribution) == {}


def test_holder_of_nothing_here_takes_no_part() -> None:
    """Rows of one device say nothing of the next."""
    devices = (_g0(4001), a_device(number=1, utilization_ratio=0.7))
    attribution = attribute(b0(devices=devices, holdings=(a_holding(),)), a_policy())
    assert [dict(row.unattributed_ratios) for row in attribution.devices] == [{}, {R.NO_PROCESS: 0.7}]


def test_what_the_driver_rounded_away_is_the_sampled_processes() -> None:
    """Two processes of 33.4 and 33.4 percent are told as 33 and 33: the rest is nobody's only beyond what rounding can take."""
    pods = (a_pod(number=1), a_pod(number=2))
    places = {number: pod_cgroup(uid=pod_uid(number), container=container_id(number)) for number in (1, 2)}
    tasks = tuple(a_task(pid=number, cgroup=place) for number, place in places.items())
    holdings = tuple(holds(pod, f"{G0}::{number}") for number, pod in enumerate(pods))

    def shared(total: float) -> tuple[list[float | None], float]:
        uses = tuple(a_use(pid=number, sm=0.33) for number in (1, 2))
        processes = tuple(a_gpu_process(pid=number) for number in (1, 2))
        device = a_device(utilization_ratio=total, processes=processes, process_use=uses, memory_used_bytes=40 * GIB)
        found = attribute(a_snapshot(devices=[device], holdings=holdings, pods=pods, tasks=tasks), a_policy())
        return [row.utilization_ratio for row in found.containers], sum(found.devices[0].unattributed_ratios.values())

    ratios, nobodys = shared(0.668)
    assert ratios == [pytest.approx(0.334)] * 2
    assert nobodys == 0.0
    ratios, nobodys = shared(0.72)
    assert ratios == [pytest.approx(0.33)] * 2
    assert nobodys == pytest.approx(0.06)
