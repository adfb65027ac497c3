"""Utilisation in MIG mode: GPM tells what each GPU instance did, and nothing tells its processes apart."""

from collections.abc import Iterable
from fractions import Fraction

from exporter.attribution.presence import Presence, RowKey
from exporter.attribution.shares import part_of_gpu
from exporter.attribution.utilization import UtilizationSplit, reason_for
from exporter.model.activity import Activity, Span
from exporter.model.attribution import UnattributedReason
from exporter.model.device import MigInstance
from exporter.model.ids import ContainerKey, MigKey

GpuInstance = tuple[MigInstance, ...]
"""The MIG devices (compute instances) of one GPU instance."""


def split_mig_utilization(presence: Presence) -> UtilizationSplit:
    """Utilisation of each row of a GPU in MIG mode.

    What a GPU instance did is its sole holder's. An instance that did nothing was used by nobody. Several holders, or
    several compute instances in one GPU instance, cannot be told apart: unknown. The GPU's own figure is the sum over its
    instances by their size, and unknown as soon as one of them is.
    """
    groups = _gpu_instances(presence.device.mig_instances) if presence.device.up else ()
    activity = _of_gpu(presence, groups)
    by_row: dict[RowKey, float | None] = dict.fromkeys(presence.rows)
    activities: dict[RowKey, Activity] = {}
    unattributed: dict[UnattributedReason, float] = {}
    for group in groups:
        whole = group[0].activity
        rows = [row for row in presence.rows if row[1] in {instance.key for instance in group}]
        owners = _owners(presence, group, rows)
        for row in owners:
            if whole is not None and whole.utilization_ratio is not None:
                by_row[row], activities[row] = whole.utilization_ratio, whole
        if not owners and activity is not None and (part := _weighed(presence, group)):
            near = None if presence.laid is None else [one for one in presence.laid if one.mig in _keys(group)]
            reason = UnattributedReason.NOT_MEASURED if rows else reason_for(presence, near)
            unattributed[reason] = unattributed.get(reason, 0.0) + part
    ratio = None if activity is None else activity.utilization_ratio
    return UtilizationSplit(activity, ratio, by_row, activities, unattributed)


def _gpu_instances(instances: Iterable[MigInstance]) -> tuple[GpuInstance, ...]:
    groups: dict[int, list[MigInstance]] = {}
    for instance in sorted(instances, key=lambda instance: instance.key):
        groups.setdefault(instance.gpu_instance_id, []).append(instance)
    return tuple(tuple(group) for group in groups.values())


def _keys(group: GpuInstance) -> set[MigKey | None]:
    """Where a process of this GPU instance may be laid; one that names no instance may be anywhere."""
    return {None, *(instance.key for instance in group)}


def _owners(presence: Presence, group: GpuInstance, rows: list[RowKey]) -> list[RowKey]:
    """The rows of which the GPU instance's figure is true: all of them if it did nothing, else its sole holder."""
    whole = group[0].activity
    if whole is None:
        return []
    if whole.busy_seconds == 0:
        return rows
    holders = [row for row in presence.holders if row[1] in _keys(group)]
    if len(group) > 1 or len(holders) != 1:
        return []
    near: Iterable[ContainerKey | UnattributedReason] = {one.whose for one in presence.laid or () if one.mig in _keys(group)}
    others = set(near) - {holders[0][0], UnattributedReason.MPS_SERVER}
    return [] if others else holders


def _of_gpu(presence: Presence, groups: Iterable[GpuInstance]) -> Activity | None:
    """The whole GPU over the cycle; lost where one of its instances is, None if one of them or its size is not known."""
    groups = tuple(groups)
    if not groups or any(_size(presence, group) is None or group[0].activity is None for group in groups):
        return None
    activities = [group[0].activity for group in groups if group[0].activity is not None]
    seconds = max(activity.seconds for activity in activities)
    lost = max(activity.lost_seconds for activity in activities)
    ratio = min(sum(_weighed(presence, group) for group in groups), 1.0)
    spans = (Span(seconds - lost, ratio), Span(lost, None))
    return Activity(tuple(span for span in spans if span.seconds > 0))


def _weighed(presence: Presence, group: GpuInstance) -> float:
    """What the GPU instance did, as a part of the GPU."""
    activity, size = group[0].activity, _size(presence, group)
    ratio = None if activity is None else activity.utilization_ratio
    return 0.0 if ratio is None or size is None else ratio * float(size)


def _size(presence: Presence, group: GpuInstance) -> Fraction | None:
    """Sum of the compute instances' sizes."""
    parts = [part_of_gpu(presence.device, instance) for instance in group]
    return None if any(part is None for part in parts) else sum((part for part in parts if part is not None), Fraction(0))
