"""Whose the energy was: by busy time among those who used the part that is held, by share where that cannot be said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.model.attribution import ContainerRow, DeviceRow, UnattributedReason


@dataclass(frozen=True, slots=True)
class EnergySplit:
    """One device's energy in one cycle; the parts sum to the whole."""

    by_row: Mapping[int, float] = field(default_factory=dict)
    """Joules by the row's place among the rows that were given."""
    unattributed: Mapping[UnattributedReason, float] = field(default_factory=dict)
    """Joules, above 0."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a device drew since its energy was last read."""

    joules: float = 0.0
    part_of_cycle: float = 0.0
    """The part of that time which this cycle is, 0 to 1: before it, nobody watched."""


def split_energy(device: DeviceRow, rows: Iterable[ContainerRow], drawn: Drawn) -> EnergySplit:
    """Split what the device drew; what it drew before this cycle is nobody's.

    Args:
        device: The device.
        rows: Everybody on it.
        drawn: What it drew since the last reading.
    """
    split = _split(device, tuple(rows), drawn.joules * drawn.part_of_cycle)
    unwatched = drawn.joules * (1.0 - drawn.part_of_cycle)
    if unwatched <= 0:
        return split
    of_nobody = split.unattributed.get(UnattributedReason.NOT_MEASURED, 0.0) + unwatched
    return EnergySplit(split.by_row, {**split.unattributed, UnattributedReason.NOT_MEASURED: of_nobody})


def _split(device: DeviceRow, rows: tuple[ContainerRow, ...], joules: float) -> EnergySplit:
    """Split the energy of a cycle.

    The part of the device that nobody holds has its part of the energy, and so has the part of which nobody knows who holds
    it. The rest is split by busy time among all users, those included that could not be attributed; if nobody was busy, or if
    the busy time of a holder is unknown, by share.
    """
    shares = {place: row.share_ratio for place, row in enumerate(rows) if row.holds and row.share_ratio}
    held = sum(shares.values())
    free = sum(device.unallocated_ratios.values())
    by_reason = {
        UnattributedReason.UNALLOCATED: joules * free,
        UnattributedReason.NOT_MEASURED: joules * max(1.0 - held - free, 0.0),
    }
    users, nobodys = _busy(device, rows)
    busy = sum(users.values()) + sum(nobodys.values())
    weights, whole = (users, busy) if busy > 0 else (shares, held)
    of_held = joules * held
    if busy > 0:
        for reason, amount in nobodys.items():
            by_reason[reason] = by_reason.get(reason, 0.0) + of_held * amount / whole
    return EnergySplit(
        by_row={place: of_held * weight / whole for place, weight in weights.items() if weight > 0 and held > 0},
        unattributed={reason: amount for reason, amount in by_reason.items() if amount > 0},
    )


def _busy(device: DeviceRow, rows: tuple[ContainerRow, ...]) -> tuple[dict[int, float], Mapping[UnattributedReason, float]]:
    """Busy time of each row and of nobody, in one unit; nothing if that of a holder is unknown."""
    if any(row.holds and (row.activity is None or row.place_ratio is None) for row in rows):
        return {}, {}
    users = {
        place: row.activity.busy_seconds / row.activity.seconds * row.place_ratio
        for place, row in enumerate(rows)
        if row.activity is not None and row.place_ratio is not None and row.activity.seconds > 0
    }
    measured = 0.0
    if device.activity is not None and device.activity.seconds > 0:
        measured = device.activity.measured_seconds / device.activity.seconds
    return users, {reason: ratio * measured for reason, ratio in device.unattributed_ratios.items()}
