"""Processes on a device, as the driver lists them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from exporter.model.device import GpuProcess, ProcessKind
from exporter.sources.nvml import library
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.measures import LARGEST_MEMORY_BYTES
from exporter.sources.nvml.mig import LiveInstance
from exporter.sources.nvml.readings import ALL_ONES_32, ALL_ONES_64, NOT_AVAILABLE, Readings

LARGEST_PID: Final = 1 << 22
"""Linux gives out no larger one, whatever pid_max says."""

_SYMBOLS: Final = {
    ProcessKind.COMPUTE: "nvmlDeviceGetComputeRunningProcesses",
    ProcessKind.GRAPHICS: "nvmlDeviceGetGraphicsRunningProcesses",
    ProcessKind.MPS: "nvmlDeviceGetMPSComputeRunningProcesses",
}
_VERSIONS: Final = ("_v3", "_v2")

_Key = tuple[int, int | None, int | None]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of one list."""

    key: _Key
    kind: ProcessKind
    memory_bytes: int | None


def read_processes(
    readings: Readings, handle: Handle, instances: Sequence[LiveInstance], total_bytes: int | None
) -> tuple[GpuProcess, ...] | None:
    """All processes of a GPU in order of their PID, or None if a list that it supports could not be read.

    Args:
        readings: of the GPU.
        handle: of the GPU; in MIG mode it lists the processes of all instances, if we are permitted to see them.
        instances: asked one by one if it does not.
        total_bytes: memory of the GPU; no process can hold more.
    """
    entries = _read_lists(readings, handle, None, total_bytes)
    if entries is None and instances:
        entries = _read_parts(instances, total_bytes)
    return None if entries is None else _merge(entries)


def _read_parts(instances: Iterable[LiveInstance], total_bytes: int | None) -> list[_Entry] | None:
    found: list[_Entry] = []
    for live in instances:
        entries = _read_lists(live.readings, live.handle, live, total_bytes)
        if entries is None:
            return None
        found.extend(entries)
    return found


def _read_lists(readings: Readings, handle: Handle, live: LiveInstance | None, total_bytes: int | None) -> list[_Entry] | None:
    """None if the compute list is not supported, or any supported list failed: a part of the truth reads as "nobody there".

    A record whose PID cannot be true makes the whole list untrue: the driver's layout may be another than the binding's.
    """
    found: list[_Entry] = []
    believed = True
    for kind, name in _SYMBOLS.items():
        records, supported = _read_list(readings, handle, name)
        if records is None and (supported or kind is ProcessKind.COMPUTE):
            return None
        for record in records or ():
            key = _key_of(record, live)
            if 0 < key[0] <= LARGEST_PID:
                found.append(_Entry(key, kind, _memory_of(readings, record.usedGpuMemory, total_bytes)))
            else:
                readings.reject("process_pid")
                believed = False
    return found if believed else None


def _read_list(readings: Readings, handle: Handle, name: str) -> tuple[list[Any] | None, bool]:
    """The records, or None and whether the list is supported at all."""
    for version in _VERSIONS:
        call = name + version
        records = readings.ask(call, _ListQuestion(call, handle))
        if records is not None or readings.can_answer(call):
            return records, True
    return None, False


@dataclass(frozen=True, slots=True)
class _ListQuestion:
    call: str
    handle: Handle

    def __call__(self) -> list[Any]:
        return library.read_processes(self.call, self.handle)


def _key_of(record: Any, live: LiveInstance | None) -> _Key:  # noqa: ANN401 - a ctypes structure of pynvml, which is untyped
    if live is not None:
        return record.pid, live.instance.gpu_instance_id, live.instance.compute_instance_id
    return record.pid, _instance_id(record.gpuInstanceId), _instance_id(record.computeInstanceId)


def _instance_id(number: int) -> int | None:
    return None if number == ALL_ONES_32 else number


def _memory_of(readings: Readings, used_bytes: int, total_bytes: int | None) -> int | None:
    if used_bytes == ALL_ONES_64:
        readings.reject("process_memory", NOT_AVAILABLE)
        return None
    return readings.within("process_memory", used_bytes, 0, LARGEST_MEMORY_BYTES if total_bytes is None else total_bytes)


def _merge(entries: Iterable[_Entry]) -> tuple[GpuProcess, ...]:
    kinds: dict[_Key, set[ProcessKind]] = {}
    memory: dict[_Key, int | None] = {}
    for entry in entries:
        kinds.setdefault(entry.key, set()).add(entry.kind)
        known = [size for size in (memory.get(entry.key), entry.memory_bytes) if size is not None]
        memory[entry.key] = max(known, default=None)
    merged = [GpuProcess(pid, frozenset(kinds[pid, gi, ci]), memory[pid, gi, ci], gi, ci) for pid, gi, ci in kinds]
    return tuple(sorted(merged, key=lambda one: (one.pid, one.gpu_instance_id or 0, one.compute_instance_id or 0)))
