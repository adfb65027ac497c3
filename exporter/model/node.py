"""What the node is at its provider: the key to the bill."""

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Capacity(StrEnum):
    """How the node was bought."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    UNKNOWN = "unknown"
    """No label says; never taken for on-demand."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The key to the bill; an empty field: no label says."""

    provider_id: str
    instance_type: str
    region: str
    zone: str
    node_pool: str
    capacity: Capacity
