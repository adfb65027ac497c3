"""Turns the bursts of a scripted load into what the library reads: spans in order, none of which overlap.

Where bursts overlap, the GPU is sliced between their processes: the share of time in which a kernel runs is the sum of
theirs, up to all of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from exporter.simulator.world import SimBurst

WHOLE_GPU = 0xFFFFFFFF
"""The instance id that stands for no instance."""

_ALL_PERCENT = 100
_TIME_BITS, _PID_BITS = 64, 32
# A world that is shown again and again, with other pods, has the same scripts.
_SCRIPTS_KEPT = 32


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in which the same processes run, in microseconds of the GPU's clock."""

    start_us: int
    end_us: int
    percent: int
    pids: tuple[int, ...]
    """In order, each once."""


@lru_cache(maxsize=_SCRIPTS_KEPT)
def track_lines(load: tuple[SimBurst, ...], period_us: int) -> tuple[str, ...]:
    """The lines of the state file: a track of the whole GPU, and one of each GPU instance that a burst names.

    Raises:
        ValueError: A burst is none, or goes beyond the period.
    """
    for burst in load:
        _check(burst, period_us)
    tracks = {WHOLE_GPU: load}
    for gi in sorted({burst.gi for burst in load if burst.gi is not None}):
        tracks[gi] = tuple(burst for burst in load if burst.gi == gi)
    return tuple(line for gi, bursts in tracks.items() for line in _track(gi, bursts))


def _check(burst: SimBurst, period_us: int) -> None:
    if not 0 <= burst.start_us < burst.end_us < 1 << _TIME_BITS:
        raise ValueError(f"{burst}: it must end after it starts, and start after the clock's zero")
    if period_us and burst.end_us > period_us:
        raise ValueError(f"{burst}: it goes beyond the period of {period_us}")
    if not 0 <= burst.percent <= _ALL_PERCENT:
        raise ValueError(f"{burst}: percent is a share of time")
    if not 0 < burst.pid < 1 << _PID_BITS:
        raise ValueError(f"{burst}: that is no pid")


def _track(gi: int, bursts: Iterable[SimBurst]) -> Iterator[str]:
    yield "track"
    yield f"gi {gi}"
    for span in lay_out(bursts):
        yield f"span {span.start_us} {span.end_us} {span.percent} {' '.join(map(str, span.pids))}"


def lay_out(bursts: Iterable[SimBurst]) -> Iterator[Span]:
    """Spans in order; times in which nothing runs are in none of them."""
    changes = sorted(
        (moment, burst.pid, percent)
        for burst in bursts
        if burst.percent
        for moment, percent in ((burst.start_us, burst.percent), (burst.end_us, -burst.percent))
    )
    running: Counter[int] = Counter()
    last: Span | None = None
    before_us = 0
    for moment, pid, percent in changes:
        if running and moment > before_us:
            last, done = _joined(last, _span(before_us, moment, running))
            yield from done
        running[pid] += percent
        if not running[pid]:
            del running[pid]
        before_us = moment
    if last:
        yield last


def _span(start_us: int, end_us: int, running: Counter[int]) -> Span:
    return Span(start_us, end_us, min(running.total(), _ALL_PERCENT), tuple(sorted(running)))


def _joined(last: Span | None, span: Span) -> tuple[Span, tuple[Span, ...]]:
    """The span that may still grow, and those that are done."""
    if last is None:
        return span, ()
    if last.end_us == span.start_us and (last.percent, last.pids) == (span.percent, span.pids):
        return Span(last.start_us, span.end_us, span.percent, span.pids), ()
    return span, (last,)
