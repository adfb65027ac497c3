"""What a GPU did since it was last read: from the driver's ring, or from its one figure where there is no ring."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from exporter.model.activity import Activity, Span
from exporter.sources.nvml import library, measures
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Readings
from exporter.sources.nvml.ring import (
    CAPACITY,
    NOMINAL_PERIOD_SECONDS,
    REACH_SECONDS,
    Entry,
    RingReading,
    RingState,
    begin_ring,
    clock_went_back,
    read_ring,
)

CALL = "nvmlDeviceGetSamples"
READING = "utilization_sample"


@dataclass(slots=True)
class SampleMemory:
    """What is remembered of one GPU's samples between two cycles."""

    ring: RingState | None = None
    """None until the ring has given a sample since the driver was initialised."""
    read_at: float | None = None
    """Host time of the last read; None: nothing was read, or what came between cannot be told."""
    begun: bool = False
    """True once a first batch was discarded, also an empty one."""
    unread_seconds: float = 0.0
    """Time before the last read that the ring still has to tell of: it could not be read then."""
    contradictions: int = 0
    """Cycles in a row in which the GPU was busy and its ring rested."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A GPU's activity in one cycle."""

    utilization_ratio: float | None
    activity: Activity | None = None
    sampled_seconds: float = 0.0
    """Time that samples cover: what the driver's shares of processes are shares of."""
    since_us: int | None = None
    """From when on the samples are, by the GPU's clock; None: there is no ring."""
    latest_us: float = inf
    """What the GPU's clock can say by now at most; infinite where that is not known."""


def read_activity(readings: Readings, handle: Handle, memory: SampleMemory, now: float) -> Measured:
    """Read what was sampled since the last cycle.

    The first batch after a start is discarded, since it is up to ten seconds old: in that cycle there is the driver's own
    last figure and no activity. A ring that has given samples and has nothing newer is that of a GPU at rest. A ring that
    never gave any is none: then the driver's figure stands for the whole cycle, as one sample.

    Args:
        readings: of the GPU.
        handle: of the GPU.
        memory: what is remembered of it; changed.
        now: host time in monotonic seconds.
    """
    rates = measures.read_utilization_ratio(readings, handle)
    since_us = None if memory.ring is None else memory.ring.cursor_us
    entries = readings.ask(CALL, lambda: library.read_samples(handle, since_us or 0))
    window = None if memory.read_at is None else now - memory.read_at
    memory.read_at = now
    if entries is None:
        return _unread(memory, rates, window) if readings.can_answer(CALL) else _by_rates(rates, window)
    due = (window or 0.0) + memory.unread_seconds
    ring = memory.ring or _first_words(entries, due)
    if window is None or window <= 0 or not memory.begun or (entries and ring is None):
        return _begin(memory, rates, entries)
    if ring is None:
        return _by_rates(rates, window)
    reading = read_ring(entries, ring, due)
    if reading.believed_nothing or (rates and not reading.sampled_seconds):
        _count(readings, reading.rejected)
        return _contradiction(readings, handle, memory, window, ring)
    return _by_ring(readings, memory, reading.newest(window), since_us, ring.latest_us(due))


def _begin(memory: SampleMemory, rates: float | None, entries: list[Entry]) -> Measured:
    memory.ring, memory.begun, memory.unread_seconds = begin_ring(entries), True, 0.0
    return Measured(rates)


def _unread(memory: SampleMemory, rates: float | None, window_seconds: float | None) -> Measured:
    """The ring is there and could not be read: this time is lost, even if the ring tells of it later."""
    if not window_seconds or window_seconds <= 0:
        return Measured(rates)
    memory.unread_seconds += window_seconds
    return Measured(None, Activity((Span(window_seconds, None),)))


def _by_rates(rates: float | None, window_seconds: float | None) -> Measured:
    if rates is None or not window_seconds or window_seconds <= 0:
        return Measured(rates)
    return Measured(rates, Activity((Span(window_seconds, rates),)), window_seconds)


def _contradiction(
    readings: Readings, handle: Handle, memory: SampleMemory, window_seconds: float, ring: RingState
) -> Measured:
    """A busy GPU with nothing newer in its ring: this cycle is not known, and never idle.

    A kernel may have begun a moment ago. If it goes on like that, what was believed to be the ring's last moment was not, or
    the clock of the samples has begun anew with the driver: then the ring is started from anew.
    """
    memory.contradictions += 1
    if memory.contradictions > 1 or _is_reloaded(readings, handle, ring):
        memory.ring, memory.contradictions = None, 0
        memory.begun = False
    else:
        memory.ring = replace(ring, booked_seconds=ring.booked_seconds + memory.unread_seconds + window_seconds)
    memory.unread_seconds = 0.0
    return Measured(None, Activity((Span(window_seconds, None),)))


def _by_ring(
    readings: Readings, memory: SampleMemory, reading: RingReading, since_us: int | None, latest_us: float
) -> Measured:
    memory.ring, memory.contradictions, memory.unread_seconds = reading.state, 0, 0.0
    _count(readings, reading.rejected)
    ratio = None if reading.activity is None else reading.activity.utilization_ratio
    return Measured(ratio, reading.activity, reading.sampled_seconds, since_us or 0, latest_us)


def _count(readings: Readings, rejected: Iterable[str]) -> None:
    for reason in rejected:
        readings.reject(READING, reason)


def _first_words(entries: list[Entry], due_seconds: float) -> RingState | None:
    """A ring that had nothing to tell a cycle ago: all of this is new. None if it has none, or may have had more."""
    if not entries or len(entries) >= CAPACITY or due_seconds > REACH_SECONDS:
        return None
    return RingState(min(stamp for stamp, _ in entries) - round(NOMINAL_PERIOD_SECONDS * 1e6), age_known=False)


def _is_reloaded(readings: Readings, handle: Handle, ring: RingState) -> bool:
    """A busy GPU with nothing newer: the clock of its samples may have begun anew."""
    everything = readings.ask(CALL, lambda: library.read_samples(handle, 0))
    return clock_went_back(everything or (), ring)
