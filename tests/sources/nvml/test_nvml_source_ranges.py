"""Values that cannot be true are dropped and counted, for the one reading and the one field that they are in."""

from dataclasses import replace
from typing import Any

import pytest

from exporter.model.device import RejectedReading
from exporter.simulator.world import GIB
from tests.sources.nvml.busy_device import BUSY, NO_MEMORY, QUIET, differing
from tests.sources.nvml.conftest import Node, read_device


@pytest.mark.parametrize("dropped", [4294967295, 137, 101])
async def test_utilization_above_all_is_dropped_for_that_reading_alone(node: Node, dropped: int) -> None:
    """An absurd utilisation is neither passed on nor clamped, is counted, and the next one is taken (NVML-02)."""
    source = node.open()
    seen: list[float | None] = []
    rejected = 0
    for percent in (40, dropped, 40, dropped, 100):
        node.show(QUIET, replace(BUSY, utilization=percent))
        device = await read_device(source, 1)
        seen.append(device.utilization_ratio)
        rejected += len(device.rejected)
    assert seen == [0.4, None, 0.4, None, 1.0]
    assert rejected == 2


@pytest.mark.parametrize("dropped", [4_294_967_295, 10_000_001])
async def test_power_that_cannot_be_is_dropped_for_that_reading_alone(node: Node, dropped: int) -> None:
    """Kilowatts without end do not get into a bill (NVML-14)."""
    source = node.open()
    seen: list[float | None] = []
    for milliwatts in (210_000, dropped, 211_000):
        node.show(QUIET, replace(BUSY, power=milliwatts))
        seen.append((await read_device(source, 1)).power_watts)
    assert seen == [210.0, None, 211.0]


ALL_ONES_64 = (1 << 64) - 1
BLANK_64 = 9223372036854775794
IMPOSSIBLE: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"utilization": 0xFFFFFFFF}, {"utilization_ratio": None}, "utilization", "not_available"),
    ({"power": 0xFFFFFFFF}, {"power_watts": None}, "power", "not_available"),
    ({"power_limit": 0xFFFFFFFF}, {"power_limit_watts": None}, "power_limit", "not_available"),
    ({"power_limit": 11_000_000}, {"power_limit_watts": None}, "power_limit", "out_of_range"),
    ({"temperature": -51}, {"temperature_celsius": None}, "temperature", "out_of_range"),
    ({"temperature": 201}, {"temperature_celsius": None}, "temperature", "out_of_range"),
    ({"energy": ALL_ONES_64}, {"energy_joules": None}, "energy", "not_available"),
    ({"energy": BLANK_64}, {"energy_joules": None}, "energy", "out_of_range"),
    ({"ecc_corrected": ALL_ONES_64}, {"ecc_errors": {"uncorrected": 1}}, "ecc_errors", "not_available"),
    ({"ecc_uncorrected": BLANK_64}, {"ecc_errors": {"corrected": 5}}, "ecc_errors", "out_of_range"),
    ({"row_remap_pending": 2}, {"row_remap_pending": None}, "row_remap_pending", "out_of_range"),
    ({"memory_total": 17 << 40}, NO_MEMORY, "memory", "out_of_range"),
    ({"memory_total": ALL_ONES_64}, NO_MEMORY, "memory", "not_available"),
    ({"memory_total": BLANK_64}, NO_MEMORY, "memory", "out_of_range"),
    ({"memory_total": 0}, NO_MEMORY, "memory", "out_of_range"),
    ({"memory_used": 81 * GIB}, {"memory_used_bytes": None}, "memory", "out_of_range"),
    ({"memory_used": ALL_ONES_64}, {"memory_used_bytes": None}, "memory", "not_available"),
    ({"memory_reserved": 81 * GIB}, {"memory_reserved_bytes": None}, "memory", "out_of_range"),
]


@pytest.mark.parametrize(("shown", "lost", "reading", "reason"), IMPOSSIBLE, ids=lambda value: str(value)[:40])
async def test_value_that_cannot_be_true_is_dropped_and_counted(
    node: Node, shown: dict[str, Any], lost: dict[str, Any], reading: str, reason: str
) -> None:
    """A value out of its physical range costs its own field, and is told by name and reason (NVML-02, NVML-04, NVML-14)."""
    node.show(QUIET, replace(BUSY, **shown))
    device = await read_device(node.open(), 1)
    assert differing(device) == lost
    assert device.rejected == (RejectedReading(reading, reason),)
    assert device.failed_calls == ()


@pytest.mark.parametrize(
    "shown", [{"temperature": -50}, {"temperature": 200}, {"power": 10_000_000}, {"memory_used": 80 * GIB}]
)
async def test_value_at_the_edge_of_its_range_is_taken(node: Node, shown: dict[str, Any]) -> None:
    """The limits themselves are possible."""
    node.show(QUIET, replace(BUSY, **shown))
    device = await read_device(node.open(), 1)
    assert device.rejected == ()
    assert None not in {device.temperature_celsius, device.power_watts, device.memory_used_bytes}
