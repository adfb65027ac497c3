"""The JSON document: stable keys, null for the unknown."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from exporter.exposition.api import encode, node_document
from exporter.model.attribution import DeviceRow, Sharing, State, UnallocatedReason
from exporter.model.device import DeviceTrouble
from exporter.model.ledger import Account, DeviceSubject, Quantity, Tally
from exporter.model.published import Published
from tests.exposition.examples import (
    GIB,
    NOW,
    a_busy_node,
    a_device,
    a_device_row,
    a_ledger,
    a_mig,
    a_published,
    a_row,
    an_owner,
    ledger_of,
    uuid,
)

TOP = {
    "version", "node", "time", "timestamp_seconds", "generation", "interval_seconds", "simulated", "build", "node_info",
    "driver_version", "sources", "summary", "devices", "unidentified_devices", "pods", "resources", "unresolved_allocations",
    "unresolved_pids", "conflicts", "currency",
}  # fmt: skip
DEVICE = {
    "gpu", "uuid", "model", "architecture", "pci_bus_id", "minor", "up", "trouble", "mig_mode", "sharing", "allocated_ratio",
    "unallocated_ratios", "allocation_unknown_ratio", "price_per_hour", "measurements", "counted",
    "unattributed_memory_bytes", "mig_instances", "containers",
}  # fmt: skip
MEASUREMENTS = {
    "utilization_ratio", "memory_used_bytes", "memory_reserved_bytes", "memory_total_bytes", "power_watts", "power_limit_watts",
    "temperature_celsius", "energy_joules_total", "row_remap_pending", "sm_active_ratio", "tensor_active_ratio",
}  # fmt: skip
CONTAINER = {
    "namespace", "pod", "pod_uid", "container", "mig_uuid", "workload_type", "workload", "workload_class", "team",
    "cost_center", "extra_labels", "holds",
    "uses_unheld", "allocations", "share_ratio", "utilization_ratio", "memory_used_bytes", "processes",
    "state", "state_evidence", "last_active_timestamp_seconds", "inactive_seconds", "ever_active", "counted",
}  # fmt: skip
MIG = {
    "gpu_instance_id", "compute_instance_id", "mig_uuid", "profile", "share_ratio", "memory_used_bytes", "memory_total_bytes",
    "utilization_ratio",
}  # fmt: skip
POD = {
    "namespace", "pod", "uid", "workload_type", "workload", "workload_class", "team", "cost_center", "extra_labels",
    "team_source", "cost_center_source", "queue", "priority_class", "devices_requested", "devices_assigned", "devices_idle",
    "start_timestamp_seconds",
}  # fmt: skip
NO_DRIVER = a_published(devices=None)


def read_back(published: Published) -> Any:
    return json.loads(encode(node_document(published)))


@pytest.mark.parametrize("published", [a_busy_node(), a_published(), a_published(devices=()), NO_DRIVER])
def test_document_has_the_same_keys_whatever_is_missing(published: Published) -> None:
    """A client never has to ask whether a key is there."""
    document = read_back(published)
    assert set(document) == TOP
    for device in document["devices"] or ():
        assert set(device) == DEVICE
        assert set(device["measurements"]) == MEASUREMENTS
        assert all(set(each) == CONTAINER for each in device["containers"])
        assert all(set(each) == MIG for each in device["mig_instances"])
    assert all(set(each) == POD for each in document["pods"])


def test_document_is_the_same_for_the_same_value() -> None:
    """The same cycle gives the same bytes."""
    assert encode(node_document(a_busy_node())) == encode(node_document(a_busy_node()))


def test_missing_driver_is_null_and_not_an_empty_node() -> None:
    """Without NVML the devices are unknown; with NVML and no GPU there are none."""
    assert (read_back(NO_DRIVER)["devices"], read_back(NO_DRIVER)["summary"]) == (None, None)
    assert read_back(a_published(devices=()))["devices"] == []


def test_unknown_values_are_null() -> None:
    """What was not measured is null, and a measured zero is 0."""
    device = a_device(utilization_ratio=None, power_watts=math.nan, memory_used_bytes=0)
    document = read_back(a_published(devices=(DeviceRow(device, Sharing.UNKNOWN, None),), containers=(a_row(processes=None),)))
    [only] = document["devices"]
    assert only["allocated_ratio"] is None
    assert only["measurements"]["utilization_ratio"] is None
    assert only["measurements"]["power_watts"] is None
    assert only["measurements"]["memory_used_bytes"] == 0
    assert only["containers"][0]["processes"] is None


def test_summary_counts_each_gpu_once() -> None:
    """Each device is active, idle, free or unknown."""
    summary = read_back(a_busy_node())["summary"]
    assert summary == {"devices": 8, "held": 5, "active": 2, "idle": 1, "free": 2, "unknown": 3}
    assert summary["devices"] == sum(summary[word] for word in ("active", "idle", "free", "unknown"))


def test_unidentified_device_is_listed_and_counted_as_unknown() -> None:
    """A GPU that never told its UUID is in the document and is not free."""
    document = read_back(a_published(unidentified=((5, DeviceTrouble.TIMEOUT),)))
    assert document["unidentified_devices"] == [{"gpu": 5, "trouble": "timeout"}]
    assert (document["summary"]["devices"], document["summary"]["unknown"]) == (2, 2)


def test_container_names_its_mig_instance() -> None:
    """Rows on MIG instances point to them by UUID."""
    instance = a_mig(7)
    row = DeviceRow(a_device(mig_instances=(instance,)), Sharing.MIG, 1 / 7, mig_share_ratios={instance.key: 1 / 7})
    [device] = read_back(a_published(devices=(row,), containers=(a_row(mig=instance),)))["devices"]
    assert device["mig_instances"][0]["mig_uuid"] == device["containers"][0]["mig_uuid"] == instance.uuid
    assert device["mig_instances"][0]["share_ratio"] == 1 / 7


def test_sources_carry_their_reasons() -> None:
    """Each source says whether it answers, why not, and how old the answer is that is used instead."""
    by_name = {each["source"]: each for each in read_back(a_busy_node())["sources"]}
    assert by_name["nvml"] == {"source": "nvml", "up": True, "reason": None, "detail": None, "kept_since_seconds": None}
    assert (by_name["pods"]["reason"], by_name["pods"]["kept_since_seconds"]) == ("timeout", 12.0)


def test_unattributed_unresolved_and_conflicts_are_listed() -> None:
    """What could not be said whose it is stands in the document with its reason."""
    document = read_back(a_busy_node())
    assert document["devices"][5]["unattributed_memory_bytes"] == {"host_process": 3 * GIB}
    assert document["unresolved_allocations"][0]["reason"] == "unknown_device"
    assert document["unresolved_pids"][0] == {"pid": 4711, "uuid": uuid(5), "reason": "not_in_pod"}
    assert document["conflicts"][0]["kind"] == "two_holders"
    assert document["resources"][0] == {"resource": "nvidia.com/gpu", "allocatable": 10, "allocated": 6}


def test_time_is_rfc_3339_in_utc() -> None:
    """The moment of the cycle is readable and unambiguous."""
    assert read_back(a_published())["time"] == "2026-11-30T08:00:00Z"


def test_lone_surrogates_leave_valid_utf8() -> None:
    """Text with no place in UTF-8 does not break the document (EXPO-03)."""
    document = read_back(a_published(containers=(a_row(owner=an_owner(team="a\udcffb")),)))
    assert document["devices"][0]["containers"][0]["team"] == "a\ufffdb"


def test_device_says_what_was_counted_of_it() -> None:
    """Seconds, whole and parts with their reasons, stand at the device, and what it costs in the document's currency."""
    document = read_back(a_busy_node())
    [gpu, other] = document["devices"][:2]
    assert (document["currency"], gpu["price_per_hour"], other["price_per_hour"]) == ("USD", 3.5, None)
    assert gpu["counted"] == {
        "provisioned_seconds": 3600.0,
        "observed_seconds": 3500.0,
        "busy_seconds": 1000.0,
        "unallocated_seconds": {"free": 200.0},
        "allocation_unknown_seconds": 100.0,
        "unattributed_busy_seconds": {"host_process": 50.0},
        "unattributed_energy_joules": {"unallocated": 500.0},
    }


