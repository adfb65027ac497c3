"""How each source did in this cycle, in the names of ``gpu_exporter_source_up{source}``."""

from collections.abc import Iterator
from typing import Any

from exporter.model.published import SourceHealth
from exporter.model.reading import MissingReason, Observed
from exporter.model.snapshot import Snapshot

Health = dict[str, SourceHealth]


def source_health(snapshot: Snapshot) -> Health:
    """Health of every enabled source; one that is switched off is left out."""
    return dict(_each(snapshot))


def _each(snapshot: Snapshot) -> Iterator[tuple[str, SourceHealth]]:
    for name, observed in observations(snapshot).items():
        if not (observed.missing and observed.missing.reason is MissingReason.DISABLED):
            yield name, _degraded(snapshot, name) or _of(observed, snapshot.taken_at)
    yield "processes", _of_process_lists(snapshot) if snapshot.nvml.value is not None else _of(snapshot.nvml, snapshot.taken_at)


def observations(snapshot: Snapshot) -> dict[str, Observed[Any]]:
    """Everything that was read, by the source's name."""
    return {
        "nvml": snapshot.nvml,
        "pod_resources": snapshot.pod_resources,
        "procfs": snapshot.procfs,
        "pods": snapshot.pods,
        "owners": snapshot.owners,
        "namespaces": snapshot.namespaces,
        "node": snapshot.node_meta,
    }


def _of(observed: Observed[Any], now: float) -> SourceHealth:
    if observed.missing is None:
        return SourceHealth(up=True)
    kept = None if observed.usable is None else now - observed.usable.taken_at
    return SourceHealth(up=False, reason=observed.missing.reason, detail=observed.missing.detail, kept_since_seconds=kept)


def _degraded(snapshot: Snapshot, name: str) -> SourceHealth | None:
    """An answer that came and is still not the whole truth."""
    if name == "procfs" and (table := snapshot.procfs.value) is not None:
        if table.host_pid_missing:
            return SourceHealth(
                up=False, reason=MissingReason.HOST_PID_MISSING, detail="the host's processes are not in this /proc"
            )
        if table.private_cgroup_view:
            return SourceHealth(
                up=True, reason=MissingReason.PRIVATE_CGROUP_VIEW, detail="cgroup paths are relative to our own"
            )
    trouble = None
    if name == "owners" and snapshot.owners.value is not None:
        trouble = snapshot.owners.value.trouble
    if name == "namespaces" and snapshot.namespaces.value is not None:
        trouble = snapshot.namespaces.value.trouble
    return None if trouble is None else SourceHealth(up=False, reason=trouble, detail=f"{name} look-ups fail")


def _of_process_lists(snapshot: Snapshot) -> SourceHealth:
    """Up while every device that answers also lists its processes."""
    state = snapshot.nvml.value
    unread = sorted(device.index for device in (state.devices if state else ()) if device.up and device.processes is None)
    if not unread:
        return SourceHealth(up=True)
    listed = ", ".join(map(str, unread))
    refused = any(why == "no_permission" for device in state.devices for _, why in device.failed_calls) if state else False
    reason = MissingReason.PERMISSION_DENIED if refused else MissingReason.DRIVER_ERROR
    return SourceHealth(up=False, reason=reason, detail=f"no process list from GPU {listed}")
