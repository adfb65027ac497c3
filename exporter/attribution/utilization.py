"""A device's utilisation, split: whose the busy time was, where the driver can say; and the reason for the rest."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.presence import Laid, Presence, RowKey
from exporter.model.activity import Activity
from exporter.model.attribution import UnattributedReason
from exporter.model.device import ProcessKind
from exporter.model.ids import ContainerKey

OF_NOBODY_KNOWN = frozenset({UnattributedReason.UNRESOLVED_PID, UnattributedReason.DEAD_PROCESS})
TINY_RATIO = 1e-12
"""Less than this is the rounding of sums."""

ROUNDING_RATIO = 0.005
"""The driver tells whole percents of each process: so much of each may be missing in their sum."""


@dataclass(frozen=True, slots=True)
class UtilizationSplit:
    """Whose the utilisation of one device was in this cycle."""

    activity: Activity | None = None
    """What the device did, lost time included; None: not measured."""
    utilization_ratio: float | None = None
    by_row: Mapping[RowKey, float | None] = field(default_factory=dict)
    """Part of the device (GPU or MIG instance) that the row is on, 0 to 1; None: unknown."""
    activities: Mapping[RowKey, Activity] = field(default_factory=dict)
    """The same over time; no entry: unknown."""
    unattributed: Mapping[UnattributedReason, float] = field(default_factory=dict)
    """Parts of the physical GPU's utilisation, above 0."""


def split_utilization(presence: Presence, *, mps: bool) -> UtilizationSplit:
    """Utilisation of each row of a GPU without MIG; together never more than the GPU's own figure.

    A device that did nothing was used by nobody. A sole holder among nobody but its own processes did all of it. Otherwise
    the driver's samples of each process decide; they come from windows of their own, so they are scaled down where they
    sum to more than the device did, and up by what rounding has taken where all processes are sampled. A busy device without
    any sample contradicts itself: then whoever may have been busy is unknown. None where they cannot tell: MPS, old drivers,
    processes that cannot be looked up.

    Args:
        presence: Everybody on the device.
        mps: True if the device is known to be shared by MPS.
    """
    device = presence.device
    total = device.utilization_ratio
    if total is None or not device.up:
        return UtilizationSplit(device.activity if device.up else None, by_row=dict.fromkeys(presence.rows))
    if total == 0:
        return _split(presence, dict.fromkeys(presence.rows, 0.0), {})
    if (sole := sole_holder(presence)) is not None:
        split = _split(presence, {row: total if row == (sole, None) else None for row in presence.rows}, {})
        own: dict[RowKey, Activity] = {} if device.activity is None else {(sole, None): device.activity}
        return UtilizationSplit(split.activity, total, split.by_row, {**split.activities, **own})
    if mps or _mps_seen(presence):
        served = UnattributedReason.MPS_SERVER in presence.whose.values()
        reason = UnattributedReason.MPS_SERVER if served else UnattributedReason.NOT_MEASURED
        return _split(presence, dict.fromkeys(presence.rows), {reason: total})
    if device.process_use is None or not presence.processes_known:
        return _split(presence, dict.fromkeys(presence.rows), {reason_for(presence, presence.laid): total})
    return _by_samples(presence, total)


def sole_holder(presence: Presence) -> ContainerKey | None:
    """The one container that holds the device, if nobody else is on it; an MPS server works for those who hold it."""
    holders = {container for container, _ in presence.holders}
    if len(holders) != 1 or presence.laid is None or not presence.processes_known:
        return None
    others = set(presence.whose.values()) - holders - {UnattributedReason.MPS_SERVER}
    return None if others else holders.pop()


def reason_for(presence: Presence, laid: Iterable[Laid] | None) -> UnattributedReason:
    """Why nobody is named for a use: what all processes there have in common, if they are nobody's."""
    if laid is None or not presence.processes_known:
        return UnattributedReason.NOT_MEASURED
    owners = {one.whose for one in laid}
    if not owners:
        return UnattributedReason.NO_PROCESS
    only = owners.pop()
    return only if not owners and isinstance(only, UnattributedReason) else UnattributedReason.NOT_MEASURED


