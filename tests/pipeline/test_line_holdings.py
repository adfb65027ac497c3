"""Cases of holding and of changing identity, end to end through the real sources."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.simulator.world import GIB, SimContainer, SimDevice, SimMig, SimPod, SimProcess, World
from tests.line import a_line
from tests.page import Page
from tests.worlds import G0, G1, M1, M3, WHOLE, a_sim_pod, b0, container_id, task_of, uid


def _holders(page: Page) -> dict[str, tuple[str, float]]:
    return {
        sample.labels["pod"]: (sample.labels["uuid"], sample.value) for sample in page.series("gpu_container_allocation_ratio")
    }


def _world(*pods: SimPod, **fields: object) -> World:
    return replace(b0(), pods=pods, **fields)  # type: ignore[arg-type]


async def test_baseline_node_says_who_holds_who_uses_and_who_pays(tmp_path: Path) -> None:
    """The thin line through all rooms: device, container, owner."""
    async with a_line(tmp_path, b0()) as line:
        page = await line.cycle()
    assert page.value("gpu_utilization_ratio", uuid=G0) == pytest.approx(0.4)
    assert page.value("gpu_power_watts", uuid=G0) == pytest.approx(210.0)
    assert page.value("gpu_energy_joules_total", uuid=G0) == pytest.approx(5000.0)
    (row,) = page.series("gpu_container_allocation_ratio")
    assert row.value == 1.0
    wanted = {
        "node": "gpu-n1",
        "gpu": "0",
        "uuid": G0,
        "namespace": "team-red",
        "pod": "train-0",
        "container": "main",
        "workload_type": "deployment",
        "workload": "train",
        "workload_class": "other",
        "team": "red",
        "cost_center": "4711",
    }
    assert row.labels == wanted
    assert page.value("gpu_container_utilization_ratio", pod="train-0") == pytest.approx(0.4)
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 20 * GIB
    assert page.value("gpu_container_processes", pod="train-0") == 1
    assert page.value("gpu_allocated_ratio", uuid=G1) == 0


@pytest.mark.parametrize(
    ("device_id", "uuid", "instance", "share"),
    [
        ("nvidia1", G1, "", 1.0),
        ("nvidia0/gi5", G0, "5", 2 / 7),
        ("nvidia0/gi5/vgpu1", G0, "5", 1 / 7),
    ],
)
async def test_gke_device_name_resolves_without_a_setting(
    tmp_path: Path, device_id: str, uuid: str, instance: str, share: float
) -> None:
    """GKE's plugin speaks minor numbers and GPU instances, not UUIDs (POD-02)."""
    mig = SimMig(uuid=M1, gi=5, profile="2g.20gb", compute_slices=2, gpu_slices=2)
    devices = (
        SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=(mig,)),
        SimDevice(uuid=G1, index=1),
    )
    ids = ("nvidia0/gi5/vgpu0", "nvidia0/gi5/vgpu1") if "vgpu" in device_id else (device_id,)
    world = _world(a_sim_pod(1, "p", device_id), devices=devices, tasks=(), allocatable={WHOLE: ids})
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    (row,) = page.series("gpu_container_allocation_ratio")
    assert (row.labels["uuid"], row.labels.get("gpu_instance_id", "")) == (uuid, instance)
    assert row.value == pytest.approx(share)
    assert page.value("gpu_exporter_source_up", source="pod_resources") == 1
    assert not page.series("gpu_exporter_unresolved_devices")


async def test_gke_virtual_device_is_a_share_of_its_gpu(tmp_path: Path) -> None:
    """nvidia0/vgpu2 is one of the replicas that the plugin advertises for GPU 0 (POD-02)."""
    ids = tuple(f"nvidia0/vgpu{number}" for number in range(4))
    async with a_line(tmp_path, _world(a_sim_pod(1, "p", ids[2]), allocatable={WHOLE: ids})) as line:
        page = await line.cycle()
    assert _holders(page) == {"p": (G0, 0.25)}


