"""What cannot be said is unknown, end to end: never free, never idle, and nobody is accused."""

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.simulator.world import GIB, KubeletFault, NvmlFault, SimContainer, SimDevice, SimMig, SimPod, SimProcess, SimTask
from tests.line import a_line
from tests.worlds import G0, G1, WHOLE, a_sim_pod, b0, cgroup, container_id, recorded_world, task_of, uid


async def test_claimed_device_that_is_not_resolved_leaves_no_gpu_free(tmp_path: Path) -> None:
    """A DRA claim holds one of the GPUs: none of them is free by our word, and its holder is not accused."""
    claim = ("c", "gpu.nvidia.com", "gpu-n1", "gpu-0")
    pod = SimPod(
        name="train-0", namespace="team-red", uid=uid(1), containers=(SimContainer(id=container_id(1), claims=(claim,)),)
    )
    async with a_line(tmp_path, replace(b0(), pods=(pod,))) as line:
        page = await line.cycle()
    assert not page.series("gpu_allocated_ratio")
    assert not page.series("gpu_container_unallocated_use")
    assert page.value("gpu_pod_devices_assigned", pod="train-0") == 1
    assert not page.series("gpu_pod_devices_idle", pod="train-0")
    (unresolved,) = page.series("gpu_exporter_unresolved_allocation_info")
    assert (unresolved.labels["reason"], unresolved.labels["pod"]) == ("claim_unresolved", "train-0")


async def test_recorded_claims_are_named_and_nobody_is_accused(tmp_path: Path) -> None:
    """A real kubelet's DRA answer: every claim is shown, every claiming pod has its units."""
    async with a_line(tmp_path, recorded_world("api-dra")) as line:
        page = await line.cycle()
    claiming = {s.labels["pod"] for s in page.series("gpu_exporter_unresolved_allocation_info", reason="claim_unresolved")}
    assert claiming == {"dra-own", "dra-mig", "dra-share-1", "dra-share-2", "dra-two-containers"}
    assert not {s.labels["pod"] for s in page.series("gpu_container_unallocated_use")} & claiming
    assert all(page.value("gpu_pod_devices_assigned", pod=pod) == 1 for pod in claiming)


@pytest.mark.parametrize("fault", [KubeletFault(code="UNAVAILABLE"), KubeletFault(garbage=True)])
async def test_unknown_allocation_accuses_nobody(tmp_path: Path, fault: KubeletFault) -> None:
    """A wrong socket path must not make every busy pod of the node a thief."""
    async with a_line(tmp_path, replace(b0(), kubelet_faults=(fault,))) as line:
        page = await line.cycle()
    assert not page.series("gpu_allocated_ratio")
    assert not page.series("gpu_container_unallocated_use")
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 20 * GIB


async def test_restart_of_the_device_plugin_changes_no_share(tmp_path: Path) -> None:
    """With the plugin down the kubelet lists what is held and can give out nothing."""
    ids = tuple(f"{G0}::{number}" for number in range(10))
    world = replace(b0(), pods=(a_sim_pod(1, "train-0", ids[0]),), allocatable={WHOLE: ids})
    async with a_line(tmp_path, world) as line:
        pages = [await line.cycle(), await line.show(replace(world, allocatable={})), await line.show(world)]
    assert [page.value("gpu_container_allocation_ratio", pod="train-0") for page in pages] == [0.1, 0.1, 0.1]


async def test_kubelet_that_has_just_restarted_frees_no_gpu_whose_pod_runs(tmp_path: Path) -> None:
    """It answers with an empty list first; a pod that runs by the API's word and is seen on its GPU still holds it."""
    empty = replace(b0(), list_response=b"")
    async with a_line(tmp_path, b0()) as line:
        pages = [await line.cycle(), await line.show(empty), await line.show(empty), await line.show(b0())]
    for page in pages:
        assert page.value("gpu_allocated_ratio", uuid=G0) == 1
        assert page.value("gpu_container_allocation_ratio", pod="train-0") == 1
        assert not page.series("gpu_container_unallocated_use")


