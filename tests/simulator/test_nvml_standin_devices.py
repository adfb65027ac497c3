"""What the simulated driver tells of a GPU, read through the unmodified binding."""

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from exporter.simulator.nvml.build import library_symbols
from exporter.simulator.world import GIB, NOT_AVAILABLE, SimDevice, SimProcess
from tests.simulator.conftest import Driver, error_of

LONGEST_NAME = "n" * 95


def test_two_gpus_each_has_its_identity(nvml: Driver) -> None:
    """Count, name, UUID, minor number, bus id and architecture are those of the GPU that was asked."""
    nvml.show(
        SimDevice(uuid="GPU-a", index=0, pci_bus_id="00000000:1B:00.0"),
        SimDevice(uuid="GPU-b", index=1, minor=7, name="NVIDIA L4", pci_bus_id="00000001:C2:03.0", architecture=8),
    )
    assert pynvml.nvmlDeviceGetCount() == 2
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    assert [pynvml.nvmlDeviceGetUUID(handle) for handle in (first, second)] == ["GPU-a", "GPU-b"]
    assert [pynvml.nvmlDeviceGetMinorNumber(handle) for handle in (first, second)] == [0, 7]
    assert [pynvml.nvmlDeviceGetIndex(handle) for handle in (first, second)] == [0, 1]
    assert pynvml.nvmlDeviceGetName(second) == "NVIDIA L4"
    assert pynvml.nvmlDeviceGetArchitecture(second) == pynvml.NVML_DEVICE_ARCH_ADA
    assert pynvml.nvmlDeviceGetBrand(second) == pynvml.NVML_BRAND_NVIDIA
    pci = pynvml.nvmlDeviceGetPciInfo(second)
    assert (pci.busId, pci.busIdLegacy) == ("00000001:C2:03.0", "0001:C2:03.0")
    assert (pci.domain, pci.bus, pci.device) == (1, 0xC2, 3)


def test_bus_ids_left_open_are_distinct(nvml: Driver) -> None:
    """Every GPU has a bus id of its own, and is found by it in the short, lower-case form too."""
    nvml.show(*(SimDevice(uuid=f"GPU-{index}", index=index) for index in range(300)))
    for index in (0, 254, 255, 299):
        pci = pynvml.nvmlDeviceGetPciInfo(pynvml.nvmlDeviceGetHandleByIndex(index))
        found = pynvml.nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy.lower())
        assert pynvml.nvmlDeviceGetUUID(found) == f"GPU-{index}"


@pytest.mark.parametrize("call", [pynvml.nvmlDeviceGetHandleByUUID, pynvml.nvmlDeviceGetHandleByPciBusId])
@pytest.mark.usefixtures("nvml")
def test_looking_up_what_is_not_there_finds_nothing(call: Callable[[str], Any]) -> None:
    """An unknown UUID or bus id is NOT_FOUND."""
    assert error_of(call, "GPU-of-somebody-else") == pynvml.NVML_ERROR_NOT_FOUND


@pytest.mark.usefixtures("nvml")
def test_index_behind_the_last_is_invalid() -> None:
    """An index that was never given out is INVALID_ARGUMENT."""
    assert error_of(pynvml.nvmlDeviceGetHandleByIndex, 1) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_missing_gpu_below_others_is_counted_and_lost(nvml: Driver) -> None:
    """A GPU that fell off the bus still counts, and the ones behind it keep their index."""
    nvml.show(SimDevice(uuid="GPU-b", index=1))
    assert pynvml.nvmlDeviceGetCount() == 2
    assert error_of(pynvml.nvmlDeviceGetHandleByIndex, 0) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(1)) == "GPU-b"


