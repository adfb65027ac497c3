"""The distribution of utilisation: by measured seconds, in whole numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.distribution import BOUNDS_RATIO, begin, observe_utilization, show


@pytest.mark.parametrize(
    ("ratio", "bucket"), [(0.0, 0), (0.005, 1), (0.01, 1), (0.011, 2), (0.85, 7), (0.851, 8), (0.96, 9), (1.0, 9)]
)
def test_mean_falls_into_the_bucket_whose_bound_it_does_not_pass(ratio: float, bucket: int) -> None:
    """Bounds are inclusive: exactly the policy's threshold is not above it, and exactly 0 has a bucket of its own."""
    counts = show(observe_utilization(begin(0.0), ratio, 5.0)).shown.counts
    assert [position for position, count in enumerate(counts) if count] == [bucket]


def test_parts_of_seconds_are_carried_to_the_next_observation() -> None:
    """Three cycles of 1.4 s are one, one and two seconds: nothing is lost to rounding."""
    distribution = begin(0.0)
    totals = []
    for _ in range(3):
        distribution = observe_utilization(distribution, 0.5, 1.4)
        totals.append(sum(distribution.waiting.counts))
    assert totals == [1, 2, 4]
    assert distribution.remainder_seconds == pytest.approx(0.2)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 60)), max_size=50))
def test_counts_are_the_measured_seconds_to_within_one(observations: list[tuple[float, float]]) -> None:
    """However the cycles fall, the count is the whole part of what was measured, and the sum lies within the bounds."""
    distribution = begin(0.0)
    for ratio, seconds in observations:
        distribution = show(observe_utilization(distribution, ratio, seconds))
    count = sum(distribution.shown.counts)
    assert abs(count - sum(seconds for _, seconds in observations)) < 1.0
    assert 0.0 <= distribution.shown.total <= count
    assert len(distribution.shown.counts) == len(BOUNDS_RATIO) + 1
    assert distribution.shown.counts[-1] == 0


def test_what_waits_is_not_shown_before_its_time() -> None:
    """Bookings of the hold after birth appear all at once."""
    waiting = observe_utilization(begin(0.0), 0.4, 10.0)
    assert sum(waiting.shown.counts) == 0
    shown = show(waiting)
    assert (sum(shown.shown.counts), sum(shown.waiting.counts)) == (10, 0)
    assert shown.shown.total == pytest.approx(4.0)
