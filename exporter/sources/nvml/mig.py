"""MIG devices of one GPU, found anew in each cycle: a cached handle may come to mean another instance."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pynvml

from exporter.model.activity import Activity, Span
from exporter.model.device import MigInstance
from exporter.model.ids import MigUuid
from exporter.sources.nvml import codes, library, measures
from exporter.sources.nvml.gpm import GpmReading, Key
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Calls, Readings

_MOST_SLICES: Final = 64
_PROFILE: Final = re.compile(r"(?:(?P<compute>\d+)c\.)?(?P<gpu>\d+)g\.\d+gb[\w.+-]*")


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """A MIG device and its handle, good for this cycle."""

    instance: MigInstance
    handle: Handle
    readings: Readings


def read_mode(readings: Readings, handle: Handle) -> int | None:
    """The current mode (1: enabled); None if the GPU knows no MIG (`can_answer` is false then) or the call failed."""
    return readings.ask("nvmlDeviceGetMigMode", lambda: int(pynvml.nvmlDeviceGetMigMode(handle)[0]))


def read_slices(readings: Readings, handle: Handle) -> int | None:
    """Compute slices of the whole GPU: the most MIG devices that it can hold."""
    call = "nvmlDeviceGetMaxMigDeviceCount"
    count: int | None = readings.ask(call, lambda: int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)))
    return readings.within("mig_slices", count, 1, _MOST_SLICES)


def read_instances(
    readings: Readings, handle: Handle, slots: int, calls: dict[MigUuid, Calls], subject: str
) -> list[LiveInstance]:
    """The MIG devices that exist now.

    Args:
        readings: of the GPU.
        handle: of the GPU.
        slots: how many MIG devices it can hold; free ones may lie between used ones.
        calls: by UUID, what an instance has said of each call.
        subject: the GPU in a log line.
    """
    found: list[LiveInstance] = []
    for slot in range(slots):
        part = readings.ask("nvmlDeviceGetMigDeviceHandleByIndex", _HandleQuestion(handle, slot))
        if part is not None:
            instance = _read_instance(readings, part, calls, f"{subject} MIG {slot}")
            if instance is not None:
                found.append(instance)
    return found


@dataclass(frozen=True, slots=True)
class _HandleQuestion:
    """The handle in a slot; None for a free one, which is no failure."""

    gpu: Handle
    slot: int

    def __call__(self) -> Handle | None:
        try:
            found: Handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.gpu, self.slot)
        except pynvml.NVMLError as error:
            if error.value in codes.HOLE:
                return None
            raise
        return found


def _read_instance(readings: Readings, handle: Handle, calls: dict[MigUuid, Calls], subject: str) -> LiveInstance | None:
    """None if it went away while it was asked, or does not say who it is."""
    part = readings.about_part(Calls(), subject)
    uuid = MigUuid(part.ask("nvmlDeviceGetUUID", lambda: library.read_text("nvmlDeviceGetUUID", handle)) or "")
    gi = part.ask("nvmlDeviceGetGpuInstanceId", lambda: int(pynvml.nvmlDeviceGetGpuInstanceId(handle)))
    ci = part.ask("nvmlDeviceGetComputeInstanceId", lambda: int(pynvml.nvmlDeviceGetComputeInstanceId(handle)))
    if not uuid or gi is None or ci is None:
        return None
    part = readings.about_part(calls.setdefault(uuid, Calls()), subject)
    name = part.ask("nvmlDeviceGetName", lambda: library.read_text("nvmlDeviceGetName", handle)) or ""
    profile = profile_of(name)
    memory = measures.read_memory(part, handle)
    instance = MigInstance(
        uuid=uuid,
        gpu_instance_id=gi,
        compute_instance_id=ci,
        profile=profile,
        compute_slices=_read_compute_slices(part, handle, profile),
        memory_used_bytes=memory.used_bytes,
        memory_total_bytes=memory.total_bytes,
    )
    return LiveInstance(instance, handle, part)


def _read_compute_slices(readings: Readings, handle: Handle, profile: str) -> int | None:
    call = "nvmlDeviceGetAttributes_v2"
    count = readings.ask(call, lambda: int(pynvml.nvmlDeviceGetAttributes_v2(handle).computeInstanceSliceCount))
    count = readings.within("mig_slices", count, 1, _MOST_SLICES)
    return slices_of(profile) if count is None else count


def gpm_keys(live: Iterable[LiveInstance]) -> list[Key]:
    """The GPU instances, each with the MIG devices in it."""
    groups: dict[int, set[str]] = {}
    for one in live:
        groups.setdefault(one.instance.gpu_instance_id, set()).add(one.instance.uuid)
    return [(gpu_instance, frozenset(uuids)) for gpu_instance, uuids in groups.items()]


def measured_instances(live: Iterable[LiveInstance], gpm: Mapping[Key, GpmReading]) -> tuple[MigInstance, ...]:
    """The instances with what GPM says of their GPU instance."""
    by_gpu_instance = {key[0]: reading for key, reading in gpm.items()}
    return tuple(_measured(one.instance, by_gpu_instance.get(one.instance.gpu_instance_id)) for one in live)


def _measured(instance: MigInstance, reading: GpmReading | None) -> MigInstance:
    if reading is None:
        return instance
    activity = None
    if reading.graphics_ratio is not None:
        activity = Activity((Span(reading.window_seconds, reading.graphics_ratio),))
    return replace(instance, activity=activity, sm_active_ratio=reading.sm_ratio, tensor_active_ratio=reading.tensor_ratio)


def profile_of(name: str) -> str:
    """``1g.10gb`` of ``NVIDIA H100 80GB HBM3 MIG 1g.10gb``; empty where the name does not end in a profile."""
    profile = name.rpartition(" MIG ")[2] if " MIG " in name else ""
    return profile if _PROFILE.fullmatch(profile) else ""


def slices_of(profile: str) -> int | None:
    """Compute slices that the profile itself names: 1 of ``1c.3g.40gb``, 3 of ``3g.40gb``."""
    match = _PROFILE.fullmatch(profile)
    return None if match is None else int(match["compute"] or match["gpu"])
