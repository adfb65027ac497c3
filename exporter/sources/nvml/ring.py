"""The driver's ring of utilisation samples becomes what the device did since the last read. Pure.

A sample is the mean of a slot that ends at its timestamp, by the GPU's own clock, which is not the host's. The ring rests
while nothing runs: a gap between two samples is idle time, as long as the ring can reach back over it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import median, quantiles

from exporter.model.activity import Activity, Span

NOMINAL_PERIOD_SECONDS = 10 / 72
"""Slots of ten seconds in the driver's ring of 72."""
CAPACITY = 72
REACH_SECONDS = 10.0
"""The driver promises no more: what was not read for longer may have been overwritten."""
ALL_PERCENT = 100
OUT_OF_RANGE = "out_of_range"

_MICROSECONDS = 1_000_000
_SHORTEST_PERIOD_SECONDS, _LONGEST_PERIOD_SECONDS = 0.02, 1.0
_SLACK_SECONDS = 2.0
_DRIFT_RATIO = 1e-3
"""Faster than any two clocks drift apart: a ring may rest for days."""
_ABOUT = 1.5
"""Up to so many periods a gap is the slot itself; beyond, something between was not recorded."""
_ALIKE = 1.25
_BATCHES_TO_BELIEVE = 3
_GAPS_TO_COUNT, _GAPS_TO_SORT = 4, 8

Entry = tuple[int, int]
"""(timestamp in microseconds, percent)."""


@dataclass(frozen=True, slots=True)
class RingState:
    """What is known of a device's ring between two reads."""

    cursor_us: int
    """Newest timestamp that was ever returned."""
    booked_seconds: float = 0.0
    """Idle time after the cursor that was booked already."""
    age_known: bool = True
    """False until a second batch: the newest sample of the first one may be as old as the GPU's rest."""
    period_seconds: float = NOMINAL_PERIOD_SECONDS
    slower_batches: int = 0
    """Batches in a row that spoke for a longer period."""

    def latest_us(self, window_seconds: float) -> float:
        """What the GPU's clock can say at most, so long after the last read; infinite while the cursor's age is not known."""
        return latest_us(self.cursor_us, self.booked_seconds + window_seconds) if self.age_known else inf


@dataclass(frozen=True, slots=True)
class RingReading:
    """What one read came to."""

    activity: Activity | None
    """None where the clock went back, as after a reload of the driver: what was before cannot be told from what is now."""
    sampled_seconds: float
    """Part of the activity's time that samples cover, idle gaps aside: what the driver's own shares are shares of."""
    state: RingState
    rejected: tuple[str, ...] = ()
    """Reasons, one for each entry that was dropped."""

    @property
    def believed_nothing(self) -> bool:
        """True if the ring had something to tell, and all of it was from the future."""
        return not self.sampled_seconds and OUT_OF_RANGE in self.rejected

    def newest(self, seconds: float) -> "RingReading":
        """The same of the newest part of the time: what was before has been told from elsewhere."""
        if self.activity is None or self.activity.seconds <= seconds:
            return self
        kept: list[Span] = []
        for span in reversed(self.activity.spans):
            length = min(span.seconds, seconds - sum(one.seconds for one in kept))
            if length > 0:
                kept.append(replace(span, seconds=length))
        part = seconds / self.activity.seconds
        return replace(self, activity=Activity(tuple(reversed(kept))), sampled_seconds=self.sampled_seconds * part)


def latest_us(cursor_us: int, seconds: float) -> float:
    """What a GPU's clock can say at most, so many seconds of the host's after it said `cursor_us`."""
    return cursor_us + (seconds * (1 + _DRIFT_RATIO) + _SLACK_SECONDS) * _MICROSECONDS


def begin_ring(entries: Sequence[Entry]) -> RingState | None:
    """Start from a first batch: it is up to ten seconds old, and nobody's; None if there is nothing to start from."""
    if not entries:
        return None
    stamps = sorted({stamp for stamp, _ in entries})
    return _learned(RingState(stamps[-1], age_known=False), stamps)


def clock_went_back(entries: Sequence[Entry], state: RingState) -> bool:
    """True if everything that the ring has is older than what it has told before."""
    return bool(entries) and max(stamp for stamp, _ in entries) < state.cursor_us