def test_handle_of_a_gpu_that_left_is_lost_until_it_is_back(nvml: Driver) -> None:
    """An old handle answers GPU_IS_LOST for every call, and works again with the GPU."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    nvml.show(SimDevice(uuid="GPU-other", index=0))
    assert error_of(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert error_of(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) == pynvml.NVML_ERROR_GPU_IS_LOST
    nvml.show(SimDevice(uuid="GPU-other", index=0), SimDevice(uuid="GPU-0", index=1))
    assert pynvml.nvmlDeviceGetIndex(handle) == 1


def test_same_uuid_twice_gives_two_devices(nvml: Driver) -> None:
    """Two GPUs that claim one UUID stay two handles with values of their own."""
    nvml.show(SimDevice(uuid="GPU-x", index=0, power=1), SimDevice(uuid="GPU-x", index=1, power=2))
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1)]
    assert [pynvml.nvmlDeviceGetPowerUsage(handle) for handle in handles] == [1, 2]


def test_memory_v1_counts_the_reserved_part_as_used(nvml: Driver) -> None:
    """v1: total is used and free; v2 keeps what the driver reserves apart."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, memory_total=80 * GIB, memory_used=30 * GIB, memory_reserved=GIB))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    old = pynvml.nvmlDeviceGetMemoryInfo(handle)
    assert (old.total, old.used, old.free) == (80 * GIB, 31 * GIB, 49 * GIB)
    new = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    assert (new.total, new.reserved, new.used, new.free) == (80 * GIB, GIB, 30 * GIB, 49 * GIB)


def test_memory_used_left_open_is_the_sum_over_processes(nvml: Driver) -> None:
    """Processes that tell no memory add none."""
    processes = (SimProcess(pid=1, memory=GIB), SimProcess(pid=2, memory=2 * GIB), SimProcess(pid=3, memory=NOT_AVAILABLE))
    nvml.show(SimDevice(uuid="GPU-0", index=0, processes=processes))
    assert pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used == 3 * GIB


