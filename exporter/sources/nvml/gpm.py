"""GPM: counters of the hardware, differenced from cycle to cycle, so that nothing between is missed. Hopper and newer."""

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from exporter.sources.nvml import units
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Readings

GRAPHICS, SM, TENSOR = 1, 2, 5
"""Ids of the metrics that are asked for: engine active, SMs active, any tensor pipe active; in percent of the window."""

_SHORTEST_WINDOW_SECONDS: Final = 0.1
_LONGEST_WINDOW_SECONDS: Final = 600.0
_ALL_PERCENT: Final = 100.0
_ROUNDING_PERCENT: Final = 1.0
"""The driver's mean of a full window may come out a little above 100."""
_VERSION: Final = 1

Key = tuple[int | None, frozenset[str]]
"""GPU instance (None: the whole GPU) and the MIG devices in it: an instance made anew under an old number is another one."""


@dataclass(frozen=True, slots=True)
class GpmReading:
    """Means between two samples, 0 to 1; None where this driver cannot say."""

    window_seconds: float
    graphics_ratio: float | None
    sm_ratio: float | None
    tensor_ratio: float | None


@dataclass(slots=True)
class _Kept:
    """The sample of the last cycle."""

    sample: Any
    taken_at: float


@dataclass(slots=True)
class GpmMemory:
    """The samples that are kept for one GPU: one for itself, or one for each of its GPU instances."""

    supported: bool | None = None
    """None: not asked since the driver was initialised."""
    kept: dict[Key, _Kept] = field(default_factory=dict)
    spare: list[Any] = field(default_factory=list)

    def release(self, wanted: Collection[Key] = ()) -> None:
        """Give back the samples of what is not there any more; all of them before the driver is shut down."""
        for key in self.kept.keys() - set(wanted):
            self.spare.append(self.kept.pop(key).sample)
        while self.spare and (not wanted or len(self.spare) > 1):
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(self.spare.pop())


def read_gpm(readings: Readings, handle: Handle, memory: GpmMemory, keys: Collection[Key], now: float) -> dict[Key, GpmReading]:
    """Take a sample of each key and difference it with the one before.

    No entry for what has no earlier sample yet, and for what could not be sampled.

    Args:
        readings: of the GPU.
        handle: of the GPU.
        memory: its samples; changed.
        keys: the GPU itself, or its GPU instances.
        now: host time in monotonic seconds.
    """
    if memory.supported is None:
        support = readings.ask("nvmlGpmQueryDeviceSupport", lambda: pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
        memory.supported = None if support is None and readings.can_answer("nvmlGpmQueryDeviceSupport") else support == 1
    if not memory.supported:
        return {}
    memory.release(keys)
    found = ((key, _read_one(readings, handle, memory, key, now)) for key in keys)
    return {key: reading for key, reading in found if reading is not None}


def _read_one(readings: Readings, handle: Handle, memory: GpmMemory, key: Key, now: float) -> GpmReading | None:
    before = memory.kept.get(key)
    if before is not None and now - before.taken_at < _SHORTEST_WINDOW_SECONDS:
        return None
    sample = memory.spare.pop() if memory.spare else readings.ask("nvmlGpmSampleAlloc", pynvml.nvmlGpmSampleAlloc)
    if sample is None:
        return None
    call, take = _sampling(handle, key[0], sample)
    if readings.ask(call, take) is None:
        memory.spare.append(sample)
        return None
    memory.kept[key] = _Kept(sample, now)
    if before is None:
        return None
    memory.spare.append(before.sample)
    window = now - before.taken_at
    return None if window > _LONGEST_WINDOW_SECONDS else _difference(readings, before.sample, sample, window)


def _sampling(handle: Handle, gpu_instance: int | None, sample: Any) -> tuple[str, Callable[[], object]]:  # noqa: ANN401 - an opaque pointer
    if gpu_instance is None:
        return "nvmlGpmSampleGet", lambda: pynvml.nvmlGpmSampleGet(handle, sample)
    return "nvmlGpmMigSampleGet", lambda: pynvml.nvmlGpmMigSampleGet(handle, gpu_instance, sample)


def _difference(readings: Readings, earlier: Any, later: Any, window_seconds: float) -> GpmReading | None:  # noqa: ANN401
    asked = pynvml.c_nvmlGpmMetricsGet_t(version=_VERSION, numMetrics=3, sample1=earlier, sample2=later)
    for place, metric in enumerate((GRAPHICS, SM, TENSOR)):
        asked.metrics[place].metricId = metric
    if readings.ask("nvmlGpmMetricsGet", lambda: pynvml.nvmlGpmMetricsGet(asked)) is None:
        return None
    graphics, sm, tensor = (_ratio(readings, asked.metrics[place]) for place in range(3))
    return GpmReading(window_seconds, graphics, sm, tensor)


def _ratio(readings: Readings, metric: Any) -> float | None:  # noqa: ANN401 - a ctypes structure of pynvml, which is untyped
    if metric.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    percent = readings.within("gpm", float(metric.value), 0.0, _ALL_PERCENT + _ROUNDING_PERCENT)
    return None if percent is None else units.ratio_from_percent(min(percent, _ALL_PERCENT))
