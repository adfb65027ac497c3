"""Counters that somebody else keeps: the driver may reset them, and may misread them. What they add up to never falls."""

from dataclasses import dataclass, replace

from exporter.model.ledger import MonotoneCounter

SLACK_SECONDS = 10.0
"""The driver refreshes some counters late: so much growth beyond the time that passed is believed."""

NEW_BEGINNING_BELOW = 0.5
"""A counter that began anew is taken to have counted from 0 only if it says less than this part of what it said before."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one reading did to a counter."""

    counter: MonotoneCounter
    grown: float
    """What it added to the total."""
    rejected: str = ""
    """``fell`` or ``out_of_range``, if a reading turned out to be a mistake."""


def follow(before: MonotoneCounter | None, reading: float, timestamp_seconds: float, most_per_second: float) -> Step:
    """Take in one reading.

    A reading that does not follow from the last one, because it fell or grew faster than it can, is put off: if the next one
    goes on from it, the counter has begun anew (a driver that was loaded again counts from 0); if the next one goes on from
    before, it was a mistake. So neither a single absurd reading nor a reset is ever counted as use.

    Args:
        before: The counter so far; None at first sight, when all of the reading counts.
        reading: What the driver says now, at least 0.
        timestamp_seconds: Unix time of the reading.
        most_per_second: Fastest growth that can be true; infinite where there is no such bound.
    """
    if before is None:
        return Step(MonotoneCounter(reading, reading, timestamp_seconds), reading)
    if _follows(before.last_reading, before.read_timestamp_seconds, reading, timestamp_seconds, most_per_second):
        grown = reading - before.last_reading
        mistaken = before.doubted_reading is not None and before.doubted_reading < before.last_reading
        return Step(_advanced(before, reading, timestamp_seconds, grown), grown, "fell" if mistaken else "")
    doubted = before.doubted_reading
    if doubted is not None and _follows(doubted, before.doubted_timestamp_seconds, reading, timestamp_seconds, most_per_second):
        grown = _grown_since_new_beginning(before, doubted, reading, timestamp_seconds, most_per_second)
        return Step(_advanced(before, reading, timestamp_seconds, grown), grown)
    leap = reading > before.last_reading
    put_off = replace(before, doubted_reading=reading, doubted_timestamp_seconds=timestamp_seconds)
    return Step(put_off, 0.0, "out_of_range" if leap else "fell" if doubted is not None else "")


def _follows(last: float, last_timestamp: float, reading: float, timestamp: float, most_per_second: float) -> bool:
    return 0 <= reading - last <= _most(last_timestamp, timestamp, most_per_second)


def _most(since_timestamp: float, timestamp: float, most_per_second: float) -> float:
    return most_per_second * (max(timestamp - since_timestamp, 0.0) + SLACK_SECONDS)


def _advanced(before: MonotoneCounter, reading: float, timestamp: float, grown: float) -> MonotoneCounter:
    return MonotoneCounter(reading, before.total + grown, timestamp)


def _grown_since_new_beginning(
    before: MonotoneCounter, doubted: float, reading: float, timestamp: float, most_per_second: float
) -> float:
    """After a reset all of the reading is new, if that much can have come together since; else only what followed."""
    reset = reading <= before.last_reading * NEW_BEGINNING_BELOW
    possible = reading <= _most(before.read_timestamp_seconds, timestamp, most_per_second)
    return reading if reset and possible else reading - doubted
