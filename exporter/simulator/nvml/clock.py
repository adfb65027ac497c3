"""The clock of the simulated GPUs, for who wants to hold the time in hand: the file that ``clock.c`` looks at."""

import mmap
import os
from pathlib import Path

CLOCK_VARIABLE = "GPU_OWNERSHIP_SIMULATED_NVML_CLOCK"
"""The environment variable that names the file to the library; unset or empty: the wall clock."""

_BYTES = 8


class SimClock:
    """Time that stands still until it is set. Every process that looks at the file sees it at its next call."""

    def __init__(self, path: Path, now_us: int = 0) -> None:
        """Make the file, or take over the one that is there; it then says `now_us`.

        Args:
            path: Where the file is. The library maps it once, so it must stay where it is.
            now_us: Microseconds.
        """
        self.path = path
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(file, _BYTES)
            self._memory = mmap.mmap(file, _BYTES)
        finally:
            os.close(file)
        self.set_us(now_us)

    @property
    def now_us(self) -> int:
        """Microseconds since the clock's zero, which is also when the driver was loaded."""
        return int.from_bytes(self._memory[:_BYTES], "little")

    def set_us(self, now_us: int) -> None:
        """Go to a moment, be it back.

        Raises:
            OverflowError: It is negative, or more than 64 bits.
        """
        self._memory[:_BYTES] = now_us.to_bytes(_BYTES, "little")

    def advance_us(self, by_us: int) -> None:
        """Go on from where it stands."""
        self.set_us(self.now_us + by_us)
