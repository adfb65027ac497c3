"""A device's memory, split: parts that never exceed the whole, and the rest with its reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.presence import Laid, Presence, RowKey
from exporter.model.attribution import UnattributedReason

Owner = RowKey | UnattributedReason


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """Whose the memory is."""

    by_row: Mapping[RowKey, int | None] = field(default_factory=dict)
    """Bytes; None: unknown."""
    unattributed: Mapping[UnattributedReason, int] = field(default_factory=dict)
    """Bytes, above 0."""


def split_memory(presence: Presence) -> MemorySplit:
    """Sum over the processes, and account for what the device's own figure says beyond them.

    The driver's list and its figure are read one after the other: if the processes sum to more than the device has in
    use, all of them are scaled down to it. A container with a process whose memory the driver cannot tell has no figure;
    what it uses is in the rest then.
    """
    used = presence.device.memory_used_bytes
    if presence.laid is None:
        return MemorySplit(dict.fromkeys(presence.rows), {UnattributedReason.NOT_MEASURED: used} if used else {})
    parts = _scaled(_measured(presence.laid), used)
    unattributed = {owner: size for owner, size in parts.items() if isinstance(owner, UnattributedReason) and size > 0}
    rest = 0 if used is None else used - sum(parts.values())
    if rest > 0:
        untold = not presence.processes_known or any(one.memory_used_bytes is None for one in presence.laid)
        unattributed[UnattributedReason.NOT_MEASURED if untold else UnattributedReason.NO_PROCESS] = rest
    return MemorySplit({row: _of_row(row, parts, presence) for row in presence.rows}, unattributed)


def _measured(laid: Iterable[Laid]) -> dict[Owner, int]:
    """What is known of each owner: all of a container's processes or nothing, of a reason whatever can be told."""
    sizes: dict[Owner, list[int | None]] = {}
    for one in laid:
        sizes.setdefault(one.owner, []).append(one.memory_used_bytes)
    return {
        owner: sum(size for size in listed if size is not None)
        for owner, listed in sizes.items()
        if None not in listed or isinstance(owner, UnattributedReason)
    }


def _scaled(parts: Mapping[Owner, int], used: int | None) -> dict[Owner, int]:
    total = sum(parts.values())
    if used is None or total <= used:
        return dict(parts)
    return {owner: size * used // total for owner, size in parts.items()}


def _of_row(row: RowKey, parts: Mapping[Owner, int], presence: Presence) -> int | None:
    """Nothing at all only if it is certain that the row has no process."""
    return parts.get(row, None if presence.own(row) or presence.processes(row) is None else 0)
