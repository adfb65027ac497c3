"""Processes on a device: merged over the lists, never guessed, never 0 for unknown."""

import ctypes
from dataclasses import replace

import pynvml
import pytest

from exporter.model.device import GpuProcess, ProcessKind, ProcessUse, RejectedReading
from exporter.simulator.world import GIB, NOT_AVAILABLE, NvmlFault, SimDevice, SimMig, SimProcess
from exporter.sources.nvml import mig, processes
from exporter.sources.nvml.library import read_records
from exporter.sources.nvml.readings import Calls, Readings, Watch
from tests.sources.nvml.conftest import Node, read_device, read_devices, value_of

COMPUTE = ProcessKind.COMPUTE
GRAPHICS = ProcessKind.GRAPHICS
MPS = ProcessKind.MPS
COMPUTE_LIST = "nvmlDeviceGetComputeRunningProcesses"
OTHER_LISTS = ["nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"]
SAMPLES = "nvmlDeviceGetProcessUtilization"

TRAIN = SimProcess(pid=4001, memory=20 * GIB, sm=35)
G0 = SimDevice(uuid="GPU-0", index=0, processes=(TRAIN,))
G1 = SimDevice(uuid="GPU-1", index=1, processes=(SimProcess(pid=5001, memory=GIB),))


async def test_process_in_two_lists_counts_once(node: Node) -> None:
    """A process that computes and renders is one process with one memory; one that only renders is not missed (PID-14)."""
    both = SimProcess(pid=4001, memory=6 * GIB, lists=frozenset({"compute", "graphics"}))
    renders = SimProcess(pid=4002, memory=GIB, lists=frozenset({"graphics"}))
    node.show(replace(G0, processes=(renders, both)))
    found = (await read_device(node.open())).processes
    assert found == (GpuProcess(4001, frozenset({COMPUTE, GRAPHICS}), 6 * GIB), GpuProcess(4002, frozenset({GRAPHICS}), GIB))


async def test_process_that_two_lists_measure_differently_has_the_larger_memory(node: Node) -> None:
    """The lists are read one after the other: the largest figure counts, never the sum, and a figure beats none (PID-14)."""
    listed = (
        SimProcess(pid=4001, memory=6 * GIB),
        SimProcess(pid=4001, memory=7 * GIB, lists=frozenset({"graphics"})),
        SimProcess(pid=4002, memory=NOT_AVAILABLE),
        SimProcess(pid=4002, memory=GIB, lists=frozenset({"mps"})),
    )
    node.show(replace(G0, processes=listed))
    assert (await read_device(node.open())).processes == (
        GpuProcess(4001, frozenset({COMPUTE, GRAPHICS}), 7 * GIB),
        GpuProcess(4002, frozenset({COMPUTE, MPS}), GIB),
    )


async def test_process_memory_that_is_not_available_is_none_and_the_process_stays(node: Node) -> None:
    """All ones is no number of bytes; the device's own memory does not suffer (NVML-01)."""
    node.show(replace(G0, memory_used=20 * GIB, processes=(replace(TRAIN, memory=NOT_AVAILABLE),)))
    device = await read_device(node.open())
    assert device.processes == (GpuProcess(4001, frozenset({COMPUTE}), None),)
    assert device.memory_used_bytes == 20 * GIB
    assert device.rejected == (RejectedReading("process_memory", "not_available"),)


async def test_process_with_more_memory_than_its_gpu_has_none(node: Node) -> None:
    """No process holds more than the whole device (NVML-01)."""
    node.show(replace(G0, memory_used=0, processes=(replace(TRAIN, memory=80 * GIB + 1),)))
    device = await read_device(node.open())
    assert device.processes == (GpuProcess(4001, frozenset({COMPUTE}), None),)
    assert device.rejected == (RejectedReading("process_memory", "out_of_range"),)


async def test_process_outside_mig_mode_has_no_instance(node: Node) -> None:
    """All ones for an instance id is no instance (NVML-15)."""
    node.show(G0)
    assert (await read_device(node.open())).processes == (GpuProcess(4001, frozenset({COMPUTE}), 20 * GIB, None, None),)


