"""GPM of the simulated driver, read through the unmodified binding with the clock in hand."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.nvml.loading import live_gpm_samples
from exporter.simulator.world import NvmlFault, SimBurst, SimDevice, SimMig
from tests.simulator.conftest import Driver, error_of

SECOND_US = 1_000_000
GRAPHICS, SM, OCCUPANCY, TENSOR = 1, 2, 3, 5
MIGS = (SimMig(uuid="MIG-a", gi=1, utilization=30), SimMig(uuid="MIG-b", gi=2))
SPLIT = (
    SimBurst(pid=1, start_us=0, end_us=4 * SECOND_US, percent=50, gi=1),
    SimBurst(pid=2, start_us=2 * SECOND_US, end_us=3 * SECOND_US, gi=2),
)


@pytest.fixture
def pair(nvml: Driver) -> Iterator[tuple[Any, Any]]:
    """Two samples that were not taken yet."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, gpm=True))
    pair = (pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc())
    yield pair
    for sample in pair:
        pynvml.nvmlGpmSampleFree(sample)


def show(nvml: Driver, *load: SimBurst, **others: Any) -> Any:
    nvml.show(SimDevice(uuid="GPU-0", index=0, load=load, gpm=True, **others))
    return pynvml.nvmlDeviceGetHandleByIndex(0)


def request_of(pair: tuple[Any, Any], *ids: int) -> Any:
    request = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=len(ids), sample1=pair[0], sample2=pair[1])
    for metric, number in zip(request.metrics, ids, strict=False):
        metric.metricId = number
    return request


def means_of(pair: tuple[Any, Any], *ids: int) -> list[float | int]:
    """The values; where one is not told, its own nvmlReturn as a negative number."""
    metrics = pynvml.nvmlGpmMetricsGet(request_of(pair, *ids)).metrics[: len(ids)]
    assert [metric.metricId for metric in metrics] == list(ids)
    return [-metric.nvmlReturn if metric.nvmlReturn else metric.value for metric in metrics]


def take(handle: Any, sample: Any, clock: SimClock, now_us: int) -> None:
    clock.set_us(now_us)
    pynvml.nvmlGpmSampleGet(handle, sample)


