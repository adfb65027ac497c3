"""Idle clocks: since when a container has not worked on a device that it holds, and whether it ever has."""

from collections.abc import Iterable, Mapping

from exporter.accounting.activity import is_active
from exporter.model.attribution import ContainerRow
from exporter.model.ids import MigKey
from exporter.model.ledger import IdleClock, LedgerRules, UseKey


def use_key(row: ContainerRow) -> UseKey:
    """The container on its device, in time."""
    mig: MigKey | None = None if row.mig is None else row.mig.key
    return UseKey(row.container, row.device, mig)


def works(row: ContainerRow, guests: Iterable[ContainerRow], active_above_ratio: float) -> bool:
    """True if the holder worked in this cycle, or a container of its pod that works on the device without holding it.

    Args:
        row: The holder.
        guests: Rows that hold nothing.
        active_above_ratio: As in `judge`.
    """
    own = (row, *(guest for guest in guests if _is_beside(guest, row)))
    return any(is_active(one, active_above_ratio) for one in own)


def _is_beside(other: ContainerRow, row: ContainerRow) -> bool:
    pods = [(one.container.pod_uid, one.container.namespace, one.container.pod) for one in (other, row)]
    return pods[0] == pods[1] and (other.device, other.mig) == (row.device, row.mig)


def advance_clock(
    before: IdleClock | None,
    row: ContainerRow,
    *,
    active: bool,
    timestamp_seconds: float,
    watching_since_timestamp_seconds: float,
    watched: bool,
    clock_seconds: float,
) -> IdleClock:
    """The clock of one holder after this cycle.

    A container that was never seen active is idle since watching it began, which is the later of its start and of the cycle
    in which it was first seen: no restart of the exporter makes anybody look idle for days.

    Args:
        before: The clock so far; None if it was not seen before.
        row: The holder.
        active: Whether it worked in this cycle.
        timestamp_seconds: Unix time of this cycle.
        watching_since_timestamp_seconds: Since when devices have been read without a gap.
        watched: Whether the time since the cycle before was watched.
        clock_seconds: The ledger's clock.
    """
    measured = row.utilization_ratio is not None
    if before is None:
        started = row.started_timestamp_seconds
        began = timestamp_seconds if started is None else max(timestamp_seconds, started)
        from_start = measured and started is not None and started >= watching_since_timestamp_seconds
        return IdleClock(timestamp_seconds if active else began, active, from_start, clock_seconds)
    # A wall clock that was set back makes nobody active in the future.
    last_active = timestamp_seconds if active else min(before.last_active_timestamp_seconds, timestamp_seconds)
    return IdleClock(
        last_active_timestamp_seconds=last_active,
        ever_active=before.ever_active or active,
        from_start=before.from_start and (before.ever_active or (watched and measured)),
        seen_at=clock_seconds,
    )


def kept_clocks(clocks: Mapping[UseKey, IdleClock], clock_seconds: float, rules: LedgerRules) -> dict[UseKey, IdleClock]:
    """Clocks of those that were seen lately; a container that comes back within the time is the same one, by its UID."""
    return {key: clock for key, clock in clocks.items() if clock_seconds - clock.seen_at <= rules.ended_retention_seconds}
