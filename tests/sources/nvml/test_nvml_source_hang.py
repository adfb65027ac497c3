"""An NVML call that does not return: it costs its own thread, and nobody waits for it longer than the deadline."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pynvml
import pytest

from exporter.edge.one_thread import ThreadEndedError
from exporter.model.reading import Fresh, MissingReason
from exporter.simulator.world import NvmlFault, SimDevice
from exporter.sources.nvml.source import Nvml
from tests.sources.nvml.conftest import Node, missing_of, value_of

T = TypeVar("T")

A = SimDevice(uuid="GPU-a", index=0)
B = SimDevice(uuid="GPU-b", index=1)
UTILIZATION = "nvmlDeviceGetUtilizationRates"
STUCK = (NvmlFault(symbol=UTILIZATION, device=0, delay_seconds=60.0),)


async def timed(call: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """The answer and how long it took."""
    start = time.monotonic()
    answer = await call()
    return answer, time.monotonic() - start


async def wait_until_fresh(node: Node) -> None:
    """Until the call has noticed that nothing holds it any more, and a reading succeeds."""
    source = node.opened[-1]
    end = time.monotonic() + 10.0
    while not isinstance(await source.read(), Fresh):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_hung_call_is_a_timeout_at_the_deadline_and_at_once_afterwards(node: Node) -> None:
    """No reading waits longer than the deadline, and those behind a stuck one do not wait at all (LIFE-02)."""
    source = node.open(deadline_seconds=0.3)
    value_of(await source.read())
    node.show(A, B, faults=STUCK)
    reading, seconds = await timed(source.read)
    missing = missing_of(reading)
    assert missing.reason is MissingReason.TIMEOUT
    assert UTILIZATION in missing.detail
    assert "GPU 0" in missing.detail
    assert 0.25 < seconds < 1.5
    threads = threading.active_count()
    for _ in range(20):
        reading, seconds = await timed(source.read)
        assert missing_of(reading).reason is MissingReason.TIMEOUT
        assert seconds < 0.1
        assert threading.active_count() == threads


async def test_readings_go_on_once_the_call_has_returned(node: Node) -> None:
    """The late answer is dropped: what is read next is of now, by the same thread (LIFE-02)."""
    source = node.open(deadline_seconds=0.2)
    value_of(await source.read())
    threads = {thread.ident for thread in threading.enumerate() if thread.name == "nvml"}
    node.show(A, B, faults=STUCK)
    missing_of(await source.read())
    node.clock.seconds += 100.0
    node.show(A)
    await wait_until_fresh(node)
    reading = await source.read()
    assert isinstance(reading, Fresh)
    assert reading.taken_at == node.clock.seconds
    assert [device.up for device in reading.value.devices] == [True, False]
    assert {thread.ident for thread in threading.enumerate() if thread.name == "nvml"} == threads


async def test_hang_of_the_very_first_call_is_a_timeout(node: Node) -> None:
    """A driver that hangs in its initialisation is like one that hangs later (LIFE-02)."""
    node.show(A, faults=(NvmlFault(symbol="nvmlInitWithFlags", delay_seconds=60.0),))
    source = node.open(deadline_seconds=0.1)
    assert missing_of(await source.read()).reason is MissingReason.TIMEOUT
    node.show(A)
    await wait_until_fresh(node)


async def test_slow_driver_within_the_deadline_is_no_timeout(node: Node) -> None:
    """Slowness alone is no failure."""
    node.show(A, faults=(NvmlFault(symbol=UTILIZATION, delay_seconds=0.2),))
    reading, seconds = await timed(node.open(deadline_seconds=5.0).read)
    value_of(reading)
    assert seconds >= 0.2


async def test_event_loop_runs_on_while_a_call_hangs(node: Node) -> None:
    """The call holds neither the loop nor the interpreter: others are served meanwhile (LIFE-02)."""
    node.show(A, faults=STUCK)
    source = node.open(deadline_seconds=0.5)
    reading = asyncio.ensure_future(source.read())
    turns = 0
    while not reading.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert missing_of(await reading).reason is MissingReason.TIMEOUT
    assert turns >= 10


async def test_close_while_a_call_hangs_returns_and_shuts_down_when_it_can(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the process does not wait for the driver, and the driver is never shut down under a call (LIFE-02)."""
    source = node.open(deadline_seconds=0.1)
    node.show(A, faults=STUCK)
    missing_of(await source.read())
    caplog.clear()
    _, seconds = await timed(source.close)
    assert seconds < 2.0
    assert UTILIZATION in caplog.text
    assert pynvml.nvmlDeviceGetCount() == 1
    assert missing_of(await source.read()).reason is MissingReason.RELEASED
    node.show(A)
    end = time.monotonic() + 10.0
    while any(thread.name == "nvml" for thread in threading.enumerate()):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


async def test_reading_that_is_cancelled_leaves_the_source_usable(node: Node) -> None:
    """Who gives up waiting does not break the next reading."""
    node.show(A, faults=STUCK)
    source = node.open(deadline_seconds=5.0)
    reading = asyncio.ensure_future(source.read())
    await asyncio.sleep(0.05)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert missing_of(await source.read()).reason is MissingReason.TIMEOUT
    node.show(A)
    await wait_until_fresh(node)


async def test_hang_is_logged_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A driver that hangs for days fills no log (LIFE-02)."""
    caplog.set_level(logging.INFO)
    node.show(A, faults=STUCK)
    source = node.open(deadline_seconds=0.1)
    for _ in range(20):
        missing_of(await source.read())
    assert len(caplog.messages) == 1
    assert "timeout" in caplog.messages[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_mistake_of_our_own_in_the_thread_reaches_the_reader(node: Node) -> None:
    """What is no trouble of the outside world raises, and does not look like a hang; closing works all the same."""
    ticks = iter((1.0,))
    source = Nvml(library=str(node.library), deadline_seconds=5.0, clock=lambda: next(ticks))
    for _ in range(2):
        with pytest.raises(ThreadEndedError):
            await source.read()
    _, seconds = await timed(source.close)
    assert seconds < 1.0
    for thread in threading.enumerate():
        if thread.name == "nvml":
            thread.join(5.0)
