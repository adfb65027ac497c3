"""Cases of processes and of NVML's values, end to end through the real sources."""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.simulator.world import GIB, NOT_AVAILABLE, NvmlFault, SimDevice, SimMig, SimProcess, SimTask, World
from tests.line import a_line
from tests.worlds import C1, G0, G1, M1, M3, U1, a_sim_pod, b0, container_id, task_of, uid

PRIVATE = f"0::/../../kubepods-burstable-pod{U1.replace('-', '_')}.slice/cri-containerd-{C1}.scope"


def _with_processes(*processes: SimProcess, tasks: tuple[SimTask, ...] = (), **device: object) -> World:
    devices = b0().devices
    busy = replace(devices[0], processes=processes, **device)  # type: ignore[arg-type]
    return replace(b0(), devices=(busy, devices[1]), tasks=tasks)


async def test_relative_path_resolves_and_a_bare_root_does_not(tmp_path: Path) -> None:
    """In a private cgroup namespace other pods' paths are relative, and the operator is told (PID-06)."""
    world = _with_processes(
        SimProcess(pid=4001, memory=6 * GIB),
        SimProcess(pid=4002, memory=GIB),
        tasks=(SimTask(pid=4001, cgroup=(PRIVATE,)), SimTask(pid=4002, cgroup=("0::/",))),
    )
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 6 * GIB
    assert sum(page.values("gpu_unattributed_memory_bytes", "reason", uuid=G0).values()) == GIB
    assert page.value("gpu_exporter_source_missing", source="procfs", reason="private_cgroup_view") == 1


async def test_foreign_pid_namespace_gives_no_activity_rather_than_none(tmp_path: Path) -> None:
    """Without hostPID nothing matches; absent is not zero (PID-07)."""
    world = replace(_with_processes(SimProcess(pid=250001, memory=GIB), SimProcess(pid=250002, memory=GIB)), host_view=False)
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert page.value("gpu_container_allocation_ratio", pod="train-0") == 1
    assert not page.series("gpu_container_memory_used_bytes")
    assert not page.series("gpu_container_processes")
    assert sum(s.value for s in page.series("gpu_exporter_unresolved_pids")) == 2
    assert page.value("gpu_exporter_source_up", source="procfs") == 0
    assert page.value("gpu_exporter_source_missing", source="procfs", reason="host_pid_missing") == 1


async def test_process_that_is_gone_costs_itself_only(tmp_path: Path) -> None:
    """Short processes end between the driver's answer and our look (PID-09)."""
    world = _with_processes(SimProcess(pid=4001, memory=20 * GIB, sm=30), SimProcess(pid=4999, memory=GIB), tasks=b0().tasks)
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 20 * GIB
    assert page.values("gpu_exporter_unresolved_pids", "reason") == {"dead_process": 1}


async def test_process_in_two_lists_counts_once(tmp_path: Path) -> None:
    """Adding the lists would count a mixed process twice; reading one would miss rendering (PID-14)."""
    world = _with_processes(
        SimProcess(pid=4001, memory=6 * GIB, lists=frozenset({"compute", "graphics"})),
        SimProcess(pid=4002, memory=GIB, lists=frozenset({"graphics"})),
        tasks=(task_of(4001, 1), task_of(4002, 1)),
    )
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 7 * GIB
    assert page.value("gpu_container_processes", pod="train-0") == 2


@pytest.mark.parametrize(
    ("processes", "used", "reason"),
    [((), 30 * GIB, "no_process"), ((SimProcess(pid=5999, memory=30 * GIB),), None, "dead_process")],
)
async def test_memory_with_nobody_there_is_nobodys(
    tmp_path: Path, processes: tuple[SimProcess, ...], used: int | None, reason: str
) -> None:
    """A killed process leaves memory behind: the GPU is neither free and idle nor its last pod's (PID-15)."""
    device = SimDevice(uuid=G1, index=0, memory_used=used, processes=processes)
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(), tasks=())) as line:
        page = await line.cycle()
    assert page.values("gpu_unattributed_memory_bytes", "reason") == {reason: 30 * GIB}
    assert not page.series("gpu_container_allocation_ratio")


async def test_memory_that_the_driver_cannot_tell_is_absent(tmp_path: Path) -> None:
    """All ones is no number of bytes; the process still counts (NVML-01)."""
    world = _with_processes(SimProcess(pid=4001, memory=NOT_AVAILABLE, sm=40), tasks=b0().tasks, memory_used=20 * GIB)
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_memory_used_bytes")
    assert page.value("gpu_container_processes", pod="train-0") == 1
    assert page.value("gpu_container_utilization_ratio", pod="train-0") == pytest.approx(0.4)
    assert sum(page.values("gpu_unattributed_memory_bytes", "reason", uuid=G0).values()) == 20 * GIB


