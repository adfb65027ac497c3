"""Samples, GPM and the driver's accounts through the unmodified binding: everything that was sampled, and nothing twice."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporter.model.activity import Activity
from exporter.model.device import Device
from exporter.model.ids import DeviceUuid
from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.nvml.loading import live_gpm_samples
from exporter.simulator.nvml.state import environment
from exporter.simulator.world import GIB, NvmlFault, SimBurst, SimDevice, SimMig, SimProcess, SimSample
from exporter.sources.nvml.source import Nvml
from tests.sources.nvml.conftest import Node, read_device, read_devices

SECOND = 1_000_000
CYCLE_SECONDS = 5.0
PERIOD = 10 / 72
BEGIN_SECONDS = 1_000
"""What the GPUs' clock says at first."""


@dataclass(slots=True)
class Driver:
    """A driver of which the test holds the time, host's and GPUs' together."""

    node: Node
    gpus: SimClock

    def show(self, *devices: SimDevice, faults: tuple[NvmlFault, ...] = ()) -> None:
        """What NVML shows from the next call on."""
        self.node.show(*devices, faults=faults)

    def pass_time(self, seconds: float) -> None:
        """Nobody reads meanwhile."""
        self.gpus.advance_us(round(seconds * SECOND))
        self.node.clock.seconds += seconds

    async def cycles(self, source: Nvml, count: int, seconds: float = CYCLE_SECONDS) -> list[Device]:
        """The first device after each of so many cycles."""
        found = []
        for _ in range(count):
            self.pass_time(seconds)
            found.append(await read_device(source))
        return found


