"""The node as one versioned JSON document, which the page for people is drawn from too. null: unknown; never 0 for it."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from exporter.attribution.node_identity import node_identity
from exporter.exposition.api_rows import Document, device_entry, pod_entry
from exporter.exposition.families import clean
from exporter.model.attribution import ContainerRow, State
from exporter.model.ids import DeviceUuid
from exporter.model.published import Published, SourceHealth

VERSION = 1
"""Rises when a key changes its meaning or goes; new keys may come at any time."""

IDLE = frozenset({State.IDLE_HELD, State.IDLE_EMPTY})


def node_document(published: Published) -> Document:
    """The last cycle with the same keys whatever is missing; ``devices`` is null while NVML does not answer."""
    snapshot = published.snapshot
    nvml = snapshot.nvml.value
    return {
        "version": VERSION,
        "node": snapshot.node,
        "time": iso_time(snapshot.timestamp_seconds),
        "timestamp_seconds": snapshot.timestamp_seconds,
        "generation": published.generation,
        "interval_seconds": published.interval_seconds,
        "simulated": published.build.simulated,
        "build": {"version": published.build.version, "commit": published.build.commit, "python": published.build.python},
        "node_info": _node_info(published),
        "currency": published.attribution.currency or None,
        "driver_version": None if nvml is None else nvml.driver_version or None,
        "sources": [_source(name, health) for name, health in sorted(published.sources.items())],
        "summary": None if nvml is None else summary(published),
        "devices": None if nvml is None else [device_entry(published, row) for row in published.attribution.devices],
        "unidentified_devices": []
        if nvml is None
        else [{"gpu": index, "trouble": trouble.value} for index, trouble in nvml.unidentified_devices],
        "pods": [pod_entry(row) for row in published.attribution.pods],
        "resources": _resources(published),
        **_unresolved(published),
    }


def encode(document: Document) -> bytes:
    """The document as UTF-8; what is no number in JSON is null."""
    return clean(json.dumps(_finite(document), ensure_ascii=False, allow_nan=False, indent=1)).encode() + b"\n"


def iso_time(timestamp_seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(timestamp_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def summary(published: Published) -> dict[str, int]:
    """Whole GPUs, each counted once as active, idle, free or unknown: what could not be said is never free or idle."""
    rows = published.attribution.devices
    nvml = published.snapshot.nvml.value
    unidentified = 0 if nvml is None else len(nvml.unidentified_devices)
    holders = _holders(published)
    held = [row for row in rows if row.allocated_ratio]
    devices = len(rows) + unidentified
    active = sum(1 for row in held if _any_active(holders.get(row.device.uuid, [])))
    idle = sum(1 for row in held if _all_idle(holders.get(row.device.uuid, [])))
    free = sum(1 for row in rows if row.allocated_ratio == 0)
    return {
        "devices": devices,
        "held": len(held),
        "active": active,
        "idle": idle,
        "free": free,
        "unknown": devices - active - idle - free,
    }


def _finite(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _holders(published: Published) -> Mapping[DeviceUuid, list[ContainerRow]]:
    holders: dict[DeviceUuid, list[ContainerRow]] = {}
    for row in published.attribution.containers:
        if row.holds:
            holders.setdefault(row.device, []).append(row)
    return holders


def _any_active(holders: list[ContainerRow]) -> bool:
    return any(row.state is State.ACTIVE for row in holders)


def _all_idle(holders: list[ContainerRow]) -> bool:
    return bool(holders) and all(row.state in IDLE for row in holders)


def _node_info(published: Published) -> Document | None:
    meta = published.snapshot.node_meta.value
    if meta is None:
        return None
    identity = node_identity(meta)
    return {
        "provider_id": identity.provider_id or None,
        "instance_type": identity.instance_type or None,
        "region": identity.region or None,
        "zone": identity.zone or None,
        "node_pool": identity.node_pool or None,
        "capacity": identity.capacity.value,
        "created_timestamp_seconds": meta.created_timestamp_seconds,
        "unschedulable": meta.unschedulable,
    }


def _source(name: str, health: SourceHealth) -> Document:
    return {
        "source": name,
        "up": health.up,
        "reason": health.reason or None,
        "detail": health.detail or None,
        "kept_since_seconds": health.kept_since_seconds,
    }


def _resources(published: Published) -> list[Document]:
    allocatable, allocated = published.attribution.allocatable, published.attribution.allocated
    return [
        {"resource": name, "allocatable": allocatable.get(name), "allocated": allocated.get(name)}
        for name in sorted({*allocatable, *allocated})
    ]


def _unresolved(published: Published) -> Document:
    attribution = published.attribution
    return {
        "unresolved_allocations": [
            {
                "namespace": each.namespace,
                "pod": each.pod,
                "container": each.container,
                "resource": each.resource,
                "device_id": each.device_id,
                "reason": each.reason.value,
            }
            for each in attribution.unresolved_allocations
        ],
        "unresolved_pids": [
            {"pid": each.pid, "uuid": each.device, "reason": each.reason.value} for each in attribution.unresolved_pids
        ],
        "conflicts": [
            {"kind": each.kind.value, "subject": each.subject, "detail": each.detail} for each in attribution.conflicts
        ],
    }
