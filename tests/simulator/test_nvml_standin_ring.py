"""The ring of a scripted load, and what processes have of it, read through the unmodified binding with the clock in hand."""

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.world import SimBurst, SimDevice, SimMig, SimProcess, SimSample
from tests.simulator.conftest import Driver, error_of

SECOND_US = 1_000_000
GPU_UTILIZATION, MEMORY_UTILIZATION = pynvml.NVML_GPU_UTILIZATION_SAMPLES, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES
UTILIZATION_CALLS = pytest.mark.parametrize(
    "call", [pynvml.nvmlDeviceGetProcessUtilization, pynvml.nvmlDeviceGetProcessesUtilizationInfo]
)


def bound(number: int) -> int:
    """Where slot `number` begins and the one before it ends: ten seconds have 72."""
    return number * 10 * SECOND_US // 72


def in_slots(pid: int, first: int, last: int, percent: int = 100) -> SimBurst:
    """Work through all of these slots, the last one included."""
    return SimBurst(pid=pid, start_us=bound(first), end_us=bound(last + 1), percent=percent)


def show(nvml: Driver, *load: SimBurst, **others: Any) -> Any:
    nvml.show(SimDevice(uuid="GPU-0", index=0, load=load, **others))
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def ring_of(handle: Any, last_seen_us: int = 0) -> list[tuple[int, int]]:
    kind, samples = pynvml.nvmlDeviceGetSamples(handle, GPU_UTILIZATION, last_seen_us)
    assert kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    return [(sample.timeStamp, sample.sampleValue.uiVal) for sample in samples]


def usage_of(handle: Any, call: Callable[..., Any], last_seen_us: int = 0) -> dict[int, tuple[int, int]]:
    return {entry.pid: (entry.smUtil, entry.timeStamp) for entry in call(handle, last_seen_us)}


def test_slot_is_told_once_it_is_complete(nvml: Driver, clock: SimClock) -> None:
    """Its timestamp is its end, and a microsecond earlier it is not there."""
    handle = show(nvml, in_slots(1, 0, 9))
    clock.set_us(bound(1) - 1)
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_FOUND
    clock.set_us(bound(1))
    assert ring_of(handle) == [(138_888, 100)]
    clock.set_us(bound(3))
    assert ring_of(handle) == [(138_888, 100), (277_777, 100), (416_666, 100)]


def test_only_what_is_newer_than_last_seen_is_told(nvml: Driver, clock: SimClock) -> None:
    """A reader that hands back the newest timestamp gets each slot once, and NOT_FOUND when it has them all."""
    handle = show(nvml, in_slots(1, 0, 9))
    clock.set_us(bound(3))
    assert ring_of(handle, bound(2)) == [(bound(3), 100)]
    assert ring_of(handle, bound(2) - 1) == [(bound(2), 100), (bound(3), 100)]
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, bound(3)) == pynvml.NVML_ERROR_NOT_FOUND


def test_value_is_the_share_of_the_slot_rounded_to_the_nearest(nvml: Driver, clock: SimClock) -> None:
    """Time in which a kernel ran, over the length of the slot; less than half a percent is a sample of 0."""
    start = bound(9)  # a slot of 138888 microseconds
    tenths = SimBurst(pid=1, start_us=start, end_us=start + 69_444, percent=50)
    short = SimBurst(pid=1, start_us=bound(10), end_us=bound(10) + 694)
    shorter = SimBurst(pid=1, start_us=bound(11), end_us=bound(11) + 695)
    handle = show(nvml, tenths, short, shorter)
    clock.set_us(bound(12))
    assert ring_of(handle) == [(bound(10), 25), (bound(11), 0), (bound(12), 1)]


def test_slots_at_rest_are_not_recorded(nvml: Driver, clock: SimClock) -> None:
    """The ring stops while nothing runs, and keeps what is older than ten seconds."""
    handle = show(nvml, in_slots(1, 3, 3), in_slots(1, 100, 100))
    clock.set_us(bound(500))
    assert ring_of(handle) == [(bound(4), 100), (bound(101), 100)]


def test_ring_that_does_not_rest_records_zeros(nvml: Driver, clock: SimClock) -> None:
    """Then it reaches back ten seconds and no further."""
    handle = show(nvml, in_slots(1, 3, 3), in_slots(1, 100, 100), ring_rests=False)
    clock.set_us(bound(5))
    assert [percent for _, percent in ring_of(handle)] == [0, 0, 0, 100, 0]
    clock.set_us(bound(150))
    assert ring_of(handle) == [(bound(number + 1), 100 if number == 100 else 0) for number in range(78, 150)]
    handle = show(nvml, ring_rests=False)
    assert {percent for _, percent in ring_of(handle)} == {0}


def test_ring_holds_the_last_72_that_were_recorded(nvml: Driver, clock: SimClock) -> None:
    """An older one is overwritten, wherever rests lie between."""
    handle = show(nvml, in_slots(1, 0, 9), in_slots(1, 1000, 1069, 50))
    clock.set_us(bound(2000))
    assert ring_of(handle) == [(bound(9), 100), (bound(10), 100), *((bound(number), 50) for number in range(1001, 1071))]


