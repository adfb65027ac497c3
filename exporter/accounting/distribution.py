"""How long a device was how busy: one observation for each measured second, weighed by time and not by cycles."""

import math
from bisect import bisect_left

from exporter.model.ledger import Distribution, Histogram

BOUNDS_RATIO = (0.0, 0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
"""Zero and the thresholds of the usual policies are bounds."""

_TINY_SECONDS = 1e-9


def begin(born_at: float) -> Distribution:
    """A distribution without an observation."""
    empty = Histogram(BOUNDS_RATIO, (0,) * (len(BOUNDS_RATIO) + 1), 0.0)
    return Distribution(born_at, empty, empty)


def observe_utilization(before: Distribution, utilization_ratio: float, measured_seconds: float) -> Distribution:
    """Count a mean over some measured seconds.

    Counts are whole numbers, so what is less than a second is carried to the next observation.

    Args:
        before: The distribution so far; the observation waits there until it is shown.
        utilization_ratio: Mean over the measured time, 0 to 1.
        measured_seconds: Its weight.
    """
    seconds = before.remainder_seconds + measured_seconds
    whole = math.floor(seconds + _TINY_SECONDS)
    waiting = before.waiting
    if whole > 0:
        waiting = merge(waiting, _observations(utilization_ratio, whole))
    return Distribution(before.born_at, before.shown, waiting, max(seconds - whole, 0.0))


def show(before: Distribution) -> Distribution:
    """Publish what waited."""
    if not any(before.waiting.counts):
        return before
    return Distribution(
        before.born_at, merge(before.shown, before.waiting), begin(before.born_at).waiting, before.remainder_seconds
    )


def merge(one: Histogram, other: Histogram) -> Histogram:
    """Both together."""
    counts = tuple(first + second for first, second in zip(one.counts, other.counts, strict=True))
    return Histogram(one.bounds, counts, one.total + other.total)


def _observations(ratio: float, count: int) -> Histogram:
    bucket = bisect_left(BOUNDS_RATIO, ratio)
    counts = tuple(count if position == bucket else 0 for position in range(len(BOUNDS_RATIO) + 1))
    return Histogram(BOUNDS_RATIO, counts, ratio * count)
