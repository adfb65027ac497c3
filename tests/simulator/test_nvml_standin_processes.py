"""What the simulated driver tells of processes, read through the unmodified binding."""

import ctypes
import time
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from exporter.simulator.world import NOT_AVAILABLE, SimDevice, SimProcess
from tests.simulator.conftest import Driver, error_of

UTILIZATION_CALLS = pytest.mark.parametrize(
    "call", [pynvml.nvmlDeviceGetProcessUtilization, pynvml.nvmlDeviceGetProcessesUtilizationInfo]
)


def show_processes(nvml: Driver, *processes: SimProcess) -> Any:
    nvml.show(SimDevice(uuid="GPU-0", index=0, processes=processes))
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def test_each_list_holds_its_own_processes(nvml: Driver) -> None:
    """A process can be in several lists; the older and the newer call agree."""
    handle = show_processes(
        nvml,
        SimProcess(pid=1),
        SimProcess(pid=2, lists=frozenset({"graphics"})),
        SimProcess(pid=3, lists=frozenset({"compute", "mps"})),
        SimProcess(pid=4, lists=frozenset()),
    )
    expected = {"Compute": [1, 3], "Graphics": [2], "MPSCompute": [3]}
    for kind, pids in expected.items():
        for suffix in ("", "_v2", "_v3"):
            call = getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses{suffix}")
            assert [entry.pid for entry in call(handle)] == pids


def test_process_outside_mig_names_no_instance(nvml: Driver) -> None:
    """Memory is exact, both instance ids are all ones."""
    handle = show_processes(nvml, SimProcess(pid=0xFFFFFFFF, memory=123_456_789_012))
    (entry,) = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (entry.pid, entry.usedGpuMemory) == (0xFFFFFFFF, 123_456_789_012)
    assert (entry.gpuInstanceId, entry.computeInstanceId) == (0xFFFFFFFF, 0xFFFFFFFF)


def test_memory_that_is_not_available_is_none(nvml: Driver) -> None:
    """The all-ones sentinel reaches the binding, which makes None of it."""
    handle = show_processes(nvml, SimProcess(pid=1, memory=NOT_AVAILABLE))
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle)[0].usedGpuMemory is None


def test_list_without_room_asks_for_more(nvml: Driver) -> None:
    """Too little room is INSUFFICIENT_SIZE with the number that there is; none needed is a success."""
    call = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3
    handle = show_processes(nvml, *(SimProcess(pid=pid) for pid in range(1, 4)))
    for room in (0, 2):
        count = ctypes.c_uint(room)
        records = (pynvml.c_nvmlProcessInfo_v3_t * 4)()
        assert call(handle, ctypes.byref(count), records) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        assert (count.value, records[room].pid) == (3, 0)
    show_processes(nvml)
    count = ctypes.c_uint(0)
    assert (call(handle, ctypes.byref(count), None), count.value) == (pynvml.NVML_SUCCESS, 0)


@UTILIZATION_CALLS
def test_utilisation_is_told_for_the_processes_that_have_one(nvml: Driver, call: Callable[..., Any]) -> None:
    """Entries bear the time of the call; any 32-bit value is carried."""
    handle = show_processes(nvml, SimProcess(pid=1, sm=40), SimProcess(pid=2), SimProcess(pid=3, sm=0xFFFFFFFF))
    before = time.time_ns() // 1000
    entries = call(handle, 0)
    assert [(entry.pid, entry.smUtil) for entry in entries] == [(1, 40), (3, 0xFFFFFFFF)]
    assert all(before <= entry.timeStamp <= time.time_ns() // 1000 for entry in entries)


@UTILIZATION_CALLS
def test_more_entries_than_slots_are_all_told(nvml: Driver, call: Callable[..., Any]) -> None:
    """The size that the first call asks for is enough for everything that there is."""
    handle = show_processes(nvml, *(SimProcess(pid=pid, sm=1) for pid in range(1, 101)))
    assert len(call(handle, 0)) == 100


@UTILIZATION_CALLS
def test_nothing_newer_than_last_seen_is_not_found(nvml: Driver, call: Callable[..., Any]) -> None:
    """So it is for a GPU that nobody uses, and for a timestamp that is still to come."""
    idle = show_processes(nvml, SimProcess(pid=1))
    assert error_of(call, idle, 0) == pynvml.NVML_ERROR_NOT_FOUND
    busy = show_processes(nvml, SimProcess(pid=1, sm=9))
    assert error_of(call, busy, time.time_ns() // 1000 + 3_600_000_000) == pynvml.NVML_ERROR_NOT_FOUND


@UTILIZATION_CALLS
def test_timestamp_of_the_state_is_told_even_if_stale(nvml: Driver, call: Callable[..., Any]) -> None:
    """A driver's stale entry is served as it is, for callers to drop."""
    handle = show_processes(nvml, SimProcess(pid=1, sm=9, sm_timestamp=1000))
    assert [entry.timeStamp for entry in call(handle, 2000)] == [1000]


def test_first_utilisation_call_asks_for_room_whatever_there_is(nvml: Driver) -> None:
    """The size is that of the driver's ring, not that of the content."""
    count = ctypes.c_uint(0)
    handle = show_processes(nvml)
    code = pynvml.nvmlLib.nvmlDeviceGetProcessUtilization(handle, None, ctypes.byref(count), ctypes.c_ulonglong(0))
    assert (code, count.value) == (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 72)


def test_utilisation_of_a_version_that_is_not_there_is_refused(nvml: Driver) -> None:
    """The version field of the newer call is checked."""
    request = pynvml.c_nvmlProcessesUtilizationInfo_v1_t(version=pynvml.ProcessesUtilizationInfo_v1 + 1)
    code = pynvml.nvmlLib.nvmlDeviceGetProcessesUtilizationInfo(show_processes(nvml), ctypes.byref(request))
    assert code == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_samples_are_those_of_a_gpu_at_rest(nvml: Driver) -> None:
    """The ring has nothing newer to tell."""
    handle = show_processes(nvml)
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0) == pynvml.NVML_ERROR_NOT_FOUND
