"""Measured device use = what rows did + what is nobody's, where all is measured and anybody may be anywhere."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.attribution.join import attribute
from exporter.model.device import Device, GpuProcess, ProcessKind, ProcessUse
from exporter.model.snapshot import Snapshot
from tests.builders import (
    G0,
    a_device,
    a_gpu_process,
    a_holding,
    a_mig,
    a_mig_device,
    a_pod,
    a_policy,
    a_snapshot,
    a_task,
    an_activity,
    container_id,
    mig_uuid,
    missing,
    pod_cgroup,
)

TINY = 1e-9
PODS = [a_pod(number=number, name=f"p-{number}") for number in range(4)]
TASKS = [
    *(
        a_task(pid=4000 + number, cgroup=pod_cgroup(uid=pod.uid, container=container_id(number)))
        for number, pod in enumerate(PODS)
    ),
    a_task(pid=9, cgroup="0::/system.slice/ollama.service"),
    a_task(pid=10, cgroup=f"0::/docker/{'f' * 64}"),
    a_task(pid=11, cgroup="0::/", name="nvidia-cuda-mps"),
]
PIDS = st.sampled_from([4000, 4001, 4002, 4003, 9, 10, 11, 12])
RATIOS = st.one_of(st.just(0.0), st.floats(0.001, 1.0))
LAYOUTS = st.sampled_from(["1", "7", "1111111", "34", "331", "12", "111"])
"""Compute slices of each instance."""


@st.composite
def processes(draw: st.DrawFn, instances: int) -> GpuProcess:
    instance = draw(st.one_of(st.none(), st.integers(1, instances))) if instances else None
    kinds = draw(st.sampled_from([ProcessKind.COMPUTE, ProcessKind.COMPUTE, ProcessKind.MPS]))
    return a_gpu_process(pid=draw(PIDS), gi=instance, ci=None if instance is None else 0, kinds=kinds.value)


@st.composite
def courses(draw: st.DrawFn) -> Any:
    """A cycle of 5 s, part of it lost."""
    first, lost = draw(st.floats(0.5, 2.5)), draw(st.sampled_from([0.0, 0.0, 1.0]))
    spans = [(first, draw(RATIOS)), (5.0 - first - lost, draw(RATIOS))]
    return an_activity(*spans, *([(lost, None)] if lost else []))


@st.composite
def whole_gpus(draw: st.DrawFn) -> Device:
    activity = draw(courses())
    use = st.lists(st.builds(ProcessUse, PIDS, RATIOS), max_size=5).map(tuple)
    return a_device(
        activity=activity,
        utilization_ratio=activity.utilization_ratio,
        processes=tuple(draw(st.lists(processes(0), max_size=4))),
        process_use=draw(st.one_of(use, use, st.none())),
    )


@st.composite
def mig_gpus(draw: st.DrawFn) -> Device:
    sizes = draw(LAYOUTS)
    migs = [a_mig(number=at, slices=int(size), activity=draw(courses())) for at, size in enumerate(sizes, start=1)]
    return a_mig_device(migs=migs, processes=tuple(draw(st.lists(processes(len(sizes)), max_size=4))))


@st.composite
def measured_nodes(draw: st.DrawFn) -> Snapshot:
    device = draw(st.one_of(whole_gpus(), mig_gpus()))
    places = [G0, *(f"{G0}::{number}" for number in range(3)), *(mig.uuid for mig in device.mig_instances), f"{mig_uuid(1)}::0"]
    holdings = st.builds(
        lambda pod, place: a_holding(pod=pod, device_id=place),
        st.sampled_from([pod.name for pod in PODS]),
        st.sampled_from(places),
    )
    tasks = missing() if draw(st.integers(0, 3)) == 0 else TASKS
    return a_snapshot(devices=(device,), holdings=draw(st.lists(holdings, max_size=4)), pods=PODS, tasks=tasks)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(measured_nodes())
def test_use_of_a_measured_device_has_one_place(snapshot: Snapshot) -> None:
    """Nothing is lost and nothing counts twice, whoever holds what and whoever runs where."""
    attribution = attribute(snapshot, a_policy())
    [device] = attribution.devices
    assert device.utilization_ratio is not None
    attributed = sum((row.utilization_ratio or 0.0) * (row.place_ratio or 0.0) for row in attribution.containers)
    assert abs(attributed + sum(device.unattributed_ratios.values()) - device.utilization_ratio) < TINY
    assert all(part > 0 for part in device.unattributed_ratios.values())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(measured_nodes())
def test_course_of_a_row_says_what_its_figure_says(snapshot: Snapshot) -> None:
    """Wherever a figure is known in a measured cycle, so is its course, and its mean is the figure."""
    for row in attribute(snapshot, a_policy()).containers:
        if row.utilization_ratio is None:
            assert row.activity is None
            continue
        assert row.activity is not None
        assert row.activity.utilization_ratio is not None
        assert abs(row.activity.utilization_ratio - row.utilization_ratio) < TINY
