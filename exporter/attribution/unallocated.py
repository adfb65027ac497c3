"""Why nobody holds a part of a GPU. Parts are exact: what is held, what is not, and what nobody knows add up to the GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from exporter.attribution.replicas import Advertised
from exporter.attribution.shares import Shares, part_of_gpu
from exporter.model.attribution import PlaceKey, UnallocatedReason
from exporter.model.device import Device, MigMode

WHOLE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Rest:
    """What is not held of one GPU."""

    unallocated: Mapping[UnallocatedReason, float] = field(default_factory=dict)
    """Parts above 0."""
    unknown: float = 0.0
    """The part of which no source can say who holds it."""


@dataclass(frozen=True, slots=True)
class Market:
    """What of the node's GPUs is on offer."""

    advertised: Advertised
    cordoned: bool
    """True if the node takes no new pods."""

    def withholds(self, key: PlaceKey) -> bool:
        """True if the kubelet gives out places of this kind and not this one: its device plugin calls it unhealthy."""
        offered = self.advertised.replicas.keys() | self.advertised.whole
        kind = [place for place in offered if (place[1] is None) == (key[1] is None)]
        return bool(kind) and key not in offered


def rest_of(device: Device, shares: Shares, market: Market, *, known: bool) -> Rest:
    """What is not held of a GPU, by reason.

    Args:
        device: The GPU.
        shares: Who has how much.
        market: What is on offer.
        known: False if no source can say who holds it: then all that is not held for certain is unknown.
    """
    held = shares.by_gpu.get(device.uuid, Fraction(0))
    free = max(WHOLE - held, Fraction(0))
    if not free:
        return Rest()
    if not known:
        return Rest(unknown=float(free))
    if not device.up:
        return Rest({UnallocatedReason.UNHEALTHY: float(free)})
    parts = _mig_parts(device, shares, free, market) if device.mig_mode is MigMode.ENABLED else None
    if parts is None:
        parts = {_reason((device.uuid, None), held, market): free}
    return Rest({reason: float(part) for reason, part in sorted(parts.items()) if part > 0})


def _mig_parts(device: Device, shares: Shares, free: Fraction, market: Market) -> dict[UnallocatedReason, Fraction]:
    """Instance by instance; what is in none of them cannot be given to anybody.

    Beside an instance of unknown size nobody can say that the rest is in none: it could be given to somebody.
    """
    parts: dict[UnallocatedReason, Fraction] = {}
    left = free
    spare = UnallocatedReason.FRAGMENT
    for instance in sorted(device.mig_instances, key=lambda instance: instance.key):
        key = (device.uuid, instance.key)
        size = part_of_gpu(device, instance)
        held = sum((share for (_, place), share in shares.by_holder.items() if place == key), Fraction(0))
        spare = UnallocatedReason.FREE if size is None else spare
        part = min(max((size or Fraction(0)) - held, Fraction(0)), left)
        reason = _reason(key, held, market)
        parts[reason] = parts.get(reason, Fraction(0)) + part
        left -= part
    reason = UnallocatedReason.CORDONED if market.cordoned else spare
    parts[reason] = parts.get(reason, Fraction(0)) + left
    return parts


def _reason(key: PlaceKey, held: Fraction, market: Market) -> UnallocatedReason:
    if market.withholds(key):
        return UnallocatedReason.UNHEALTHY
    if market.cordoned:
        return UnallocatedReason.CORDONED
    return UnallocatedReason.FRAGMENT if held else UnallocatedReason.FREE
