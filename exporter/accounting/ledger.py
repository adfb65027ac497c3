"""account(): the old ledger and one cycle give the new ledger. Nothing that it shows ever falls.

A cycle is booked if devices could be read at both of its ends and these are not too far apart: what happened while nobody
watched is nobody's. The cycle has the attribution of its end.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from exporter.accounting import own_counts
from exporter.accounting.booking import Use, device_amounts, mig_amounts, rows_on, uses
from exporter.accounting.books import Books
from exporter.accounting.counters import Step, follow
from exporter.accounting.energy import Drawn, split_energy
from exporter.accounting.health import Health
from exporter.accounting.idle import advance_clock, kept_clocks, use_key, works
from exporter.accounting.pending import book_uses
from exporter.model.attribution import Attribution
from exporter.model.device import Device
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import IdleClock, Ledger, LedgerRules, MonotoneCounter, UseKey
from exporter.model.snapshot import Snapshot

Key = TypeVar("Key", bound=Hashable)

POWER_MARGIN = 1.5
"""A GPU that draws this much more than its limit for a whole cycle has misread its energy."""
MOST_WATTS = 3000.0
"""The same for one that does not tell its limit."""
MOST_CLOCK_EVENT_SECONDS_PER_SECOND = 2.0
LONGEST_CYCLE_SECONDS = 30.0
"""After more than that (the process was stopped, or starved) who is there at the end says nothing about the time before."""
CLOCKS_DIFFER = 1.1
"""A cycle's length by the wall clock and by the monotonic clock is the same up to this factor."""


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

    @property
    def elapsed_seconds(self) -> float:
        """Time since the cycle before."""
        return max(self.snapshot.taken_at - self.previous.taken_at, 0.0)

    @property
    def watched(self) -> bool:
        """True if devices were read at its beginning and soon after at its end."""
        read = self.previous.nvml.value is not None and self.snapshot.nvml.value is not None
        return read and self.elapsed_seconds <= LONGEST_CYCLE_SECONDS

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices of this cycle; none while NVML as a whole is missing."""
        return () if self.snapshot.nvml.value is None else self.snapshot.nvml.value.devices


def account(ledger: Ledger, change: Change, rules: LedgerRules) -> Ledger:
    """Count one cycle.

    Args:
        ledger: What was counted so far.
        change: What happened.
        rules: When what is counted is published.
    """
    counters = _count_readings(ledger, change)
    booked = _book(counters.ledger, change, counters.drawn, rules)
    return _count_own(booked, change, counters.rejected)


@dataclass(frozen=True, slots=True)
class _Counters:
    """What this cycle's readings of the driver's own counters came to."""

    ledger: Ledger
    drawn: Mapping[DeviceUuid, Drawn]
    rejected: tuple[tuple[str, str], ...]


def _count_readings(ledger: Ledger, change: Change) -> _Counters:
    now = change.snapshot.timestamp_seconds
    limits = {device.uuid: _most_watts(device) for device in change.devices}
    energies = ((device.uuid, device.energy_joules) for device in change.devices if device.energy_joules is not None)
    errors = (((device.uuid, kind), float(count)) for device in change.devices for kind, count in device.ecc_errors.items())
    events = (((one.uuid, why), seconds) for one in change.devices for why, seconds in one.clock_event_seconds.items())
    energy = _follow(ledger.energy_joules, energies, now, lambda uuid: limits[uuid])
    ecc = _follow(ledger.ecc_errors, errors, now, lambda _: math.inf)
    clocks = _follow(ledger.clock_event_seconds, events, now, lambda _: MOST_CLOCK_EVENT_SECONDS_PER_SECOND)
    rejected = [("energy", step.rejected) for step in energy.values()]
    rejected += [("ecc_errors", step.rejected) for step in ecc.values()]
    rejected += [("clock_event", step.rejected) for step in clocks.values()]
    return _Counters(
        replace(
            ledger,
            energy_joules=_merged(ledger.energy_joules, energy),
            ecc_errors=_merged(ledger.ecc_errors, ecc),
            clock_event_seconds=_merged(ledger.clock_event_seconds, clocks),
        ),
        {uuid: _drawn(ledger.energy_joules.get(uuid), step.grown, change) for uuid, step in energy.items()},
        tuple((reading, reason) for reading, reason in rejected if reason),
    )


def _most_watts(device: Device) -> float:
    return MOST_WATTS if device.power_limit_watts is None else max(device.power_limit_watts * POWER_MARGIN, 1.0)


def _drawn(before: MonotoneCounter | None, joules: float, change: Change) -> Drawn:
    if before is None:
        # What the driver had counted before the first look is in the device's own figure, and is nobody's growth.
        return Drawn()
    if not change.watched:
        return Drawn(joules)
    since = change.snapshot.timestamp_seconds - before.read_timestamp_seconds
    return Drawn(joules, 1.0 if since <= change.elapsed_seconds * CLOCKS_DIFFER else change.elapsed_seconds / since)


def _book(ledger: Ledger, change: Change, drawn: Mapping[DeviceUuid, Drawn], rules: LedgerRules) -> Ledger:
    books = Books.open(ledger, ledger.clock_seconds + change.elapsed_seconds, rules)
    if change.snapshot.nvml.value is None:
        books.see_as_before()
        return books.close(replace(ledger, watching_since_timestamp_seconds=None))
    elapsed = change.elapsed_seconds if change.watched else 0.0
    found: list[Use] = []
    for row in change.attribution.devices:
        of_device = drawn.get(row.device.uuid, Drawn())
        split = split_energy(row, rows_on(change.attribution, row.device.uuid), of_device)
        amounts = device_amounts(row, elapsed, split, change.attribution.currency) | mig_amounts(row, elapsed)
        books.book(amounts)
        books.see(account.subject for account in amounts)
        found += uses(change.attribution, row, elapsed, split, rules)
    pending = book_uses(books, ledger.pending, found, rules)
    now = change.snapshot.timestamp_seconds
    since = ledger.watching_since_timestamp_seconds if change.watched else None
    watching = now if since is None else since
    lost = sum(row.activity.lost_seconds for row in change.attribution.devices if row.activity is not None and elapsed)
    return books.close(
        replace(
            ledger,
            watching_since_timestamp_seconds=watching,
            pending=pending,
            idle_clocks=_clocks(ledger, change, watching, books.now, rules),
            gpu_indexes={**ledger.gpu_indexes, **{device.uuid: device.index for device in change.devices}},
            lost_sample_seconds=ledger.lost_sample_seconds + lost,
        )
    )


def _clocks(
    ledger: Ledger, change: Change, watching_since: float, clock_seconds: float, rules: LedgerRules
) -> dict[UseKey, IdleClock]:
    clocks = kept_clocks(ledger.idle_clocks, clock_seconds, rules)
    guests = [row for row in change.attribution.containers if not row.holds]
    for row in change.attribution.containers:
        if row.holds:
            clocks[use_key(row)] = advance_clock(
                clocks.get(use_key(row)),
                row,
                active=works(row, guests, rules.active_above_ratio),
                timestamp_seconds=change.snapshot.timestamp_seconds,
                watching_since_timestamp_seconds=watching_since,
                watched=change.watched,
                clock_seconds=clock_seconds,
            )
    return clocks


def _count_own(ledger: Ledger, change: Change, rejected: Iterable[tuple[str, str]]) -> Ledger:
    """What the exporter counts of itself."""
    snapshot, devices = change.snapshot, change.devices
    return replace(
        ledger,
        device_errors=own_counts.count(ledger.device_errors, own_counts.device_errors(devices)),
        unidentified_errors=own_counts.count(ledger.unidentified_errors, own_counts.unidentified_errors(snapshot)),
        source_errors=own_counts.count(
            ledger.source_errors, own_counts.source_errors(change.previous, snapshot, change.health)
        ),
        source_last_success_timestamp_seconds={
            **ledger.source_last_success_timestamp_seconds,
            **dict(own_counts.successes(snapshot, change.health)),
        },
        source_durations=own_counts.observe_all(ledger.source_durations, own_counts.durations(snapshot)),
        rejected_readings=own_counts.count(ledger.rejected_readings, (*own_counts.rejected(devices), *rejected)),
        cycle_duration=own_counts.observe(ledger.cycle_duration, change.cycle_seconds),
    )


def _follow(
    counters: Mapping[Key, MonotoneCounter],
    readings: Iterable[tuple[Key, float]],
    timestamp_seconds: float,
    most_per_second: Callable[[Key], float],
) -> dict[Key, Step]:
    return {key: follow(counters.get(key), reading, timestamp_seconds, most_per_second(key)) for key, reading in readings}


def _merged(counters: Mapping[Key, MonotoneCounter], steps: Mapping[Key, Step]) -> dict[Key, MonotoneCounter]:
    return {**counters, **{key: step.counter for key, step in steps.items()}}
