"""How much of each physical GPU a holder has: parts of a whole, never more than the whole in sum.

A whole GPU is 1, a MIG instance its compute slices over those of the GPU, a replica 1 over the replicas of its place. Two
holders of what is not divided share it evenly, and that is a conflict. An instance whose size nobody tells has no share, and
the sum over its GPU is unknown then.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from exporter.attribution.holders import Held
from exporter.model.attribution import Conflict, ConflictKind, PlaceKey
from exporter.model.device import Device, MigInstance
from exporter.model.ids import ContainerKey, DeviceUuid

K = TypeVar("K")
ShareKey = tuple[ContainerKey, PlaceKey]

_PROFILE = re.compile(r"(?:(?P<compute>[0-9]{1,2})c\.)?(?P<gpu>[0-9]{1,2})g(?:\..*)?")


@dataclass(frozen=True, slots=True)
class Shares:
    """Who has how much."""

    by_holder: Mapping[ShareKey, Fraction] = field(default_factory=dict)
    """Part of the physical GPU, 0 to 1; sums to at most 1 for each GPU."""
    by_gpu: Mapping[DeviceUuid, Fraction] = field(default_factory=dict)
    """Sum over all holders; no entry for a GPU that nobody holds."""
    unknown: frozenset[PlaceKey] = frozenset()
    """Instances that are held and whose size nobody tells."""
    conflicts: frozenset[Conflict] = frozenset()


def divide(held: Iterable[Held], replicas: Mapping[PlaceKey, int]) -> Shares:
    """Give every holder its share.

    Args:
        held: What is held.
        replicas: Into how many parts each divided place is divided.
    """
    held = tuple(held)
    sizes = {one.key: part_of_gpu(*one.place) for one in held}
    wanted = _wanted(held, replicas)
    on_gpus: dict[DeviceUuid, dict[ShareKey, Fraction]] = {}
    for key, by_container in wanted.items():
        size = sizes[key] or Fraction(0)
        fitted = _at_most_whole(by_container)
        on_gpus.setdefault(key[0], {}).update({(container, key): part * size for container, part in fitted.items()})
    crowds: list[tuple[DeviceUuid, Iterable[ContainerKey]]] = [
        (key[0], by_container) for key, by_container in wanted.items() if sum(by_container.values()) > 1
    ]
    crowds += [(key[0], who) for key, who in _same_replica(held)]
    crowds += [(uuid, {who for who, _ in on_gpu}) for uuid, on_gpu in on_gpus.items() if sum(on_gpu.values()) > 1]
    by_holder = {key: share for on_gpu in on_gpus.values() for key, share in _at_most_whole(on_gpu).items()}
    return Shares(
        by_holder=by_holder,
        by_gpu={uuid: _total(on_gpu, by_holder) for uuid, on_gpu in on_gpus.items()},
        unknown=frozenset(key for key, size in sizes.items() if size is None),
        conflicts=_conflicts(crowds),
    )


def part_of_gpu(device: Device, mig: MigInstance | None) -> Fraction | None:
    """Size of the place, 0 to 1; None for an instance of a GPU, or of a size, that nobody tells."""
    if mig is None:
        return Fraction(1)
    slices = mig.compute_slices or _slices_of_profile(mig.profile)
    if not slices or not device.mig_slices:
        return None
    return min(Fraction(slices, device.mig_slices), Fraction(1))


def _slices_of_profile(profile: str) -> int:
    """``1c.3g.40gb`` is one compute slice, ``3g.40gb`` is three; 0 if the profile does not say."""
    match = _PROFILE.fullmatch(profile)
    return int(match["compute"] or match["gpu"]) if match else 0


def _wanted(held: Iterable[Held], replicas: Mapping[PlaceKey, int]) -> dict[PlaceKey, dict[ContainerKey, Fraction]]:
    """The part of its place that each container was given: all of it, or its replicas over all replicas."""
    ids: dict[PlaceKey, dict[ContainerKey, set[int | None]]] = {}
    for one in held:
        ids.setdefault(one.key, {}).setdefault(one.container, set()).add(one.replica)
    return {
        key: {container: _part(given, by_container.values(), replicas.get(key, 1)) for container, given in by_container.items()}
        for key, by_container in ids.items()
    }


def _part(own: Collection[int | None], given: Collection[Collection[int | None]], replicas: int) -> Fraction:
    """A replica that several containers were given is split between them."""
    if None in own:
        return Fraction(1)
    parts = (Fraction(1, replicas * sum(number in others for others in given)) for number in own)
    return min(sum(parts, Fraction(0)), Fraction(1))


def _same_replica(held: Iterable[Held]) -> list[tuple[PlaceKey, set[ContainerKey]]]:
    """Replicas that more than one container was given, and by whom they are held."""
    holders: dict[tuple[PlaceKey, int], set[ContainerKey]] = {}
    for one in held:
        if one.replica is not None:
            holders.setdefault((one.key, one.replica), set()).add(one.container)
    return [(key, who) for (key, _), who in holders.items() if len(who) > 1]


def _at_most_whole(parts: Mapping[K, Fraction]) -> dict[K, Fraction]:
    """Scaled down evenly where the sum is above 1: two wholes become two halves."""
    total = sum(parts.values(), Fraction(0))
    return {key: part / total if total > 1 else part for key, part in parts.items()}


def _total(keys: Iterable[ShareKey], by_holder: Mapping[ShareKey, Fraction]) -> Fraction:
    return sum((by_holder[key] for key in keys), Fraction(0))


def _conflicts(crowds: Iterable[tuple[DeviceUuid, Iterable[ContainerKey]]]) -> frozenset[Conflict]:
    """One for each GPU, with everybody who holds too much of it."""
    names: dict[DeviceUuid, set[ContainerKey]] = {}
    for uuid, containers in crowds:
        names.setdefault(uuid, set()).update(containers)
    return frozenset(Conflict(ConflictKind.TWO_HOLDERS, uuid, _sentence(uuid, who)) for uuid, who in names.items())


def _sentence(uuid: DeviceUuid, containers: Iterable[ContainerKey]) -> str:
    names = sorted(f"{container.namespace}/{container.pod} {container.container}".rstrip() for container in containers)
    return f"More of {uuid} is given away than there is; it is split between {', '.join(names)}."