def test_script_with_a_period_repeats(nvml: Driver, clock: SimClock) -> None:
    """What ran at a moment of the first period runs at that moment of each, and rests between are skipped."""
    handle = show(nvml, in_slots(1, 0, 0), in_slots(2, 20, 20, 40), load_period_us=10 * SECOND_US)
    clock.set_us(bound(72 * 5 + 30))
    expected = {72 * period + slot: percent for period in range(6) for slot, percent in ((0, 100), (20, 40))}
    assert ring_of(handle) == [(bound(number + 1), percent) for number, percent in expected.items()]


def test_empty_script_is_a_gpu_at_rest(nvml: Driver, clock: SimClock) -> None:
    """A script in which nothing happens beats what the device and its processes say."""
    clock.set_us(bound(99))
    handle = show(nvml, utilization=50, processes=(SimProcess(pid=1, sm=50),))
    for call in (pynvml.nvmlDeviceGetProcessUtilization, pynvml.nvmlDeviceGetProcessesUtilizationInfo):
        assert error_of(call, handle, 0) == pynvml.NVML_ERROR_NOT_FOUND
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_FOUND
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0


def test_gauge_is_the_last_complete_slot(nvml: Driver, clock: SimClock) -> None:
    """The utilisation rate is 0 as soon as nothing ran in that one."""
    handle = show(nvml, in_slots(1, 2, 2, 30))
    for now, expected in ((bound(3) - 1, 0), (bound(3), 30), (bound(4) - 1, 30), (bound(4), 0)):
        clock.set_us(now)
        assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == expected
    handle = show(nvml, in_slots(1, 2, 2, 30), utilization=None)
    assert error_of(pynvml.nvmlDeviceGetUtilizationRates, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED


@UTILIZATION_CALLS
def test_process_has_its_slots_over_all_of_them(nvml: Driver, clock: SimClock, call: Callable[..., Any]) -> None:
    """Rounded to a whole percent, with the end of the last slot that names it."""
    handle = show(nvml, in_slots(1, 0, 0, 50), in_slots(2, 1, 2))
    clock.set_us(bound(3))
    assert usage_of(handle, call) == {1: (17, bound(1)), 2: (67, bound(3))}
    assert usage_of(handle, call, bound(1)) == {2: (100, bound(3))}
    assert error_of(call, handle, bound(3)) == pynvml.NVML_ERROR_NOT_FOUND


@UTILIZATION_CALLS
def test_recorded_rests_count_among_all_slots(nvml: Driver, clock: SimClock, call: Callable[..., Any]) -> None:
    """A ring that does not rest thins out the share of everybody, and names nobody for it."""
    handle = show(nvml, in_slots(1, 0, 0), ring_rests=False)
    clock.set_us(bound(4))
    assert usage_of(handle, call) == {1: (25, bound(1))}


@UTILIZATION_CALLS
def test_process_that_is_gone_is_still_in_the_ring(nvml: Driver, clock: SimClock, call: Callable[..., Any]) -> None:
    """The lists do not decide who is named, nor do their processes' own figures."""
    handle = show(nvml, in_slots(7, 0, 3), processes=(SimProcess(pid=8, sm=99),))
    clock.set_us(bound(4))
    assert [entry.pid for entry in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [8]
    assert usage_of(handle, call) == {7: (100, bound(4))}


def test_slot_names_who_is_on_the_engine_at_its_end(nvml: Driver, clock: SimClock) -> None:
    """Or who was the last in it; the whole slot is that one's."""
    changed = (SimBurst(pid=1, start_us=0, end_us=bound(1) - 1), SimBurst(pid=2, start_us=bound(1) - 1, end_us=bound(2) - 9))
    handle = show(nvml, *changed)
    call = pynvml.nvmlDeviceGetProcessUtilization
    clock.set_us(bound(1))
    assert usage_of(handle, call) == {2: (100, bound(1))}
    clock.set_us(bound(2))
    assert usage_of(handle, call, bound(1)) == {2: (100, bound(2))}


def test_processes_at_once_are_named_evenly_and_always_alike(nvml: Driver, clock: SimClock) -> None:
    """Over many slots each of three has a third; asking again gives the same; another GPU draws otherwise."""
    load = tuple(in_slots(pid, 0, 9_999) for pid in (1, 2, 3))
    nvml.show(*(SimDevice(uuid=f"GPU-{index}", index=index, load=load) for index in (0, 1)))
    names: list[list[int]] = []
    for index in (0, 1, 0):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        names.append([])
        for number in range(1, 3001):
            clock.set_us(bound(number))
            ((pid, (percent, _)),) = usage_of(handle, pynvml.nvmlDeviceGetProcessUtilization, bound(number - 1)).items()
            assert percent == 100
            names[-1].append(pid)
    assert names[0] == names[2] != names[1]
    for counts in (Counter(names[0]), Counter(names[1])):
        assert all(abs(counts[pid] - 1000) < 100 for pid in (1, 2, 3))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    drawn=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 138_000), st.integers(1, 400_000)), min_size=1, max_size=6),
    period_slots=st.sampled_from([0, 18, 27]),
    slots=st.integers(1, 150),
)
def test_ring_agrees_with_the_script_added_up_by_hand(
    nvml: Driver, clock: SimClock, drawn: list[tuple[int, int, int]], period_slots: int, slots: int
) -> None:
    """Halving and prefix sums find what looking at every burst finds, with and without a period."""
    period_us = bound(period_slots)
    load = [SimBurst(pid=1, start_us=bound(slot) + late, end_us=bound(slot) + late + long) for slot, late, long in drawn]
    handle = show(nvml, *load, load_period_us=period_us)
    clock.set_us(bound(slots))
    plays = range(0, bound(slots), period_us) if period_us else (0,)
    busy = sorted((play + burst.start_us, play + burst.end_us) for play in plays for burst in load)
    expected = [(bound(number + 1), _percent(busy, bound(number), bound(number + 1))) for number in range(slots)]
    told = [(end, percent) for end, percent in expected if percent is not None][-72:]
    if told:
        assert ring_of(handle) == told
    else:
        assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_FOUND


