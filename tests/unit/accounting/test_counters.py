"""Counters of the driver: followed over resets and misreadings, and never doubled by either."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.counters import SLACK_SECONDS, follow
from exporter.model.ledger import MonotoneCounter

WATTS = 1000.0
CYCLE_SECONDS = 5.0


def _followed(
    readings: Iterable[float], most_per_second: float = WATTS, cycle_seconds: float = CYCLE_SECONDS
) -> tuple[MonotoneCounter, list[str]]:
    counter: MonotoneCounter | None = None
    rejected = []
    for cycle, reading in enumerate(readings):
        step = follow(counter, reading, 1000.0 + cycle * cycle_seconds, most_per_second)
        counter = step.counter
        rejected += [step.rejected] if step.rejected else []
    assert counter is not None
    return counter, rejected


@pytest.mark.parametrize(
    ("readings", "total", "rejected"),
    [
        pytest.param((5000.0, 5100.0, 5200.0), 5200.0, [], id="growth"),
        pytest.param((5000.0, 5100.0, 20.0, 70.0), 5170.0, [], id="reload"),
        pytest.param((5000.0, 5100.0, 20.0, 5300.0), 5300.0, ["fell"], id="one-low-reading"),
        pytest.param((5000.0, 5100.0, 0.0, 0.0, 40.0), 5140.0, [], id="reload-that-rests-at-zero"),
        pytest.param((5000.0, 5e9, 5200.0), 5200.0, ["out_of_range"], id="one-high-reading"),
        pytest.param((5000.0, 5e9, 6e9, 5200.0), 5200.0, ["out_of_range"] * 2, id="two-high-readings-that-do-not-agree"),
        pytest.param((5000.0, 5e9, 5e9 + 100, 5e9 + 200), 5200.0, ["out_of_range"], id="a-leap-that-stays"),
        pytest.param((5e6, 4.9e6, 4.9e6 + 50, 4.9e6 + 90), 5e6 + 90, [], id="a-fall-that-stays-and-is-no-reload"),
        pytest.param((5e6, 5e6 - 0.1, 5e6 + 10), 5e6 + 10, ["fell"], id="one-reading-that-falls-a-little"),
    ],
)
def test_energy_readings_of_this_kind_add_up_to_what_was_drawn(
    readings: tuple[float, ...], total: float, rejected: list[str]
) -> None:
    """A reset goes on, a misreading costs nothing, a leap that cannot be true is never use."""
    counter, dropped = _followed(readings)
    assert counter.total == pytest.approx(total)
    assert dropped == rejected


def test_counter_without_a_bound_begins_anew_only_from_far_below() -> None:
    """100 errors, then 99 and 99: that is one misreading that stays, not 99 new errors; 0 and 3 are 3 new ones."""
    assert _followed((100, 99, 99), math.inf)[0].total == 100
    assert _followed((100, 0, 3), math.inf)[0].total == 103


def test_growth_over_a_pause_is_bounded_by_the_pause() -> None:
    """An hour without readings may hide an hour of full power, and no more."""
    hour = 3600.0
    assert _followed((0.0, WATTS * hour), cycle_seconds=hour)[0].total == WATTS * hour
    assert _followed((0.0, WATTS * (hour + SLACK_SECONDS) + 1), cycle_seconds=hour)[0].total == 0.0


@given(st.lists(st.floats(0, 1e10), min_size=1, max_size=40), st.floats(1.0, 1e4))
def test_total_of_any_readings_never_falls_and_never_outgrows_the_bound(readings: list[float], most: float) -> None:
    """Whatever the driver says, the total grows by at most the bound times the time, slack included."""
    counter: MonotoneCounter | None = None
    for cycle, reading in enumerate(readings):
        before = counter
        step = follow(before, reading, cycle * CYCLE_SECONDS, most)
        counter = step.counter
        if before is not None:
            since = cycle * CYCLE_SECONDS - before.read_timestamp_seconds
            assert 0.0 <= step.grown <= most * (since + SLACK_SECONDS) * (1 + 1e-9)
            assert counter.total == before.total + step.grown
