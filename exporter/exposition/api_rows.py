"""Rows of the attribution as entries of the JSON document."""

from collections.abc import Iterable
from typing import Any

from exporter.accounting.booking import container_subject
from exporter.exposition.idle_clocks import last_active, seen_active
from exporter.model.attribution import (
    ContainerRow,
    DeviceRow,
    Ownership,
    PodRow,
    State,
    UnallocatedReason,
    UnattributedReason,
)
from exporter.model.device import MigInstance
from exporter.model.ledger import Account, DeviceSubject, Ledger, Quantity, Subject
from exporter.model.published import Published

Document = dict[str, Any]
"""A JSON object."""

_OF_DEVICE: tuple[tuple[Quantity, Iterable[str]], ...] = (
    (Quantity.PROVISIONED_SECONDS, ()),
    (Quantity.OBSERVED_SECONDS, ()),
    (Quantity.BUSY_SECONDS, ()),
    (Quantity.UNALLOCATED_SECONDS, UnallocatedReason),
    (Quantity.ALLOCATION_UNKNOWN_SECONDS, ()),
    (Quantity.UNATTRIBUTED_BUSY_SECONDS, UnattributedReason),
    (Quantity.UNATTRIBUTED_ENERGY_JOULES, UnattributedReason),
)
_OF_CONTAINER: tuple[tuple[Quantity, Iterable[str]], ...] = (
    (Quantity.HELD_SECONDS, State),
    (Quantity.BUSY_SECONDS, ()),
    (Quantity.ENERGY_JOULES, ()),
)


def device_entry(published: Published, row: DeviceRow) -> Document:
    """A physical GPU: identity, figures, MIG instances, and whoever holds or uses it."""
    device = row.device
    containers = [each for each in published.attribution.containers if each.device == device.uuid]
    return {
        "gpu": device.index,
        "uuid": device.uuid,
        "model": device.model or None,
        "architecture": device.architecture or None,
        "pci_bus_id": device.pci_bus_id or None,
        "minor": device.minor_number,
        "up": device.up,
        "trouble": None if device.trouble is None else device.trouble.value,
        "mig_mode": device.mig_mode.value,
        "sharing": row.sharing.value,
        "allocated_ratio": row.allocated_ratio,
        "unallocated_ratios": {reason.value: part for reason, part in sorted(row.unallocated_ratios.items())},
        "allocation_unknown_ratio": row.allocation_unknown_ratio,
        "price_per_hour": row.price_per_hour,
        "measurements": _measurements(published, row),
        "counted": _counted_of(published.ledger, DeviceSubject(device.index, device.uuid), _OF_DEVICE),
        "unattributed_memory_bytes": {reason.value: size for reason, size in sorted(row.unattributed_memory_bytes.items())},
        "mig_instances": [_mig(row, instance) for instance in device.mig_instances],
        "containers": [_container(published, row, each) for each in containers],
    }


def pod_entry(row: PodRow) -> Document:
    """A pod that asks for, holds or uses a GPU."""
    return {
        "namespace": row.namespace,
        "pod": row.pod,
        "uid": row.uid,
        **_owner(row.owner),
        "team_source": row.owner.team_source or None,
        "cost_center_source": row.owner.cost_center_source or None,
        "queue": row.owner.queue or None,
        "priority_class": row.priority_class or None,
        "devices_requested": row.requested,
        "devices_assigned": row.assigned,
        "devices_idle": row.idle,
        "start_timestamp_seconds": row.start_timestamp_seconds,
    }


def _measurements(published: Published, row: DeviceRow) -> Document:
    device = row.device
    energy = published.ledger.energy_joules.get(device.uuid)
    return {
        "utilization_ratio": row.utilization_ratio,
        "sm_active_ratio": device.sm_active_ratio,
        "tensor_active_ratio": device.tensor_active_ratio,
        "memory_used_bytes": device.memory_used_bytes,
        "memory_reserved_bytes": device.memory_reserved_bytes,
        "memory_total_bytes": device.memory_total_bytes,
        "power_watts": device.power_watts,
        "power_limit_watts": device.power_limit_watts,
        "temperature_celsius": device.temperature_celsius,
        "energy_joules_total": None if energy is None else energy.total,
        "row_remap_pending": device.row_remap_pending,
    }


def _mig(row: DeviceRow, instance: MigInstance) -> Document:
    return {
        "gpu_instance_id": instance.gpu_instance_id,
        "compute_instance_id": instance.compute_instance_id,
        "mig_uuid": instance.uuid,
        "profile": instance.profile or None,
        "share_ratio": row.mig_share_ratios.get(instance.key),
        "utilization_ratio": None if instance.activity is None else instance.activity.utilization_ratio,
        "memory_used_bytes": instance.memory_used_bytes,
        "memory_total_bytes": instance.memory_total_bytes,
    }


def _container(published: Published, device: DeviceRow, row: ContainerRow) -> Document:
    ledger = published.ledger
    moment = last_active(ledger, row)
    return {
        "namespace": row.container.namespace,
        "pod": row.container.pod,
        "pod_uid": row.container.pod_uid,
        "container": row.container.container or None,
        "mig_uuid": None if row.mig is None else row.mig.uuid,
        **_owner(row.owner),
        "holds": row.holds,
        "uses_unheld": row.uses_unheld,
        "allocations": [
            {"resource": each.resource, "source": each.source.value, "device_id": each.device_id} for each in row.allocations
        ],
        "share_ratio": row.share_ratio,
        "utilization_ratio": row.utilization_ratio,
        "memory_used_bytes": row.memory_used_bytes,
        "processes": row.processes,
        "state": row.state.value,
        "state_evidence": row.state_evidence,
        "last_active_timestamp_seconds": moment,
        "inactive_seconds": None if moment is None else max(published.snapshot.timestamp_seconds - moment, 0.0),
        "ever_active": seen_active(ledger, row),
        "counted": _counted_of(ledger, container_subject(device, row), _OF_CONTAINER),
    }


def _counted_of(ledger: Ledger, subject: Subject, quantities: Iterable[tuple[Quantity, Iterable[str]]]) -> Document:
    """What the ledger shows of it since it was first seen; null: not counted."""
    return {quantity.value: _shown(ledger, subject, quantity, tuple(details)) for quantity, details in quantities}


def _shown(ledger: Ledger, subject: Subject, quantity: Quantity, details: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    """One figure, or one for each detail that there is."""
    if not details:
        tally = ledger.tallies.get(Account(subject, quantity))
        return None if tally is None else tally.shown
    found = {detail: ledger.tallies.get(Account(subject, quantity, detail)) for detail in details}
    return {detail: tally.shown for detail, tally in found.items() if tally is not None}


def _owner(owner: Ownership) -> Document:
    return {
        "workload_type": owner.workload_type,
        "workload": owner.workload,
        "workload_class": owner.workload_class.value,
        "team": owner.team,
        "cost_center": owner.cost_center,
        "extra_labels": dict(owner.extra),
    }