def _percent(busy: list[tuple[int, int]], start_us: int, end_us: int) -> int | None:
    """Of the time between, covered by any of these; None if none is."""
    covered, reached = 0, start_us
    for begins, ends in busy:
        covered += max(min(ends, end_us) - max(begins, reached), 0)
        reached = max(reached, min(ends, end_us))
    return (200 * covered + end_us - start_us) // (2 * (end_us - start_us)) if covered else None


def test_ring_given_verbatim_is_served_whole(nvml: Driver, clock: SimClock) -> None:
    """In its order and with any values, whatever was seen before, also beside a script and beyond 72."""
    samples = [(9, 0xFFFFFFFF), (9, 101), (0xFFFFFFFFFFFFFFFF, 0), (3, 7)] + [(number, 1) for number in range(100)]
    ring = tuple(SimSample(timestamp_us=timestamp, percent=percent) for timestamp, percent in samples)
    handle = show(nvml, in_slots(1, 0, 1), ring=ring)
    clock.set_us(bound(2))
    assert ring_of(handle) == ring_of(handle, 1 << 60) == samples
    assert usage_of(handle, pynvml.nvmlDeviceGetProcessUtilization) == {1: (100, bound(2))}
    nvml.show(SimDevice(uuid="GPU-0", index=0, ring=()))
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_FOUND


def test_other_engines_have_nothing_to_tell(nvml: Driver, clock: SimClock) -> None:
    """Samples are those of GPU utilisation alone."""
    handle = show(nvml, in_slots(1, 0, 9), ring=(SimSample(timestamp_us=1, percent=1),))
    clock.set_us(bound(9))
    assert error_of(pynvml.nvmlDeviceGetSamples, handle, MEMORY_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_FOUND


def test_samples_without_enough_room_are_the_oldest(nvml: Driver, clock: SimClock) -> None:
    """What does not fit is newer, so that a reader can ask for it; without an array the answer is the ring's size."""
    handle = show(nvml, in_slots(1, 0, 9))
    clock.set_us(bound(5))
    call, kind = pynvml.nvmlLib.nvmlDeviceGetSamples, ctypes.c_uint()
    count, samples = ctypes.c_uint(2), (pynvml.c_nvmlSample_t * 3)()
    arguments = (handle, ctypes.c_uint(GPU_UTILIZATION), ctypes.c_ulonglong(0), ctypes.byref(kind), ctypes.byref(count))
    assert (call(*arguments, samples), count.value) == (pynvml.NVML_SUCCESS, 2)
    assert [sample.timeStamp for sample in samples] == [bound(1), bound(2), 0]
    assert (call(*arguments, None), count.value) == (pynvml.NVML_SUCCESS, 72)
    count.value = 0
    assert call(*arguments, samples) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_partitioned_gpu_is_not_sampled(nvml: Driver, clock: SimClock) -> None:
    """In MIG mode neither the ring nor what follows from it is supported, of the GPU or of its parts."""
    load = (SimBurst(pid=1, start_us=0, end_us=SECOND_US, gi=1),)
    nvml.show(SimDevice(uuid="GPU-0", index=0, mig_mode=1, migs=(SimMig(uuid="MIG-a", gi=1),), load=load))
    clock.set_us(bound(5))
    for handle in (pynvml.nvmlDeviceGetHandleByIndex(0), pynvml.nvmlDeviceGetHandleByUUID("MIG-a")):
        assert error_of(pynvml.nvmlDeviceGetSamples, handle, GPU_UTILIZATION, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetProcessUtilization, handle, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetUtilizationRates, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_script_that_grows_keeps_what_is_past(nvml: Driver, clock: SimClock) -> None:
    """Showing a world with more to come changes no sample that was told."""
    handle = show(nvml, in_slots(1, 0, 3))
    clock.set_us(bound(2))
    before = ring_of(handle)
    show(nvml, in_slots(1, 0, 3), in_slots(2, 4, 9))
    assert ring_of(handle) == before
    clock.set_us(bound(6))
    assert ring_of(handle)[:2] == before
    assert len(ring_of(handle)) == 6
