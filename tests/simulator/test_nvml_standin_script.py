"""Bursts become spans that do not overlap."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.simulator.nvml.script import Span, lay_out, track_lines
from exporter.simulator.world import SimBurst

LATEST_US = 40
BURSTS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, LATEST_US - 1), st.integers(1, 9), st.integers(0, 100)).map(
        lambda drawn: SimBurst(pid=drawn[0], start_us=drawn[1], end_us=drawn[1] + drawn[2], percent=drawn[3])
    ),
    max_size=8,
)


@given(BURSTS)
def test_each_moment_has_the_processes_of_its_bursts_and_the_sum_of_their_shares(bursts: list[SimBurst]) -> None:
    """Spans say of each microsecond what the bursts say of it, and none overlaps or is longer or shorter than need be."""
    spans = list(lay_out(bursts))
    for moment in range(LATEST_US + 10):
        there = [burst for burst in bursts if burst.percent and burst.start_us <= moment < burst.end_us]
        expected = (min(sum(burst.percent for burst in there), 100), tuple(sorted({burst.pid for burst in there})))
        found = [(span.percent, span.pids) for span in spans if span.start_us <= moment < span.end_us]
        assert found == ([expected] if there else [])
    for earlier, later in pairwise(spans):
        assert (earlier.end_us, earlier.percent, earlier.pids) != (later.start_us, later.percent, later.pids)


def test_burst_that_follows_another_of_the_same_process_goes_on() -> None:
    """What looks the same before and after a moment is one span."""
    first, second = SimBurst(pid=1, start_us=0, end_us=5), SimBurst(pid=1, start_us=5, end_us=9)
    assert list(lay_out((first, second))) == [Span(0, 9, 100, (1,))]


def test_whole_gpu_has_the_work_of_all_instances() -> None:
    """One track for all, and one for each instance that a burst names."""
    load = (SimBurst(pid=1, start_us=0, end_us=5, percent=30, gi=7), SimBurst(pid=2, start_us=0, end_us=5, percent=60))
    whole, instance = ("track", "gi 4294967295", "span 0 5 90 1 2"), ("track", "gi 7", "span 0 5 30 1")
    assert track_lines(load, 0) == (*whole, *instance)


@pytest.mark.parametrize(
    "burst",
    [
        SimBurst(pid=1, start_us=5, end_us=5),
        SimBurst(pid=1, start_us=-1, end_us=5),
        SimBurst(pid=1, start_us=0, end_us=1 << 64),
        SimBurst(pid=1, start_us=0, end_us=11),
        SimBurst(pid=1, start_us=0, end_us=5, percent=101),
        SimBurst(pid=1, start_us=0, end_us=5, percent=-1),
        SimBurst(pid=0, start_us=0, end_us=5),
        SimBurst(pid=1 << 32, start_us=0, end_us=5),
    ],
)
def test_burst_that_cannot_be_is_refused(burst: SimBurst) -> None:
    """A script that makes no sense is an error where it is written, not a GPU that does nothing."""
    with pytest.raises(ValueError, match=r"SimBurst\("):
        track_lines((burst,), 10)