@pytest.mark.parametrize("pid", [0, 0xFFFFFFFF, (1 << 22) + 1])
async def test_list_with_a_pid_that_no_process_can_have_is_not_believed(node: Node, pid: int) -> None:
    """The record was misread: no process data beats wrong data, and an empty holder would be wrong (NVML-09)."""
    node.show(replace(G0, processes=(SimProcess(pid=pid, memory=GIB, sm=10), TRAIN)))
    device = await read_device(node.open())
    assert device.processes is None
    assert [one.pid for one in device.process_use or ()] == [4001]
    assert {one.reading for one in device.rejected} == {"process_pid", "process_utilization"}


async def test_memory_in_use_with_nobody_there_is_an_empty_list(node: Node) -> None:
    """The device says what is used and that nobody is listed: both are known (PID-15)."""
    node.show(replace(G0, memory_used=30 * GIB, processes=()))
    device = await read_device(node.open())
    assert (device.memory_used_bytes, device.processes) == (30 * GIB, ())


@pytest.mark.parametrize("code", [4, 6, 27, 999])
async def test_list_that_fails_is_unknown_for_that_reading_and_never_empty(node: Node, code: int) -> None:
    """20 GiB, unknown, 20 GiB: a failed look-up does not turn into nobody (NVML-17)."""
    source = node.open()
    seen: list[object] = []
    for faults in ((), (NvmlFault(symbol=f"{COMPUTE_LIST}_v3", device=0, code=code),), ()):
        node.show(G0, G1, faults=faults)
        sick, healthy = await read_devices(source)
        seen.append((sick.processes, [call for call, _ in sick.failed_calls]))
        assert healthy.processes == (GpuProcess(5001, frozenset({COMPUTE}), GIB),)
    there: object = ((GpuProcess(4001, frozenset({COMPUTE}), 20 * GIB),), [])
    assert seen == [there, (None, [f"{COMPUTE_LIST}_v3"]), there]


@pytest.mark.parametrize("name", OTHER_LISTS)
@pytest.mark.parametrize("code", [4, 999])
async def test_any_supported_list_that_fails_makes_the_processes_unknown(node: Node, name: str, code: int) -> None:
    """A part of the processes is not published as all of them (NVML-17)."""
    node.show(G0, faults=(NvmlFault(symbol=f"{name}_v3", code=code),))
    assert (await read_device(node.open())).processes is None


@pytest.mark.parametrize("code", [3, 13])
async def test_lists_that_a_gpu_does_not_have_are_not_missed(node: Node, code: int) -> None:
    """Without a graphics and an MPS list the compute list is all (NVML-10)."""
    faults = tuple(NvmlFault(symbol=name + version, code=code) for name in OTHER_LISTS for version in ("_v3", "_v2"))
    node.show(G0, faults=faults)
    device = await read_device(node.open())
    assert device.processes == (GpuProcess(4001, frozenset({COMPUTE}), 20 * GIB),)
    assert device.failed_calls == ()


async def test_gpu_without_a_compute_list_has_unknown_processes(node: Node) -> None:
    """Not supported is unknown, not nobody (NVML-17)."""
    node.show(G0, faults=tuple(NvmlFault(symbol=COMPUTE_LIST + version, code=3) for version in ("_v3", "_v2")))
    assert (await read_device(node.open())).processes is None


async def test_older_list_is_read_where_the_newer_one_is_missing(node: Node) -> None:
    """The second version of a list has the same records (NVML-10)."""
    names = [COMPUTE_LIST, *OTHER_LISTS]
    node.show(G0, faults=tuple(NvmlFault(symbol=f"{name}_v3", code=13) for name in names))
    source = node.open()
    for _ in range(2):
        assert (await read_device(source)).processes == (GpuProcess(4001, frozenset({COMPUTE}), 20 * GIB),)


async def test_list_longer_than_any_first_guess_is_read_whole(node: Node) -> None:
    """A thousand processes are a thousand processes (NVML-08)."""
    crowd = tuple(SimProcess(pid=10_000 + number, memory=1, sm=0) for number in range(1000))
    node.show(replace(G0, processes=crowd))
    device = await read_device(node.open())
    assert [one.pid for one in device.processes or ()] == [one.pid for one in crowd]
    assert len(device.process_use or ()) == 1000