async def test_mig_ids_of_both_spellings_reach_their_instances(tmp_path: Path) -> None:
    """Drivers before R470 name MIG devices by parent, GPU instance and compute instance (POD-08)."""
    migs = (SimMig(uuid=M1, gi=1), SimMig(uuid=M3, gi=3))
    devices = (SimDevice(uuid=G0, index=0, mig_mode=1, utilization=None, migs=migs), SimDevice(uuid=G1, index=1))
    pods = (
        a_sim_pod(1, "a", M1, resource="nvidia.com/mig-1g.10gb"),
        a_sim_pod(2, "b", f"MIG-{G0}/3/0", resource="nvidia.com/mig-1g.10gb"),
    )
    async with a_line(tmp_path, _world(*pods, devices=devices, tasks=(), allocatable={})) as line:
        page = await line.cycle()
    found = {
        s.labels["pod"]: (s.labels["uuid"], s.labels["gpu_instance_id"]) for s in page.series("gpu_container_allocation_ratio")
    }
    assert found == {"a": (G0, "1"), "b": (G0, "3")}
    assert page.value("gpu_allocated_ratio", uuid=G0) == pytest.approx(2 / 7)


async def test_renamed_resources_count_and_a_network_card_does_not(tmp_path: Path) -> None:
    """What an id resolves to decides, not a list of names (POD-04)."""
    pods = (
        a_sim_pod(1, "shared", f"{G0}::1", resource="nvidia.com/gpu.shared"),
        a_sim_pod(2, "model", G1, resource="nvidia.com/H999_PCIE"),
        a_sim_pod(3, "network", "0000:1f:00.2", resource="example.org/nic"),
    )
    world = _world(*pods, tasks=(), allocatable={"nvidia.com/gpu.shared": (f"{G0}::0", f"{G0}::1")})
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert _holders(page) == {"shared": (G0, 0.5), "model": (G1, 1.0)}
    resources = {s.labels["pod"]: s.labels["resource"] for s in page.series("gpu_container_allocation_info")}
    assert resources == {"shared": "nvidia.com/gpu.shared", "model": "nvidia.com/H999_PCIE"}
    assert not page.series("gpu_exporter_unresolved_allocation_info")


async def test_free_devices_are_there_whoever_holds_the_others(tmp_path: Path) -> None:
    """The most interesting GPU for cost is the one that no pod holds (POD-11)."""
    async with a_line(tmp_path, replace(b0(), pods=())) as line:
        pages = [await line.cycle(), await line.show(b0()), await line.show(replace(b0(), pods=()))]
    for page in pages:
        assert {s.labels["uuid"] for s in page.series("gpu_allocated_ratio")} == {G0, G1}
        assert page.value("gpu_allocated_ratio", uuid=G1) == 0


async def test_id_that_nvml_does_not_know_costs_itself_only(tmp_path: Path) -> None:
    """After a live migration the kubelet's checkpoint still names devices that are gone (POD-12)."""
    gone = "GPU-deadbeef-0000-4000-8000-00000000ffff"
    async with a_line(tmp_path, _world(a_sim_pod(1, "old-0", gone), tasks=())) as line:
        page = await line.cycle()
    (unresolved,) = page.series("gpu_exporter_unresolved_allocation_info")
    assert unresolved.labels["namespace"] == "team-red"
    assert unresolved.labels["device_id"] == gone
    assert sum(s.value for s in page.series("gpu_exporter_unresolved_devices")) == 1
    assert page.values("gpu_allocated_ratio", "uuid") == {G0: 0, G1: 0}


async def test_running_gpu_pod_without_devices_shows_the_gap(tmp_path: Path) -> None:
    """A kubelet that lost its checkpoint admits GPU pods and records nothing (POD-13)."""
    container = SimContainer(name="main", id=container_id(1), limits={WHOLE: "1"})
    pod = SimPod(name="train-0", namespace="team-red", uid=uid(1), containers=(container,))
    async with a_line(tmp_path, _world(pod, tasks=(), devices=(SimDevice(uuid=G0, index=0),))) as line:
        page = await line.cycle()
    assert page.value("gpu_pod_devices_requested", pod="train-0") == 1
    assert page.value("gpu_pod_devices_assigned", pod="train-0") == 0
    assert not page.series("gpu_container_allocation_ratio")
    assert page.value("gpu_allocated_ratio", uuid=G0) == 0


