"""The source over a simulated driver: unmodified nvidia-ml-py, a stand-in library behind it, a clock that the test moves."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.model.device import Device, NvmlState
from exporter.model.reading import Fresh, Missing, Reading
from exporter.simulator.nvml.build import build_library
from exporter.simulator.nvml.state import environment, write_state
from exporter.simulator.world import NvmlFault, SimDevice, World
from exporter.sources.nvml.source import Nvml


@dataclass(slots=True)
class Clock:
    """Stands still unless the test moves it."""

    seconds: float = 1_000.0

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.seconds


@dataclass(slots=True)
class Node:
    """A simulated driver and the sources that were opened on it."""

    library: Path
    state: Path
    clock: Clock = field(default_factory=Clock)
    opened: list[Nvml] = field(default_factory=list)

    def show(self, *devices: SimDevice, faults: tuple[NvmlFault, ...] = ()) -> None:
        """What NVML shows from the next call on."""
        write_state(World(devices=devices, nvml_faults=faults), self.state)

    def open(self, *, library: str | None = None, deadline_seconds: float = 5.0) -> Nvml:
        """A source; closed at the end of the test."""
        source = Nvml(library=library or str(self.library), deadline_seconds=deadline_seconds, clock=self.clock)
        self.opened.append(source)
        return source


def value_of(reading: Reading[NvmlState]) -> NvmlState:
    """The state, of a reading that has one."""
    assert isinstance(reading, Fresh), reading
    return reading.value


def missing_of(reading: Reading[NvmlState]) -> Missing:
    """Why there is none, of a reading that has none."""
    assert isinstance(reading, Missing), reading
    return reading


async def read_devices(source: Nvml) -> tuple[Device, ...]:
    """The devices of one cycle."""
    return value_of(await source.read()).devices


async def read_device(source: Nvml, position: int = 0) -> Device:
    """One device of one cycle."""
    return (await read_devices(source))[position]


@pytest.fixture(scope="session")
def nvml_standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in library, with all that it has."""
    return build_library(tmp_path_factory.mktemp("nvml-standin"))


@pytest.fixture
async def node(nvml_standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A driver with two idle GPUs."""
    node = Node(nvml_standin, tmp_path / "nvml-state")
    node.show(SimDevice(uuid="GPU-a", index=0), SimDevice(uuid="GPU-b", index=1))
    for name, text in environment(node.state).items():
        monkeypatch.setenv(name, text)
    yield node
    node.show()
    for source in node.opened:
        await source.close()