@pytest.fixture
def driver(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """At `BEGIN_SECONDS`."""
    clock = SimClock(tmp_path / "gpu-clock", BEGIN_SECONDS * SECOND)
    for name, text in environment(node.state, clock).items():
        monkeypatch.setenv(name, text)
    return Driver(node, clock)


def burst(begin: float, end: float, *, pid: int = 4001, percent: int = 100, gi: int | None = None) -> SimBurst:
    """Work between two moments, in seconds after `BEGIN_SECONDS`."""
    start_us, end_us = (round((BEGIN_SECONDS + moment) * SECOND) for moment in (begin, end))
    return SimBurst(pid=pid, start_us=start_us, end_us=end_us, percent=percent, gi=gi)


def a_gpu(*bursts: SimBurst, **changes: object) -> SimDevice:
    """A GPU with this load and one process."""
    return replace(
        SimDevice(uuid="GPU-a", index=0, load=bursts, processes=(SimProcess(pid=4001, memory=GIB),)),
        **changes,  # type: ignore[arg-type]
    )


def known(device: Device) -> Activity:
    """The activity of a device that has one."""
    assert device.activity is not None
    return device.activity


def busy(devices: Sequence[Device]) -> float:
    """Busy seconds over some cycles."""
    return sum(known(device).busy_seconds for device in devices)


@pytest.mark.parametrize("rests", [True, False])
async def test_every_burst_between_two_reads_is_counted_whether_or_not_the_ring_rests(driver: Driver, rests: bool) -> None:
    """Half a second of work is half a second, at whatever phase; the driver's one figure of the moment sees none of it."""
    driver.show(a_gpu(burst(1.03, 1.53), burst(7.9, 10.4, percent=60), burst(21.0, 21.2), ring_rests=rests))
    source = driver.node.open()
    assert (await read_device(source)).activity is None
    devices = await driver.cycles(source, 6)
    assert busy(devices) == pytest.approx(0.5 + 2.5 * 0.6 + 0.2, abs=0.05)
    assert all(known(device).seconds == pytest.approx(CYCLE_SECONDS) for device in devices)
    assert [round(device.utilization_ratio or 0.0, 2) for device in devices] == pytest.approx(
        [0.1, 0.25, 0.05, 0, 0.04, 0], abs=0.03
    )
    assert not [one for device in devices for one in device.rejected]


async def test_first_batch_is_up_to_ten_seconds_old_and_counts_for_nothing(driver: Driver) -> None:
    """What was before the first read is nobody's; the gauge shows the driver's own last period."""
    driver.show(a_gpu(burst(0.0, 20.0, percent=50)))
    driver.pass_time(9.0)
    source = driver.node.open()
    first = await read_device(source)
    assert (first.activity, first.utilization_ratio) == (None, 0.5)
    assert busy(await driver.cycles(source, 1)) == pytest.approx(2.5, abs=0.1)


async def test_read_after_a_long_pause_has_lost_what_the_ring_does_not_hold(driver: Driver) -> None:
    """Half a minute without a read: ten seconds are known, twenty are lost, none is idle."""
    driver.show(a_gpu(burst(0.0, 60.0)))
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    (late,) = await driver.cycles(source, 1, seconds=30.0)
    assert known(late).lost_seconds == pytest.approx(20.0, abs=0.3)
    assert known(late).utilization_ratio == 1.0


async def test_out_of_range_samples_are_dropped_counted_and_not_idle(driver: Driver) -> None:
    """NVML-02 on the ring: 40, 4294967295, 40, 137, 40 per cycle is known, unknown, known, unknown, known."""
    source = driver.node.open()
    driver.show(a_gpu(ring=(SimSample(timestamp_us=1, percent=0),)))
    await read_device(source)
    seen, reasons = [], []
    for cycle, percent in enumerate((40, 4294967295, 40, 137, 40)):
        begin = cycle * CYCLE_SECONDS
        stamps = [round((begin + (slot + 1) * PERIOD) * SECOND) for slot in range(36)]
        driver.show(a_gpu(ring=tuple(SimSample(timestamp_us=stamp + 1, percent=percent) for stamp in stamps)))
        (device,) = await driver.cycles(source, 1)
        seen.append(device.utilization_ratio)
        reasons.append({one.reason for one in device.rejected})
        if percent > 100:
            assert known(device).lost_seconds == pytest.approx(CYCLE_SECONDS)
    assert seen == [pytest.approx(0.4), None, pytest.approx(0.4), None, pytest.approx(0.4)]
    assert reasons == [set(), {"out_of_range"}, set(), {"out_of_range"}, set()]


async def test_ring_that_tells_everything_each_time_is_counted_once(driver: Driver) -> None:
    """A driver that does not heed what it was asked for: old entries are stale, and are counted as that."""
    entries = tuple(SimSample(timestamp_us=round(slot * PERIOD * SECOND), percent=100) for slot in range(1, 37))
    source = driver.node.open()
    driver.show(a_gpu(ring=entries[:1]))
    await read_device(source)
    driver.show(a_gpu(ring=entries))
    devices = await driver.cycles(source, 3)
    assert [known(device).utilization_ratio for device in devices] == [pytest.approx(1.0), 0.0, 0.0]
    assert {one.reason for one in devices[1].rejected} == {"stale"}


async def test_driver_without_a_ring_is_measured_by_its_one_figure(driver: Driver) -> None:
    """NOT_FOUND from the start is no ring, not a GPU at rest."""
    driver.show(SimDevice(uuid="GPU-a", index=0, utilization=40))
    source = driver.node.open()
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    assert known(device).utilization_ratio == 0.4
    assert known(device).measured_seconds == CYCLE_SECONDS


async def test_ring_that_cannot_be_read_for_a_cycle_is_unknown_and_taken_up_again(driver: Driver) -> None:
    """What was done in that cycle is lost, never idle, and is not booked to the next one; that one is whole."""
    load = a_gpu(burst(11.0, 14.0), burst(16.0, 17.0))
    driver.show(load)
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 2)
    driver.show(load, faults=(NvmlFault(symbol="nvmlDeviceGetSamples", device=0, code=999),))
    (without,) = await driver.cycles(source, 1)
    assert known(without).lost_seconds == CYCLE_SECONDS
    assert [call for call, _ in without.failed_calls] == ["nvmlDeviceGetSamples"]
    driver.show(load)
    again, after = await driver.cycles(source, 2)
    assert known(again).busy_seconds == pytest.approx(1.0, abs=0.15)
    assert known(again).seconds == pytest.approx(CYCLE_SECONDS)
    assert known(after).busy_seconds == 0
    assert not again.rejected