def test_container_says_what_was_counted_of_it_and_since_when_it_is_idle() -> None:
    """Held seconds by state, busy seconds and energy stand at the container, and when it last worked."""
    [container] = read_back(a_busy_node())["devices"][1]["containers"]
    assert container["counted"] == {
        "held_seconds": {"active": 800.0, "idle_held": 800.0, "idle_empty": 800.0, "unknown": 800.0},
        "busy_seconds": 100.0,
        "energy_joules": 1000.0,
    }
    assert (container["last_active_timestamp_seconds"], container["inactive_seconds"]) == (NOW - 7800, 7800.0)
    assert container["ever_active"] is True


def test_what_was_not_counted_is_null_and_not_zero() -> None:
    """A ledger that has not opened a counter yet gives null, and no reason that did not occur."""
    document = read_back(a_published(containers=(a_row(),)))
    [device] = document["devices"]
    [container] = device["containers"]
    assert document["currency"] is None
    assert (device["counted"]["busy_seconds"], device["counted"]["unallocated_seconds"]) == (None, {})
    assert (container["counted"]["busy_seconds"], container["counted"]["held_seconds"]) == (None, {})
    assert (container["last_active_timestamp_seconds"], container["inactive_seconds"]) == (None, None)
    assert container["ever_active"] is None


def test_idleness_of_the_unmeasured_is_null() -> None:
    """While its activity is unknown a container has no age of idleness; that it has worked before stays known."""
    row = a_row(utilization_ratio=None, state=State.UNKNOWN)
    devices = (a_device_row(a_device(), Sharing.NONE, 1.0),)
    [device] = read_back(a_published(devices=devices, containers=(row,), ledger=ledger_of(devices, (row,), a_ledger())))[
        "devices"
    ]
    [container] = device["containers"]
    assert (container["last_active_timestamp_seconds"], container["inactive_seconds"]) == (None, None)
    assert container["ever_active"] is True


def test_row_that_holds_nothing_any_more_has_no_idleness() -> None:
    """A clock that the ledger still keeps is not shown of a container that has lost its device and merely uses it."""
    devices, holder = (a_device_row(a_device(), Sharing.NONE, 1.0),), a_row()
    ledger = ledger_of(devices, (holder,), a_ledger())
    row = replace(holder, allocations=(), uses_unheld=True)
    [device] = read_back(a_published(devices=devices, containers=(row,), ledger=ledger))["devices"]
    [container] = device["containers"]
    assert (container["last_active_timestamp_seconds"], container["ever_active"]) == (None, None)


def test_reason_that_occurred_before_stays_in_the_document() -> None:
    """What a GPU was once unallocated for is counted for good, though it is not so in this cycle."""
    account = Account(DeviceSubject(0, uuid(0)), Quantity.UNALLOCATED_SECONDS, UnallocatedReason.CORDONED)
    [device] = read_back(a_published(ledger=replace(a_ledger(), tallies={account: Tally(0.0, 60.0)})))["devices"]
    assert (device["unallocated_ratios"], device["counted"]["unallocated_seconds"]) == ({}, {"cordoned": 60.0})
