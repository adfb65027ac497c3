"""NVML as the pipeline sees it: `read` and `close`, both with a limit in time."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from exporter.model.device import NvmlState
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.sources.nvml.readings import Watch
from exporter.sources.nvml.sampler import Answer, Sampler
from exporter.sources.nvml.session import Session

_CLOSE_SECONDS: Final = 1.5

logger = logging.getLogger(__name__)


class Nvml:
    """The node's GPUs.

    Args:
        library: path or SONAME of libnvidia-ml.
        deadline_seconds: longest wait for one reading.
        clock: monotonic seconds; for the time of a reading and the pauses between two attempts to initialise.
    """

    def __init__(self, *, library: str, deadline_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._watch = Watch()
        self._session = Session(library, clock, self._watch)
        self._sampler: Sampler | None = None
        self._in_flight: Answer | None = None
        self._closed = False
        self._missing: Missing | None = None
        """The first of the present row of failures with one reason."""
        self._missing_since = 0.0

    async def read(self) -> Reading[NvmlState]:
        """One cycle of the whole node.

        Missing: library_missing, driver_not_loaded, version_mismatch, permission_denied, driver_error, timeout (at once while
        an earlier call is still stuck; what it answers late is dropped), released (after `close`).
        """
        if self._closed:
            reading: Reading[NvmlState] = Missing(MissingReason.RELEASED, self._clock())
        elif self._in_flight is not None and not self._in_flight.done():
            reading = self._timed_out()
        else:
            reading = await self._ask()
        self._log_change(reading)
        return reading

    async def close(self) -> None:
        """Shuts NVML down and ends its thread; a stuck thread is left behind after 1.5 s, to do so as soon as it can."""
        self._closed = True
        if self._sampler is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.wrap_future(self._sampler.stop())
        except TimeoutError:
            logger.warning("NVML is stuck in %s and was not shut down", self._watch.call)

    async def _ask(self) -> Reading[NvmlState]:
        if self._sampler is None:
            self._sampler = Sampler(self._session)
        self._in_flight = self._sampler.ask()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await asyncio.wrap_future(self._in_flight)
        except TimeoutError:
            return self._timed_out()

    def _timed_out(self) -> Missing:
        return Missing(MissingReason.TIMEOUT, self._clock(), f"no answer from {self._watch.call}")

    def _log_change(self, reading: Reading[NvmlState]) -> None:
        if isinstance(reading, Fresh):
            if self._missing is not None:
                logger.info("NVML is back after %.0f s", reading.taken_at - self._missing_since)
            self._missing = None
        elif self._missing is None or self._missing.reason is not reading.reason:
            if self._missing is None:
                self._missing_since = reading.at
            logger.warning("NVML is missing: %s %s", reading.reason, reading.detail)
            self._missing = reading
