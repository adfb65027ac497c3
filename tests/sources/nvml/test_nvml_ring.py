"""Nothing that the ring holds is lost or counted twice, and what it does not hold is never taken for idle."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model.activity import Activity
from exporter.sources.nvml.ring import CAPACITY, NOMINAL_PERIOD_SECONDS, RingState, begin_ring, clock_went_back, read_ring

PERIOD_US = round(NOMINAL_PERIOD_SECONDS * 1e6)
CYCLE_SECONDS = 5.0


def _steady(first_slot: int, slots: int, percent: int = 100) -> list[tuple[int, int]]:
    """So many samples in a row, the first one at the end of this slot."""
    return [((first_slot + slot) * PERIOD_US, percent) for slot in range(slots)]


def _pieces(activity: Activity | None) -> list[tuple[float, float | None]]:
    assert activity is not None
    return [(round(span.seconds, 2), span.ratio) for span in activity.spans]


def test_first_batch_is_where_it_starts_from_and_counts_for_nothing() -> None:
    """It is up to ten seconds old."""
    state = begin_ring(_steady(100, 72))
    assert state is not None
    assert state.cursor_us == 171 * PERIOD_US
    assert state.period_seconds == pytest.approx(NOMINAL_PERIOD_SECONDS, rel=0.01)
    assert begin_ring([]) is None


def test_samples_without_a_gap_cover_the_whole_window() -> None:
    """A busy device: the newest slot that is not finished yet is not idle."""
    reading = read_ring(_steady(1, 35, 60), RingState(0), CYCLE_SECONDS)
    assert reading.activity is not None
    assert reading.activity.busy_seconds == pytest.approx(3.0)
    assert reading.activity.seconds == pytest.approx(5.0)
    assert reading.sampled_seconds == pytest.approx(5.0)


def test_rest_before_and_after_the_samples_is_idle() -> None:
    """Half a second of work after two seconds of rest, then rest again."""
    reading = read_ring(_steady(15, 4), RingState(0), CYCLE_SECONDS)
    assert _pieces(reading.activity) == [(1.94, 0.0), *[(0.14, 1.0)] * 4, (2.5, 0.0)]
    assert reading.sampled_seconds == pytest.approx(4 * NOMINAL_PERIOD_SECONDS)


def test_nothing_newer_is_idle_and_is_not_booked_again_when_work_goes_on() -> None:
    """Ten seconds of rest over two reads, then a sample: its own slot is all that is left to book."""
    first = read_ring([], RingState(0), CYCLE_SECONDS)
    second = read_ring([], first.state, CYCLE_SECONDS)
    assert _pieces(first.activity) == _pieces(second.activity) == [(5.0, 0.0)]
    third = read_ring(_steady(73, 35), second.state, CYCLE_SECONDS)
    assert third.activity is not None
    assert third.activity.utilization_ratio == pytest.approx(1.0, abs=0.01)


def test_sample_that_cannot_be_true_costs_its_own_time_only() -> None:
    """NVML-02: never idle, never its neighbour's figure, and counted."""
    entries = [*_steady(1, 10, 40), (11 * PERIOD_US, 4294967295), *_steady(12, 24, 40)]
    reading = read_ring(entries, RingState(0), CYCLE_SECONDS)
    assert reading.activity is not None
    assert reading.activity.lost_seconds == pytest.approx(CYCLE_SECONDS / 35)
    assert reading.activity.utilization_ratio == pytest.approx(0.4)
    assert reading.rejected == ("out_of_range",)


def test_entries_that_were_told_before_and_doubles_are_dropped_and_counted() -> None:
    """Whether a driver heeds what it was asked for, a sample counts once."""
    told = _steady(1, 5)
    reading = read_ring([*told, *_steady(6, 31), *_steady(6, 2)], RingState(5 * PERIOD_US), 31 * NOMINAL_PERIOD_SECONDS)
    assert reading.rejected == ("stale",) * 5 + ("duplicate",) * 2
    assert reading.activity is not None
    assert reading.activity.busy_seconds == pytest.approx(31 * NOMINAL_PERIOD_SECONDS)


def test_order_of_the_entries_changes_nothing() -> None:
    """The ring may be told from any slot on."""
    entries = _steady(1, 35, 60)
    shuffled = random.Random(7).sample(entries, len(entries))
    assert read_ring(shuffled, RingState(0), CYCLE_SECONDS) == read_ring(entries, RingState(0), CYCLE_SECONDS)


def test_read_that_comes_too_late_has_lost_what_was_overwritten() -> None:
    """Twenty-five seconds of work, of which the ring holds ten: fifteen are lost, none are idle."""
    reading = read_ring(_steady(180 - CAPACITY + 1, CAPACITY), RingState(0), 25.0)
    assert reading.activity is not None
    assert reading.activity.lost_seconds == pytest.approx(15.0, abs=0.2)
    assert reading.activity.busy_seconds == pytest.approx(10.0, abs=0.2)
    assert reading.activity.utilization_ratio == 1.0


def test_late_read_without_a_sample_is_idle_only_as_far_as_the_ring_reaches() -> None:
    """Missing is never idle."""
    assert _pieces(read_ring([], RingState(0), 25.0).activity) == [(15.0, None), (10.0, 0.0)]


