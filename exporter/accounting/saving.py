"""What of a ledger survives the process, what is shown of one that could not be saved, and how saving itself is counted."""

from dataclasses import replace

from exporter.accounting import own_counts
from exporter.model.ledger import Ledger
from exporter.model.published import SourceHealth

STATE_FILE = "state_file"
"""Name of the saved ledger among the sources."""


def surviving(ledger: Ledger) -> Ledger:
    """What another process counts on from: all but what the exporter counts of itself, and watching begins anew."""
    return replace(
        ledger,
        watching_since_timestamp_seconds=None,
        device_errors={},
        unidentified_errors={},
        source_errors={},
        source_last_success_timestamp_seconds={},
        source_durations={},
        cycle_duration=None,
    )


def standing_still(counted: Ledger, saved: Ledger) -> Ledger:
    """What may be shown of `counted` while the last that is known to be saved is `saved`.

    A restart would take these counters back to what was saved, so they may not be seen to go beyond it. What is no counter
    (idle clocks), and what begins anew with the process anyhow, goes on.
    """
    return replace(
        counted,
        tallies=saved.tallies,
        distributions=saved.distributions,
        lost_sample_seconds=saved.lost_sample_seconds,
        energy_joules=saved.energy_joules,
        ecc_errors=saved.ecc_errors,
        clock_event_seconds=saved.clock_event_seconds,
        rejected_readings=saved.rejected_readings,
    )


def count_saving(ledger: Ledger, health: SourceHealth, seconds: float, timestamp_seconds: float) -> Ledger:
    """Count one attempt to save, as the reads of a source are counted.

    Args:
        ledger: What was counted so far.
        health: What came of it.
        seconds: How long it took.
        timestamp_seconds: Unix time of the attempt.
    """
    durations = own_counts.observe_all(ledger.source_durations, [(STATE_FILE, seconds)])
    if health.up:
        successes = {**ledger.source_last_success_timestamp_seconds, STATE_FILE: timestamp_seconds}
        return replace(ledger, source_durations=durations, source_last_success_timestamp_seconds=successes)
    errors = own_counts.count(ledger.source_errors, [(STATE_FILE, health.reason)])
    return replace(ledger, source_durations=durations, source_errors=errors)
