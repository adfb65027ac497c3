"""/proc as the pipeline sees it: `read` and `close`. A read that never returns costs one thread, and never a second one."""

import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path

from exporter.edge.one_thread import OneThread, StuckError
from exporter.edge.transitions import Transitions
from exporter.model.process import ProcessTable
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.sources.procfs.scan import Scanner

_CLOSE_SECONDS = 0.5

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
        self._thread = OneThread("procfs")
        self._transitions = Transitions("procfs", clock)
        self._hints: dict[str, bool] = {}

    async def read(self, pids: Collection[int]) -> Reading[ProcessTable]:
        """The processes with these PIDs, and their ancestors up to PID 1.

        An empty request still says whether this is the host's /proc: drivers hide PIDs that our namespace does not have, so
        that "no processes" may mean that we cannot see them.

        Missing: not_found and permission_denied (the root), timeout (at once while an earlier read is still stuck; what it
        answers late is dropped).
        """
        reading = await self._scan(frozenset(pids))
        self._transitions.heard(reading)
        if isinstance(reading, Fresh):
            self._log_hints(reading.value)
        return reading

    async def close(self) -> None:
        """Ends the thread. A stuck one is left behind: it holds nothing, and does not keep the process from ending."""
        try:
            await self._thread.end(_CLOSE_SECONDS)
        except StuckError:
            logger.warning("/proc is stuck in reading %s", self._scanner.reading)

    async def _scan(self, pids: frozenset[int]) -> Reading[ProcessTable]:
        now = self._clock()
        try:
            return await self._thread.call(lambda: self._scanner.scan(pids, now), self._deadline_seconds)
        except StuckError:
            return Missing(MissingReason.TIMEOUT, self._clock(), f"no end of reading {self._scanner.reading}")

    def _log_hints(self, table: ProcessTable) -> None:
        self._log_hint(
            "This /proc is not the host's: set hostPID, or mount the host's /proc. Processes on the GPUs cannot be told",
            present=table.host_pid_missing,
        )
        self._log_hint(
            "Control group paths are relative: we run in a control group namespace of our own",
            present=table.private_cgroup_view,
        )

    def _log_hint(self, text: str, *, present: bool) -> None:
        if present and not self._hints.get(text, False):
            logger.warning("%s", text)
        elif not present and self._hints.get(text, False):
            logger.info("No more: %s", text)
        self._hints[text] = present
