"""Faults and delays of the simulated driver, as the unmodified binding meets them."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from exporter.simulator.world import GIB, MIB, NvmlFault, SimDevice, SimMig
from tests.simulator.conftest import Driver, error_of

DEVICES = (SimDevice(uuid="GPU-0", index=0), SimDevice(uuid="GPU-1", index=1))
FOREVER_SECONDS = 100_000.0
DEADLINE_SECONDS = 20.0


@pytest.fixture
def worker(nvml: Driver) -> Iterator[ThreadPoolExecutor]:
    """A thread beside the test's own, for the call that hangs; let go at the end."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool
        nvml.show(*DEVICES)


def handle_of(index: int) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def test_fault_of_a_symbol_strikes_that_call_on_every_device(nvml: Driver) -> None:
    """Other calls go on."""
    fault = NvmlFault(symbol="nvmlDeviceGetPowerUsage", code=pynvml.NVML_ERROR_NO_PERMISSION)
    nvml.show(*DEVICES, faults=(fault,))
    for index in (0, 1):
        assert error_of(pynvml.nvmlDeviceGetPowerUsage, handle_of(index)) == pynvml.NVML_ERROR_NO_PERMISSION
        assert pynvml.nvmlDeviceGetUUID(handle_of(index)) == f"GPU-{index}"


def _result_of(call: Callable[..., Any], *arguments: Any) -> int:
    """The nvmlReturn_t of a call that may succeed."""
    try:
        call(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(pynvml.NVML_SUCCESS)


def _sample_of(handle: Any) -> Any:
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        return pynvml.nvmlGpmSampleGet(handle, sample)
    finally:
        pynvml.nvmlGpmSampleFree(sample)


@pytest.mark.parametrize(
    ("symbol", "call"),
    [
        ("nvmlDeviceGetSamples", lambda handle: pynvml.nvmlDeviceGetSamples(handle, 1, 0)),
        ("nvmlDeviceGetProcessUtilization", lambda handle: pynvml.nvmlDeviceGetProcessUtilization(handle, 0)),
        ("nvmlDeviceGetProcessesUtilizationInfo", lambda handle: pynvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)),
        ("nvmlDeviceGetAccountingMode", pynvml.nvmlDeviceGetAccountingMode),
        ("nvmlDeviceGetAccountingBufferSize", pynvml.nvmlDeviceGetAccountingBufferSize),
        ("nvmlDeviceGetAccountingPids", pynvml.nvmlDeviceGetAccountingPids),
        ("nvmlDeviceGetAccountingStats_v2", lambda handle: pynvml.nvmlDeviceGetAccountingStats_v2(handle, 1)),
        ("nvmlGpmQueryDeviceSupport", pynvml.nvmlGpmQueryDeviceSupport),
        ("nvmlGpmSampleGet", _sample_of),
        ("nvmlGpmMigSampleGet", lambda handle: pynvml.nvmlGpmMigSampleGet(handle, 1, pynvml.c_nvmlGpmSample_t())),
    ],
)
def test_fault_strikes_what_is_sampled_too(nvml: Driver, symbol: str, call: Callable[[Any], Any]) -> None:
    """By name or with all calls, on its own device, and before the call looks at anything else."""
    code = pynvml.NVML_ERROR_TIMEOUT
    nvml.show(*DEVICES)
    handles = [handle_of(0), handle_of(1)]
    for faulty in (symbol, "*"):
        nvml.show(*DEVICES, faults=(NvmlFault(symbol=faulty, device=1, code=code),))
        assert error_of(call, handles[1]) == code
        assert _result_of(call, handles[0]) != code


@pytest.mark.parametrize(
    ("symbol", "call"),
    [
        ("nvmlGpmSampleAlloc", pynvml.nvmlGpmSampleAlloc),
        ("nvmlGpmSampleFree", lambda: pynvml.nvmlGpmSampleFree(None)),
        ("nvmlGpmMetricsGet", lambda: pynvml.nvmlGpmMetricsGet(pynvml.c_nvmlGpmMetricsGet_t())),
    ],
)
def test_fault_strikes_gpm_calls_without_a_device(nvml: Driver, symbol: str, call: Callable[[], Any]) -> None:
    """Allocating, freeing and working out metrics fail by name."""
    nvml.show(*DEVICES, faults=(NvmlFault(symbol=symbol, code=pynvml.NVML_ERROR_TIMEOUT),))
    assert error_of(call) == pynvml.NVML_ERROR_TIMEOUT


