"""What the kubelet says it gave to containers, before it is resolved to devices. No pod UID and no container id exist there."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Holding:
    """Device ids of one resource that one container was given."""

    namespace: str
    pod: str
    container: str
    resource: str
    """``nvidia.com/gpu``, ``nvidia.com/mig-1g.10gb``, any name at all."""
    device_id: str
    """As the device plugin made it up; opaque here."""


@dataclass(frozen=True, slots=True, order=True)
class ClaimedDevice:
    """A DRA device that one container was given."""

    namespace: str
    pod: str
    container: str
    claim_namespace: str
    claim: str
    driver: str
    pool: str
    device: str
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The answers to List and GetAllocatableResources, sorted and without repetitions (the kubelet's order is random)."""

    holdings: tuple[Holding, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()
    pods: frozenset[tuple[str, str]] = frozenset()
    """(namespace, name) of every pod that List named, also without devices."""
    allocatable: Mapping[str, frozenset[str]] | None = field(default=None)
    """Healthy device ids by resource; None if the kubelet cannot say."""
