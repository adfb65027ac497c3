"""Utilisation in MIG mode: GPM tells what each GPU instance did, and nothing tells its processes apart."""

from collections.abc import Iterable
from fractions import Fraction

from exporter.attribution.presence import Laid, Presence, RowKey
from exporter.attribution.shares import part_of_gpu
from exporter.attribution.utilization import UtilizationSplit, reason_for
from exporter.model.activity import Activity, Span
from exporter.model.attribution import UnattributedReason
from exporter.model.device import Device, MigInstance
from exporter.model.ids import MigKey

GpuInstance = tuple[MigInstance, ...]
"""The MIG devices (compute instances) of one GPU instance."""


def split_mig_utilization(presence: Presence) -> UtilizationSplit:
    """Utilisation of each row of a GPU in MIG mode.

    What a GPU instance did is its sole holder's. An instance that did nothing was used by nobody. Several holders, or
    several compute instances in one GPU instance, cannot be told apart: unknown. The GPU's own figure is the sum over its
    instances by their size, and unknown as soon as one of them is. Whoever is on the GPU and on no instance that we know was
    idle only if all of them were.
    """
    groups = _gpu_instances(presence.device.mig_instances) if presence.device.up else ()
    activity = _of_gpu(presence.device, groups)
    ratio = None if activity is None else activity.utilization_ratio
    did: dict[RowKey, Activity] = {}
    if activity is not None and ratio == 0:
        did |= {row: activity for row in presence.rows if row[1] is None}
    unattributed: dict[UnattributedReason, float] = {}
    for group in groups:
        users = _users(presence, group)
        did |= users
        if not users and ratio is not None and (part := _weighed(presence.device, group)):
            reason = _reason(presence, group)
            unattributed[reason] = unattributed.get(reason, 0.0) + part
    by_row = {row: did[row].utilization_ratio if row in did else None for row in presence.rows}
    return UtilizationSplit(activity, ratio, by_row, did, unattributed)


def _gpu_instances(instances: Iterable[MigInstance]) -> tuple[GpuInstance, ...]:
    groups: dict[int, list[MigInstance]] = {}
    for instance in sorted(instances, key=lambda instance: instance.key):
        groups.setdefault(instance.gpu_instance_id, []).append(instance)
    return tuple(tuple(group) for group in groups.values())


def _users(presence: Presence, group: GpuInstance) -> dict[RowKey, Activity]:
    """The rows of which the GPU instance's figure is true: all of them if it did nothing, else its sole holder."""
    whole = group[0].activity
    if whole is None or whole.utilization_ratio is None:
        return {}
    if whole.busy_seconds == 0:
        return {row: whole for row in presence.rows if row[1] in _keys(group)}
    sole = _sole_holder(presence, group)
    return {} if sole is None else {sole: whole}


def _sole_holder(presence: Presence, group: GpuInstance) -> RowKey | None:
    """The one container that holds the instance, if nobody else is, or may be, on it; a holder of the whole GPU may be."""
    near = _near(presence, group)
    holders = [row for row in presence.holders if row[1] is None or row[1] in _keys(group)]
    if len(group) > 1 or len(holders) != 1 or near is None or not presence.processes_known:
        return None
    container, key = holders[0]
    others = {one.whose for one in near} - {container, UnattributedReason.MPS_SERVER}
    return None if others or key is None else (container, key)


def _reason(presence: Presence, group: GpuInstance) -> UnattributedReason:
    """Why what the GPU instance did is nobody's: somebody is there and cannot be told apart, or nobody is."""
    near = _near(presence, group)
    somebody = any(row[1] is None or row[1] in _keys(group) for row in presence.rows)
    return UnattributedReason.NOT_MEASURED if somebody else reason_for(presence, near)


def _keys(group: GpuInstance) -> set[MigKey]:
    return {instance.key for instance in group}


def _near(presence: Presence, group: GpuInstance) -> list[Laid] | None:
    """Processes that are, or may be, on this GPU instance: one that names no instance may be on any."""
    return None if presence.laid is None else [one for one in presence.laid if one.mig is None or one.mig in _keys(group)]


def _of_gpu(device: Device, groups: tuple[GpuInstance, ...]) -> Activity | None:
    """The whole GPU over the cycle; lost where one of its instances is, None if one of them is not known.

    Instances that sum to more than the GPU cannot be true: then their sizes tell nothing.
    """
    activities = [group[0].activity for group in groups if group[0].activity is not None]
    sizes = [size for group in groups if (size := _size(device, group)) is not None]
    if not groups or len(activities) < len(groups) or len(sizes) < len(groups) or sum(sizes) > 1:
        return None
    seconds = max(activity.seconds for activity in activities)
    measured = all(activity.utilization_ratio is not None for activity in activities)
    lost = max(activity.lost_seconds for activity in activities) if measured else seconds
    ratio = sum(_weighed(device, group) for group in groups)
    spans = (Span(seconds - lost, min(ratio, 1.0)), Span(lost, None))
    return Activity(tuple(span for span in spans if span.seconds > 0))


def _weighed(device: Device, group: GpuInstance) -> float:
    """What the GPU instance did, as a part of the GPU."""
    activity, size = group[0].activity, _size(device, group)
    ratio = None if activity is None else activity.utilization_ratio
    return 0.0 if ratio is None or size is None else ratio * float(size)


def _size(device: Device, group: GpuInstance) -> Fraction | None:
    """Sum of the compute instances' sizes."""
    parts = [part_of_gpu(device, instance) for instance in group]
    return None if any(part is None for part in parts) else sum((part for part in parts if part is not None), Fraction(0))
