"""The calls for which pynvml's own wrappers are not enough: texts with bad bytes, and lists that grow while they are read."""

import ctypes
from collections.abc import Callable
from typing import Any, Final, NewType, TypeVar

import pynvml

Handle = NewType("Handle", object)
"""An nvmlDevice_t of pynvml, of a GPU or of a MIG device."""

S = TypeVar("S", bound=ctypes.Structure)

_TEXT_BYTES: Final = 96
_FIRST_CAPACITY: Final = 128
_LAST_CAPACITY: Final = 1 << 16
_TRIES: Final = 5


def load(library: str) -> None:
    """Loads NVML from a path or by its SONAME, so that pynvml's own load by SONAME finds the same object.

    Raises:
        OSError: it is not there or is no such library.
    """
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)


def function(symbol: str) -> Callable[..., int]:
    """A C function as a fresh object: settings on it do not reach the ones that pynvml keeps.

    Raises:
        pynvml.NVMLError: FUNCTION_NOT_FOUND, if this driver has no such symbol.
    """
    try:
        found: Callable[..., int] = pynvml.nvmlLib[symbol]
    except AttributeError:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from None
    return found


def check(code: int) -> None:
    """Raises the code as pynvml's own wrappers do."""
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)


def read_text(symbol: str, *handle: Handle) -> str:
    """A text up to its first NUL; bytes that are no UTF-8 are replaced, where pynvml's wrappers would raise."""
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    check(function(symbol)(*handle, buffer, ctypes.c_uint(_TEXT_BYTES)))
    return buffer.value.decode(errors="replace")


def read_records(record: type[S], fetch: Callable[["ctypes.Array[S]", ctypes.c_uint], int]) -> list[S]:
    """All records of a list that may grow between two calls: a few tries with more room each, then INSUFFICIENT_SIZE.

    Args:
        record: layout of one record.
        fetch: gets the array and its capacity, leaves the number of records (or the number needed) in place of the capacity.
    """
    capacity = _FIRST_CAPACITY
    for _ in range(_TRIES):
        count = ctypes.c_uint(capacity)
        records = (record * capacity)()
        code = fetch(records, count)
        if code != pynvml.NVML_ERROR_INSUFFICIENT_SIZE:
            check(code)
            return records[: min(count.value, capacity)]
        capacity = min(2 * max(count.value, capacity), _LAST_CAPACITY)
    raise pynvml.NVMLError(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)


def read_processes(symbol: str, handle: Handle) -> list[Any]:
    """Entries of a list of running processes; `symbol` is a ``_v3`` or ``_v2``, which share one layout."""
    call = function(symbol)

    def fetch(records: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        return call(handle, ctypes.byref(count), records)

    return read_records(pynvml.c_nvmlProcessInfo_v3_t, fetch)


def read_process_utilization(handle: Handle, since_us: int) -> list[Any]:
    """Entries newer than `since_us` (microseconds by the GPU's clock; 0: all in the buffer); empty if nobody ran."""
    call = function("nvmlDeviceGetProcessUtilization")

    def fetch(records: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        return _empty_if_not_found(call(handle, records, ctypes.byref(count), ctypes.c_ulonglong(since_us)), count)

    return read_records(pynvml.c_nvmlProcessUtilizationSample_t, fetch)


def read_processes_utilization_info(handle: Handle, since_us: int) -> list[Any]:
    """The same from the call that replaces it in newer drivers."""
    call = function("nvmlDeviceGetProcessesUtilizationInfo")
    question = pynvml.c_nvmlProcessesUtilizationInfo_v1_t(
        version=pynvml.ProcessesUtilizationInfo_v1, lastSeenTimeStamp=since_us
    )

    def fetch(records: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        question.processSamplesCount = count.value
        question.procUtilArray = records
        code = call(handle, ctypes.byref(question))
        count.value = question.processSamplesCount
        return _empty_if_not_found(code, count)

    return read_records(pynvml.c_nvmlProcessUtilizationInfo_v1_t, fetch)


def _empty_if_not_found(code: int, count: ctypes.c_uint) -> int:
    if code != pynvml.NVML_ERROR_NOT_FOUND:
        return code
    count.value = 0
    return int(pynvml.NVML_SUCCESS)


def read_samples(handle: Handle, since_us: int) -> list[tuple[int, int]]:
    """(timestamp in microseconds, percent) of the utilisation samples newer than `since_us`; empty if there are none."""
    call = function("nvmlDeviceGetSamples")
    value_type = ctypes.c_uint(0)

    def fetch(records: "ctypes.Array[ctypes.Structure]", count: ctypes.c_uint) -> int:
        kind = ctypes.c_uint(pynvml.NVML_GPU_UTILIZATION_SAMPLES)
        since = ctypes.c_ulonglong(since_us)
        code = call(handle, kind, since, ctypes.byref(value_type), ctypes.byref(count), records)
        return _empty_if_not_found(code, count)

    records = read_records(pynvml.c_nvmlSample_t, fetch)
    wide = value_type.value in {pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG}
    return [(int(one.timeStamp), int(one.sampleValue.ullVal if wide else one.sampleValue.uiVal)) for one in records]


def read_accounting(handle: Handle, pid: int) -> Any:  # noqa: ANN401 - a ctypes structure of pynvml, which is untyped
    """nvmlAccountingStats_v2_t of a process, also of one that has ended a moment ago."""
    stats = pynvml.c_nvmlAccountingStats_v2_t(pid=pid)
    check(function("nvmlDeviceGetAccountingStats_v2")(handle, ctypes.byref(stats)))
    return stats


def read_fields(handle: Handle, fields: tuple[int, ...]) -> list[Any]:
    """One nvmlFieldValue_t for each field id, each with its own return code."""
    # One entry more than asked for: NVML has been seen to touch the entry behind the last one.
    values: Any = (pynvml.c_nvmlFieldValue_t * (len(fields) + 1))()
    for value, field in zip(values, fields, strict=False):
        value.fieldId = field
    check(function("nvmlDeviceGetFieldValues")(handle, ctypes.c_int(len(fields)), values))
    return list(values)[: len(fields)]


def read_bus_id(handle: Handle) -> str:
    """PCI bus id with an 8-digit domain, lower case."""
    info = pynvml.nvmlDeviceGetPciInfo_v3(handle)
    bus_id = pynvml.nvmlPciInfo_t.busId
    # The attribute itself decodes strictly.
    raw = bytes(info)[bus_id.offset : bus_id.offset + bus_id.size]
    return raw.partition(b"\0")[0].decode(errors="replace").lower()
