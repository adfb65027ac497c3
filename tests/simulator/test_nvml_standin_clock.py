"""The GPUs' clock, and what counts up by it."""

import ctypes
import time
from pathlib import Path

import pynvml
import pytest

from exporter.simulator.node import SimulatedNode
from exporter.simulator.nvml.clock import CLOCK_VARIABLE, SimClock
from exporter.simulator.nvml.state import environment
from exporter.simulator.world import SimBurst, SimDevice, SimProcess, World
from tests.simulator.conftest import Driver, error_of

SECOND_US = 1_000_000
HALF_LOADED = (SimBurst(pid=1, start_us=0, end_us=10 * SECOND_US, percent=50),)


def scripted(load: tuple[SimBurst, ...], *, power: int | None = 70_000, energy: int | None = 5_000) -> SimDevice:
    return SimDevice(uuid="GPU-0", index=0, load=load, power=power, busy_power=200_000, energy=energy)


def energy() -> int:
    return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0)))


def test_clock_tells_what_it_was_set_to(tmp_path: Path) -> None:
    """The file holds eight bytes, least first, and a second clock on it begins anew."""
    clock = SimClock(tmp_path / "clock", 3)
    clock.set_us(0x0102030405060708)
    assert clock.path.read_bytes() == bytes.fromhex("0807060504030201")
    clock.advance_us(1)
    assert clock.now_us == 0x0102030405060709
    assert SimClock(clock.path).now_us == clock.now_us == 0
    with pytest.raises(OverflowError):
        clock.set_us(-1)


def test_library_follows_the_clock_at_each_call(nvml: Driver, clock: SimClock) -> None:
    """A timestamp of a sample is the clock's, forwards and back."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, processes=(SimProcess(pid=1, sm=5),)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for moment in (1, 7 << 50, 5):
        clock.set_us(moment)
        assert [entry.timeStamp for entry in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)] == [moment]


def test_another_clock_takes_over(nvml: Driver, clock: SimClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable decides at each call, and an empty one means the wall clock."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, processes=(SimProcess(pid=1, sm=5),)))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    clock.set_us(10)
    other = SimClock(tmp_path / "other", 20)
    assert pynvml.nvmlDeviceGetProcessUtilization(handle, 0)[0].timeStamp == 10
    monkeypatch.setenv(CLOCK_VARIABLE, environment(nvml.path, other)[CLOCK_VARIABLE])
    assert pynvml.nvmlDeviceGetProcessUtilization(handle, 0)[0].timeStamp == 20
    monkeypatch.setenv(CLOCK_VARIABLE, environment(nvml.path)[CLOCK_VARIABLE])
    before = time.time_ns() // 1000
    assert before <= pynvml.nvmlDeviceGetProcessUtilization(handle, 0)[0].timeStamp <= time.time_ns() // 1000


@pytest.mark.usefixtures("nvml")
def test_clock_that_cannot_be_read_fails_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is missing or too short is no time, and the wall clock does not stand in for it."""
    (tmp_path / "short").write_bytes(b"1234567")
    for name in ("short", "none"):
        monkeypatch.setenv(CLOCK_VARIABLE, str(tmp_path / name))
        assert error_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNKNOWN


def test_node_hands_its_clock_to_the_exporter(tmp_path: Path) -> None:
    """The environment of a simulated node names its clock."""
    clock = SimClock(tmp_path / "clock")
    assert SimulatedNode(tmp_path, World(), clock=clock).environment()[CLOCK_VARIABLE] == str(clock.path)
    assert SimulatedNode(tmp_path, World()).environment()[CLOCK_VARIABLE] == ""


def test_energy_grows_by_rest_and_by_work(nvml: Driver, clock: SimClock) -> None:
    """Milliwatts by seconds: all the time at rest, and the share in which a kernel ran on top."""
    nvml.show(scripted(HALF_LOADED))
    assert energy() == 5_000
    clock.set_us(4 * SECOND_US)
    assert energy() == 5_000 + 4 * 70_000 + 2 * 200_000
    clock.set_us(20 * SECOND_US)
    assert energy() == 5_000 + 20 * 70_000 + 5 * 200_000


def test_energy_of_years_does_not_overflow(nvml: Driver, clock: SimClock) -> None:
    """Power by microseconds needs more than 64 bits after some years."""
    nvml.show(scripted((SimBurst(pid=1, start_us=0, end_us=1 << 56),), power=700_000, energy=0))
    clock.set_us(1 << 56)
    assert energy() == (1 << 56) * 900_000 // SECOND_US


def test_energy_without_power_or_counter_is_what_is_left(nvml: Driver, clock: SimClock) -> None:
    """An unknown power adds nothing; an unknown counter stays not supported."""
    clock.set_us(4 * SECOND_US)
    nvml.show(scripted(HALF_LOADED, power=None))
    assert energy() == 5_000 + 2 * 200_000
    nvml.show(scripted(HALF_LOADED, energy=None))
    assert error_of(energy) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_energy_without_a_script_stands_still(nvml: Driver, clock: SimClock) -> None:
    """Worlds without a scripted load are what they say, whatever the time."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, energy=7, busy_power=9))
    clock.set_us(1 << 50)
    assert energy() == 7


def test_energy_by_the_wall_clock_counts_from_the_first_world(driver: Driver) -> None:
    """It stays near what the first world said, and further worlds do not set it back."""
    pynvml.nvmlInit()
    driver.show(scripted(HALF_LOADED, energy=0))
    first = energy()
    driver.show(scripted(HALF_LOADED, energy=0))
    assert first <= energy() < 3600 * 70_000


def test_ring_by_the_wall_clock_is_one_of_now(driver: Driver) -> None:
    """A script that repeats is played since the clock's zero, but nothing is sampled before the driver was loaded."""
    pynvml.nvmlInit()
    driver.path.unlink()
    began_us = time.time_ns() // 1000
    driver.show(SimDevice(uuid="GPU-0", index=0, load=(SimBurst(pid=1, start_us=0, end_us=9),), load_period_us=10))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    call, room, kind = pynvml.nvmlLib.nvmlDeviceGetSamples, ctypes.c_uint(0), ctypes.c_uint()
    arguments = (ctypes.c_uint(1), ctypes.c_ulonglong(0), ctypes.byref(kind), ctypes.byref(room), None)
    deadline = time.monotonic() + 20
    while call(handle, *arguments) == pynvml.NVML_ERROR_NOT_FOUND and time.monotonic() < deadline:
        pass
    _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    assert {sample.sampleValue.uiVal for sample in samples} == {90}
    assert began_us + 138_888 <= samples[0].timeStamp
    assert samples[-1].timeStamp <= time.time_ns() // 1000