async def test_mig_parent_without_utilisation_makes_nobody_idle(tmp_path: Path) -> None:
    """In MIG mode the driver cannot say; a 0 in its place would reclaim working GPUs (NVML-04)."""
    migs = (SimMig(uuid=M1, gi=1), SimMig(uuid=M3, gi=3))
    processes = (SimProcess(pid=4001, memory=2 * GIB, gi=1, ci=0), SimProcess(pid=4002, memory=3 * GIB, gi=3, ci=0))
    device = SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=migs, processes=processes)
    pods = (a_sim_pod(1, "a", M1), a_sim_pod(2, "b", M3))
    world = replace(b0(), devices=(device,), pods=pods, tasks=(task_of(4001, 1), task_of(4002, 2)), allocatable={})
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert not page.series("gpu_utilization_ratio")
    assert not page.series("gpu_container_utilization_ratio")
    assert not page.series("gpu_pod_devices_idle")
    assert page.values("gpu_container_memory_used_bytes", "pod") == {"a": 2 * GIB, "b": 3 * GIB}
    assert page.values("gpu_mig_memory_used_bytes", "gpu_instance_id") == {"1": 2 * GIB, "3": 3 * GIB}


async def test_idle_gpu_that_answers_not_found_is_idle_and_healthy(tmp_path: Path) -> None:
    """The process-utilisation call says NOT_FOUND where nobody ran (NVML-06)."""
    pod = a_sim_pod(2, "quiet", G1)
    async with a_line(tmp_path, replace(b0(), pods=(*b0().pods, pod))) as line:
        pages = [await line.cycle() for _ in range(10)]
    for page in pages:
        assert page.value("gpu_container_utilization_ratio", pod="quiet") == 0
        assert page.value("gpu_pod_devices_idle", pod="quiet") == 1
        assert page.value("gpu_exporter_source_up", source="nvml") == 1
        assert not page.series("gpu_exporter_source_errors_total", source="nvml")


async def test_failed_process_list_is_absent_and_comes_back(tmp_path: Path) -> None:
    """A failed look-up turned into 0 is a plausible number that nobody notices (NVML-17)."""
    fault = NvmlFault(symbol="nvmlDeviceGetComputeRunningProcesses_v3", device=0, code=999)
    async with a_line(tmp_path, b0()) as line:
        pages = [await line.cycle(), await line.show(replace(b0(), nvml_faults=(fault,))), await line.show(b0())]
    memory = [page.value("gpu_container_memory_used_bytes", pod="train-0") for page in pages]
    assert memory == [20 * GIB, None, 20 * GIB]
    assert [page.value("gpu_exporter_source_up", source="processes") for page in pages] == [1, 0, 1]
    assert pages[2].value("gpu_exporter_source_errors_total", source="processes", reason="driver_error") == 1


async def test_instance_ids_of_all_ones_are_no_instance(tmp_path: Path) -> None:
    """A whole GPU's process joins the whole GPU's holder (NVML-15)."""
    async with a_line(tmp_path, b0()) as line:
        page = await line.cycle()
    assert "4294967295" not in page.text
    (row,) = page.series("gpu_container_memory_used_bytes", pod="train-0")
    assert "gpu_instance_id" not in row.labels


async def test_host_process_is_shown_as_such(tmp_path: Path) -> None:
    """A service of the host is nobody's pod, and no pod's cost."""
    device = SimDevice(uuid=G1, index=0, utilization=30, processes=(SimProcess(pid=47, memory=GIB, sm=30),))
    task = SimTask(pid=47, cgroup=("0::/system.slice/ollama.service",), comm="ollama")
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(), tasks=(task,))) as line:
        page = await line.cycle()
    assert page.values("gpu_unattributed_memory_bytes", "reason") == {"host_process": GIB}
    assert not page.series("gpu_exporter_unresolved_pids")


async def test_forged_cgroup_below_a_container_fools_nobody(tmp_path: Path) -> None:
    """A tenant can make child cgroups that are called like a victim's pod; the outermost pod counts."""
    victim, attacker = uid(2), uid(1)
    path = (
        f"0::/kubepods.slice/kubepods-pod{attacker.replace('-', '_')}.slice/cri-containerd-{container_id(1)}.scope"
        f"/kubepods-pod{victim.replace('-', '_')}.slice/cri-containerd-{container_id(2)}.scope"
    )
    world = _with_processes(SimProcess(pid=4001, memory=GIB), tasks=(SimTask(pid=4001, cgroup=(path,)),))
    async with a_line(tmp_path, replace(world, pods=(*world.pods, a_sim_pod(2, "victim", G1)))) as line:
        page = await line.cycle()
    assert page.values("gpu_container_memory_used_bytes", "pod") == {"train-0": GIB, "victim": 0}
