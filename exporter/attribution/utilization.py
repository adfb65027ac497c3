"""A device's utilisation, split: whose the busy time was, where the driver can say."""

from exporter.attribution.presence import Presence, RowKey
from exporter.model.attribution import UnattributedReason
from exporter.model.device import MigMode, ProcessKind
from exporter.model.ids import ContainerKey

OF_NOBODY_KNOWN = frozenset({UnattributedReason.UNRESOLVED_PID, UnattributedReason.DEAD_PROCESS})


def split_utilization(presence: Presence, *, mps: bool) -> dict[RowKey, float | None]:
    """Utilisation of each row, 0 to 1; together never more than the device's own figure.

    A device that did nothing was used by nobody. A sole holder among nobody but its own processes did all of it. Otherwise
    the driver's samples of each process decide; they come from windows of their own, so they are scaled down where they
    sum to more than the device did. A busy device without any sample contradicts itself: then whoever may have been busy is
    unknown. None where they cannot tell: MIG, MPS, old drivers, processes that cannot be looked up.

    Args:
        presence: Everybody on the device.
        mps: True if the device is known to be shared by MPS.
    """
    device = presence.device
    total = device.utilization_ratio
    if total is None or not device.up or device.mig_mode is MigMode.ENABLED:
        return dict.fromkeys(presence.rows)
    if total == 0:
        return dict.fromkeys(presence.rows, 0.0)
    if (sole := _sole_holder(presence)) is not None:
        return {row: total if row == (sole, None) else None for row in presence.rows}
    if mps or _mps_seen(presence) or device.process_use is None or not presence.processes_known:
        return dict.fromkeys(presence.rows)
    return _by_samples(presence, total)


def _sole_holder(presence: Presence) -> ContainerKey | None:
    """The one container that holds the device, if nobody else is on it; an MPS server works for those who hold it."""
    holders = {container for container, _ in presence.holders}
    if len(holders) != 1 or presence.laid is None or not presence.processes_known:
        return None
    others = set(presence.whose.values()) - holders - {UnattributedReason.MPS_SERVER}
    return None if others else holders.pop()


def _mps_seen(presence: Presence) -> bool:
    """True if a process is an MPS client or server: the driver cannot tell the clients' activity apart."""
    if UnattributedReason.MPS_SERVER in presence.whose.values():
        return True
    return any(ProcessKind.MPS in one.kinds for one in presence.laid or ())


def _by_samples(presence: Presence, total: float) -> dict[RowKey, float | None]:
    by_pid: dict[int, float] = {}
    for use in presence.device.process_use or ():
        by_pid[use.pid] = max(use.sm_ratio, by_pid.get(use.pid, 0.0))
    sampled = sum(by_pid.values())
    scale = total / sampled if sampled > total else 1.0
    of_nobody = any(
        whose in OF_NOBODY_KNOWN and (not sampled or by_pid.get(pid, 0.0) > 0) for pid, whose in presence.whose.items()
    )
    own = {row: sum(ratio for pid, ratio in by_pid.items() if presence.whose[pid] == row[0]) * scale for row in presence.rows}
    return {
        row: _certain(row, ratio, presence, of_nobody=of_nobody or (not sampled and bool(presence.own(row))))
        for row, ratio in own.items()
    }


def _certain(row: RowKey, ratio: float, presence: Presence, *, of_nobody: bool) -> float | None:
    """A row without activity of its own was idle only if no activity is left over that may be its own."""
    if row[1] is not None:
        return None
    if ratio > 0:
        return ratio
    return None if of_nobody or (not presence.own(row) and presence.may_be_hidden(row)) else 0.0
