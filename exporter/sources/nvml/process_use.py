"""What each process did on a GPU since the last cycle, as far as the driver can say."""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final

from exporter.model.activity import Activity
from exporter.model.device import GpuProcess, ProcessUse
from exporter.sources.nvml import library, units
from exporter.sources.nvml.accounting import read_busy_seconds
from exporter.sources.nvml.known import Known
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.processes import LARGEST_PID
from exporter.sources.nvml.readings import OUT_OF_RANGE, Readings
from exporter.sources.nvml.ring import latest_us
from exporter.sources.nvml.samples import Measured

READING: Final = "process_utilization"
_ALL_PERCENT: Final = 100


def read_process_use(
    readings: Readings,
    handle: Handle,
    known: Known,
    measured: Measured,
    processes: Iterable[GpuProcess] | None,
    *,
    accounting: bool,
) -> tuple[ProcessUse, ...] | None:
    """Activity by process, in parts of the measured time of the GPU's activity; None where the driver cannot say.

    The driver gives whole percents of the samples that it has recorded: while the GPU rests there are none, so they are
    parts of the sampled time, not of the cycle.

    Args:
        readings: of the GPU.
        handle: of the GPU.
        known: what is remembered of it; changed.
        measured: what the GPU as a whole did.
        processes: on the GPU now.
        accounting: whether the driver's own accounts may be used, where there are any.
    """
    since_us = known.process_cursor_us if measured.since_us is None else measured.since_us
    percents = _read_percents(readings, handle, known, measured, since_us)
    if percents is None:
        return None
    seconds = None if measured.activity is None else measured.activity.measured_seconds
    part = measured.sampled_seconds / seconds if seconds else 1.0
    ratios = {pid: _ratio(percent, part) for pid, percent in percents.items()}
    if accounting:
        ratios |= _accounted(readings, handle, known, measured.activity, processes or ())
    return tuple(ProcessUse(pid, ratio) for pid, ratio in sorted(ratios.items()))


def _ratio(percent: int | None, part: float) -> float | None:
    return None if percent is None else min(units.ratio_from_percent(percent) * part, 1.0)


def _accounted(
    readings: Readings, handle: Handle, known: Known, activity: Activity | None, processes: Iterable[GpuProcess]
) -> Mapping[int, float]:
    ring = known.samples.ring
    if ring is None:
        return {}
    pids = {process.pid for process in processes}
    busy = read_busy_seconds(readings, handle, known.accounting, pids, ring.period_seconds)
    if activity is None or not activity.measured_seconds:
        return {}
    return {pid: min(seconds / activity.measured_seconds, 1.0) for pid, seconds in busy.items()}


def _read_percents(
    readings: Readings, handle: Handle, known: Known, measured: Measured, since_us: int
) -> dict[int, int | None] | None:
    """Percent by PID, of entries newer than `since_us`; None where the driver cannot say, and for a PID that was misread.

    Time is the GPU's own and is only ever taken from what the driver returned: its clock is not the host's. Entries older than
    asked for, from the future, of impossible PIDs or of more than all of the time are known faults of drivers.
    """
    records = _read_entries(readings, handle, since_us)
    if records is None:
        return None
    seconds = inf if measured.activity is None else measured.activity.seconds
    latest_possible_us = (
        latest_us(since_us, known.process_quiet_seconds + seconds) if measured.since_us is None else measured.latest_us
    )
    newest: dict[int, tuple[int, int]] = {}
    misread: set[int] = set()
    for record in records:
        pid, at_us, percent = int(record.pid), int(record.timeStamp), int(record.smUtil)
        reason = _fault(pid, at_us, percent, since_us, latest_possible_us)
        if reason is None:
            reason = "duplicate" if pid in newest else None
            newest[pid] = max(newest.get(pid, (0, 0)), (at_us, percent))
        elif reason == OUT_OF_RANGE:
            misread.add(pid)
        if reason is not None:
            readings.reject(READING, reason)
    last_us = max([since_us, *(at_us for at_us, _ in newest.values())])
    known.process_quiet_seconds = known.process_quiet_seconds + seconds if last_us == since_us else 0.0 if since_us else inf
    # A busy GPU of which nobody is said to be newer: what was believed to be the last moment was not.
    known.process_cursor_us = 0 if not newest and measured.utilization_ratio else last_us
    return {**{pid: percent for pid, (_, percent) in newest.items()}, **dict.fromkeys(misread - newest.keys())}


def _fault(pid: int, at_us: int, percent: int, since_us: int, latest_us: float) -> str | None:
    if not 0 < pid <= LARGEST_PID:
        return "foreign"
    if at_us <= since_us:
        return "stale"
    return OUT_OF_RANGE if percent > _ALL_PERCENT or at_us > latest_us else None


def _read_entries(readings: Readings, handle: Handle, since_us: int) -> list[Any] | None:
    """The newer call first: there are GPUs of which the older one tells nothing."""
    calls: dict[str, Callable[[Handle, int], list[Any]]] = {
        "nvmlDeviceGetProcessesUtilizationInfo": library.read_processes_utilization_info,
        "nvmlDeviceGetProcessUtilization": library.read_process_utilization,
    }
    for call, read in calls.items():
        records = readings.ask(call, lambda read=read: read(handle, since_us))  # type: ignore[misc]
        if records is not None or readings.can_answer(call):
            return records
    return None