async def test_list_that_never_fits_is_given_up(node: Node) -> None:
    """Always insufficient costs that device's processes in that cycle, and nothing else (NVML-08)."""
    node.show(G0, G1, faults=(NvmlFault(symbol=f"{COMPUTE_LIST}_v3", device=0, code=7),))
    sick, healthy = await read_devices(node.open())
    assert sick.processes is None
    assert sick.failed_calls == ((f"{COMPUTE_LIST}_v3", "insufficient_size"),)
    assert sick.memory_used_bytes == 20 * GIB
    assert healthy.processes is not None


def test_list_that_grows_while_it_is_read_is_read_whole_with_room_to_spare() -> None:
    """Each try makes more room than the driver asked for, so that a growing list is caught up with (NVML-08)."""
    needed = iter((200, 500, 900))
    rooms: list[int] = []

    def fetch(records: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        room, count.value = count.value, next(needed)
        assert len(records) == room
        rooms.append(room)
        return int(pynvml.NVML_SUCCESS if count.value <= room else pynvml.NVML_ERROR_INSUFFICIENT_SIZE)

    assert len(read_records(pynvml.c_nvmlProcessInfo_v3_t, fetch)) == 900
    assert rooms == [128, 400, 1000]


def test_count_beyond_the_room_given_is_not_believed() -> None:
    """A driver that claims more records than there was room for is read no further than the array goes."""

    def fetch(_: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        count.value = 1 << 30
        return int(pynvml.NVML_SUCCESS)

    assert len(read_records(pynvml.c_nvmlProcessInfo_v3_t, fetch)) == 128


async def test_gpu_on_which_nobody_ran_has_an_empty_use_and_no_error(node: Node) -> None:
    """NOT_FOUND is an answer: nobody ran (NVML-06)."""
    idle = replace(G0, processes=())
    source = node.open()
    for faults in ((), (NvmlFault(symbol=SAMPLES, device=0, code=6),)):
        node.show(idle, G1, faults=faults)
        for _ in range(5):
            device = await read_device(source)
            assert device.process_use == ()
            assert device.failed_calls == ()


@pytest.mark.parametrize("percent", [101, 4294967295])
async def test_use_above_all_is_dropped_and_counted(node: Node, percent: int) -> None:
    """A process' absurd share is not passed on, and its neighbour's is (NVML-02)."""
    node.show(replace(G0, processes=(replace(TRAIN, sm=percent), SimProcess(pid=4002, sm=100), SimProcess(pid=4003, sm=0))))
    device = await read_device(node.open())
    assert device.process_use == (ProcessUse(4001, None), ProcessUse(4002, 1.0), ProcessUse(4003, 0.0))
    assert device.rejected == (RejectedReading("process_utilization", "out_of_range"),)


async def test_sample_that_was_seen_before_is_not_counted_again(node: Node) -> None:
    """Entries as old as the last ones are dropped and counted, by the driver's own time; new ones are taken (NVML-06)."""
    source = node.open()
    seen, rejected = [], []
    for at_us, percent in ((1_000, 35), (1_000, 35), (900, 80), (1_001, 40), (1_001, 40)):
        node.show(replace(G0, processes=(replace(TRAIN, sm=percent, sm_timestamp=at_us),)))
        device = await read_device(source)
        seen.append([use.sm_ratio for use in device.process_use or ()])
        rejected += [one.reason for one in device.rejected]
    assert seen == [[0.35], [], [], [0.4], []]
    assert rejected == ["stale"] * 3


async def test_newest_of_several_samples_of_a_process_counts(node: Node) -> None:
    """One process has one share, whatever the order of its entries."""
    entries = (
        replace(TRAIN, sm=10, sm_timestamp=2_000),
        replace(TRAIN, sm=20, sm_timestamp=3_000),
        replace(TRAIN, sm=30, sm_timestamp=1_000),
    )
    node.show(replace(G0, processes=entries))
    assert (await read_device(node.open())).process_use == (ProcessUse(4001, 0.2),)


async def test_absurd_sample_does_not_move_the_time_that_is_asked_from(node: Node) -> None:
    """A garbage entry from the far future does not hide what comes next."""
    source = node.open()
    node.show(replace(G0, processes=(replace(TRAIN, sm=999, sm_timestamp=1 << 60),)))
    assert (await read_device(source)).process_use == (ProcessUse(4001, None),)
    node.show(replace(G0, processes=(replace(TRAIN, sm=50, sm_timestamp=5_000),)))
    assert (await read_device(source)).process_use == (ProcessUse(4001, 0.5),)


async def test_time_of_the_samples_starts_anew_with_the_driver(node: Node) -> None:
    """After a reload the driver's time may have fallen back, and its samples are taken all the same."""
    source = node.open()
    node.show(replace(G0, processes=(replace(TRAIN, sm_timestamp=9_000),)))
    assert (await read_device(source)).process_use == (ProcessUse(4001, 0.35),)
    node.show(G0, faults=(NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9),))
    await source.read()
    node.show(replace(G0, processes=(replace(TRAIN, sm_timestamp=100),)))
    node.clock.seconds += 1.0
    assert (await read_device(source)).process_use == (ProcessUse(4001, 0.35),)


@pytest.mark.parametrize("code", [3, 13])
async def test_newer_call_is_asked_where_the_older_one_is_not_supported(node: Node, code: int) -> None:
    """Both calls tell the same (NVML-10)."""
    node.show(G0, faults=(NvmlFault(symbol=SAMPLES, code=code),))
    source = node.open()
    for _ in range(2):
        device = await read_device(source)
        assert device.process_use == (ProcessUse(4001, 0.35),)
        assert device.failed_calls == ()


async def test_nobody_ran_is_known_from_the_newer_call_too(node: Node) -> None:
    """NOT_FOUND of the newer call is an answer as well (NVML-06)."""
    node.show(replace(G0, processes=()), faults=(NvmlFault(symbol=SAMPLES, code=13),))
    device = await read_device(node.open())
    assert (device.process_use, device.failed_calls) == ((), ())


async def test_instances_are_asked_one_by_one_where_their_gpu_may_not_list_them(node: Node) -> None:
    """Without the right to see all instances each MIG device lists its own processes, with its own ids (LIFE-08).

    The GPU's handle stands for a neighbour whose lists are refused: the stand-in refuses a GPU and its instances together.
    """
    held = (SimProcess(pid=4001, memory=2 * GIB, gi=1, ci=0), SimProcess(pid=4002, memory=GIB, gi=2, ci=0))
    migs = (SimMig(uuid="MIG-1", gi=1), SimMig(uuid="MIG-2", gi=2))
    refused = NvmlFault(symbol=f"{COMPUTE_LIST}_v3", device=1, code=4)
    node.show(replace(G0, mig_mode=1, migs=migs, processes=held), G1, faults=(refused,))
    source = node.open()
    value_of(await source.read())
    readings = Readings(Calls(), Watch(), "GPU")
    live = mig.read_instances(readings, pynvml.nvmlDeviceGetHandleByIndex(0), 7, {}, "GPU")
    neighbour = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert processes.read_processes(readings, neighbour, live, 80 * GIB) == (
        GpuProcess(4001, frozenset({COMPUTE}), 2 * GIB, 1, 0),
        GpuProcess(4002, frozenset({COMPUTE}), GIB, 2, 0),
    )
    assert readings.failed == [(f"{COMPUTE_LIST}_v3", "no_permission")]


async def test_instances_of_which_one_fails_make_the_processes_unknown(node: Node) -> None:
    """If neither the GPU nor each of its instances lists its processes, none are published (NVML-17)."""
    held = (SimProcess(pid=4001, memory=2 * GIB, gi=1, ci=0),)
    node.show(
        replace(G0, mig_mode=1, migs=(SimMig(uuid="MIG-1", gi=1),), processes=held),
        faults=(NvmlFault(symbol=f"{COMPUTE_LIST}_v3", device=0, code=4),),
    )
    device = await read_device(node.open())
    assert device.processes is None
    assert [one.uuid for one in device.mig_instances] == ["MIG-1"]
