"""What the exporter counts of itself: how its sources did, what it dropped, how long it took."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from exporter.accounting.health import Health, observations
from exporter.model.device import Device
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import Histogram
from exporter.model.snapshot import Snapshot

Key = TypeVar("Key", bound=Hashable)

DURATION_BOUNDS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def count(counts: Mapping[Key, int], events: Iterable[Key]) -> dict[Key, int]:
    """One more for every event."""
    counted = dict(counts)
    for key in events:
        counted[key] = counted.get(key, 0) + 1
    return counted


def observe_all(histograms: Mapping[str, Histogram], values: Iterable[tuple[str, float]]) -> dict[str, Histogram]:
    """One more observation of each duration."""
    observed = dict(histograms)
    for name, seconds in values:
        observed[name] = observe(histograms.get(name), seconds)
    return observed


def observe(histogram: Histogram | None, seconds: float) -> Histogram:
    """One more observation of a duration."""
    before = histogram or Histogram(DURATION_BOUNDS_SECONDS, (0,) * (len(DURATION_BOUNDS_SECONDS) + 1), 0.0)
    bucket = sum(1 for bound in before.bounds if seconds > bound)
    counts = tuple(count + (position == bucket) for position, count in enumerate(before.counts))
    return Histogram(before.bounds, counts, before.total + seconds)


def device_errors(devices: Iterable[Device]) -> Iterator[tuple[DeviceUuid, str]]:
    """(device, reason) of each device that did not answer."""
    return ((device.uuid, str(device.trouble)) for device in devices if device.trouble)


def unidentified_errors(snapshot: Snapshot) -> Iterator[tuple[int, str]]:
    """(index, reason) of each device that never told its UUID."""
    state = snapshot.nvml.value
    return ((index, str(trouble)) for index, trouble in (state.unidentified_devices if state else ()))


def rejected(devices: Iterable[Device]) -> Iterator[tuple[str, str]]:
    """(reading, reason) of each value that was dropped at the door."""
    return ((rejected.reading, rejected.reason) for device in devices for rejected in device.rejected)


def source_errors(previous: Snapshot, snapshot: Snapshot, health: Health) -> Iterator[tuple[str, str]]:
    """(source, reason) of each read that failed; a failure that two snapshots carry is one."""
    before, now = observations(previous), observations(snapshot)
    for name, state in health.items():
        if state.up:
            continue
        source = "nvml" if name == "processes" else name
        observed, earlier = now.get(source), before.get(source)
        repeated = (
            observed is not None
            and earlier is not None
            and observed.missing is not None
            and observed.missing == earlier.missing
        )
        if not repeated:
            yield name, state.reason


def successes(snapshot: Snapshot, health: Health) -> Iterator[tuple[str, float]]:
    """(source, Unix time) of the last good answer of each source that has one."""
    now = observations(snapshot)
    for name, state in health.items():
        if not state.up:
            continue
        usable = now[name].usable if name in now else None
        age_seconds = 0.0 if usable is None else snapshot.taken_at - usable.taken_at
        yield name, snapshot.timestamp_seconds - max(age_seconds, 0.0)


def durations(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    """(source, seconds) of each read."""
    for name, observed in observations(snapshot).items():
        if observed.duration_seconds is not None:
            yield name, observed.duration_seconds
