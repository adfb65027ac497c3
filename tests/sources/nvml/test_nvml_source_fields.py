"""Measured values: each is optional, each costs only itself, and one that cannot be true is dropped."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from exporter.model.device import Device, GpuProcess, MigMode, ProcessKind
from exporter.simulator.world import GIB, NvmlFault, SimProcess
from tests.sources.nvml.busy_device import BUSY, COMPLETE, NO_MEMORY, QUIET, differing
from tests.sources.nvml.conftest import Node, read_device, read_devices

ALL_ONES_64 = (1 << 64) - 1
BLANK_64 = 9223372036854775794

MEMORY_V2 = "nvmlDeviceGetMemoryInfo_v2"
MEMORY_V1 = "nvmlDeviceGetMemoryInfo"
SAMPLES = "nvmlDeviceGetProcessUtilization"
SAMPLES_2 = "nvmlDeviceGetProcessesUtilizationInfo"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses"

GETTERS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("nvmlDeviceGetName",), {"model": ""}),
    (("nvmlDeviceGetPciInfo_v3",), {"pci_bus_id": ""}),
    (("nvmlDeviceGetMinorNumber",), {"minor_number": None}),
    (("nvmlDeviceGetArchitecture",), {"architecture": ""}),
    (("nvmlDeviceGetUtilizationRates",), {"utilization_ratio": None}),
    ((MEMORY_V2, MEMORY_V1), NO_MEMORY),
    (("nvmlDeviceGetPowerUsage",), {"power_watts": None}),
    (("nvmlDeviceGetEnforcedPowerLimit",), {"power_limit_watts": None}),
    (("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), {"temperature_celsius": None}),
    (("nvmlDeviceGetTotalEnergyConsumption",), {"energy_joules": None}),
    (("nvmlDeviceGetTotalEccErrors",), {"ecc_errors": {}}),
    (("nvmlDeviceGetRemappedRows",), {"row_remap_pending": None}),
    (("nvmlDeviceGetFieldValues",), {"clock_event_seconds": {}}),
    ((f"{COMPUTE}_v3", f"{COMPUTE}_v2"), {"processes": None}),
    ((SAMPLES, SAMPLES_2), {"process_use": None}),
]
CODES = [(3, ""), (4, "no_permission"), (999, "unknown")]


def reasons(device: Device) -> set[str]:
    """Why calls failed."""
    return {reason for _, reason in device.failed_calls}


async def test_device_that_answers_everything_is_complete_in_our_units(node: Node) -> None:
    """Every field of a device has its value, converted once."""
    node.show(QUIET, BUSY)
    assert await read_device(node.open(), 1) == COMPLETE


@pytest.mark.parametrize(("code", "reason"), CODES)
@pytest.mark.parametrize(("symbols", "lost"), GETTERS, ids=lambda value: value[0] if isinstance(value, tuple) else "")
async def test_optional_call_that_fails_costs_its_own_field_of_its_own_device(
    node: Node, symbols: tuple[str, ...], lost: dict[str, Any], code: int, reason: str
) -> None:
    """A getter that fails takes exactly its fields of its device, and they come back unless unsupported (NVML-05)."""
    node.show(QUIET, BUSY, faults=tuple(NvmlFault(symbol=symbol, device=1, code=code) for symbol in symbols))
    source = node.open()
    for _ in range(3):
        healthy, sick = await read_devices(source)
        assert sick.up
        assert differing(sick) == lost
        assert reasons(sick) == ({reason} if reason else set())
        assert set(differing(healthy)) == {"uuid", "index", "minor_number"}
        assert not healthy.failed_calls
    node.show(QUIET, BUSY)
    _, sick = await read_devices(source)
    assert differing(sick) == ({} if reason else lost)
    assert not sick.failed_calls


@pytest.mark.parametrize(("code", "reason"), CODES)
async def test_all_optional_calls_that_fail_leave_the_identity(node: Node, code: int, reason: str) -> None:
    """With every optional getter failing the device is still there, and the other one complete (NVML-05)."""
    symbols = [symbol for symbols, lost in GETTERS for symbol in symbols if "model" not in lost]
    node.show(QUIET, BUSY, faults=tuple(NvmlFault(symbol=symbol, device=1, code=code) for symbol in symbols))
    healthy, sick = await read_devices(node.open())
    assert sick.up
    assert (sick.uuid, sick.index, sick.model, sick.mig_mode) == ("GPU-b", 1, "NVIDIA H100 80GB HBM3", MigMode.DISABLED)
    assert set(differing(sick)) == {name for _, lost in GETTERS for name in lost} - {"model"}
    assert set(differing(healthy)) == {"uuid", "index", "minor_number"}
    assert reasons(sick) == ({reason} if reason else set())


@pytest.mark.parametrize("code", [13, 25, 26])
async def test_call_that_a_driver_does_not_have_is_no_failure(node: Node, code: int) -> None:
    """A missing symbol, another version of a struct and a withdrawn call are all "not supported" (NVML-10)."""
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", device=1, code=code),))
    device = await read_device(node.open(), 1)
    assert differing(device) == {"power_watts": None}
    assert device.failed_calls == ()


@pytest.mark.parametrize("code", [3, 13, 25])
async def test_memory_without_its_second_version_comes_from_the_first(node: Node, code: int) -> None:
    """Memory v1 counts what is reserved as used, and does not tell it apart (NVML-10)."""
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol=MEMORY_V2, code=code),))
    source = node.open()
    for _ in range(2):
        device = await read_device(source, 1)
        assert differing(device) == {"memory_used_bytes": 20 * GIB + 512, "memory_reserved_bytes": None}


async def test_temperature_without_its_second_version_comes_from_the_first_with_its_sign(node: Node) -> None:
    """The older call hands a negative temperature out as unsigned (NVML-10)."""
    node.show(QUIET, replace(BUSY, temperature=-7), faults=(NvmlFault(symbol="nvmlDeviceGetTemperatureV", code=13),))
    assert (await read_device(node.open(), 1)).temperature_celsius == -7


async def test_unified_memory_part_has_no_device_memory_and_keeps_that_of_its_processes(node: Node) -> None:
    """Without any memory call a process' memory is all there is to tell (NVML-12)."""
    node.show(QUIET, replace(BUSY, memory_total=None, processes=(SimProcess(pid=4001, memory=6 * GIB),)))
    device = await read_device(node.open(), 1)
    assert (device.memory_used_bytes, device.memory_reserved_bytes, device.memory_total_bytes) == (None, None, None)
    assert device.processes == (GpuProcess(4001, frozenset({ProcessKind.COMPUTE}), 6 * GIB),)
    assert device.utilization_ratio == 0.4
    assert (device.failed_calls, device.rejected) == ((), ())


