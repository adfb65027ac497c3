"""A simulated driver for the unmodified nvidia-ml-py: built once, started anew for each test."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml
import pytest

from exporter.simulator.nvml.build import build_library
from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.nvml.loading import preload
from exporter.simulator.nvml.state import environment, write_state
from exporter.simulator.world import NvmlFault, SimDevice, World


@dataclass(frozen=True, slots=True)
class Driver:
    """What NVML shows, through the file that the library reads."""

    path: Path

    def show(self, *devices: SimDevice, faults: tuple[NvmlFault, ...] = (), driver_version: str = "575.57.08") -> None:
        """From the next call on."""
        write_state(World(devices=devices, nvml_faults=faults, driver_version=driver_version), self.path)


def error_of(call: Callable[..., Any], *arguments: Any) -> int:
    """The nvmlReturn_t that the binding raises."""
    with pytest.raises(pynvml.NVMLError) as raised:
        call(*arguments)
    return int(raised.value.value)


def _shut_down_all_users() -> None:
    while True:
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError_Uninitialized:
            return


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled with warnings as errors."""
    return build_library(tmp_path_factory.mktemp("nvml"), strict=True)


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver with one GPU that nobody has initialised."""
    driver = Driver(tmp_path / "nvml-state")
    driver.show(SimDevice(uuid="GPU-0", index=0))
    for name, value in environment(driver.path).items():
        monkeypatch.setenv(name, value)
    preload(nvml_library)
    _shut_down_all_users()
    yield driver
    os.environ.update(environment(driver.path))
    driver.show()
    _shut_down_all_users()


@pytest.fixture
def nvml(driver: Driver) -> Driver:
    """The same driver, initialised once."""
    pynvml.nvmlInit()
    return driver


@pytest.fixture
def clock(nvml: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimClock:
    """The GPUs' clock, which stands at zero until the test sets it."""
    clock = SimClock(tmp_path / "nvml-clock")
    for name, value in environment(nvml.path, clock).items():
        monkeypatch.setenv(name, value)
    return clock