async def test_passthrough_id_is_nobodys_index(tmp_path: Path) -> None:
    """An IOMMU group number names no GPU of ours, and its pod is not forgotten (POD-05)."""
    async with a_line(tmp_path, _world(a_sim_pod(1, "vm7", "1", resource="nvidia.com/PGPU"), tasks=())) as line:
        page = await line.cycle()
    assert not page.series("gpu_container_allocation_ratio")
    assert page.series("gpu_exporter_unresolved_allocation_info", pod="vm7", resource="nvidia.com/PGPU")


@pytest.mark.parametrize("old", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"in_api": False}])
async def test_pod_that_has_ended_holds_nothing_whatever_the_kubelet_lists(tmp_path: Path, old: dict[str, Any]) -> None:
    """A GPU is not billed to a dead job, nor to the dead job and its successor (STALE-01)."""
    old_job, new_job = a_sim_pod(1, "old-job", G0, **old), a_sim_pod(2, "new-job", G0)
    lists_both = {"kubelet_lists_terminal": True}
    async with a_line(tmp_path, _world(old_job, new_job, tasks=(), **lists_both)) as line:
        both = await line.cycle()
        only_old = await line.show(_world(old_job, tasks=(), **lists_both))
    assert _holders(both) == {"new-job": (G0, 1.0)}
    assert both.value("gpu_allocated_ratio", uuid=G0) == 1
    assert _holders(only_old) == {}
    # Of a pod that the API does not know we cannot say that it has ended: its GPU is nobody's by our word, and not free by it.
    assert only_old.value("gpu_allocated_ratio", uuid=G0) == (None if "in_api" in old else 0)


async def test_device_series_keep_their_identity_while_pods_come_and_go(tmp_path: Path) -> None:
    """Ownership is in other series, to join by UUID (STALE-03)."""
    worlds = [_world(tasks=()), b0(), _world(a_sim_pod(7, "batch-1", G0), tasks=()), _world(tasks=())]
    async with a_line(tmp_path, worlds[0]) as line:
        pages = [await line.show(world) for world in worlds]
    names = ("gpu_info", "gpu_up", "gpu_utilization_ratio", "gpu_power_watts", "gpu_energy_joules_total", "gpu_allocated_ratio")
    for name in names:
        assert len({frozenset(page.label_sets(name)) for page in pages}) == 1, name


async def test_sharers_get_their_shares_in_every_order_of_the_list(tmp_path: Path) -> None:
    """A map from device to one pod lets the last writer win; the kubelet's order is random (SHARE-01)."""
    ids = tuple(f"{G0}::{number}" for number in range(4))
    pods = [a_sim_pod(10 + number, f"s-{number}", ids[number]) for number in range(4)]
    processes = tuple(SimProcess(pid=5000 + n, memory=(n + 1) * GIB, sm=5) for n in range(4))
    world = _world(
        *pods,
        devices=(SimDevice(uuid=G0, index=0, utilization=20, processes=processes),),
        tasks=tuple(task_of(5000 + number, 10 + number) for number in range(4)),
        allocatable={WHOLE: ids},
    )
    shuffle = random.Random(7)
    async with a_line(tmp_path, world) as line:
        pages = []
        for _ in range(10):
            shuffle.shuffle(pods)
            pages.append(await line.show(replace(world, pods=tuple(pods))))
    assert _holders(pages[0]) == {f"s-{number}": (G0, 0.25) for number in range(4)}
    memory = pages[0].values("gpu_container_memory_used_bytes", "pod")
    assert memory == {f"s-{number}": (number + 1) * GIB for number in range(4)}
    for page in pages:
        assert _holders(page) == _holders(pages[0])
        assert page.label_sets("gpu_container_") == pages[0].label_sets("gpu_container_")


async def test_bare_pod_is_its_own_workload_and_its_namespace_names_the_team(tmp_path: Path) -> None:
    """Notebooks and debug pods are not dropped, nor merged into one nameless workload (OWN-03)."""
    async with a_line(tmp_path, _world(a_sim_pod(1, "nb-anna", G0), tasks=())) as line:
        page = await line.cycle()
    (owner,) = page.series("gpu_pod_owner_info")
    assert (owner.labels["workload_type"], owner.labels["workload"]) == ("barepod", "nb-anna")
    assert (owner.labels["team"], owner.labels["team_source"]) == ("red", "namespace_label")
