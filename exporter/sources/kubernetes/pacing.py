"""How often the API may be asked: growing pauses after failures, and a bound on look-ups for the whole process."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from exporter.model.reading import MissingReason
from exporter.sources.kubernetes.failures import OwnLimit

_LONGEST_OBEYED_SECONDS = 60.0


class Backoff:
    """Pauses that double from `first_seconds` to `longest_seconds`, spread so that a fleet does not come back as one."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._next_seconds = first_seconds

    def reset(self) -> None:
        """Start small again."""
        self._next_seconds = self._first_seconds

    def next_pause_seconds(self, at_least_seconds: float = 0.0) -> float:
        """Between one and one and a half times the pause that is due, or what the server asks for (a minute at most)."""
        due = self._next_seconds
        self._next_seconds = min(due * 2, self._longest_seconds)
        asked = min(at_least_seconds, _LONGEST_OBEYED_SECONDS)
        # Spread, not secret.
        return max(due, asked) * random.uniform(1.0, 1.5)  # noqa: S311


class Pacer:
    """Bounds look-ups: so many in flight, so many a second, with a burst of one second's worth."""

    def __init__(
        self,
        *,
        in_flight: int = 5,
        per_second: float = 10.0,
        patience_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slots = asyncio.Semaphore(in_flight)
        self._per_second = per_second
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._last_start_at = clock() - 1.0
        """Start of the turn given out last; a second back, a whole second's worth of turns may start at once."""

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, at most `patience_seconds`; fails with RATE_LIMITED if it would take longer."""
        now = self._clock()
        starts_at = max(self._last_start_at, now - 1.0) + 1.0 / self._per_second
        wait_seconds = starts_at - now
        if wait_seconds > self._patience_seconds:
            raise OwnLimit(MissingReason.RATE_LIMITED, "our own limit on look-ups")
        self._last_start_at = starts_at
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)
        async with self._slots:
            yield
