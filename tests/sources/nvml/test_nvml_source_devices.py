"""Devices that fail, go, come and move: each costs itself only and keeps who it is."""

import logging
from dataclasses import replace

import pytest

from exporter.model.device import DeviceTrouble, MigMode
from exporter.simulator.world import GIB, NvmlFault, SimDevice, SimMig, SimProcess
from tests.sources.nvml.conftest import Node, read_device, read_devices, value_of

HANDLE = "nvmlDeviceGetHandleByIndex_v2"
A = SimDevice(uuid="GPU-a", index=0, utilization=40, processes=(SimProcess(pid=4001, memory=20 * GIB, sm=35),))
B = SimDevice(uuid="GPU-b", index=1, utilization=50)
EIGHT = tuple(SimDevice(uuid=f"GPU-{index}", index=index, utilization=index) for index in range(8))

TROUBLES = [
    (15, DeviceTrouble.LOST),
    (16, DeviceTrouble.RESET_REQUIRED),
    (10, DeviceTrouble.TIMEOUT),
    (4, DeviceTrouble.NO_PERMISSION),
    (999, DeviceTrouble.UNKNOWN),
    (8, DeviceTrouble.UNKNOWN),
]


@pytest.mark.parametrize(("code", "trouble"), TROUBLES)
async def test_one_failing_gpu_gives_seven_good_ones(node: Node, code: int, trouble: DeviceTrouble) -> None:
    """A GPU that fails every call keeps its identity, measures nothing, leaves the others alone, and can recover (LIFE-01)."""
    source = node.open()
    node.show(*EIGHT)
    before = await read_devices(source)
    node.show(*EIGHT, faults=(NvmlFault(symbol="*", device=3, code=code),))
    for _ in range(3):
        state = value_of(await source.read())
        assert state.unidentified_devices == ()
        assert [device for device in state.devices if device.up] == [device for device in before if device.index != 3]
        lost = state.devices[3]
        assert lost.trouble is trouble
        assert (lost.uuid, lost.model, lost.pci_bus_id) == ("GPU-3", before[3].model, before[3].pci_bus_id)
        assert (lost.minor_number, lost.architecture, lost.mig_mode) == (3, "Hopper", MigMode.DISABLED)
        assert (lost.utilization_ratio, lost.memory_total_bytes, lost.processes, lost.process_use) == (None, None, None, None)
        assert (dict(lost.ecc_errors), lost.power_watts, lost.energy_joules) == ({}, None, None)
    node.show(*EIGHT)
    assert await read_devices(source) == before


@pytest.mark.parametrize(("code", "trouble"), TROUBLES)
async def test_start_beside_a_failing_gpu_gives_the_others(node: Node, code: int, trouble: DeviceTrouble) -> None:
    """A GPU that never told its UUID is counted by its index, and the other one is complete (LIFE-01)."""
    node.show(A, B, faults=(NvmlFault(symbol="*", device=0, code=code),))
    source = node.open()
    state = value_of(await source.read())
    assert state.unidentified_devices == ((0, trouble),)
    assert [(device.uuid, device.index, device.up) for device in state.devices] == [("GPU-b", 1, True)]
    node.show(A, B)
    state = value_of(await source.read())
    assert state.unidentified_devices == ()
    assert [(device.uuid, device.index, device.up) for device in state.devices] == [("GPU-a", 0, True), ("GPU-b", 1, True)]


@pytest.mark.parametrize("code", [15, 16])
@pytest.mark.parametrize(
    "symbol",
    [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetProcessesUtilizationInfo",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetName",
    ],
)
async def test_loss_that_any_call_tells_is_the_loss_of_the_device(node: Node, symbol: str, code: int) -> None:
    """A GPU that goes in the middle of a cycle shows nothing that was read just before (LIFE-01)."""
    source = node.open()
    node.show(A, B, faults=(NvmlFault(symbol=symbol, device=0, code=code),))
    lost, healthy = await read_devices(source)
    assert lost.trouble is dict(TROUBLES)[code]
    assert (lost.uuid, lost.utilization_ratio, lost.memory_used_bytes, lost.processes) == ("GPU-a", None, None, None)
    assert healthy.utilization_ratio == 0.5
    node.show(A, B)
    assert (await read_device(source)).utilization_ratio == 0.4


async def test_access_to_device_files_taken_away_keeps_what_is_open(node: Node) -> None:
    """A handle is kept between cycles: that it could not be had again costs nothing."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(A, B, faults=(NvmlFault(symbol=HANDLE, code=4),))
    assert [device.up for device in await read_devices(source)] == [True, True]


async def test_lost_mig_gpu_keeps_its_layout_and_no_memory(node: Node) -> None:
    """What is held on a lost GPU can still be named: its instances stay, with nothing measured (LIFE-01)."""
    source = node.open()
    sliced = SimDevice(uuid="GPU-m", index=0, mig_mode=1, migs=(SimMig(uuid="MIG-1", gi=1, memory_used=GIB),))
    node.show(sliced, B)
    before = await read_device(source)
    assert before.mig_instances[0].memory_used_bytes == GIB
    node.show(sliced, B, faults=(NvmlFault(symbol="*", device=0, code=15),))
    lost = await read_device(source)
    assert (lost.mig_mode, lost.mig_slices) == (MigMode.ENABLED, 7)
    assert lost.mig_instances == (replace(before.mig_instances[0], memory_used_bytes=None, memory_total_bytes=None),)


async def test_gpu_that_is_counted_no_more_stays_lost_and_renames_nobody(node: Node) -> None:
    """If the driver forgets a GPU, its UUID stays as lost and the others keep their first index (LIFE-01)."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(replace(B, index=0))
    for _ in range(3):
        gone, other = await read_devices(source)
        assert (gone.uuid, gone.index, gone.trouble) == ("GPU-a", 0, DeviceTrouble.LOST)
        assert (other.uuid, other.index, other.up) == ("GPU-b", 1, True)
    node.show(A, B)
    assert [(device.uuid, device.index, device.up) for device in await read_devices(source)] == [
        ("GPU-a", 0, True),
        ("GPU-b", 1, True),
    ]


