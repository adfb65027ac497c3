"""Starting and stopping the simulated driver, and what its state file may be."""

import os
from pathlib import Path

import pynvml
import pytest

from exporter.simulator.nvml.build import library_symbols
from exporter.simulator.nvml.state import STATE_VARIABLE, environment, write_state
from exporter.simulator.world import NvmlFault, SimDevice, SimMig, SimProcess, World
from tests.simulator.conftest import Driver, error_of


@pytest.mark.usefixtures("driver")
def test_every_call_before_init_is_uninitialized() -> None:
    """Nothing but nvmlInit itself works before it."""
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    calls = library_symbols() - {"nvmlInitWithFlags", "nvmlInit_v2", "nvmlErrorString"}
    assert len(calls) > 40
    for symbol in sorted(calls):
        assert getattr(pynvml.nvmlLib, symbol)(*[None] * 6) == pynvml.NVML_ERROR_UNINITIALIZED, symbol


@pytest.mark.usefixtures("driver")
def test_each_init_needs_a_shutdown_of_its_own() -> None:
    """Users are counted; the last one ends it, and one more shutdown is an error."""
    pynvml.nvmlInit()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1
    pynvml.nvmlShutdown()
    assert error_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    assert error_of(pynvml.nvmlShutdown) == pynvml.NVML_ERROR_UNINITIALIZED


@pytest.mark.usefixtures("driver")
def test_without_the_variable_no_driver_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library by itself shows nothing."""
    monkeypatch.delenv(STATE_VARIABLE)
    assert error_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_without_the_file_no_driver_is_loaded(nvml: Driver) -> None:
    """The driver can go while it is in use, can be shut down then, and comes back with the file."""
    nvml.path.unlink()
    assert error_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    assert error_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    pynvml.nvmlShutdown()
    nvml.show(SimDevice(uuid="GPU-0", index=0))
    assert error_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "end\n",
        "driver_version 35\ncuda_version 1\n",
        "driver_version 3\nend\n",
        "driver_version zz\nend\n",
        "driver_version 35\nmig\nend\n",
        "driver_version 35\ndevice\nend\n",
        "driver_version 35\nfault\nend\n",
        "driver_version 35\ndevice\nindex one\nend\n",
        "driver_version 35\ncolour 1\nend\n",
    ],
)
def test_file_that_is_no_state_is_an_unknown_error(driver: Driver, content: str) -> None:
    """A file that is cut short or no state at all does not crash, and shows nothing."""
    driver.path.write_text(content)
    assert error_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_UNKNOWN


def test_node_without_gpus_initialises_with_the_flag_only(driver: Driver) -> None:
    """Without the flag no GPUs are an error; with NO_GPUS they are counted, as none."""
    driver.show()
    assert error_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_GPU_NOT_FOUND
    pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
    assert pynvml.nvmlDeviceGetCount() == 0


def test_change_of_state_shows_in_the_next_call(nvml: Driver) -> None:
    """However fast one state follows the other."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for power in range(200):
        nvml.show(SimDevice(uuid="GPU-0", index=0, power=1000 + power))
        assert pynvml.nvmlDeviceGetPowerUsage(handle) == 1000 + power


@pytest.mark.usefixtures("nvml")
def test_process_can_be_pointed_at_another_state(tmp_path: Path) -> None:
    """The variable is looked up at each call."""
    other = tmp_path / "other"
    write_state(World(devices=(SimDevice(uuid="GPU-0", index=0), SimDevice(uuid="GPU-1", index=1))), other)
    assert pynvml.nvmlDeviceGetCount() == 1
    os.environ.update(environment(other))
    assert pynvml.nvmlDeviceGetCount() == 2


@pytest.mark.parametrize(
    ("driver_version", "cuda"),
    [("535.104.05", 12020), ("575.57.08", 12090), ("580.65.06", 13000), ("999.1", 13020), ("470.1", 12000), ("odd", 12000)],
)
def test_versions_belong_together(nvml: Driver, driver_version: str, cuda: int) -> None:
    """CUDA's and NVML's version follow from the driver's."""
    nvml.show(driver_version=driver_version)
    assert pynvml.nvmlSystemGetDriverVersion() == driver_version
    assert pynvml.nvmlSystemGetCudaDriverVersion() == cuda
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == cuda
    assert pynvml.nvmlSystemGetNVMLVersion() == f"{cuda // 1000}.{driver_version}"


def test_driver_version_longer_than_the_buffer_is_refused(nvml: Driver) -> None:
    """It is not cut."""
    nvml.show(driver_version="5" * 200)
    assert error_of(pynvml.nvmlSystemGetDriverVersion) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert error_of(pynvml.nvmlSystemGetNVMLVersion) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE


@pytest.mark.usefixtures("driver")
def test_every_error_has_a_text() -> None:
    """The texts are NVML's own where the binding knows the code, and one of them serves for the rest."""
    pynvml.nvmlInit()
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_DRIVER_NOT_LOADED) == "Driver Not Loaded"
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH) == "Argument version mismatch"
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_UNKNOWN) == "Unknown Error"


@pytest.mark.parametrize(
    "world",
    [
        World(devices=(SimDevice(uuid="GPU-0", index=0, utilization=1 << 32),)),
        World(devices=(SimDevice(uuid="GPU-0", index=-1),)),
        World(devices=(SimDevice(uuid="GPU-0", index=0, energy=-1),)),
        World(devices=(SimDevice(uuid="GPU-0", index=0, temperature=1 << 31),)),
        World(devices=(SimDevice(uuid="GPU-0", index=0, processes=(SimProcess(pid=-1),)),)),
        World(devices=(SimDevice(uuid="GPU-0", index=0, processes=(SimProcess(pid=1, lists=frozenset({"cuda"})),)),)),
        World(devices=(SimDevice(uuid="GPU-0", index=0, mig_mode=1, migs=(SimMig(uuid="MIG-0", gi=1 << 32),)),)),
        World(nvml_faults=(NvmlFault(symbol="*", delay_seconds=-1.0),)),
    ],
)
def test_world_that_no_driver_could_show_is_refused(driver: Driver, world: World) -> None:
    """The state stays what it was, and no half-written file is left beside it."""
    before = driver.path.read_bytes()
    with pytest.raises(ValueError, match=r"does not fit|there is no list"):
        write_state(world, driver.path)
    assert driver.path.read_bytes() == before
    assert list(driver.path.parent.iterdir()) == [driver.path]
