"""What is shown of a ledger that could not be saved, and how saving is counted."""

from dataclasses import fields, replace

from exporter.accounting.saving import STATE_FILE, count_saving, standing_still, surviving
from exporter.model.ids import ContainerKey, DeviceUuid, PodUid
from exporter.model.ledger import Account, DeviceSubject, IdleClock, Ledger, MonotoneCounter, Quantity, Tally, UseKey
from exporter.model.published import SourceHealth

GPU = DeviceUuid("GPU-0")
KEY = UseKey(ContainerKey(PodUid("u-1"), "team-red", "train-0", "main"), GPU, None)
BUSY = Account(DeviceSubject(0, GPU), Quantity.BUSY_SECONDS)


def _at(seconds: float) -> Ledger:
    return Ledger(
        clock_seconds=seconds,
        tallies={BUSY: Tally(0.0, seconds)},
        energy_joules={GPU: MonotoneCounter(seconds, seconds)},
        lost_sample_seconds=seconds,
        rejected_readings={("utilization", "stale"): round(seconds)},
        idle_clocks={KEY: IdleClock(seconds, ever_active=True, from_start=True, seen_at=seconds)},
        source_errors={("nvml", "timeout"): round(seconds)},
    )


def test_counters_stand_still_where_a_restart_would_find_them() -> None:
    """Nothing that a restart could take back is shown; what is no counter, or begins anew with the process, goes on."""
    shown = standing_still(_at(20.0), _at(10.0))
    assert (shown.tallies, shown.energy_joules) == (_at(10.0).tallies, _at(10.0).energy_joules)
    assert (shown.lost_sample_seconds, shown.rejected_readings) == (10.0, {("utilization", "stale"): 10})
    assert shown.idle_clocks == _at(20.0).idle_clocks
    assert shown.source_errors == {("nvml", "timeout"): 20}


def test_every_field_either_survives_stands_still_or_belongs_to_the_process() -> None:
    """A field that is added to the ledger has to be given a place here."""
    of_the_process = {field.name for field in fields(Ledger)} - {
        *("clock_seconds", "tallies", "distributions", "lives", "pending", "idle_clocks", "gpu_indexes", "lost_sample_seconds"),
        *("energy_joules", "ecc_errors", "clock_event_seconds", "rejected_readings"),
    }
    marked = replace(Ledger(), **dict.fromkeys((field.name for field in fields(Ledger)), "as it was"))  # type: ignore[arg-type]
    kept = surviving(marked)
    assert {field.name for field in fields(Ledger) if getattr(kept, field.name) != "as it was"} == of_the_process


def test_saving_is_counted_like_the_reads_of_a_source() -> None:
    """Attempts by duration, failures by reason, and when it last succeeded."""
    ledger = count_saving(Ledger(), SourceHealth(up=True), 0.004, 100.0)
    ledger = count_saving(ledger, SourceHealth(up=False, reason="disk_full"), 0.004, 105.0)
    assert sum(ledger.source_durations[STATE_FILE].counts) == 2
    assert ledger.source_errors == {(STATE_FILE, "disk_full"): 1}
    assert ledger.source_last_success_timestamp_seconds == {STATE_FILE: 100.0}