async def test_gpu_that_is_gone_is_forgotten_when_the_driver_starts_anew(node: Node) -> None:
    """A new start of the driver ends what was lost; who stays keeps the index of first sight."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(A, B, faults=(NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9),))
    await source.read()
    node.show(replace(B, index=0))
    node.clock.seconds += 1.0
    assert [(device.uuid, device.index) for device in await read_devices(source)] == [("GPU-b", 1)]


async def test_gpu_that_fails_from_a_new_start_on_keeps_its_name(node: Node) -> None:
    """After a new start the index that does not answer is the UUID last seen there, if that is nowhere else."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(A, B, faults=(NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9),))
    await source.read()
    node.show(A, B, faults=(NvmlFault(symbol="*", device=0, code=15),))
    node.clock.seconds += 1.0
    for _ in range(2):
        state = value_of(await source.read())
        assert [(device.uuid, device.trouble) for device in state.devices] == [("GPU-a", DeviceTrouble.LOST), ("GPU-b", None)]
        assert state.unidentified_devices == ()


async def test_gpu_that_took_the_place_of_another_is_noticed_at_once(node: Node) -> None:
    """Behind a known index another UUID is another device, with its own identity; the old one is lost."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(SimDevice(uuid="GPU-c", index=0, name="NVIDIA L4", architecture=8, minor=7, utilization=60), B)
    devices = {device.uuid: device for device in await read_devices(source)}
    assert {uuid: device.trouble for uuid, device in devices.items()} == {
        "GPU-a": DeviceTrouble.LOST,
        "GPU-b": None,
        "GPU-c": None,
    }
    new = next(device for uuid, device in devices.items() if uuid == "GPU-c")
    assert (new.index, new.model, new.architecture, new.minor_number) == (0, "NVIDIA L4", "Ada", 7)
    assert new.utilization_ratio == 0.6


async def test_silent_index_is_the_device_that_was_seen_there_last(node: Node) -> None:
    """After a replacement the index stands for the new device, and the old one stays lost."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    new = SimDevice(uuid="GPU-c", index=0)
    node.show(new, B)
    await read_devices(source)
    node.show(new, B, faults=(NvmlFault(symbol="*", device=0, code=16),))
    state = value_of(await source.read())
    assert {device.uuid: device.trouble for device in state.devices} == {
        "GPU-a": DeviceTrouble.LOST,
        "GPU-b": None,
        "GPU-c": DeviceTrouble.RESET_REQUIRED,
    }
    assert state.unidentified_devices == ()


async def test_gpus_that_move_up_and_one_that_is_added_are_all_seen(node: Node) -> None:
    """A handle that was cached for an index and turns out to be that of its neighbour hides nobody."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(replace(B, index=0), SimDevice(uuid="GPU-c", index=1))
    assert {device.uuid: device.up for device in await read_devices(source)} == {"GPU-a": False, "GPU-b": True, "GPU-c": True}


async def test_gpus_that_swap_their_places_keep_their_index(node: Node) -> None:
    """The index is the one at first sight of the UUID, and readings follow the UUID."""
    source = node.open()
    node.show(A, B)
    await read_devices(source)
    node.show(replace(A, index=1), replace(B, index=0))
    assert [(device.uuid, device.index, device.utilization_ratio) for device in await read_devices(source)] == [
        ("GPU-a", 0, 0.4),
        ("GPU-b", 1, 0.5),
    ]


async def test_gpu_that_comes_later_is_seen_in_the_next_cycle(node: Node) -> None:
    """The count is asked in each cycle."""
    source = node.open()
    node.show(A)
    assert len(await read_devices(source)) == 1
    node.show(A, B)
    assert [device.uuid for device in await read_devices(source)] == ["GPU-a", "GPU-b"]


async def test_loss_and_return_of_a_gpu_are_logged_once_each(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Transitions are logged, cycles are not."""
    caplog.set_level(logging.INFO)
    source = node.open()
    for faults in ((), (NvmlFault(symbol="*", device=0, code=15),), ()):
        node.show(A, B, faults=faults)
        for _ in range(3):
            await read_devices(source)
    assert caplog.messages == ["GPU 0 (GPU-a) does not answer: lost", "GPU 0 (GPU-a) answers again"]


async def test_gpu_that_never_told_its_name_is_logged_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A broken GPU does not fill the log."""
    caplog.set_level(logging.INFO)
    node.show(A, B, faults=(NvmlFault(symbol="*", device=0, code=15),))
    source = node.open()
    for _ in range(5):
        await read_devices(source)
    assert caplog.messages == ["GPU at index 0 does not tell its UUID: lost"]
