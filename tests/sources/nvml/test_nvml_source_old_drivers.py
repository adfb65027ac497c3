"""Drivers of other ages: symbols are really missing in the library, each of which is loaded by a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from exporter.simulator.nvml.build import build_library
from exporter.simulator.nvml.state import environment, write_state
from exporter.simulator.world import GIB, SimDevice, SimMig, SimProcess, World

ROOT = Path(__file__).parents[3]
PROCESSES = (SimProcess(pid=4001, memory=20 * GIB, sm=35),)
B0 = World(
    devices=(
        SimDevice(uuid="GPU-0", index=0, utilization=40, memory_reserved=512, processes=PROCESSES),
        SimDevice(uuid="GPU-1", index=1, mig_mode=1, migs=(SimMig(uuid="MIG-1", gi=1),)),
    )
)
LISTS = [f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")]
MIG = frozenset(
    {
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
        "nvmlDeviceGetAttributes_v2",
    }
)
OLD = MIG | {f"{name}_v3" for name in LISTS} | {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTotalEnergyConsumption"}
BARE = OLD | {
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
    *(f"{name}_v2" for name in LISTS),
}


class Reader:
    """A process that reads NVML when it is told to."""

    def __init__(self, library: str, state: Path, readings: int, **variables: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sources.nvml.read_in_own_process", library, str(readings)],
            cwd=ROOT,
            env={**os.environ, **environment(state), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._first = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == 0

    def read(self) -> dict[str, Any]:
        """The next reading."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._first:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        self._first = False
        reading: dict[str, Any] = json.loads(self._process.stdout.readline())
        return reading


def test_old_driver_gives_what_it_has_by_its_older_calls(tmp_path: Path) -> None:
    """Memory and processes come from older symbols, energy and MIG are absent, and nothing fails (NVML-10)."""
    library = build_library(tmp_path, omit=frozenset(OLD))
    write_state(B0, tmp_path / "state")
    with Reader(str(library), tmp_path / "state", 10) as reader:
        for _ in range(10):
            device, other = reader.read()["value"]["devices"]
            assert (device["memory_used_bytes"], device["memory_reserved_bytes"]) == (20 * GIB + 512, None)
            assert [(one["pid"], one["memory_used_bytes"]) for one in device["processes"]] == [(4001, 20 * GIB)]
            assert (device["energy_joules"], device["mig_mode"]) == (None, "unsupported")
            assert (device["utilization_ratio"], device["power_watts"]) == (0.4, 70.0)
            assert (other["uuid"], other["mig_instances"], other["trouble"]) == ("GPU-1", [], None)
            assert device["failed_calls"] == other["failed_calls"] == []


def test_driver_that_knows_only_who_its_devices_are_is_no_failure(tmp_path: Path) -> None:
    """With every optional symbol missing the devices are there, everything measured is unknown, and nothing is 0 (NVML-10)."""
    library = build_library(tmp_path, omit=frozenset(BARE))
    write_state(B0, tmp_path / "state")
    with Reader(str(library), tmp_path / "state", 2) as reader:
        for _ in range(2):
            device = reader.read()["value"]["devices"][0]
            assert (device["uuid"], device["model"], device["trouble"]) == ("GPU-0", "NVIDIA H100 80GB HBM3", None)
            measured = {
                name for name, shown in device.items() if name.endswith(("_ratio", "_bytes", "_watts", "_joules", "_celsius"))
            }
            assert {device[name] for name in measured} == {None}
            assert (device["processes"], device["process_use"], device["ecc_errors"]) == (None, None, {})
            assert device["failed_calls"] == []


def test_library_that_comes_later_is_found_by_its_path(tmp_path: Path) -> None:
    """A load that failed does not stick: the process that found no library reads the one that appears (LIFE-04)."""
    library = tmp_path / "driver" / "libnvidia-ml.so.1"
    write_state(B0, tmp_path / "state")
    with Reader(str(library), tmp_path / "state", 3) as reader:
        for _ in range(2):
            assert reader.read()["reason"] == "library_missing"
        build_library(library.parent)
        assert [device["uuid"] for device in reader.read()["value"]["devices"]] == ["GPU-0", "GPU-1"]


def test_library_is_found_by_its_soname(tmp_path: Path) -> None:
    """Without a path the dynamic linker's own search is used, and a node without the library stays up (LIFE-05)."""
    library = build_library(tmp_path / "driver")
    write_state(B0, tmp_path / "state")
    with Reader(library.name, tmp_path / "state", 1, LD_LIBRARY_PATH=str(library.parent)) as reader:
        assert len(reader.read()["value"]["devices"]) == 2
    with Reader(library.name, tmp_path / "state", 2, LD_LIBRARY_PATH="") as reader:
        assert [reader.read()["reason"] for _ in range(2)] == ["library_missing"] * 2


def test_library_without_an_initialisation_is_a_driver_error(tmp_path: Path) -> None:
    """A library that is too old for its binding is a reason, not an exception (NVML-10)."""
    library = build_library(tmp_path, omit=frozenset({"nvmlInitWithFlags"}))
    write_state(B0, tmp_path / "state")
    with Reader(str(library), tmp_path / "state", 1) as reader:
        assert reader.read()["reason"] == "driver_error"
