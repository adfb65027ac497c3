"""Rows of the attribution as entries of the JSON document."""

from typing import Any

from exporter.model.attribution import ContainerRow, DeviceRow, Ownership, PodRow
from exporter.model.device import Device, MigInstance
from exporter.model.published import Published

Document = dict[str, Any]
"""A JSON object."""


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
        "measurements": _measurements(published, device),
        "unattributed_memory_bytes": {reason.value: size for reason, size in sorted(row.unattributed_memory_bytes.items())},
        "mig_instances": [_mig(row, instance) for instance in device.mig_instances],
        "containers": [_container(each) for each in containers],
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


def _measurements(published: Published, device: Device) -> Document:
    energy = published.ledger.energy_joules.get(device.uuid)
    return {
        "utilization_ratio": device.utilization_ratio,
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
        "memory_used_bytes": instance.memory_used_bytes,
        "memory_total_bytes": instance.memory_total_bytes,
    }


def _container(row: ContainerRow) -> Document:
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
    }


def _owner(owner: Ownership) -> Document:
    return {
        "workload_type": owner.workload_type,
        "workload": owner.workload,
        "workload_class": owner.workload_class.value,
        "team": owner.team,
        "cost_center": owner.cost_center,
        "extra_labels": dict(owner.extra),
    }