def test_fault_of_a_device_leaves_the_others_alone(nvml: Driver) -> None:
    """One GPU's call fails, the same call on its neighbour does not."""
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", device=1, code=pynvml.NVML_ERROR_GPU_IS_LOST),))
    assert pynvml.nvmlDeviceGetPowerUsage(handle_of(0)) == DEVICES[0].power
    assert error_of(pynvml.nvmlDeviceGetPowerUsage, handle_of(1)) == pynvml.NVML_ERROR_GPU_IS_LOST


@pytest.mark.parametrize(
    "look_up",
    [
        lambda: pynvml.nvmlDeviceGetHandleByIndex(1),
        lambda: pynvml.nvmlDeviceGetHandleByUUID("GPU-1"),
        lambda: pynvml.nvmlDeviceGetHandleByPciBusId("0000:02:00.0"),
    ],
)
def test_fault_of_all_calls_strikes_looking_up_too(nvml: Driver, look_up: Callable[[], Any]) -> None:
    """A dead GPU gives no handle and answers no old one; counting and the driver's version still work."""
    nvml.show(*DEVICES)
    old = look_up()
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="*", device=1, code=pynvml.NVML_ERROR_UNKNOWN),))
    assert error_of(look_up) == pynvml.NVML_ERROR_UNKNOWN
    assert error_of(pynvml.nvmlDeviceGetName, old) == pynvml.NVML_ERROR_UNKNOWN
    assert pynvml.nvmlDeviceGetUUID(handle_of(0)) == "GPU-0"
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlSystemGetDriverVersion() == "575.57.08"


def test_fault_of_a_gpu_strikes_its_mig_devices(nvml: Driver) -> None:
    """A MIG device lives and dies with its GPU."""
    gpu = SimDevice(uuid="GPU-0", index=0, mig_mode=1, migs=(SimMig(uuid="MIG-a", gi=1),))
    nvml.show(gpu)
    mig = pynvml.nvmlDeviceGetHandleByUUID("MIG-a")
    nvml.show(gpu, faults=(NvmlFault(symbol="*", device=0, code=pynvml.NVML_ERROR_RESET_REQUIRED),))
    assert error_of(pynvml.nvmlDeviceGetName, mig) == pynvml.NVML_ERROR_RESET_REQUIRED