def test_gap_before_a_full_ring_is_lost_also_within_its_promised_reach() -> None:
    """A faster ring wraps earlier."""
    entries = [(2_000_000 + slot * 100_000, 50) for slot in range(1, CAPACITY + 1)]
    reading = read_ring(entries, RingState(0, period_seconds=0.1), 9.2)
    assert reading.activity is not None
    assert reading.activity.lost_seconds == pytest.approx(2.0, abs=0.05)


def test_clock_that_went_back_is_noticed() -> None:
    """A reloaded driver counts its time anew, and would have nothing newer to tell for a long time."""
    assert clock_went_back(_steady(1, 3), RingState(100 * PERIOD_US))
    assert not clock_went_back(_steady(99, 3), RingState(100 * PERIOD_US))
    assert not clock_went_back([], RingState(100 * PERIOD_US))


def test_slower_ring_is_believed_after_a_few_batches_and_a_faster_one_at_once() -> None:
    """Products sample once in a sixth of a second to once in a second."""
    state: RingState | None = begin_ring([(number * 1_000_000, 80) for number in range(1, 11)])
    assert state is not None
    for batch in range(3):
        reading = read_ring([(number * 1_000_000, 80) for number in range(11 + batch * 5, 16 + batch * 5)], state, 5.0)
        state = reading.state
    assert state.period_seconds == pytest.approx(1.0)
    faster = read_ring([(state.cursor_us + number * 150_000, 80) for number in range(1, 34)], state, 5.0)
    assert faster.state.period_seconds == pytest.approx(0.15)


@dataclass(frozen=True)
class _Script:
    """Alternating rests and bursts, in seconds."""

    pieces: tuple[tuple[float, float], ...]

    def busy(self, start: float, end: float) -> float:
        """Time in which a kernel ran."""
        return sum(max(min(end, stop) - max(start, begin), 0.0) for begin, stop in self._bursts())

    def _bursts(self) -> Iterator[tuple[float, float]]:
        now = 0.0
        for rest, burst in self.pieces:
            yield now + rest, now + rest + burst
            now += rest + burst

    @property
    def seconds(self) -> float:
        """Until the last burst has ended."""
        return sum(rest + burst for rest, burst in self.pieces)


def _ring(script: _Script, *, rests: bool) -> list[tuple[int, int]]:
    slots = int(script.seconds / NOMINAL_PERIOD_SECONDS) + 200
    found = []
    for slot in range(1, slots):
        busy = script.busy((slot - 1) * NOMINAL_PERIOD_SECONDS, slot * NOMINAL_PERIOD_SECONDS)
        if busy > 0 or not rests:
            found.append((slot * PERIOD_US, round(100 * busy / NOMINAL_PERIOD_SECONDS)))
    return found


def _read_all(ring: list[tuple[int, int]], cycles: Iterable[float], drift: float) -> tuple[float, float]:
    """(busy, measured) seconds over all cycles."""
    state, now, busy, measured = RingState(0), 0.0, 0.0, 0.0
    for cycle in cycles:
        now += cycle
        by_gpu = now * (1 + drift) * 1e6
        there = [entry for entry in ring if entry[0] <= by_gpu][-CAPACITY:]
        reading = read_ring([entry for entry in there if entry[0] > state.cursor_us], state, cycle)
        assert reading.activity is not None
        assert reading.activity.seconds == pytest.approx(cycle)
        state, busy = reading.state, busy + reading.activity.busy_seconds
        measured += reading.activity.measured_seconds
    return busy, measured


SCRIPTS = st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.05, 3.0)), min_size=5, max_size=40)


@settings(deadline=None, max_examples=40)
@given(SCRIPTS, st.booleans(), st.floats(-1e-4, 1e-4), st.randoms(use_true_random=False))
def test_all_that_a_script_did_is_counted_once(
    pieces: list[tuple[float, float]], rests: bool, drift: float, chance: random.Random
) -> None:
    """Bursts of any length at any phase, cycles with jitter, clocks that drift: within a third of a percent and a period."""
    script = _Script(tuple(pieces))
    cycles: list[float] = []
    while sum(cycles) < script.seconds + 10:
        cycles.append(CYCLE_SECONDS + chance.uniform(-0.1, 0.3))
    busy, measured = _read_all(_ring(script, rests=rests), cycles, drift)
    assert measured == pytest.approx(sum(cycles))
    assert busy == pytest.approx(script.busy(0.0, script.seconds), abs=0.003 * sum(cycles) + 2 * NOMINAL_PERIOD_SECONDS)


def test_hour_of_short_bursts_has_no_bias() -> None:
    """Over an hour of bursts within a few periods: where there is a rest, samples keep their own time."""
    chance = random.Random(3)
    script = _Script(tuple((chance.uniform(0.1, 4.0), chance.uniform(0.2, 3.0)) for _ in range(1000)))
    cycles = [CYCLE_SECONDS + chance.uniform(0.0, 0.05) for _ in range(int(script.seconds / CYCLE_SECONDS) + 2)]
    busy, _ = _read_all(_ring(script, rests=True), cycles, 1e-5)
    assert busy == pytest.approx(script.busy(0.0, script.seconds), abs=3 * NOMINAL_PERIOD_SECONDS)
