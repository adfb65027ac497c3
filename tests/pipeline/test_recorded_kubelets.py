"""What real kubelets said, behind real sockets: every GPU process lands on its pod, every allocation on its device."""

from collections import Counter
from pathlib import Path

import pytest

from exporter.simulator.world import GIB
from tests.line import a_line
from tests.worlds import MIG_GPU, UNHELD_GPU, recorded_containers, recorded_uuid, recorded_world

RECORDINGS = (
    "api-mixed",
    "standalone-systemd-driver",
    "api-timeslice-nvidia.com-gpu",
    "api-migsingle-nvidia.com-gpu",
    "api-mirror-pod",
)


@pytest.mark.parametrize("folder", RECORDINGS)
async def test_recorded_node_resolves_completely(tmp_path: Path, folder: str) -> None:
    """No device and no process of the recording stays unresolved, and each process is its own container's."""
    world = recorded_world(folder)
    async with a_line(tmp_path, world) as line:
        page = await line.cycle()
    assert not page.series("gpu_exporter_unresolved_devices")
    assert not page.series("gpu_exporter_unresolved_pids")
    assert not page.series("gpu_exporter_unresolved_allocation_info")
    assert not page.series("gpu_exporter_conflicts")
    assert page.value("gpu_exporter_source_up", source="pod_resources") == 1
    assert page.value("gpu_exporter_source_up", source="pods") == 1
    expected: Counter[tuple[str, str, str]] = Counter()
    by_pid = {
        found.pid: (found.namespace, found.pod, found.container)
        for found in recorded_containers(folder)
        if found.container and found.pid
    }
    for device in world.devices:
        for process in device.processes:
            expected[by_pid[process.pid]] += process.memory
    assert expected
    found = Counter[tuple[str, str, str]]()
    for sample in page.series("gpu_container_memory_used_bytes"):
        labels = sample.labels
        found[labels["namespace"], labels["pod"], labels["container"]] += int(sample.value)
    assert found == expected


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        (
            "api-mixed",
            {
                ("whole-gpu-7cd7d7dd59-9bw82", "main", recorded_uuid(0), ""): 1.0,
                ("multi", "trainer", recorded_uuid(1), ""): 1.0,
                ("shared-7d9bd958f5-bldpp", "main", recorded_uuid(4), ""): 0.25,
                ("shared-7d9bd958f5-qbptq", "main", recorded_uuid(4), ""): 0.25,
                ("init-sidecar", "gpuside", recorded_uuid(4), ""): 0.25,
                ("mig-0", "main", recorded_uuid(MIG_GPU), "7"): 1 / 7,
                ("multi", "migger", recorded_uuid(MIG_GPU), "8"): 1 / 7,
                ("init-both", "main", recorded_uuid(MIG_GPU), "9"): 1 / 7,
            },
        ),
        (
            "api-timeslice-nvidia.com-gpu",
            {
                ("ts-1", "main", recorded_uuid(0), ""): 0.25,
                ("ts-2", "main", recorded_uuid(0), ""): 0.25,
                ("ts-two", "main", recorded_uuid(0), ""): 0.5,
            },
        ),
        (
            "api-migsingle-nvidia.com-gpu",
            {
                ("ms-1", "main", recorded_uuid(MIG_GPU), "7"): 1 / 7,
                ("ms-two", "main", recorded_uuid(MIG_GPU), "8"): 1 / 7,
                ("ms-two", "main", recorded_uuid(MIG_GPU), "9"): 1 / 7,
            },
        ),
        ("api-mirror-pod", {("static-gpu-tbnode", "main", recorded_uuid(0), ""): 1.0}),
    ],
)
async def test_recorded_allocation_is_laid_on_its_device(
    tmp_path: Path, folder: str, expected: dict[tuple[str, str, str, str], float]
) -> None:
    """Whole GPUs, replicas and MIG devices of both strategies, with the share that each is."""
    async with a_line(tmp_path, recorded_world(folder)) as line:
        page = await line.cycle()
    found = {
        (
            sample.labels["pod"],
            sample.labels["container"],
            sample.labels["uuid"],
            sample.labels.get("gpu_instance_id", ""),
        ): sample.value
        for sample in page.series("gpu_container_allocation_ratio")
    }
    assert found == pytest.approx(expected)


async def test_containers_that_use_without_holding_are_named(tmp_path: Path) -> None:
    """Processes never make a holder, and what they use is seen: here, on the GPU that nobody was given."""
    async with a_line(tmp_path, recorded_world("api-mixed")) as line:
        page = await line.cycle()
    users = {(s.labels["pod"], s.labels["container"]) for s in page.series("gpu_container_unallocated_use")}
    assert users == {("plain", "main"), ("init-gpu", "main"), ("init-sidecar", "main"), ("multi", "sidecar")}
    assert page.value("gpu_allocated_ratio", uuid=recorded_uuid(UNHELD_GPU)) == 0
    assert page.value("gpu_container_memory_used_bytes", pod="plain") == GIB
