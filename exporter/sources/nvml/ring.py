"""The driver's ring of utilisation samples becomes what the device did since the last read. Pure.

A sample is the mean of a slot that ends at its timestamp, by the GPU's own clock, which is not the host's. The ring rests
while nothing runs: a gap between two samples is idle time, as long as the ring can reach back over it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median, quantiles

from exporter.model.activity import Activity, Span

NOMINAL_PERIOD_SECONDS = 10 / 72
"""Slots of ten seconds in the driver's ring of 72."""
CAPACITY = 72
REACH_SECONDS = 10.0
"""The driver promises no more: what was not read for longer may have been overwritten."""
ALL_PERCENT = 100
SLACK_SECONDS = 2.0
"""So much may the GPU's clock and the host's have drifted apart while the ring rested."""

_MICROSECONDS = 1_000_000
_SHORTEST_PERIOD_SECONDS, _LONGEST_PERIOD_SECONDS = 0.02, 1.0
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
    period_seconds: float = NOMINAL_PERIOD_SECONDS
    slower_batches: int = 0
    """Batches in a row that spoke for a longer period."""


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


def begin_ring(entries: Sequence[Entry]) -> RingState | None:
    """Start from a first batch: it is up to ten seconds old, and nobody's; None if there is nothing to start from."""
    if not entries:
        return None
    stamps = sorted({stamp for stamp, _ in entries})
    return _learned(RingState(stamps[-1]), stamps)


def clock_went_back(entries: Sequence[Entry], state: RingState) -> bool:
    """True if everything that the ring has is older than what it has told before."""
    return bool(entries) and max(stamp for stamp, _ in entries) < state.cursor_us


def read_ring(entries: Iterable[Entry], state: RingState, window_seconds: float) -> RingReading:
    """Lay the samples on the time since the last read.

    Every sample counts once, with the time of its slot. Sampled time and host time differ by up to a period in each cycle,
    since the newest slot is not finished; the whole is scaled to the host's time, which keeps shares true and is without bias.

    Args:
        entries: What the ring has; entries that were told before may be among them.
        state: What was known.
        window_seconds: Host time between the two reads, above 0.
    """
    possible = state.booked_seconds + window_seconds + SLACK_SECONDS
    fresh, rejected = _sorted_out(entries, state.cursor_us, state.cursor_us + possible * _MICROSECONDS)
    if not fresh:
        return _rested(state, window_seconds, rejected)
    stamps = [stamp for stamp, _ in fresh]
    learned = _learned(state, [state.cursor_us, *stamps] if len(fresh) < CAPACITY else stamps)
    spans, sampled = _spans(fresh, state, learned.period_seconds, window_seconds)
    told = sum(span.seconds for span in spans)
    tail = window_seconds - told
    rests = tail > _ABOUT * learned.period_seconds
    if rests:
        spans.append(Span(tail, 0.0))
        told += tail
    scale = window_seconds / told
    return RingReading(
        Activity(tuple(Span(span.seconds * scale, span.ratio) for span in spans)),
        sampled * scale,
        replace(learned, cursor_us=stamps[-1], booked_seconds=tail if rests else 0.0),
        rejected,
    )


def _sorted_out(entries: Iterable[Entry], cursor_us: int, latest_us: float) -> tuple[list[Entry], tuple[str, ...]]:
    """New entries in order, each moment once; and why the others were dropped. No sample is from the future."""
    fresh: dict[int, int] = {}
    rejected: list[str] = []
    for stamp, percent in sorted(entries):
        if stamp <= cursor_us:
            rejected.append("stale")
        elif stamp in fresh:
            rejected.append("duplicate")
        elif stamp > latest_us:
            rejected.append("out_of_range")
        else:
            fresh[stamp] = percent
            if percent > ALL_PERCENT:
                rejected.append("out_of_range")
    return list(fresh.items()), tuple(rejected)


def _rested(state: RingState, window_seconds: float, rejected: tuple[str, ...]) -> RingReading:
    """Nothing newer: idle, as far as the ring reaches back."""
    lost = max(window_seconds - REACH_SECONDS, 0.0)
    spans = (Span(lost, None), Span(window_seconds - lost, 0.0))
    booked = replace(state, booked_seconds=state.booked_seconds + window_seconds)
    return RingReading(Activity(tuple(span for span in spans if span.seconds > 0)), 0.0, booked, rejected)


def _spans(fresh: Sequence[Entry], state: RingState, period_seconds: float, window_seconds: float) -> tuple[list[Span], float]:
    """The samples and the rests before them; a rest that was booked before is not booked again."""
    spans: list[Span] = []
    sampled = 0.0
    before, booked = state.cursor_us, state.booked_seconds
    overwritten = len(fresh) >= CAPACITY
    for stamp, percent in fresh:
        gap = (stamp - before) / _MICROSECONDS
        length = gap if gap <= _ABOUT * period_seconds else period_seconds
        rest = max(gap - length - booked, 0.0)
        if rest > 0:
            # Of a rest before all that a full ring has, or before what the ring reaches back to, nobody can say what it was.
            lost = overwritten or (window_seconds > REACH_SECONDS and not spans)
            spans.append(Span(rest, None if lost else 0.0))
        spans.append(Span(length, percent / ALL_PERCENT if percent <= ALL_PERCENT else None))
        sampled += length
        before, booked, overwritten = stamp, 0.0, False
    return spans, sampled


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