def _split(
    presence: Presence, by_row: Mapping[RowKey, float | None], unattributed: Mapping[UnattributedReason, float]
) -> UtilizationSplit:
    """Put it together; a row's figure is one for the whole cycle."""
    activity = presence.device.activity
    known = {row: activity.at(ratio) for row, ratio in by_row.items() if ratio is not None} if activity is not None else {}
    rest = {reason: ratio for reason, ratio in unattributed.items() if ratio > TINY_RATIO}
    return UtilizationSplit(activity, presence.device.utilization_ratio, by_row, known, rest)


def _mps_seen(presence: Presence) -> bool:
    """True if a process is an MPS client or server: the driver cannot tell the clients' activity apart."""
    if UnattributedReason.MPS_SERVER in presence.whose.values():
        return True
    return any(ProcessKind.MPS in one.kinds for one in presence.laid or ())


def _by_samples(presence: Presence, total: float) -> UtilizationSplit:
    by_pid: dict[int, float] = {}
    for use in sorted(presence.device.process_use or (), key=lambda use: use.pid):
        if use.sm_ratio is not None:
            by_pid[use.pid] = max(use.sm_ratio, by_pid.get(use.pid, 0.0))
    sampled = sum(by_pid.values())
    rounding = ROUNDING_RATIO * len(by_pid)
    rounded = 0 < total - sampled <= rounding and not _silent(presence, by_pid)
    scale = total / sampled if sampled > total or (rounded and sampled) else 1.0
    of_nobody = any(
        whose in OF_NOBODY_KNOWN and (not sampled or by_pid.get(pid, 0.0) > 0) for pid, whose in presence.whose.items()
    )
    own = {row: sum(ratio for pid, ratio in by_pid.items() if presence.whose[pid] == row[0]) * scale for row in presence.rows}
    left_over = total - sampled > rounding + ROUNDING_RATIO
    rows = {
        row: _certain(row, ratio, presence, of_nobody=of_nobody or (left_over and _is_silent(row, presence, by_pid)))
        for row, ratio in own.items()
    }
    rows |= dict.fromkeys(row for row in rows if _is_misread(row, presence))
    nobodys: dict[UnattributedReason, float] = {}
    for pid, ratio in by_pid.items():
        if isinstance(whose := presence.whose[pid], UnattributedReason):
            nobodys[whose] = nobodys.get(whose, 0.0) + ratio * scale
    rest = total - math.fsum([*(ratio or 0.0 for ratio in rows.values()), *nobodys.values()])  # rows have no order
    doubtful = bool(sampled) and None in rows.values()
    reason = UnattributedReason.NOT_MEASURED if doubtful else reason_for(presence, _silent(presence, by_pid if sampled else ()))
    nobodys[reason] = nobodys.get(reason, 0.0) + max(rest, 0.0)
    return _split(presence, rows, nobodys)


def _is_silent(row: RowKey, presence: Presence, sampled: Collection[int]) -> bool:
    """True if the row has a process that no sample names: what is left over may be its."""
    return any(one.pid not in sampled for one in presence.own(row) or ())


def _is_misread(row: RowKey, presence: Presence) -> bool:
    """True if a sample of one of the row's processes cannot be true: then nobody can say what the row did."""
    misread = {use.pid for use in presence.device.process_use or () if use.sm_ratio is None}
    return any(presence.whose[pid] == row[0] for pid in misread)


def _silent(presence: Presence, sampled: Collection[int]) -> list[Laid] | None:
    """Processes that no sample names: what is left over may be theirs. None if the driver's list could not be read."""
    return None if presence.laid is None else [one for one in presence.laid if one.pid not in sampled]


def _certain(row: RowKey, ratio: float, presence: Presence, *, of_nobody: bool) -> float | None:
    """A row without activity of its own was idle only if no activity is left over that may be its own."""
    if row[1] is not None:
        return None
    if ratio > 0:
        return ratio
    return None if of_nobody or (not presence.own(row) and presence.may_be_hidden(row)) else 0.0