@pytest.mark.parametrize("version", [0x01000028, 0x02000020, 0x03000028])
@pytest.mark.usefixtures("nvml")
def test_memory_of_a_version_that_is_not_there_is_refused(version: int) -> None:
    """The version field is checked as the driver checks it."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    code = error_of(pynvml.nvmlDeviceGetMemoryInfo, handle, version)
    assert code == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


@pytest.mark.usefixtures("nvml")
def test_temperature_of_a_version_that_is_not_there_is_refused() -> None:
    """So is the version of the newer temperature call."""
    request = pynvml.c_nvmlTemperature_v1_t(version=pynvml.nvmlTemperature_v1 + 1)
    code = pynvml.nvmlLib.nvmlDeviceGetTemperatureV(pynvml.nvmlDeviceGetHandleByIndex(0), ctypes.byref(request))
    assert code == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_extreme_values_are_carried_exactly(nvml: Driver) -> None:
    """All-ones, sentinels and negative temperatures arrive as they were given."""
    nvml.show(
        SimDevice(
            uuid="GPU-0",
            index=0,
            utilization=0xFFFFFFFF,
            memory_total=NOT_AVAILABLE,
            memory_used=NOT_AVAILABLE,
            power=0xFFFFFFFF,
            energy=0xFFFFFFFFFFFFFFFF,
            temperature=-40,
            ecc_uncorrected=0xFFFFFFFFFFFFFFFF,
            row_remap_pending=0xFFFFFFFF,
        )
    )
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0xFFFFFFFF
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    assert (memory.total, memory.used, memory.free) == (NOT_AVAILABLE, NOT_AVAILABLE, 0)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 0xFFFFFFFF
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 0xFFFFFFFFFFFFFFFF
    assert pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU) == -40
    assert ctypes.c_int32(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)).value == -40
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 0xFFFFFFFFFFFFFFFF
    assert pynvml.nvmlDeviceGetRemappedRows(handle) == (0, 0, 0xFFFFFFFF, 0)


def test_measurements_are_those_of_the_state(nvml: Driver) -> None:
    """Each call gives the number that belongs to it."""
    nvml.show(
        SimDevice(
            uuid="GPU-0", index=0, utilization=1, power=2, power_limit=3, temperature=4, ecc_corrected=5, ecc_uncorrected=6
        )
    )
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 1
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 2
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 3
    assert pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == 4
    assert [pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, 1) for kind in (0, 1)] == [5, 6]
    assert pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) > 0


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("utilization", pynvml.nvmlDeviceGetUtilizationRates),
        ("memory_total", pynvml.nvmlDeviceGetMemoryInfo),
        ("power", pynvml.nvmlDeviceGetPowerUsage),
        ("power_limit", pynvml.nvmlDeviceGetEnforcedPowerLimit),
        ("temperature", lambda handle: pynvml.nvmlDeviceGetTemperature(handle, 0)),
        ("temperature", lambda handle: pynvml.nvmlDeviceGetTemperatureV(handle, 0)),
        ("energy", pynvml.nvmlDeviceGetTotalEnergyConsumption),
        ("ecc_corrected", lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, 0, 0)),
        ("ecc_uncorrected", lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0)),
        ("row_remap_pending", pynvml.nvmlDeviceGetRemappedRows),
        ("mig_mode", pynvml.nvmlDeviceGetMigMode),
    ],
)
def test_value_that_is_none_makes_its_call_unsupported(nvml: Driver, field: str, call: Callable[[Any], Any]) -> None:
    """Only the call that the value stands behind is not supported."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    call(handle)
    values: dict[str, Any] = {field: None}
    nvml.show(SimDevice(uuid="GPU-0", index=0, **values))
    assert error_of(call, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert pynvml.nvmlDeviceGetName(handle) == SimDevice(uuid="", index=0).name


def test_field_values_each_have_their_own_result(nvml: Driver) -> None:
    """A field that the state does not give fails alone; its neighbours are told."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, clock_event_ns={74: 5, 271: NOT_AVAILABLE}))
    values = pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(0), [74, (76, 3), 271])
    assert [value.nvmlReturn for value in values] == [0, pynvml.NVML_ERROR_NOT_SUPPORTED, 0]
    assert [value.value.ullVal for value in values if value.nvmlReturn == 0] == [5, NOT_AVAILABLE]
    assert {value.valueType for value in values} == {pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG}


@pytest.mark.usefixtures("nvml")
def test_field_values_without_any_success_fail_as_a_whole() -> None:
    """The call itself is not supported if none of its fields is."""
    code = error_of(pynvml.nvmlDeviceGetFieldValues, pynvml.nvmlDeviceGetHandleByIndex(0), [74, 76])
    assert code == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize("name", ["", 'quo"te', "new\nline", " blank ", "end", "tab\t\r\\", "ü漢", "x" * 95])
def test_hostile_name_is_carried_exactly(nvml: Driver, name: str) -> None:
    """No character of a name can break the state file."""
    nvml.show(SimDevice(uuid=name, index=0, name=name[:60]))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetName(handle) == name[:60]
    assert pynvml.nvmlDeviceGetUUID(handle) == name


def test_name_that_is_no_utf8_arrives_as_its_bytes(nvml: Driver) -> None:
    """Bytes that are no text, and a NUL among them, are in the caller's buffer as they are."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, name=b"a\xff\x00b".decode("utf-8", "surrogateescape")))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    buffer = ctypes.create_string_buffer(b"?" * 96)
    assert pynvml.nvmlLib.nvmlDeviceGetName(handle, buffer, ctypes.c_uint(96)) == pynvml.NVML_SUCCESS
    assert buffer.raw[:6] == b"a\xff\x00b\x00?"
    with pytest.raises(UnicodeDecodeError):
        pynvml.nvmlDeviceGetName(handle)


def test_name_longer_than_the_buffer_is_refused(nvml: Driver) -> None:
    """95 bytes fit with their NUL; one more does not, and is not cut."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    nvml.show(SimDevice(uuid="GPU-0", index=0, name=LONGEST_NAME))
    assert pynvml.nvmlDeviceGetName(handle) == LONGEST_NAME
    nvml.show(SimDevice(uuid="GPU-0", index=0, name=LONGEST_NAME + "n"))
    assert error_of(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE


@pytest.mark.usefixtures("nvml")
def test_handle_that_was_never_given_out_is_invalid() -> None:
    """NULL and an invented pointer are INVALID_ARGUMENT for every call about a device."""
    invented = pynvml.c_nvmlDevice_t.from_buffer(ctypes.c_void_p(0x1000))
    for handle in (None, invented):
        for symbol in _device_calls():
            assert getattr(pynvml.nvmlLib, symbol)(handle, *[None] * 5) == pynvml.NVML_ERROR_INVALID_ARGUMENT, symbol


@pytest.mark.usefixtures("nvml")
def test_null_where_an_answer_should_go_is_never_written_to() -> None:
    """No call about a device succeeds without a place for its answer, and none ends the process."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for symbol in _device_calls():
        assert getattr(pynvml.nvmlLib, symbol)(handle, *[None] * 5) != pynvml.NVML_SUCCESS, symbol


def _device_calls() -> list[str]:
    calls = [symbol for symbol in library_symbols() if symbol.startswith("nvmlDevice")]
    return sorted(symbol for symbol in calls if not symbol.startswith(("nvmlDeviceGetHandleBy", "nvmlDeviceGetCount")))
