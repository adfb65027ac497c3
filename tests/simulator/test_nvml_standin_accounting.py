"""Accounting mode of the simulated driver, read through the unmodified binding with the clock in hand."""

import ctypes
from typing import Any

import pynvml
import pytest

from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.world import GIB, SimBurst, SimDevice, SimMig, SimProcess
from tests.simulator.conftest import Driver, error_of


def bound(number: int) -> int:
    """Where slot `number` of the ring begins and the one before it ends."""
    return number * 10_000_000 // 72


def in_slots(pid: int, first: int, last: int, percent: int = 100) -> SimBurst:
    return SimBurst(pid=pid, start_us=bound(first), end_us=bound(last + 1), percent=percent)


def show(nvml: Driver, *load: SimBurst, **others: Any) -> Any:
    nvml.show(SimDevice(uuid="GPU-0", index=0, load=load, accounting=True, **others))
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def sums_of(handle: Any, pid: int) -> tuple[int, int]:
    stats = pynvml.nvmlDeviceGetAccountingStats_v2(handle, pid)
    return stats.sumGpuUtil, stats.sampleCount


def test_each_process_has_the_sum_of_its_slots(nvml: Driver, clock: SimClock) -> None:
    """Percent with two digits after the point, and the samples since the first that names it, others' among them."""
    handle = show(nvml, in_slots(1, 0, 1, 30), in_slots(2, 4, 5), in_slots(1, 6, 6))
    clock.set_us(bound(5) - 1)
    assert sums_of(handle, 1) == (60_00, 2)
    clock.set_us(bound(7))
    assert sums_of(handle, 1) == (160_00, 5)
    assert sums_of(handle, 2) == (200_00, 3)
    assert pynvml.nvmlDeviceGetAccountingStats_v2(handle, 1).gpuUtilization == 32


def test_recorded_rests_are_samples_of_everybody(nvml: Driver, clock: SimClock) -> None:
    """A ring that does not rest adds to the number of samples, and to no sum."""
    handle = show(nvml, in_slots(1, 2, 2), ring_rests=False)
    clock.set_us(bound(10))
    assert sums_of(handle, 1) == (100_00, 8)


def test_sums_keep_what_the_ring_has_lost(nvml: Driver, clock: SimClock) -> None:
    """Nothing is missed by who reads late, and reading twice adds nothing."""
    handle = show(nvml, in_slots(1, 0, 499), in_slots(2, 600, 1099, 50))
    for now in (3000, 3000, 4000):
        clock.set_us(bound(now))
        assert [sums_of(handle, pid) for pid in (1, 2)] == [(500 * 100_00, 1000), (500 * 50_00, 500)]


def test_clock_that_goes_back_takes_the_sums_with_it(nvml: Driver, clock: SimClock) -> None:
    """They are functions of the time, not of the calls before."""
    handle = show(nvml, in_slots(1, 0, 99), in_slots(2, 50, 99))
    sums: dict[int, list[tuple[int, int]]] = {}
    for now in (10, 60, 100, 60, 10, 100):
        clock.set_us(bound(now))
        found = [sums_of(handle, 1), sums_of(handle, 1)]
        assert sums.setdefault(now, found) == found
    assert sums[10][0] == (10 * 100_00, 10)


def test_new_world_keeps_the_sums(nvml: Driver, clock: SimClock) -> None:
    """What is past of a script adds up to the same, whatever else is shown."""
    show(nvml, in_slots(1, 0, 9))
    clock.set_us(bound(5))
    handle = show(nvml, in_slots(1, 0, 9), processes=(SimProcess(pid=1),))
    assert sums_of(handle, 1) == (500_00, 5)


def test_script_with_a_period_goes_on_adding(nvml: Driver, clock: SimClock) -> None:
    """Each play adds the same, and rests between the plays are skipped."""
    handle = show(nvml, in_slots(1, 0, 1), in_slots(2, 40, 40), load_period_us=10_000_000)
    clock.set_us(bound(72 * 1000))
    assert sums_of(handle, 1) == (2000 * 100_00, 3000)
    assert sums_of(handle, 2) == (1000 * 100_00, 2998)


