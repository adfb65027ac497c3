"""The ledger only grows."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.health import source_health
from exporter.accounting.ledger import Change, account
from exporter.accounting.own_counts import observe
from exporter.model.attribution import Attribution
from exporter.model.device import Device, DeviceTrouble, NvmlState, RejectedReading
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import Ledger, LedgerRules
from exporter.model.reading import Fresh, Missing, MissingReason, Observed
from exporter.model.snapshot import Snapshot

GPU = DeviceUuid("GPU-0")
NEVER: Observed[NvmlState] = Observed(None, Missing(MissingReason.STARTING, 0.0))


def _snapshot(nvml: Observed[NvmlState], at: float = 1.0) -> Snapshot:
    off = Missing(MissingReason.DISABLED, 0.0)
    return Snapshot(
        node="n",
        taken_at=at,
        timestamp_seconds=1000.0 + at,
        nvml=nvml,
        pod_resources=Observed(None, off),
        pods=Observed(None, off),
        node_meta=Observed(None, off),
        procfs=Observed(None, off),
        owners=Observed(None, off),
        namespaces=Observed(None, off),
    )


def _seen(*devices: Device, at: float = 1.0) -> Snapshot:
    return _snapshot(Observed(Fresh(NvmlState("575", devices), at), None, 0.002), at)


def _account(ledger: Ledger, snapshot: Snapshot, previous: Snapshot | None = None) -> Ledger:
    change = Change(previous or _snapshot(NEVER), snapshot, Attribution(), source_health(snapshot), 0.01)
    return account(ledger, change, LedgerRules())


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), max_size=30))
def test_energy_of_any_readings_never_falls(readings: list[float | None]) -> None:
    """A driver reload starts the driver's counter again; ours goes on."""
    ledger, last = Ledger(), 0.0
    for joules in readings:
        ledger = _account(ledger, _seen(Device(uuid=GPU, index=0, energy_joules=joules, processes=())))
        total = ledger.energy_joules[GPU].total if GPU in ledger.energy_joules else 0.0
        assert total >= last
        last = total


def test_energy_over_a_driver_reload_adds_what_came_after() -> None:
    """5000, 5100, reload, 20, 30: what was used is 5130."""
    ledger = Ledger()
    for joules in (5000.0, 5100.0, 20.0, 30.0):
        ledger = _account(ledger, _seen(Device(uuid=GPU, index=0, energy_joules=joules, processes=())))
    assert ledger.energy_joules[GPU].total == pytest.approx(5130.0)


def test_energy_that_cannot_be_read_stays_as_it_was() -> None:
    """An absent reading is no reading, not zero."""
    first = _account(Ledger(), _seen(Device(uuid=GPU, index=0, energy_joules=10.0, processes=())))
    second = _account(first, _seen(Device(uuid=GPU, index=0, processes=())))
    assert second.energy_joules == first.energy_joules


def test_lost_device_and_rejected_reading_are_counted_each_cycle() -> None:
    """What happens every cycle is a metric, not a log line."""
    lost = Device(uuid=GPU, index=0, trouble=DeviceTrouble.LOST, rejected=(RejectedReading("power", "out_of_range"),))
    ledger = _account(_account(Ledger(), _seen(lost)), _seen(lost))
    assert ledger.device_errors == {(GPU, "lost"): 2}
    assert ledger.rejected_readings == {("power", "out_of_range"): 2}


def test_failed_read_that_two_cycles_carry_is_counted_once() -> None:
    """The kubelet is asked every other cycle: one refused call is one error."""
    missing: Observed[NvmlState] = Observed(None, Missing(MissingReason.TIMEOUT, 1.0))
    first = _snapshot(missing, 1.0)
    ledger = _account(Ledger(), first)
    ledger = _account(ledger, _snapshot(missing, 2.0), previous=first)
    assert ledger.source_errors == {("nvml", "timeout"): 1, ("processes", "timeout"): 1}
    again: Observed[NvmlState] = Observed(None, Missing(MissingReason.TIMEOUT, 3.0))
    ledger = _account(ledger, _snapshot(again, 3.0), previous=first)
    assert ledger.source_errors == {("nvml", "timeout"): 2, ("processes", "timeout"): 2}


def test_last_success_is_when_the_answer_was_taken() -> None:
    """A kept answer does not look younger than it is."""
    snapshot = _snapshot(Observed(Fresh(NvmlState("575", ()), 4.0), None), at=10.0)
    assert _account(Ledger(), snapshot).source_last_success_timestamp_seconds["nvml"] == pytest.approx(1004.0)


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.001, 0), (0.0011, 1), (10.0, 11), (10.1, 12)])
def test_duration_falls_into_the_bucket_whose_bound_it_does_not_pass(seconds: float, bucket: int) -> None:
    """Bounds are inclusive, as Prometheus' le is."""
    histogram = observe(None, seconds)
    assert [position for position, count in enumerate(histogram.counts) if count] == [bucket]
    assert histogram.total == seconds


def test_counters_of_other_devices_are_left_alone() -> None:
    """A device that is not seen in a cycle keeps its counters."""
    other = DeviceUuid("GPU-1")
    both = _seen(
        Device(uuid=GPU, index=0, energy_joules=1.0, ecc_errors={"corrected": 2}, processes=()),
        Device(uuid=other, index=1, energy_joules=2.0, clock_event_seconds={"sw_power": 3.0}, processes=()),
    )
    ledger = _account(_account(Ledger(), both), _seen(Device(uuid=GPU, index=0, energy_joules=4.0, processes=())))
    totals: Mapping[DeviceUuid, float] = {uuid: counter.total for uuid, counter in ledger.energy_joules.items()}
    assert totals == {GPU: 4.0, other: 2.0}
    assert ledger.ecc_errors[GPU, "corrected"].total == 2
    assert ledger.clock_event_seconds[other, "sw_power"].total == 3.0


def test_counter_that_falls_a_little_is_passed_over_and_counted() -> None:
    """A misreading is no driver reload: adding the whole counter again would double the bill."""
    ledger = Ledger()
    for joules in (5000.0, 5000.1, 4999.9, 5000.2):
        ledger = _account(ledger, _seen(Device(uuid=GPU, index=0, energy_joules=joules, processes=())))
    assert ledger.energy_joules[GPU].total == pytest.approx(5000.2)
    assert ledger.rejected_readings == {("energy", "fell"): 1}