def read_ring(entries: Iterable[Entry], state: RingState, window_seconds: float) -> RingReading:
    """Lay the samples on the time since the last read.

    Every sample counts once, with the time of its slot, and the rests have what is left: so nothing is lost and nothing is
    counted twice, however long the ring had rested before. Without a rest, sampled time and host time differ by up to a
    period, since the newest slot is not finished: then the samples are scaled to the host's time, which is without bias.

    Args:
        entries: What the ring has; entries that were told before may be among them.
        state: What was known.
        window_seconds: Host time between the two reads, above 0.
    """
    fresh, rejected = _sorted_out(entries, state, window_seconds)
    if not fresh:
        return _rested(state, window_seconds, rejected)
    stamps = [stamp for stamp, _ in fresh]
    learned = _learned(state, [state.cursor_us, *stamps] if len(fresh) < CAPACITY else stamps)
    slots = _slots(fresh, state, learned.period_seconds, window_seconds)
    sampled = sum(slot.seconds for slot in slots)
    rested = sum(slot.rest_seconds for slot in slots)
    tail = window_seconds - sampled - rested
    if tail > _ABOUT * learned.period_seconds:
        spans, booked = [*_laid_out(slots, 1.0, 1.0), Span(tail, 0.0)], tail
    elif rested > learned.period_seconds / 2 and window_seconds > sampled:
        spans, booked = list(_laid_out(slots, (window_seconds - sampled) / rested, 1.0)), 0.0
    else:
        spans, booked = list(_laid_out(slots, 0.0, window_seconds / sampled)), 0.0
        sampled = window_seconds
    return RingReading(
        Activity(tuple(spans)),
        sampled,
        replace(learned, cursor_us=stamps[-1], booked_seconds=booked, age_known=True),
        rejected,
    )


def _sorted_out(entries: Iterable[Entry], state: RingState, window_seconds: float) -> tuple[list[Entry], tuple[str, ...]]:
    """New entries in order, each moment once; and why the others were dropped. No sample is from the future."""
    fresh: dict[int, int] = {}
    rejected: list[str] = []
    newest_us = state.latest_us(window_seconds)
    for stamp, percent in sorted(entries):
        if stamp <= state.cursor_us:
            rejected.append("stale")
        elif stamp in fresh:
            rejected.append("duplicate")
        elif stamp > newest_us:
            rejected.append(OUT_OF_RANGE)
        else:
            if not fresh and not state.age_known:
                # Whatever came before it, the others are no more than the time since the last read apart from it.
                newest_us = latest_us(stamp, window_seconds)
            fresh[stamp] = percent
            if percent > ALL_PERCENT:
                rejected.append(OUT_OF_RANGE)
    return list(fresh.items()), tuple(rejected)


def _rested(state: RingState, window_seconds: float, rejected: tuple[str, ...]) -> RingReading:
    """Nothing newer: idle, as far as the ring reaches back."""
    lost = max(window_seconds - REACH_SECONDS, 0.0)
    spans = (Span(lost, None), Span(window_seconds - lost, 0.0))
    booked = replace(state, booked_seconds=state.booked_seconds + window_seconds)
    return RingReading(Activity(tuple(span for span in spans if span.seconds > 0)), 0.0, booked, rejected)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A sample and the rest before it."""

    rest_seconds: float
    rest_ratio: float | None
    seconds: float
    ratio: float | None


def _slots(fresh: Sequence[Entry], state: RingState, period_seconds: float, window_seconds: float) -> list[_Slot]:
    """The samples and the rests before them; a rest that was booked before is not booked again."""
    slots: list[_Slot] = []
    before, booked = state.cursor_us, state.booked_seconds
    overwritten = len(fresh) >= CAPACITY
    for stamp, percent in fresh:
        gap = (stamp - before) / _MICROSECONDS
        length = gap if gap <= _ABOUT * period_seconds else period_seconds
        # Of a rest before all that a full ring has, or before what the ring reaches back to, nobody can say what it was.
        lost = overwritten or (window_seconds > REACH_SECONDS and not slots)
        ratio = percent / ALL_PERCENT if percent <= ALL_PERCENT else None
        slots.append(_Slot(max(gap - length - booked, 0.0), None if lost else 0.0, length, ratio))
        before, booked, overwritten = stamp, 0.0, False
    return slots


def _laid_out(slots: Iterable[_Slot], rest_scale: float, scale: float) -> Iterator[Span]:
    for slot in slots:
        if slot.rest_seconds * rest_scale > 0:
            yield Span(slot.rest_seconds * rest_scale, slot.rest_ratio)
        yield Span(slot.seconds * scale, slot.ratio)


def _learned(state: RingState, stamps: Sequence[int]) -> RingState:
    """The period by this batch: shorter ones are believed at once, longer ones if several batches know no other.

    A ring that leaves out the slots in which nothing ran shows gaps of several periods.
    """
    gaps = [(later - earlier) / _MICROSECONDS for earlier, later in pairwise(stamps)]
    gaps = [gap for gap in gaps if _SHORTEST_PERIOD_SECONDS <= gap <= _LONGEST_PERIOD_SECONDS * _ALIKE]
    period = state.period_seconds
    if len(gaps) < _GAPS_TO_COUNT:
        return state
    if len(gaps) >= _GAPS_TO_SORT and (low := quantiles(gaps, n=4)[0]) < period * _ALIKE:
        return replace(state, period_seconds=low, slower_batches=0)
    if min(gaps) > period * _ALIKE and max(gaps) <= min(gaps) * _ALIKE:
        slower = state.slower_batches + 1
        believed = median(gaps) if slower >= _BATCHES_TO_BELIEVE else period
        return replace(state, period_seconds=believed, slower_batches=0 if believed != period else slower)
    return replace(state, slower_batches=0)