async def test_ring_that_could_not_be_read_at_first_begins_with_its_first_answer(driver: Driver) -> None:
    """Its first batch is up to ten seconds old, whenever it comes."""
    driver.show(a_gpu(burst(0.0, 60.0)), faults=(NvmlFault(symbol="nvmlDeviceGetSamples", device=0, code=999),))
    source = driver.node.open()
    await driver.cycles(source, 3)
    driver.show(a_gpu(burst(0.0, 60.0)))
    first, second = await driver.cycles(source, 2)
    assert first.activity is None
    assert known(second).busy_seconds == pytest.approx(CYCLE_SECONDS)


async def test_work_after_a_long_rest_before_the_first_read_is_counted(driver: Driver) -> None:
    """The ring still holds what was an hour ago: how long it has rested is not known, and what comes is not from the future."""
    bursts = (burst(3600.0 + 5 * number + 1, 3600.0 + 5 * number + 3) for number in range(4))
    driver.show(a_gpu(burst(0.0, 20.0), *bursts))
    driver.pass_time(3590.0)
    source = driver.node.open()
    await read_device(source)
    devices = await driver.cycles(source, 6)
    assert [round(known(device).busy_seconds, 1) for device in devices] == pytest.approx([0, 0, 2, 2, 2, 2], abs=0.15)
    assert not [one for device in devices for one in device.rejected]


async def test_work_after_days_of_rest_is_counted_although_the_clocks_drift_apart(driver: Driver) -> None:
    """Two and a half days at a ten-thousandth are twenty seconds."""
    days = 216_000.0
    driver.show(a_gpu(burst(0.0, 20.0), burst(days * 1.0001 + 31.0, days * 1.0001 + 33.0)))
    driver.pass_time(20.0)
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    for _ in range(int(days / 600)):
        driver.gpus.advance_us(round(600.06 * SECOND))
        driver.node.clock.seconds += 600.0
        await read_device(source)
    devices = await driver.cycles(source, 4)
    assert busy(devices) == pytest.approx(2.0, abs=0.15)
    assert not [one for device in devices for one in device.rejected]


async def test_ring_that_tells_the_future_alone_is_unknown_and_never_idle(driver: Driver) -> None:
    """All that it has to tell cannot be true: started from anew, also if the GPU's one figure of the moment is 0."""
    ahead = SimSample(timestamp_us=(BEGIN_SECONDS + 10**6) * SECOND, percent=70)
    work = [SimSample(timestamp_us=round((BEGIN_SECONDS + slot * PERIOD) * SECOND), percent=70) for slot in range(1, 73)]
    driver.show(a_gpu(ring=tuple(work[:30])))
    source = driver.node.open()
    await read_device(source)
    driver.show(a_gpu(ring=tuple(work[:65])))
    await driver.cycles(source, 1)
    driver.show(a_gpu(ring=(ahead,)))
    devices = await driver.cycles(source, 3)
    assert [known(device).lost_seconds for device in devices[:2]] == [CYCLE_SECONDS, CYCLE_SECONDS]
    assert devices[2].activity is None


async def test_clock_that_begins_anew_is_a_new_start(driver: Driver) -> None:
    """A busy GPU whose ring is older than what it has told: not measured until the ring has been started from anew."""
    driver.show(a_gpu(burst(-900.0, 600.0, percent=80)))
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    driver.gpus.set_us(500 * SECOND)
    devices = await driver.cycles(source, 4)
    assert known(devices[0]).lost_seconds == CYCLE_SECONDS
    assert devices[1].activity is None
    assert [round(known(device).utilization_ratio or 0.0, 1) for device in devices[2:]] == [0.8, 0.8]


