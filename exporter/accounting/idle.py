"""Idle clocks: since when a container has not worked on a device that it holds, and whether it ever has."""

from collections.abc import Mapping

from exporter.accounting.activity import is_active
from exporter.model.attribution import ContainerRow
from exporter.model.ids import MigKey
from exporter.model.ledger import IdleClock, LedgerRules, UseKey


def use_key(row: ContainerRow) -> UseKey:
    """The container on its device, in time."""
    mig: MigKey | None = None if row.mig is None else row.mig.key
    return UseKey(row.container, row.device, mig)


def advance_clock(
    before: IdleClock | None,
    row: ContainerRow,
    *,
    timestamp_seconds: float,
    watching_since_timestamp_seconds: float,
    watched: bool,
    clock_seconds: float,
    rules: LedgerRules,
) -> IdleClock:
    """The clock of one holder after this cycle.

    A container that was never seen active is idle since watching it began, which is the later of its start and of the cycle
    in which it was first seen: no restart of the exporter makes anybody look idle for days.

    Args:
        before: The clock so far; None if it was not seen before.
        row: The holder.
        timestamp_seconds: Unix time of this cycle.
        watching_since_timestamp_seconds: Since when devices have been read without a gap.
        watched: Whether the time since the cycle before was watched.
        clock_seconds: The ledger's clock.
        rules: Above which ratio a device counts as active.
    """
    active = is_active(row, rules.active_above_ratio)
    measured = row.utilization_ratio is not None
    if before is None:
        started = row.started_timestamp_seconds
        began = timestamp_seconds if started is None else max(timestamp_seconds, started)
        from_start = measured and started is not None and started >= watching_since_timestamp_seconds
        return IdleClock(timestamp_seconds if active else began, active, from_start, clock_seconds)
    return IdleClock(
        last_active_timestamp_seconds=timestamp_seconds if active else before.last_active_timestamp_seconds,
        ever_active=before.ever_active or active,
        from_start=before.from_start and (before.ever_active or (watched and measured)),
        seen_at=clock_seconds,
    )


def kept_clocks(clocks: Mapping[UseKey, IdleClock], clock_seconds: float, rules: LedgerRules) -> dict[UseKey, IdleClock]:
    """Clocks of those that were seen lately; a container that comes back within the time is the same one, by its UID."""
    return {key: clock for key, clock in clocks.items() if clock_seconds - clock.seen_at <= rules.ended_retention_seconds}
