"""NVML as the pipeline sees it: `read` and `close`, both with a limit in time."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from exporter.edge.one_thread import OneThread, StuckError
from exporter.edge.transitions import Transitions
from exporter.model.device import NvmlState
from exporter.model.ids import DeviceUuid
from exporter.model.reading import Missing, MissingReason, Reading
from exporter.sources.nvml.devices import Devices
from exporter.sources.nvml.readings import Watch
from exporter.sources.nvml.session import Session

_CLOSE_SECONDS: Final = 1.5

logger = logging.getLogger(__name__)


class Nvml:
    """The node's GPUs.

    Args:
        library: path or SONAME of libnvidia-ml.
        deadline_seconds: longest wait for one reading.
        gpm: use the hardware's own counters of activity where the GPU has them.
        accounting: use the driver's accounts of processes where an admin has switched them on.
        indexes: by UUID, the ``gpu`` label of GPUs that an earlier run has seen.
        clock: monotonic seconds; for the time of a reading and the pauses between two attempts to initialise.
    """

    def __init__(
        self,
        *,
        library: str,
        deadline_seconds: float,
        gpm: bool = True,
        accounting: bool = True,
        indexes: Mapping[DeviceUuid, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._watch = Watch()
        devices = Devices(self._watch, clock, gpm=gpm, accounting=accounting, indexes=indexes or {})
        self._session = Session(library, clock, self._watch, devices)
        self._thread = OneThread("nvml")
        self._transitions = Transitions("nvml", clock)
        self._closed = False

    async def read(self) -> Reading[NvmlState]:
        """One cycle of the whole node.

        Missing: library_missing, driver_not_loaded, version_mismatch, permission_denied, driver_error, timeout (at once while
        an earlier call is still stuck; what it answers late is dropped), released (after `close`).
        """
        reading = await self._ask()
        self._transitions.heard(reading)
        return reading

    async def close(self) -> None:
        """Shuts NVML down and ends its thread; a stuck thread is left behind after 1.5 s, to do so as soon as it can."""
        if not self._closed:
            self._closed = True
            self._thread.when_idle(self._session.end)
        try:
            await self._thread.end(_CLOSE_SECONDS)
        except StuckError:
            logger.warning("NVML is stuck in %s and was not shut down", self._watch.call)

    async def _ask(self) -> Reading[NvmlState]:
        if self._closed:
            return Missing(MissingReason.RELEASED, self._clock())
        try:
            return await self._thread.call(self._session.read, self._deadline_seconds)
        except StuckError:
            return Missing(MissingReason.TIMEOUT, self._clock(), f"no answer from {self._watch.call}")