async def test_sample_from_the_future_is_dropped_and_the_others_count(driver: Driver) -> None:
    """One entry a minute ahead among good ones: counted as out of range, and this cycle and the next are measured."""
    source = driver.node.open()
    driver.show(a_gpu(ring=(SimSample(timestamp_us=BEGIN_SECONDS * SECOND, percent=0),)))
    await read_device(source)

    def ring(cycle: int, *further: SimSample) -> tuple[SimSample, ...]:
        begin = BEGIN_SECONDS + cycle * CYCLE_SECONDS
        stamps = [round((begin + (slot + 1) * PERIOD) * SECOND) for slot in range(36)]
        return (*(SimSample(timestamp_us=stamp, percent=40) for stamp in stamps), *further)

    driver.show(a_gpu(ring=ring(0, SimSample(timestamp_us=(BEGIN_SECONDS + 60) * SECOND, percent=40))))
    (first,) = await driver.cycles(source, 1)
    driver.show(a_gpu(ring=ring(1)))
    (second,) = await driver.cycles(source, 1)
    assert [known(device).utilization_ratio for device in (first, second)] == [pytest.approx(0.4), pytest.approx(0.4)]
    assert [one.reason for one in first.rejected] == ["out_of_range"]


async def test_busy_gpu_whose_ring_does_not_move_is_unknown_and_started_from_anew(driver: Driver) -> None:
    """A first batch that ended in the future: its last moment is not believed for long, and nothing is idle meanwhile."""
    load = (burst(0.0, 100.0, percent=70),)
    ahead = SimSample(timestamp_us=(BEGIN_SECONDS + 3600) * SECOND, percent=70)
    driver.show(a_gpu(*load, ring=(ahead,)))
    source = driver.node.open()
    await read_device(source)
    driver.show(a_gpu(*load))
    devices = await driver.cycles(source, 5)
    idle = [device for device in devices if device.activity is not None and device.activity.utilization_ratio == 0]
    assert not idle
    assert known(devices[-1]).utilization_ratio == pytest.approx(0.7, abs=0.01)


async def test_misread_process_is_unknown_and_its_neighbour_is_not(driver: Driver) -> None:
    """A share above all of the time, or from the future, is dropped and counted, and the process is not called idle for it."""
    processes = (SimProcess(pid=1, sm=2**32 - 1), SimProcess(pid=2, sm=50))
    device = SimDevice(uuid="GPU-a", index=0, utilization=80, processes=processes)
    driver.show(device)
    source = driver.node.open()
    await read_device(source)
    (first,) = await driver.cycles(source, 1)
    assert [(use.pid, use.sm_ratio) for use in first.process_use or ()] == [(1, None), (2, 0.5)]
    ahead = replace(processes[0], sm=30, sm_timestamp=(BEGIN_SECONDS + 7200) * SECOND)
    driver.show(replace(device, processes=(ahead, processes[1])))
    (second,) = await driver.cycles(source, 1)
    assert [(use.pid, use.sm_ratio) for use in second.process_use or ()] == [(1, None), (2, 0.5)]
    driver.show(replace(device, processes=(SimProcess(pid=1, sm=30), processes[1])))
    (third,) = await driver.cycles(source, 1)
    assert [(use.pid, use.sm_ratio) for use in third.process_use or ()] == [(1, 0.3), (2, 0.5)]


async def test_trouble_of_a_device_begins_its_samples_anew(driver: Driver) -> None:
    """What a lost GPU did meanwhile cannot be told from what it did before."""
    driver.show(a_gpu(burst(0.0, 60.0)))
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    driver.show(a_gpu(burst(0.0, 60.0)), faults=(NvmlFault(symbol="*", device=0, code=15),))
    (lost,) = await driver.cycles(source, 1)
    driver.show(a_gpu(burst(0.0, 60.0)))
    back, after = await driver.cycles(source, 2)
    assert (lost.activity, back.activity) == (None, None)
    assert known(after).utilization_ratio == pytest.approx(1.0)


