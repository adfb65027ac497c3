"""One thread for calls that may never return: a stuck one costs this thread alone, and never gets a second one beside it."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
Request = tuple["Future[Any]", Callable[[], Any]]


class StuckError(Exception):
    """No answer in time, or an earlier call is still out."""


class ThreadEndedError(RuntimeError):
    """The thread came to its end by a mistake of ours; its traceback is in the log."""


class OneThread:
    """A daemon thread, so that a stuck call does not keep the process from ending. Started by the first call."""

    def __init__(self, name: str) -> None:
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._started = False
        self._in_flight: Future[Any] | None = None
        self._ended: Future[None] = Future()
        # A running future cannot be cancelled by whoever gave up waiting for it.
        self._ended.set_running_or_notify_cancel()

    async def call(self, work: Callable[[], T], seconds: float) -> T:
        """Do `work` on the thread. What is answered later than `seconds` is dropped.

        Raises:
            StuckError: at once while an earlier call is out, else after `seconds`.
            ThreadEndedError: there is no thread any more.
        """
        if self._in_flight is not None and not self._in_flight.done():
            raise StuckError
        if self._ended.done():
            raise ThreadEndedError
        if not self._started:
            self._started = True
            self._thread.start()
        answer: Future[T] = Future()
        self._in_flight = answer
        self._requests.put((answer, work))
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            raise StuckError from None

    async def end(self, seconds: float) -> None:
        """End the thread after the call in flight.

        Raises:
            StuckError: that call has not returned after `seconds`; the thread ends as soon as it does.
        """
        if not self._started:
            return
        self._requests.put(None)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(self._ended)
        except TimeoutError:
            raise StuckError from None

    def when_idle(self, work: Callable[[], None]) -> None:
        """Queue `work` for when the call in flight has returned, and wait for nothing."""
        if self._started:
            self._requests.put((Future(), work))

    def _serve(self) -> None:
        answer: Future[Any] | None = None
        try:
            while (request := self._requests.get()) is not None:
                answer, work = request
                if answer.set_running_or_notify_cancel():
                    answer.set_result(work())
        finally:
            self._ended.set_result(None)
            if answer is not None and not answer.done():
                answer.set_exception(ThreadEndedError())