def test_first_of_several_faults_decides(nvml: Driver) -> None:
    """A fault of one call before one of all calls is the exception to it."""
    exception = NvmlFault(symbol="nvmlDeviceGetName", code=pynvml.NVML_ERROR_TIMEOUT)
    nvml.show(*DEVICES, faults=(exception, NvmlFault(symbol="*", code=pynvml.NVML_ERROR_UNKNOWN)))
    assert error_of(handle_of, 0) == pynvml.NVML_ERROR_UNKNOWN
    nvml.show(*DEVICES)
    handle = handle_of(0)
    nvml.show(*DEVICES, faults=(exception, NvmlFault(symbol="*", code=pynvml.NVML_ERROR_UNKNOWN)))
    assert error_of(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_TIMEOUT
    assert error_of(pynvml.nvmlDeviceGetUUID, handle) == pynvml.NVML_ERROR_UNKNOWN


@pytest.mark.parametrize(
    ("symbol", "call"),
    [
        ("nvmlInitWithFlags", pynvml.nvmlInit),
        ("nvmlShutdown", pynvml.nvmlShutdown),
        ("nvmlDeviceGetCount_v2", pynvml.nvmlDeviceGetCount),
        ("nvmlSystemGetDriverVersion", pynvml.nvmlSystemGetDriverVersion),
    ],
)
def test_call_about_the_node_fails_by_its_own_symbol(nvml: Driver, symbol: str, call: Callable[[], Any]) -> None:
    """Calls without a device have faults as well, and only by name."""
    nvml.show(*DEVICES, faults=(NvmlFault(symbol=symbol, code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH),))
    assert error_of(call) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH


def test_code_that_the_binding_does_not_know_arrives(nvml: Driver) -> None:
    """A newer driver's error keeps its number."""
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetName", code=4321),))
    assert error_of(pynvml.nvmlDeviceGetName, handle_of(0)) == 4321


def test_fault_of_a_call_that_is_not_there_is_refused(nvml: Driver) -> None:
    """A misspelt symbol would be a fault that never strikes."""
    with pytest.raises(ValueError, match="nvmlDeviceGetNmae"):
        nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetNmae", code=1),))


def test_delayed_call_succeeds_after_its_delay(nvml: Driver) -> None:
    """A delay without a code only takes time."""
    handle = handle_of(0)
    nvml.show(SimDevice(uuid="GPU-0", index=0), faults=(NvmlFault(symbol="nvmlDeviceGetUUID", delay_seconds=0.1),))
    began = time.monotonic()
    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-0"
    assert time.monotonic() - began >= 0.1


def test_delayed_call_fails_after_its_delay(nvml: Driver) -> None:
    """A delay with a code takes time and then fails, as a time-out of the driver does."""
    handle = handle_of(0)
    fault = NvmlFault(symbol="nvmlDeviceGetUUID", delay_seconds=0.05, code=pynvml.NVML_ERROR_TIMEOUT)
    nvml.show(SimDevice(uuid="GPU-0", index=0), faults=(fault,))
    began = time.monotonic()
    assert error_of(pynvml.nvmlDeviceGetUUID, handle) == pynvml.NVML_ERROR_TIMEOUT
    assert time.monotonic() - began >= 0.05


def _hang(worker: ThreadPoolExecutor, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Start a call that hangs, and see that it does."""
    future = worker.submit(call, *arguments)
    with pytest.raises(TimeoutError):
        future.result(0.1)
    return future


def test_hanging_call_stops_neither_python_nor_other_calls(nvml: Driver, worker: ThreadPoolExecutor) -> None:
    """The GIL is free and the library is not locked while one call hangs, on the same GPU too."""
    handle = handle_of(0)
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetUtilizationRates", device=0, delay_seconds=FOREVER_SECONDS),))
    hanging = _hang(worker, pynvml.nvmlDeviceGetUtilizationRates, handle)
    for _ in range(100):
        assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-0"
        assert pynvml.nvmlDeviceGetUtilizationRates(handle_of(1)).gpu == 0
    assert not hanging.done()


def test_hang_ends_when_its_fault_leaves_the_state(nvml: Driver, worker: ThreadPoolExecutor) -> None:
    """The call then answers what the GPU shows by now."""
    handle = handle_of(0)
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", delay_seconds=FOREVER_SECONDS),))
    hanging = _hang(worker, pynvml.nvmlDeviceGetPowerUsage, handle)
    nvml.show(SimDevice(uuid="GPU-0", index=0, power=5))
    assert hanging.result(DEADLINE_SECONDS) == 5


def test_hanging_call_of_a_gpu_that_goes_is_lost(nvml: Driver, worker: ThreadPoolExecutor) -> None:
    """What was looked up before the hang is not used after it."""
    handle = handle_of(0)
    nvml.show(*DEVICES, faults=(NvmlFault(symbol="nvmlDeviceGetPowerUsage", delay_seconds=FOREVER_SECONDS),))
    hanging = _hang(worker, pynvml.nvmlDeviceGetPowerUsage, handle)
    nvml.show(SimDevice(uuid="GPU-1", index=1))
    assert isinstance(hanging.exception(DEADLINE_SECONDS), pynvml.NVMLError_GpuIsLost)


def test_initialising_can_hang(driver: Driver) -> None:
    """Initialising hangs and comes back like any other call."""
    driver.show(*DEVICES, faults=(NvmlFault(symbol="nvmlInitWithFlags", delay_seconds=FOREVER_SECONDS),))
    with ThreadPoolExecutor(max_workers=1) as pool:
        hanging = _hang(pool, pynvml.nvmlInit)
        assert pynvml.nvmlErrorString(1) == "Uninitialized"
        assert not hanging.done()
        driver.show(*DEVICES)
        hanging.result(DEADLINE_SECONDS)
    assert pynvml.nvmlDeviceGetCount() == 2


def test_readers_never_see_half_a_change(nvml: Driver) -> None:
    """Threads that read while the state is replaced get one state or another, whole."""
    handle = handle_of(0)
    stop = threading.Event()

    def read() -> int:
        reads = 0
        while not stop.is_set():
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
            assert memory.total // GIB == memory.used // MIB
            reads += 1
        return reads

    nvml.show(SimDevice(uuid="GPU-0", index=0, memory_total=GIB, memory_used=MIB))
    with ThreadPoolExecutor(max_workers=3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        for step in range(1, 101):
            nvml.show(SimDevice(uuid="GPU-0", index=0, memory_total=step * GIB, memory_used=step * MIB))
            assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == step * GIB
        stop.set()
        assert all(reader.result(DEADLINE_SECONDS) > 0 for reader in readers)