def test_metrics_are_means_between_two_samples(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """Exact for any distance: graphics is the busy time, SM and tensor are parts of it."""
    burst = SimBurst(pid=1, start_us=1_000_003, end_us=1_500_003, percent=50)
    handle = show(nvml, burst, sm_percent_of_busy=40, tensor_percent_of_busy=10)
    take(handle, pair[0], clock, 1_000_000)
    take(handle, pair[1], clock, 2_000_000)
    assert means_of(pair, GRAPHICS, SM, TENSOR) == [25.0, 10.0, 2.5]
    take(handle, pair[1], clock, 1_000_004)
    assert means_of(pair, GRAPHICS) == [12.5]
    take(handle, pair[0], clock, 1_500_003)
    take(handle, pair[1], clock, 1_500_004)
    assert means_of(pair, GRAPHICS) == [0.0]


def test_sample_that_was_taken_is_not_changed_by_the_clock(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """What is asked for is between the samples, not until now; a sample can be taken anew."""
    handle = show(nvml, SimBurst(pid=1, start_us=0, end_us=SECOND_US))
    for sample, now in ((pair[0], 0), (pair[1], SECOND_US)):
        take(handle, sample, clock, now)
    clock.set_us(9 * SECOND_US)
    assert means_of(pair, GRAPHICS) == [100.0]
    pynvml.nvmlGpmSampleGet(handle, pair[0])
    take(handle, pair[1], clock, 10 * SECOND_US)
    assert means_of(pair, GRAPHICS) == [0.0]


def test_metric_that_is_not_there_fails_alone(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """Each metric has its own result."""
    handle = show(nvml)
    for now, sample in enumerate(pair):
        take(handle, sample, clock, now)
    assert means_of(pair, OCCUPANCY, GRAPHICS, 476) == [-3, 0.0, -3]


def test_without_a_script_the_mean_is_the_constant(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """It is the GPU's utilisation; where that is not known no metric is."""
    for utilization, expected in ((60, [60.0, 48.0]), (None, [-3, -3])):
        nvml.show(SimDevice(uuid="GPU-0", index=0, utilization=utilization, gpm=True))
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        for now, sample in enumerate(pair):
            take(handle, sample, clock, now)
        assert means_of(pair, GRAPHICS, SM) == expected


def test_instances_have_means_of_their_own(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """In MIG mode each is asked for by its id, through its GPU."""
    handle = show(nvml, *SPLIT, mig_mode=1, migs=(*MIGS, SimMig(uuid="MIG-c", gi=3)))
    for gi, expected in ((1, 50.0), (2, 25.0), (3, 0.0)):
        for sample, now in zip(pair, (0, 4 * SECOND_US), strict=True):
            clock.set_us(now)
            pynvml.nvmlGpmMigSampleGet(handle, gi, sample)
        assert means_of(pair, GRAPHICS) == [expected]


def test_instance_without_a_script_has_its_own_constant(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """Or, if it has none, the GPU's."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, utilization=70, gpm=True, mig_mode=1, migs=MIGS))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for gi, expected in ((1, 30.0), (2, 70.0)):
        for now, sample in enumerate(pair):
            clock.set_us(now)
            pynvml.nvmlGpmMigSampleGet(handle, gi, sample)
        assert means_of(pair, GRAPHICS) == [expected]


def test_way_of_asking_has_to_fit_the_mode(nvml: Driver, pair: tuple[Any, Any]) -> None:
    """A partitioned GPU is sampled by instance only, and another as a whole only; an instance has to be there."""
    handle = show(nvml, *SPLIT, mig_mode=1, migs=MIGS)
    assert error_of(pynvml.nvmlGpmSampleGet, handle, pair[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert error_of(pynvml.nvmlGpmMigSampleGet, handle, 5, pair[0]) == pynvml.NVML_ERROR_NOT_FOUND
    mig = pynvml.nvmlDeviceGetHandleByUUID("MIG-a")
    assert error_of(pynvml.nvmlGpmSampleGet, mig, pair[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert error_of(pynvml.nvmlGpmMigSampleGet, mig, 1, pair[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED
    handle = show(nvml)
    assert error_of(pynvml.nvmlGpmMigSampleGet, handle, 1, pair[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_gpu_without_gpm_says_so(nvml: Driver, pair: tuple[Any, Any]) -> None:
    """Asking whether it is supported succeeds; using it does not."""
    assert pynvml.nvmlGpmQueryDeviceSupport(show(nvml)).isSupportedDevice == 1
    nvml.show(SimDevice(uuid="GPU-0", index=0, load=()))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 0
    assert error_of(pynvml.nvmlGpmSampleGet, handle, pair[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_samples_that_do_not_fit_together_are_invalid(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """The wrong way round, of the same moment, of two GPUs, of two instances, or with and without a script."""
    device = SimDevice(uuid="GPU-0", index=0, load=(), gpm=True)
    split = SimDevice(uuid="GPU-2", index=2, load=SPLIT, gpm=True, mig_mode=1, migs=MIGS)
    nvml.show(device, SimDevice(uuid="GPU-1", index=1, load=(), gpm=True), split)
    one, other, partitioned = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(3))

    def code(first: tuple[Any, int], second: tuple[Any, int]) -> int:
        for sample, (handle, now) in zip(pair, (first, second), strict=True):
            take(handle, sample, clock, now)
        return error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS))

    invalid = pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code((one, 2), (one, 1)) == code((one, 1), (one, 1)) == code((one, 1), (other, 2)) == invalid
    for now, (gi, sample) in enumerate(zip((1, 2), pair, strict=True)):
        clock.set_us(now)
        pynvml.nvmlGpmMigSampleGet(partitioned, gi, sample)
    assert error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS)) == invalid
    take(one, pair[0], clock, 1)
    nvml.show(SimDevice(uuid="GPU-0", index=0, gpm=True))
    take(one, pair[1], clock, 2)
    assert error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS)) == invalid


def test_request_that_is_none_is_refused(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """Not taken, NULL, never allocated, of another version, or with no metric or too many."""
    handle = show(nvml)
    invalid = pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS)) == invalid
    for now, sample in enumerate(pair):
        take(handle, sample, clock, now)
    invented = ctypes.cast(ctypes.c_void_p(0x1000), pynvml.c_nvmlGpmSample_t)
    for wrong in (None, invented):
        assert error_of(pynvml.nvmlGpmMetricsGet, request_of((wrong, pair[1]), GRAPHICS)) == invalid
        assert error_of(pynvml.nvmlGpmMetricsGet, request_of((pair[0], wrong), GRAPHICS)) == invalid
        assert error_of(pynvml.nvmlGpmSampleGet, handle, wrong) == invalid
        assert error_of(pynvml.nvmlGpmSampleFree, wrong) == invalid
    for symbol in ("nvmlGpmMetricsGet", "nvmlGpmSampleAlloc"):
        assert getattr(pynvml.nvmlLib, symbol)(None) == invalid
    assert pynvml.nvmlLib.nvmlGpmQueryDeviceSupport(handle, None) == invalid
    for count in (0, 478):
        request = request_of(pair, GRAPHICS)
        request.numMetrics = count
        assert error_of(pynvml.nvmlGpmMetricsGet, request) == invalid
    request = request_of(pair, GRAPHICS)
    request.version = 2
    assert error_of(pynvml.nvmlGpmMetricsGet, request) == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    support = pynvml.c_nvmlGpmSupport_t(version=2)
    code = pynvml.nvmlLib.nvmlGpmQueryDeviceSupport(handle, ctypes.byref(support))
    assert code == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_samples_that_were_not_freed_are_counted(nvml: Driver) -> None:
    """A test can see a leak; freeing twice is an error, and counts once."""
    show(nvml)
    before = live_gpm_samples()
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(3)]
    assert live_gpm_samples() == before + 3
    for sample in (samples[1], samples[0], samples[2]):
        pynvml.nvmlGpmSampleFree(sample)
        assert error_of(pynvml.nvmlGpmSampleFree, sample) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert live_gpm_samples() == before


def test_fault_of_a_gpu_strikes_the_metrics_of_its_samples(nvml: Driver, clock: SimClock, pair: tuple[Any, Any]) -> None:
    """So does its loss; samples of another GPU go on."""
    devices = tuple(SimDevice(uuid=f"GPU-{index}", index=index, load=(), gpm=True) for index in (0, 1))
    for index, code in ((1, pynvml.NVML_ERROR_UNKNOWN), (0, None)):
        nvml.show(*devices)
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        for now, sample in enumerate(pair):
            take(handle, sample, clock, now)
        nvml.show(*devices, faults=(NvmlFault(symbol="nvmlGpmMetricsGet", device=1, code=pynvml.NVML_ERROR_UNKNOWN),))
        if code is None:
            assert means_of(pair, GRAPHICS) == [0.0]
        else:
            assert error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS)) == code
    nvml.show(devices[1])
    assert error_of(pynvml.nvmlGpmMetricsGet, request_of(pair, GRAPHICS)) == pynvml.NVML_ERROR_GPU_IS_LOST