async def test_sharers_have_the_parts_in_which_they_were_on_the_engine(driver: Driver) -> None:
    """Two that never rest have half each, in parts of the cycle; together what the device did."""
    load = (burst(0.0, 400.0, pid=1), burst(0.0, 400.0, pid=2))
    driver.show(a_gpu(*load, processes=(SimProcess(pid=1), SimProcess(pid=2))))
    source = driver.node.open()
    await read_device(source)
    devices = await driver.cycles(source, 60)
    by_pid = {
        pid: sum(use.sm_ratio or 0.0 for device in devices for use in device.process_use or () if use.pid == pid) / 60
        for pid in (1, 2)
    }
    assert by_pid[1] == pytest.approx(0.5, abs=0.06)
    assert sum(by_pid.values()) == pytest.approx(1.0, abs=0.01)


async def test_process_that_was_quiet_for_long_is_believed_without_a_ring(driver: Driver) -> None:
    """Its moment is as far from the last one as it was quiet, which is no fault."""
    quiet = SimDevice(uuid="GPU-a", index=0, utilization=0, processes=(SimProcess(pid=1),))
    active = replace(quiet, utilization=50, processes=(SimProcess(pid=1, sm=50),))
    source = driver.node.open()
    driver.show(active)
    await read_device(source)
    await driver.cycles(source, 2)
    driver.show(quiet)
    await driver.cycles(source, 12)
    driver.show(active)
    (device,) = await driver.cycles(source, 1)
    assert [use.sm_ratio for use in device.process_use or ()] == [0.5]
    assert not device.rejected


async def test_share_of_a_process_is_of_the_samples_and_not_of_the_rest_between(driver: Driver) -> None:
    """One second of work in five is a fifth of the cycle, although the driver says 100 percent of what it sampled."""
    driver.show(a_gpu(burst(1.0, 2.0)))
    source = driver.node.open()
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    assert device.process_use is not None
    (use,) = device.process_use
    assert use.sm_ratio == pytest.approx(0.2, abs=0.02)
    assert device.utilization_ratio == pytest.approx(0.2, abs=0.02)


async def test_accounts_of_the_driver_replace_its_rounded_shares_where_they_are_kept(driver: Driver) -> None:
    """Accounting mode, switched on by an admin: exact sums of each process, also of one that has just ended."""
    load = (burst(0.0, 60.0, pid=1, percent=33), burst(5.0, 8.0, pid=2, percent=33))
    both = (SimProcess(pid=1), SimProcess(pid=2))
    driver.show(a_gpu(*load, processes=both, accounting=True))
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    (second,) = await driver.cycles(source, 1, seconds=2.5)
    driver.show(a_gpu(*load, processes=both[:1], accounting=True))
    (third,) = await driver.cycles(source, 1)
    told = [{use.pid: use.sm_ratio for use in device.process_use or ()} for device in (second, third)]
    assert sum(ratio or 0.0 for ratio in told[0].values()) == pytest.approx(0.66, abs=0.06)
    assert 2 in told[1]


async def test_accounting_mode_is_never_switched_on_by_us(driver: Driver) -> None:
    """It is a state of the whole node: where it is off, its accounts are not asked for, and sampled shares stay."""
    driver.show(a_gpu(burst(0.0, 60.0)), faults=(NvmlFault(symbol="nvmlDeviceGetAccountingStats_v2", code=999),))
    source = driver.node.open()
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    assert not device.failed_calls
    assert [use.sm_ratio for use in device.process_use or ()] == [pytest.approx(1.0, abs=0.01)]


async def test_gpm_is_the_mean_since_the_last_cycle(driver: Driver) -> None:
    """Two of five seconds of work: SM and tensor activity are parts of that; the first cycle has none."""
    driver.show(a_gpu(burst(1.0, 3.0), gpm=True, sm_percent_of_busy=80, tensor_percent_of_busy=50))
    source = driver.node.open()
    first = await read_device(source)
    assert (first.sm_active_ratio, first.tensor_active_ratio) == (None, None)
    (device,) = await driver.cycles(source, 1)
    assert device.sm_active_ratio == pytest.approx(0.4 * 0.8, abs=0.01)
    assert device.tensor_active_ratio == pytest.approx(0.4 * 0.5, abs=0.01)


