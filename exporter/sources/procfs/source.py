"""/proc as the pipeline sees it: `read` and `close`. A read that never returns costs one thread, and never a second one."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from exporter.model.process import ProcessTable
from exporter.model.reading import Missing, MissingReason, Reading
from exporter.sources.procfs.scan import Scanner
from exporter.sources.procfs.worker import Answer, Worker

logger = logging.getLogger(__name__)


class ProcFs:
    """The processes of this node.

    Args:
        root: the host's /proc.
        deadline_seconds: longest wait for one reading.
        clock: monotonic seconds; for the time of a reading.
    """

    def __init__(self, root: Path, *, deadline_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._scanner = Scanner(root)
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._worker: Worker | None = None
        self._in_flight: Answer | None = None
        self._missing: Missing | None = None
        self._missing_since = 0.0
        self._hints: dict[str, bool] = {}

    async def read(self, pids: Collection[int]) -> Reading[ProcessTable]:
        """The processes with these PIDs, and their ancestors up to PID 1.

        An empty request still says whether this is the host's /proc: drivers hide PIDs that our namespace does not have, so
        that "no processes" may mean that we cannot see them.

        Missing: not_found and permission_denied (the root), timeout (at once while an earlier read is still stuck; what it
        answers late is dropped).
        """
        if self._in_flight is not None and not self._in_flight.done():
            reading: Reading[ProcessTable] = self._timed_out()
        else:
            reading = await self._scan(frozenset(pids))
        self._log_change(reading)
        return reading

    async def close(self) -> None:
        """Ends the thread. A stuck one is left behind: it holds nothing, and does not keep the process from ending."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    async def _scan(self, pids: frozenset[int]) -> Reading[ProcessTable]:
        if self._worker is None:
            self._worker = Worker(self._scanner)
        self._in_flight = self._worker.ask(pids, self._clock())
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await asyncio.wrap_future(self._in_flight)
        except TimeoutError:
            return self._timed_out()

    def _timed_out(self) -> Missing:
        return Missing(MissingReason.TIMEOUT, self._clock(), f"no end of reading {self._scanner.reading}")

    def _log_change(self, reading: Reading[ProcessTable]) -> None:
        if isinstance(reading, Missing):
            if self._missing is None:
                self._missing_since = reading.at
            if self._missing is None or self._missing.reason is not reading.reason:
                logger.warning("/proc is missing: %s %s", reading.reason, reading.detail)
            self._missing = reading
            return
        if self._missing is not None:
            logger.info("/proc is back after %.0f s", reading.taken_at - self._missing_since)
        self._missing = None
        self._log_hint(
            "This /proc is not the host's: set hostPID, or mount the host's /proc. Processes on the GPUs cannot be told",
            present=reading.value.host_pid_missing,
        )
        self._log_hint(
            "Control group paths are relative: we run in a control group namespace of our own",
            present=reading.value.private_cgroup_view,
        )

    def _log_hint(self, text: str, *, present: bool) -> None:
        if present and not self._hints.get(text, False):
            logger.warning("%s", text)
        elif not present and self._hints.get(text, False):
            logger.info("No more: %s", text)
        self._hints[text] = present
