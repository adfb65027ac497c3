"""Missing is never 0: each unknown value takes exactly its own sample off the page."""

import math
from dataclasses import replace
from typing import Any

import pytest

from exporter.model.attribution import DeviceRow, Sharing
from tests.exposition.examples import NOW, a_busy_node, a_device, a_device_row, a_mig, a_pod, a_published, a_row, fresh
from tests.exposition.pages import names

DEVICE = {
    "sm_active_ratio": "gpu_sm_active_ratio",
    "tensor_active_ratio": "gpu_tensor_active_ratio",
    "utilization_ratio": "gpu_utilization_ratio",
    "memory_used_bytes": "gpu_memory_used_bytes",
    "memory_reserved_bytes": "gpu_memory_reserved_bytes",
    "memory_total_bytes": "gpu_memory_total_bytes",
    "power_watts": "gpu_power_watts",
    "power_limit_watts": "gpu_power_limit_watts",
    "temperature_celsius": "gpu_temperature_celsius",
    "row_remap_pending": "gpu_row_remap_pending",
}
ROW = {
    "utilization_ratio": "gpu_container_utilization_ratio",
    "memory_used_bytes": "gpu_container_memory_used_bytes",
    "processes": "gpu_container_processes",
}
POD = {
    "requested": "gpu_pod_devices_requested",
    "assigned": "gpu_pod_devices_assigned",
    "idle": "gpu_pod_devices_idle",
    "start_timestamp_seconds": "gpu_pod_start_timestamp_seconds",
}
MIG = {
    "sm_active_ratio": "gpu_mig_sm_active_ratio",
    "tensor_active_ratio": "gpu_mig_tensor_active_ratio",
    "memory_used_bytes": "gpu_mig_memory_used_bytes",
    "memory_total_bytes": "gpu_mig_memory_total_bytes",
}
FULL = names(a_published(containers=(a_row(),), pods=(a_pod(),)))
NO_NUMBER = (None, math.nan, math.inf, -math.inf)


def absent(**parts: Any) -> set[str]:
    """Names that a page with these parts lacks against a full one."""
    return FULL - names(a_published(**{"containers": (a_row(),), "pods": (a_pod(),), **parts}))


def changed(field: str, value: float | None) -> dict[str, Any]:
    return {field: value}


def one_device(**changes: Any) -> tuple[DeviceRow, ...]:
    return (a_device_row(a_device(**changes), Sharing.NONE, 1.0),)


@pytest.mark.parametrize("value", NO_NUMBER)
@pytest.mark.parametrize(("field", "name"), DEVICE.items())
def test_unknown_device_value_has_no_sample(field: str, name: str, value: float | None) -> None:
    """What the driver could not say of a device is absent; nothing else goes with it (NVML-12)."""
    assert absent(devices=one_device(**changed(field, value))) == {name}


@pytest.mark.parametrize("value", NO_NUMBER)
@pytest.mark.parametrize(("field", "name"), ROW.items())
def test_unknown_container_value_has_no_sample(field: str, name: str, value: float | None) -> None:
    """What could not be measured of a container is absent; nothing else goes with it."""
    assert absent(containers=(a_row(**changed(field, value)),)) == {name}


@pytest.mark.parametrize(("field", "name"), POD.items())
def test_unknown_pod_value_has_no_sample(field: str, name: str) -> None:
    """What could not be said of a pod is absent; nothing else goes with it."""
    assert absent(pods=(a_pod(**changed(field, None)),)) == {name}


@pytest.mark.parametrize(("field", "name"), MIG.items())
def test_unknown_mig_value_has_no_sample(field: str, name: str) -> None:
    """What the driver could not say of an instance is absent; nothing else goes with it."""
    full = names(a_published(devices=one_device(mig_instances=(a_mig(1),))))
    assert full - names(a_published(devices=one_device(mig_instances=(a_mig(1, **changed(field, None)),)))) == {name}


def test_unknown_allocation_has_no_sample() -> None:
    """A device of which no source can say who holds it has no allocated ratio: unknown is not free."""
    assert absent(devices=(a_device_row(a_device(), Sharing.UNKNOWN, None),)) == {"gpu_allocated_ratio"}


def test_unified_memory_part_keeps_the_memory_of_its_processes() -> None:
    """Without device memory a container's memory is still there, and nothing is divided by a missing total (NVML-12)."""
    parts = {"memory_used_bytes": None, "memory_total_bytes": None, "memory_reserved_bytes": None}
    assert "gpu_container_memory_used_bytes" not in absent(devices=one_device(**parts))


def test_unreadable_node_object_has_no_sample() -> None:
    """Without the Node object neither its identity nor its age is made up."""
    assert not {"gpu_node_info", "gpu_node_created_timestamp_seconds"} & FULL


def test_node_without_creation_time_keeps_its_identity() -> None:
    """A missing creation time costs itself only."""
    meta = a_busy_node().snapshot.node_meta.value
    assert meta is not None
    assert meta.created_timestamp_seconds is not None
    assert meta.created_timestamp_seconds < NOW
    found = names(a_published(node_meta=fresh(replace(meta, created_timestamp_seconds=None))))
    assert "gpu_node_info" in found
    assert "gpu_node_created_timestamp_seconds" not in found