async def test_gpu_without_gpm_has_no_such_figures_and_no_failure(driver: Driver) -> None:
    """Ampere and older: absent, not 0."""
    driver.show(a_gpu(burst(0.0, 60.0)))
    source = driver.node.open()
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    assert (device.sm_active_ratio, device.tensor_active_ratio, device.failed_calls) == (None, None, ())


async def test_gpm_that_is_switched_off_is_not_asked(driver: Driver) -> None:
    """It shares counters of the hardware with profilers."""
    driver.show(a_gpu(burst(0.0, 60.0), gpm=True), faults=(NvmlFault(symbol="nvmlGpmQueryDeviceSupport", code=999),))
    source = Nvml(library=str(driver.node.library), deadline_seconds=5.0, gpm=False, clock=driver.node.clock)
    driver.node.opened.append(source)
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    assert device.failed_calls == ()


MIGS = (
    SimMig(uuid="MIG-1", gi=1, profile="3g.40gb", compute_slices=3, gpu_slices=3),
    SimMig(uuid="MIG-2", gi=2, profile="2g.20gb", compute_slices=2, gpu_slices=2),
)


def a_mig_gpu(*bursts: SimBurst, migs: tuple[SimMig, ...] = MIGS) -> SimDevice:
    """A GPU in MIG mode that has GPM."""
    return SimDevice(uuid="GPU-a", index=0, load=bursts, gpm=True, mig_mode=1, migs=migs, utilization=None)


async def test_mig_instances_are_measured_one_by_one(driver: Driver) -> None:
    """What one instance does is not its neighbour's; the GPU itself has no figure of its own."""
    driver.show(a_mig_gpu(burst(0.0, 2.5, gi=1)))
    source = driver.node.open()
    await read_device(source)
    (device,) = await driver.cycles(source, 1)
    ratios = [instance.activity and instance.activity.utilization_ratio for instance in device.mig_instances]
    assert ratios == [pytest.approx(0.5, abs=0.01), 0.0]
    assert (device.activity, device.utilization_ratio) == (None, None)
    assert not device.failed_calls


async def test_instance_that_was_made_anew_under_an_old_number_starts_anew(driver: Driver) -> None:
    """The numbers of GPU instances are reused: its first cycle is not measured."""
    driver.show(a_mig_gpu())
    source = driver.node.open()
    await read_device(source)
    await driver.cycles(source, 1)
    driver.show(a_mig_gpu(migs=(replace(MIGS[0], uuid="MIG-9"), MIGS[1])))
    (device,) = await driver.cycles(source, 1)
    assert [instance.activity is None for instance in device.mig_instances] == [True, False]


async def test_gpm_samples_are_given_back(driver: Driver) -> None:
    """One for each GPU and one to spare while it runs, whatever changes; none after the end."""
    before = live_gpm_samples()
    source = driver.node.open()
    for device in (a_mig_gpu(), a_gpu(gpm=True), a_mig_gpu(migs=MIGS[:1]), a_gpu(gpm=True)):
        driver.show(device)
        await driver.cycles(source, 3)
    assert live_gpm_samples() - before <= 2
    await source.close()
    assert live_gpm_samples() == before


async def test_gpu_of_an_earlier_run_keeps_its_index(driver: Driver) -> None:
    """The `gpu` label outlives a restart: a lost neighbour renames nobody."""
    driver.show(SimDevice(uuid="GPU-b", index=0), SimDevice(uuid="GPU-c", index=1))
    indexes = {DeviceUuid("GPU-a"): 0, DeviceUuid("GPU-b"): 1}
    source = Nvml(library=str(driver.node.library), deadline_seconds=5.0, indexes=indexes, clock=driver.node.clock)
    driver.node.opened.append(source)
    assert {device.uuid: device.index for device in await read_devices(source)} == {"GPU-b": 1, "GPU-c": 1}
