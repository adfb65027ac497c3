"""Pauses after failures and the limit on look-ups."""

import asyncio

import pytest

from exporter.model.reading import MissingReason
from exporter.sources.kubernetes.failures import RequestFailed, failure_of_status
from exporter.sources.kubernetes.pacing import Backoff, Pacer
from tests.sources.kubernetes.kubernetes_support import Clock


def test_pauses_double_up_to_the_longest_and_are_spread() -> None:
    """A fleet that failed together does not come back together."""
    backoff = Backoff(1.0, 8.0)
    for due in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert due <= backoff.next_pause_seconds() <= due * 1.5
    backoff.reset()
    assert 1.0 <= backoff.next_pause_seconds() <= 1.5
    assert len({Backoff(1.0, 8.0).next_pause_seconds() for _ in range(10)}) > 1


def test_pause_that_the_server_asks_for_is_obeyed_within_reason() -> None:
    """Retry-After lengthens the pause, a minute at most."""
    assert 20.0 <= Backoff(1.0, 8.0).next_pause_seconds(20.0) <= 30.0
    assert 60.0 <= Backoff(1.0, 8.0).next_pause_seconds(86400.0) <= 90.0


@pytest.mark.parametrize(("written", "seconds"), [("7", 7.0), (None, 0.0), ("soon", 0.0), ("-5", 0.0), ("²", 0.0), ("", 0.0)])
def test_retry_after_is_seconds_or_nothing(written: str | None, seconds: float) -> None:
    """A header that cannot be read asks for nothing."""
    assert failure_of_status(429, "/", written).retry_after_seconds == seconds


async def test_turns_beyond_the_burst_and_our_patience_are_refused() -> None:
    """One second's worth at once, what fits into the patience after a wait, the rest not in this cycle."""
    clock = Clock()
    pacer = Pacer(per_second=10.0, patience_seconds=0.01, clock=clock)
    for _ in range(10):
        async with pacer.turn():
            pass
    with pytest.raises(RequestFailed) as caught:
        async with pacer.turn():
            pass
    assert caught.value.reason is MissingReason.RATE_LIMITED
    clock.advance(0.5)
    for _ in range(5):
        async with pacer.turn():
            pass
    with pytest.raises(RequestFailed):
        async with pacer.turn():
            pass


async def test_no_more_than_five_look_ups_are_in_flight() -> None:
    """The sixth waits for one of the five."""
    pacer = Pacer(per_second=1000.0)
    held, most = 0, 0

    async def look_up() -> None:
        nonlocal held, most
        async with pacer.turn():
            held += 1
            most = max(most, held)
            await asyncio.sleep(0.01)
            held -= 1

    await asyncio.gather(*(look_up() for _ in range(20)))
    assert most == 5