async def test_holding_is_prolonged_no_longer_than_max_age(tmp_path: Path) -> None:
    """A list that stays empty is believed in the end."""
    async with a_line(tmp_path, b0(), max_age_seconds=0.0) as line:
        await line.cycle()
        page = await line.show(replace(b0(), list_response=b""))
    assert page.value("gpu_allocated_ratio", uuid=G0) == 0
    assert page.series("gpu_container_unallocated_use", pod="train-0")


async def test_holding_is_not_prolonged_once_the_device_is_given_to_another(tmp_path: Path) -> None:
    """The kubelet's newer word stands against an old process."""
    other = a_sim_pod(2, "other", G0)
    world = replace(b0(), pods=(replace(b0().pods[0], in_kubelet=False), other))
    async with a_line(tmp_path, b0()) as line:
        await line.cycle()
        page = await line.show(world)
    assert [s.labels["pod"] for s in page.series("gpu_container_allocation_ratio")] == ["other"]


async def test_pod_on_a_device_of_which_nothing_is_known_has_no_idle_count(tmp_path: Path) -> None:
    """Zero idle devices would be as wrong as one."""
    fault = NvmlFault(symbol="nvmlInitWithFlags", code=9)
    gone = a_sim_pod(2, "old", "GPU-deadbeef-0000-4000-8000-00000000ffff")
    async with a_line(tmp_path, replace(b0(), pods=(*b0().pods, gone))) as line:
        page = await line.cycle()
        assert not page.series("gpu_pod_devices_idle", pod="old")
    async with a_line(tmp_path / "second", replace(b0(), nvml_faults=(fault,))) as line:
        page = await line.cycle()
    assert page.value("gpu_pod_devices_assigned", pod="train-0") == 1
    assert not page.series("gpu_pod_devices_idle")


async def test_busy_device_without_samples_makes_nobody_idle_who_has_a_process(tmp_path: Path) -> None:
    """80 % busy and nobody seen: the driver contradicts itself, and the sharers' activity is unknown."""
    ids = (f"{G0}::0", f"{G0}::1")
    processes = (SimProcess(pid=4001, memory=GIB), SimProcess(pid=4002, memory=GIB))
    world = replace(
        b0(),
        devices=(SimDevice(uuid=G0, index=0, utilization=80, processes=processes),),
        pods=(a_sim_pod(1, "a", ids[0]), a_sim_pod(2, "b", ids[1])),
        tasks=(task_of(4001, 1), task_of(4002, 2)),
        allocatable={WHOLE: ids},
    )
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_utilization_ratio")
    assert not page.series("gpu_pod_devices_idle")


async def test_holder_beside_a_busy_dead_process_is_not_idle(tmp_path: Path) -> None:
    """A process that ended before we looked may have been the holder's own."""
    device = SimDevice(uuid=G0, index=0, utilization=40, processes=(SimProcess(pid=4999, memory=GIB),))
    async with a_line(tmp_path, replace(b0(), devices=(device,), tasks=())) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_utilization_ratio")
    assert not page.series("gpu_pod_devices_idle")


async def test_holder_of_an_instance_of_unknown_size_has_no_share(tmp_path: Path) -> None:
    """A share of 0 would be a bill of 0."""
    mig = SimMig(uuid="MIG-0a0a0a0a-2222-4222-8333-000000000001", gi=1, profile="")
    device = SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=(mig,))
    world = replace(b0(), devices=(device,), pods=(a_sim_pod(1, "a", mig.uuid),), tasks=(), allocatable={})
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_allocation_ratio")
    assert page.series("gpu_container_allocation_info", pod="a")
    assert not page.series("gpu_allocated_ratio")


async def test_container_that_is_not_known_yet_is_not_accused_where_its_pod_holds(tmp_path: Path) -> None:
    """After a restart of a container its new id is in the cgroup before it is in the pod's status."""
    task = SimTask(pid=4001, cgroup=(cgroup(uid(1), "ab" * 32),))
    async with a_line(tmp_path, replace(b0(), tasks=(task,))) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_unallocated_use")
    assert page.value("gpu_pod_devices_idle", pod="train-0") == 0


