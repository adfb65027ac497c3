"""Accounting mode, where an admin has switched it on: the driver itself adds up what each process did, and misses nothing.

It is never switched on from here: it is a state of the whole node.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pynvml

from exporter.sources.nvml import library
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Readings

CALL: Final = "nvmlDeviceGetAccountingStats_v2"
_MODE: Final = "nvmlDeviceGetAccountingMode"
_HUNDREDTHS_OF_PERCENT: Final = 10_000
_LARGEST_SUM: Final = 1 << 62


@dataclass(slots=True)
class AccountingMemory:
    """What the driver had added up for each process in the last cycle."""

    sums: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By PID: (start of the process in microseconds, sum over its samples in hundredths of a percent)."""


def read_busy_seconds(
    readings: Readings, handle: Handle, memory: AccountingMemory, pids: Iterable[int], period_seconds: float
) -> dict[int, float]:
    """Busy time of each process since the last cycle; no entry where it is not known, or was not known then.

    A process that ended since is asked about once more.

    Args:
        readings: of the GPU.
        handle: of the GPU.
        memory: the sums of the last cycle; changed.
        pids: processes on the GPU now.
        period_seconds: time that one sample stands for.
    """
    if readings.ask(_MODE, lambda: int(pynvml.nvmlDeviceGetAccountingMode(handle))) != pynvml.NVML_FEATURE_ENABLED:
        memory.sums.clear()
        return {}
    before, now = memory.sums, {}
    for pid in sorted({*pids, *before}):
        stats = readings.ask(CALL, _Question(handle, pid))
        total = None if stats is None else readings.within("accounting", int(stats[1]), 0, _LARGEST_SUM)
        if stats is not None and total is not None:
            now[pid] = (stats[0], total)
    memory.sums = {pid: total for pid, total in now.items() if pid in set(pids)}
    return {
        pid: (total - before[pid][1]) / _HUNDREDTHS_OF_PERCENT * period_seconds
        for pid, (started, total) in now.items()
        if pid in before and before[pid][0] == started and total >= before[pid][1]
    }


@dataclass(frozen=True, slots=True)
class _Question:
    """(start, sum) of one process; None if the driver does not know it (any more), which is no failure."""

    handle: Handle
    pid: int

    def __call__(self) -> tuple[int, int] | None:
        try:
            stats = library.read_accounting(self.handle, self.pid)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_FOUND:
                return None
            raise
        return int(stats.startTime), int(stats.sumGpuUtil)