async def test_clock_events_that_the_driver_does_not_count_are_absent(node: Node) -> None:
    """Only reasons that were counted are there, and a blank value is none of them."""
    node.show(QUIET, replace(BUSY, clock_event_ns={74: 1_500_000_000, 269: BLANK_64, 270: ALL_ONES_64}))
    device = await read_device(node.open(), 1)
    assert device.clock_event_seconds == {"sw_power": 1.5}
    assert [one.reading for one in device.rejected] == ["clock_event", "clock_event"]


async def test_name_with_bad_bytes_is_taken_with_replacements(node: Node) -> None:
    """Bytes that are no text cost no device."""
    node.show(replace(QUIET, name="NVIDIA \udcff\udcfe H100"), replace(BUSY, name="NVIDIA\0garbage"))
    first, second = await read_devices(node.open())
    assert first.model == "NVIDIA \ufffd\ufffd H100"
    assert second.model == "NVIDIA"


async def test_identity_that_failed_at_first_is_asked_again(node: Node) -> None:
    """A name that could not be read in one cycle is there in the next."""
    source = node.open()
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetName", code=999),))
    assert (await read_device(source, 1)).model == ""
    node.show(QUIET, BUSY)
    assert (await read_device(source, 1)).model == "NVIDIA H100 80GB HBM3"


async def test_identity_is_read_once(node: Node) -> None:
    """What does not change is not asked again: its call may fail later and nothing is lost."""
    source = node.open()
    node.show(QUIET, BUSY)
    await read_devices(source)
    node.show(
        QUIET,
        BUSY,
        faults=tuple(
            NvmlFault(symbol=symbol, code=999)
            for symbol in (
                "nvmlDeviceGetName",
                "nvmlDeviceGetPciInfo_v3",
                "nvmlDeviceGetMinorNumber",
                "nvmlDeviceGetArchitecture",
            )
        ),
    )
    assert replace(await read_device(source, 1), process_use=COMPLETE.process_use) == COMPLETE


async def test_new_start_of_the_driver_asks_again_what_was_not_supported(node: Node) -> None:
    """Another driver may know what the last one did not."""
    source = node.open()
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", code=3),))
    assert (await read_device(source, 1)).power_watts is None
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9),))
    await source.read()
    node.show(QUIET, BUSY)
    node.clock.seconds += 1.0
    assert (await read_device(source, 1)).power_watts == 210.0


async def test_call_that_is_not_supported_is_not_made_again_and_not_logged_above_debug(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """The call would fail otherwise in the second cycle, and is not even made; nothing in the log but debug (NVML-05)."""
    caplog.set_level(logging.DEBUG, logger="exporter")
    source = node.open()
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", device=1, code=3),))
    await read_devices(source)
    node.show(QUIET, BUSY, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", device=1, code=999),))
    assert (await read_device(source, 1)).failed_calls == ()
    about = [record for record in caplog.records if "nvmlDeviceGetPowerUsage" in record.getMessage()]
    assert [record.levelname for record in about] == ["DEBUG"]
