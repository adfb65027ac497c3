"""Sources that are switched off in the configuration: they say so, and nothing else."""

import asyncio
import time

from exporter.model.reading import Missing, MissingReason


class SwitchedOff:
    """Stands for any source that is asked with or without arguments."""

    async def read(self, *_: object) -> Missing:
        """Missing(DISABLED)."""
        return Missing(MissingReason.DISABLED, time.monotonic())


class SwitchedOffPods:
    """Stands for the pod source."""

    generation = 0

    def read(self) -> Missing:
        """Missing(DISABLED)."""
        return Missing(MissingReason.DISABLED, time.monotonic())

    async def run(self) -> None:
        """Nothing to follow."""
        await asyncio.Event().wait()
