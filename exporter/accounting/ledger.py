"""account(): the old ledger and one cycle give the new ledger. Nothing in it ever falls."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from exporter.accounting.health import Health, observations
from exporter.model.attribution import Attribution
from exporter.model.device import Device
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import Histogram, Ledger, LedgerRules, MonotoneCounter
from exporter.model.snapshot import Snapshot

NEW_BEGINNING_BELOW = 0.5
"""A counter that falls to less than this part of its last reading has begun anew."""

Key = TypeVar("Key", bound=Hashable)

DURATION_BOUNDS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Change:
    """One cycle, as the ledger counts it."""

    previous: Snapshot
    """The snapshot before this one."""
    snapshot: Snapshot
    attribution: Attribution
    """The join of this snapshot, states judged."""
    health: Health
    cycle_seconds: float
    """What this cycle took up to here."""


def account(ledger: Ledger, change: Change, rules: LedgerRules) -> Ledger:
    """Count one cycle.

    Args:
        ledger: What was counted so far.
        change: What happened.
        rules: When what is counted is published.
    """
    previous, snapshot, health, cycle_seconds = change.previous, change.snapshot, change.health, change.cycle_seconds
    devices = snapshot.nvml.value.devices if snapshot.nvml.value else ()
    return Ledger(
        energy_joules=_advance(ledger.energy_joules, _energies(devices)),
        ecc_errors=_advance(ledger.ecc_errors, _ecc_errors(devices)),
        clock_event_seconds=_advance(ledger.clock_event_seconds, _clock_events(devices)),
        device_errors=_count(ledger.device_errors, _device_errors(devices)),
        unidentified_errors=_count(ledger.unidentified_errors, _unidentified_errors(snapshot)),
        source_errors=_count(ledger.source_errors, _source_errors(previous, snapshot, health)),
        source_last_success_timestamp_seconds={
            **ledger.source_last_success_timestamp_seconds,
            **dict(_successes(snapshot, health)),
        },
        source_durations=_observe_all(ledger.source_durations, _durations(snapshot)),
        rejected_readings=_count(ledger.rejected_readings, (*_rejected(devices), *_all_fallen(ledger, devices))),
        cycle_duration=observe(ledger.cycle_duration, cycle_seconds),
    )


def _energies(devices: Iterable[Device]) -> Iterator[tuple[DeviceUuid, float]]:
    for device in devices:
        if device.energy_joules is not None:
            yield device.uuid, device.energy_joules


def _ecc_errors(devices: Iterable[Device]) -> Iterator[tuple[tuple[DeviceUuid, str], float]]:
    for device in devices:
        for kind, errors in device.ecc_errors.items():
            yield (device.uuid, kind), errors


def _clock_events(devices: Iterable[Device]) -> Iterator[tuple[tuple[DeviceUuid, str], float]]:
    for device in devices:
        for reason, seconds in device.clock_event_seconds.items():
            yield (device.uuid, reason), seconds


def _device_errors(devices: Iterable[Device]) -> Iterator[tuple[DeviceUuid, str]]:
    return ((device.uuid, str(device.trouble)) for device in devices if device.trouble)


def _unidentified_errors(snapshot: Snapshot) -> Iterator[tuple[int, str]]:
    state = snapshot.nvml.value
    return ((index, str(trouble)) for index, trouble in (state.unidentified_devices if state else ()))


def _all_fallen(ledger: Ledger, devices: Iterable[Device]) -> Iterator[tuple[str, str]]:
    devices = tuple(devices)
    yield from _fallen("energy", ledger.energy_joules, _energies(devices))
    yield from _fallen("ecc_errors", ledger.ecc_errors, _ecc_errors(devices))
    yield from _fallen("clock_event", ledger.clock_event_seconds, _clock_events(devices))


def _rejected(devices: Iterable[Device]) -> Iterator[tuple[str, str]]:
    return ((rejected.reading, rejected.reason) for device in devices for rejected in device.rejected)


def _source_errors(previous: Snapshot, snapshot: Snapshot, health: Health) -> Iterator[tuple[str, str]]:
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


def _successes(snapshot: Snapshot, health: Health) -> Iterator[tuple[str, float]]:
    now = observations(snapshot)
    for name, state in health.items():
        if not state.up:
            continue
        usable = now[name].usable if name in now else None
        age_seconds = 0.0 if usable is None else snapshot.taken_at - usable.taken_at
        yield name, snapshot.timestamp_seconds - max(age_seconds, 0.0)


def _durations(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    for name, observed in observations(snapshot).items():
        if observed.duration_seconds is not None:
            yield name, observed.duration_seconds


def _advance(counters: Mapping[Key, MonotoneCounter], readings: Iterable[tuple[Key, float]]) -> dict[Key, MonotoneCounter]:
    """Follow counters that their keeper may reset; what is neither growth nor a new beginning is passed over."""
    advanced = dict(counters)
    for key, reading in readings:
        before = counters.get(key, MonotoneCounter(last_reading=0.0, total=0.0))
        if reading >= before.last_reading:
            advanced[key] = MonotoneCounter(reading, before.total + (reading - before.last_reading))
        elif _is_new_beginning(before, reading):
            advanced[key] = MonotoneCounter(reading, before.total + reading)
    return advanced


def _is_new_beginning(before: MonotoneCounter, reading: float) -> bool:
    """A driver that was loaded anew counts from 0; one that takes back a little has misread."""
    return reading <= before.last_reading * NEW_BEGINNING_BELOW


def _fallen(
    name: str, counters: Mapping[Key, MonotoneCounter], readings: Iterable[tuple[Key, float]]
) -> Iterator[tuple[str, str]]:
    for key, reading in readings:
        before = counters.get(key)
        if before is not None and reading < before.last_reading and not _is_new_beginning(before, reading):
            yield name, "fell"


def _count(counts: Mapping[Key, int], events: Iterable[Key]) -> dict[Key, int]:
    counted = dict(counts)
    for key in events:
        counted[key] = counted.get(key, 0) + 1
    return counted


def _observe_all(histograms: Mapping[str, Histogram], values: Iterable[tuple[str, float]]) -> dict[str, Histogram]:
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
