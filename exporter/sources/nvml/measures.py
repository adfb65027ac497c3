"""Measured values of one GPU or MIG device: optional, checked against what can be physically true, converted once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pynvml

from exporter.sources.nvml import codes, library, units
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Readings

LARGEST_MEMORY_BYTES: Final = 16 << 40
_LARGEST_POWER_WATTS: Final = 10_000.0
_LARGEST_COUNT: Final = (1 << 62) - 1
"""NVML's blank values lie near 2^63 and 2^64; no counter gets there by counting."""
_COLDEST_CELSIUS: Final = -50
_HOTTEST_CELSIUS: Final = 200
_ALL_PERCENT: Final = 100

_CLOCK_EVENTS: Final = {
    pynvml.NVML_FI_DEV_PERF_POLICY_POWER: "sw_power",
    pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST: "sync_boost",
    269: "sw_thermal",
    270: "hw_thermal",
    271: "hw_power_brake",
}

_MEMBER_BY_TYPE: Final = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a device; each value is None where it could not be read or cannot be true."""

    used_bytes: int | None = None
    """Without what is reserved, except where the driver has memory v1 only."""
    reserved_bytes: int | None = None
    """None with memory v1."""
    total_bytes: int | None = None


def read_utilization_ratio(readings: Readings, handle: Handle) -> float | None:
    """0 to 1; None in MIG mode."""
    call = "nvmlDeviceGetUtilizationRates"
    percent: int | None = readings.ask(call, lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    percent = readings.within("utilization", percent, 0, _ALL_PERCENT)
    return None if percent is None else units.ratio_from_percent(percent)


def read_memory(readings: Readings, handle: Handle) -> Memory:
    """Memory v2 where the driver has it, else v1, which cannot tell what is reserved from what is allocated."""
    call = "nvmlDeviceGetMemoryInfo_v2"
    info = readings.ask(call, lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))
    reserved: int | None = None
    if info is not None:
        reserved = info.reserved
    elif not readings.can_answer(call):
        info = readings.ask("nvmlDeviceGetMemoryInfo", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    if info is None:
        return Memory()
    total = readings.within("memory", int(info.total), 1, LARGEST_MEMORY_BYTES)
    if total is None:
        return Memory()
    used = readings.within("memory", int(info.used), 0, total)
    return Memory(used, readings.within("memory", reserved, 0, total), total)


def read_power(readings: Readings, handle: Handle) -> tuple[float | None, float | None]:
    """Watts drawn, and the limit in force."""
    limit_milliwatts: int | None = readings.ask(
        "nvmlDeviceGetEnforcedPowerLimit", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)
    )
    limit = readings.within("power_limit", _watts(readings, "power_limit", limit_milliwatts), 0.0, _LARGEST_POWER_WATTS)
    milliwatts: int | None = readings.ask("nvmlDeviceGetPowerUsage", lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    highest = max(2 * (limit or 0.0), _LARGEST_POWER_WATTS)
    return readings.within("power", _watts(readings, "power", milliwatts), 0.0, highest), limit


def _watts(readings: Readings, reading: str, milliwatts: int | None) -> float | None:
    # Checked before the conversion, which would hide that it is all ones.
    milliwatts = readings.within(reading, milliwatts, 0, (1 << 32) - 2)
    return None if milliwatts is None else units.watts_from_milliwatts(milliwatts)


def read_temperature_celsius(readings: Readings, handle: Handle) -> float | None:
    """Temperature of the GPU itself."""
    call = "nvmlDeviceGetTemperatureV"
    sensor = pynvml.NVML_TEMPERATURE_GPU
    celsius: int | None = readings.ask(call, lambda: pynvml.nvmlDeviceGetTemperatureV(handle, sensor))
    if celsius is None and not readings.can_answer(call):
        unsigned: int | None = readings.ask("nvmlDeviceGetTemperature", lambda: pynvml.nvmlDeviceGetTemperature(handle, sensor))
        celsius = None if unsigned is None else units.signed_from_unsigned(unsigned)
    return readings.within("temperature", celsius, _COLDEST_CELSIUS, _HOTTEST_CELSIUS)


def read_energy_joules(readings: Readings, handle: Handle) -> float | None:
    """Energy since driver load."""
    call = "nvmlDeviceGetTotalEnergyConsumption"
    millijoules: int | None = readings.ask(call, lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    millijoules = readings.within("energy", millijoules, 0, _LARGEST_COUNT)
    return None if millijoules is None else units.joules_from_millijoules(millijoules)


def read_ecc_errors(readings: Readings, handle: Handle) -> Mapping[str, int]:
    """Aggregate counts by kind; a kind that could not be read is not in it."""
    kinds = {
        "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    }
    counts: dict[str, int] = {}
    for kind, number in kinds.items():
        count = readings.within("ecc_errors", _read_ecc_count(readings, handle, number), 0, _LARGEST_COUNT)
        if count is not None:
            counts[kind] = count
    return counts


def _read_ecc_count(readings: Readings, handle: Handle, kind: int) -> int | None:
    return readings.ask(
        "nvmlDeviceGetTotalEccErrors", lambda: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_AGGREGATE_ECC))
    )


def read_row_remap_pending(readings: Readings, handle: Handle) -> bool | None:
    """True if a row of memory waits for a reset to be remapped."""
    pending = readings.ask("nvmlDeviceGetRemappedRows", lambda: int(pynvml.nvmlDeviceGetRemappedRows(handle)[2]))
    pending = readings.within("row_remap_pending", pending, 0, 1)
    return None if pending is None else bool(pending)


def read_clock_event_seconds(readings: Readings, handle: Handle) -> Mapping[str, float]:
    """Seconds by reason, of the reasons that this driver counts."""
    call = "nvmlDeviceGetFieldValues"
    seconds: dict[str, float] = {}
    for field in readings.ask(call, lambda: library.read_fields(handle, tuple(_CLOCK_EVENTS))) or ():
        code = int(field.nvmlReturn)
        codes.raise_if_gone(code, call)
        if code == pynvml.NVML_SUCCESS:
            nanoseconds = readings.within("clock_event", _field_value(field.valueType, field.value), 0.0, float(_LARGEST_COUNT))
            if nanoseconds is not None:
                seconds[_CLOCK_EVENTS[field.fieldId]] = units.seconds_from_nanoseconds(nanoseconds)
        elif code not in codes.ABSENT | codes.HOLE:
            # Fields that a driver is too old for are told by either of those.
            readings.fail(call, code)
    return seconds


def _field_value(value_type: int, value: object) -> float:
    member = _MEMBER_BY_TYPE.get(value_type)
    return math.nan if member is None else float(getattr(value, member))