async def test_resource_that_one_id_proves_to_be_a_gpu_is_one_for_all_its_ids(tmp_path: Path) -> None:
    """A strange id of a proven resource is an allocation that we cannot lay on a device, not nothing."""
    pods = (a_sim_pod(1, "a", G0, resource="acme.io/gpu"), a_sim_pod(2, "b", "weird-id", resource="acme.io/gpu"))
    async with a_line(tmp_path, replace(b0(), pods=pods, tasks=(), allocatable={})) as line:
        page = await line.cycle()
    assert page.value("gpu_pod_devices_assigned", pod="b") == 1
    assert page.series("gpu_exporter_unresolved_allocation_info", pod="b", reason="unknown_format")


async def test_memory_where_no_process_could_be_seen_is_not_measured(tmp_path: Path) -> None:
    """Without the host's PIDs the driver hides processes: that is another finding than memory without a process."""
    device = SimDevice(uuid=G1, index=0, memory_used=20 * GIB)
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(), tasks=(), host_view=False)) as line:
        page = await line.cycle()
    assert page.values("gpu_unattributed_memory_bytes", "reason") == {"not_measured": 20 * GIB}


async def test_compute_instances_of_one_gpu_instance_count_its_memory_once(tmp_path: Path) -> None:
    """A sum over all series is the memory that is there."""
    migs = tuple(
        SimMig(uuid=f"MIG-0a0a0a0a-2222-4222-8333-00000000000{ci}", gi=1, ci=ci, profile=f"{ci + 1}c.3g.40gb") for ci in (0, 1)
    )
    device = SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=migs)
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(), tasks=())) as line:
        page = await line.cycle()
    (total,) = page.series("gpu_mig_memory_total_bytes")
    assert total.value == migs[0].memory_total
    assert "compute_instance_id" not in total.labels
    assert len(page.series("gpu_mig_info")) == 2


async def test_gpu_that_never_told_its_name_counts_its_errors(tmp_path: Path) -> None:
    """gpu_up 0 comes with a reason, also for a GPU that was lost before we started (LIFE-01)."""
    fault = NvmlFault(symbol="*", device=0, code=15)
    async with a_line(tmp_path, replace(b0(), nvml_faults=(fault,))) as line:
        await line.cycle()
        page = await line.cycle()
    assert page.value("gpu_up", gpu="0") == 0
    assert page.value("gpu_exporter_device_errors_total", gpu="0", reason="lost") == 2
    assert page.value("gpu_up", uuid=G1) == 1


async def test_gpu_does_not_unlearn_its_mig_mode(tmp_path: Path) -> None:
    """A mode that was told once and is "not supported" now is a failing driver; its instances stay held."""
    mig = SimMig(uuid="MIG-0a0a0a0a-2222-4222-8333-000000000001", gi=1)
    device = SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=(mig,))
    world = replace(b0(), devices=(device,), pods=(a_sim_pod(1, "a", mig.uuid),), tasks=(), allocatable={})
    fault = NvmlFault(symbol="nvmlDeviceGetMigMode", code=3)
    async with a_line(tmp_path, world) as line:
        pages = [await line.cycle(), await line.show(replace(world, nvml_faults=(fault,))), await line.show(world)]
    for page in pages:
        assert page.value("gpu_allocated_ratio", uuid=G0) == pytest.approx(1 / 7)


async def test_refused_process_list_says_so_and_its_memory_is_not_measured(tmp_path: Path) -> None:
    """A missing permission is another finding than a broken driver, and the memory is in some row."""
    fault = NvmlFault(symbol="nvmlDeviceGetComputeRunningProcesses_v3", device=0, code=4)
    async with a_line(tmp_path, replace(b0(), nvml_faults=(fault,))) as line:
        page = await line.cycle()
    assert page.value("gpu_exporter_source_missing", source="processes", reason="permission_denied") == 1
    assert page.values("gpu_unattributed_memory_bytes", "reason", uuid=G0) == {"not_measured": 20 * GIB}