def test_pids_are_those_that_have_begun_and_those_that_are_there(nvml: Driver, clock: SimClock) -> None:
    """A process stays after its end; one whose work is still to come is not known yet; each is told once."""
    handle = show(
        nvml, in_slots(5, 0, 0), in_slots(3, 2, 3), in_slots(4, 9, 9), processes=(SimProcess(pid=3), SimProcess(pid=9))
    )
    clock.set_us(bound(6))
    assert pynvml.nvmlDeviceGetAccountingPids(handle) == [3, 5, 9]
    count, pids = ctypes.c_uint(2), (ctypes.c_uint * 3)()
    call = pynvml.nvmlLib.nvmlDeviceGetAccountingPids
    assert call(handle, ctypes.byref(count), pids) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert (count.value, list(pids)) == (3, [3, 5, 0])
    assert error_of(pynvml.nvmlDeviceGetAccountingStats_v2, handle, 4) == pynvml.NVML_ERROR_NOT_FOUND
    assert sums_of(handle, 9) == (0, 0)


def test_stats_tell_who_runs_and_how_long_the_others_did(nvml: Driver, clock: SimClock) -> None:
    """Memory and running by the list of processes; start and length of a life by the script."""
    handle = show(nvml, in_slots(1, 9, 17), in_slots(2, 9, 17), processes=(SimProcess(pid=1, memory=GIB),))
    clock.set_us(bound(40))
    there, gone = (pynvml.nvmlDeviceGetAccountingStats_v2(handle, pid) for pid in (1, 2))
    assert (there.pid, there.isRunning, there.maxMemoryUsage, there.time, there.startTime) == (1, 1, GIB, 0, bound(9))
    assert (gone.pid, gone.isRunning, gone.maxMemoryUsage, gone.time, gone.startTime) == (2, 0, 0, 1250, bound(9))


def test_mode_that_is_off_has_nothing_to_tell(nvml: Driver) -> None:
    """Asking for the mode works, asking for its figures is not supported: by default, and with MIG."""
    assert pynvml.nvmlDeviceGetAccountingMode(show(nvml)) == 1
    mig = SimMig(uuid="MIG-a", gi=1)
    for device in (
        SimDevice(uuid="GPU-0", index=0, load=()),
        SimDevice(uuid="GPU-0", index=0, load=(), accounting=True, mig_mode=1, migs=(mig,)),
    ):
        nvml.show(device)
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetAccountingMode(handle) == 0
        assert error_of(pynvml.nvmlDeviceGetAccountingPids, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetAccountingStats_v2, handle, 1) == pynvml.NVML_ERROR_NOT_SUPPORTED
    mode = (pynvml.nvmlDeviceGetAccountingMode, pynvml.nvmlDeviceGetHandleByUUID("MIG-a"))
    assert error_of(*mode) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_accounting_without_a_script_knows_the_processes(nvml: Driver) -> None:
    """They have no sums."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, accounting=True, processes=(SimProcess(pid=8, sm=50),)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetAccountingPids(handle) == [8]
    assert sums_of(handle, 8) == (0, 0)


@pytest.mark.parametrize("percents", [(100, 100, 100), (40, 40, 20)])
def test_sums_are_what_the_ring_told_on_the_way(nvml: Driver, clock: SimClock, percents: tuple[int, ...]) -> None:
    """Reading each slot as it comes gives each process what accounting says it has."""
    handle = show(nvml, *(in_slots(pid, 3 * pid, 400 + pid, percent) for pid, percent in enumerate(percents, start=1)))
    told = dict.fromkeys((1, 2, 3), 0)
    for number in range(4, 450):
        clock.set_us(bound(number))
        try:
            (entry,) = pynvml.nvmlDeviceGetProcessUtilization(handle, bound(number - 1))
        except pynvml.NVMLError_NotFound:
            continue
        told[entry.pid] += entry.smUtil * 100
    assert {pid: sums_of(handle, pid)[0] for pid in told} == told
