"""What has been counted since the process began: only `accounting` makes a new one, and no number in it ever falls."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model.ids import DeviceUuid


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket (not cumulative; the last is +Inf), and the sum of what was observed."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


@dataclass(frozen=True, slots=True)
class MonotoneCounter:
    """A counter that somebody else keeps and may reset: what it said last, and what it has added up to."""

    last_reading: float
    total: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counters by the labels under which they are published."""

    energy_joules: Mapping[DeviceUuid, MonotoneCounter] = field(default_factory=dict)
    ecc_errors: Mapping[tuple[DeviceUuid, str], MonotoneCounter] = field(default_factory=dict)
    """By (device, type)."""
    clock_event_seconds: Mapping[tuple[DeviceUuid, str], MonotoneCounter] = field(default_factory=dict)
    """By (device, reason)."""
    device_errors: Mapping[tuple[DeviceUuid, str], int] = field(default_factory=dict)
    """Cycles in which a device did not answer, by (device, reason)."""
    unidentified_errors: Mapping[tuple[int, str], int] = field(default_factory=dict)
    """The same of devices that never told their UUID, by (index, reason)."""
    source_errors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Failed reads by (source, reason)."""
    source_last_success_timestamp_seconds: Mapping[str, float] = field(default_factory=dict)
    source_durations: Mapping[str, Histogram] = field(default_factory=dict)
    rejected_readings: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By (reading, reason)."""
    cycle_duration: Histogram | None = None
