"""What the research left open, asked of a real driver; and the source's own figures against a load that is known."""

import asyncio
import ctypes
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from exporter.model.device import Device
from exporter.model.reading import Fresh
from exporter.sources.nvml.source import Nvml
from tests.gpu.conftest import Show, Start

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]
GIB = 1 << 30
LIST_PIDS = (
    "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0);"
    "print(*[p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(h)])"
)
FIRST_BRANCH_WITH_ACCOUNTING_V2 = 610
REFERENCES = Path("/sys/module/nvidia/refcnt")


def _code(call: Callable[[], Any]) -> Any:
    """What the call gives, or the number of its error."""
    try:
        return call()
    except pynvml.NVMLError as error:
        return f"NVML error {error.value}"


def _samples(gpu: Any, since_us: int) -> list[tuple[int, int]]:
    """(timestamp, percent) of the utilisation ring; empty where it has nothing newer."""
    try:
        _, found = pynvml.nvmlDeviceGetSamples(gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, since_us)
    except pynvml.NVMLError_NotFound:
        return []
    return [(int(one.timeStamp), int(one.sampleValue.uiVal)) for one in found]


def _process_percents(gpu: Any, since_us: int) -> dict[int, int]:
    try:
        found = pynvml.nvmlDeviceGetProcessUtilization(gpu, since_us)
    except pynvml.NVMLError_NotFound:
        return {}
    return {int(one.pid): int(one.smUtil) for one in found}


def test_process_list_names_our_pid_and_another_namespace_sees_something_else(gpu: Any, show: Show, start: Start) -> None:
    """1: which PIDs the driver tells, from here and from a PID namespace of its own."""
    load = start(**{"on": 1, "for": 20})
    time.sleep(1)
    listed = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
    apart = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LIST_PIDS],
        capture_output=True,
        text=True,
        check=False,
    )
    show(
        "1 PIDs",
        {
            "own": load.pid,
            "listed": listed,
            "sampled": sorted(_process_percents(gpu, 0)),
            "from another PID namespace": apart.stdout.split() if apart.returncode == 0 else apart.stderr.strip()[-200:],
        },
    )
    assert load.pid in listed


def test_memory_versions_tell_reserved_memory_apart(gpu: Any, show: Show, start: Start) -> None:
    """2: whether `used` of version 2 is without what the driver reserves, and of version 1 with it."""
    before = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    start(**{"on": 0, "for": 10, "memory": GIB})
    time.sleep(1)
    first, second = pynvml.nvmlDeviceGetMemoryInfo(gpu), pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
    grown = second.used - before.used
    show(
        "2 Memory",
        {
            "v1 used": first.used,
            "v2 used": second.used,
            "v2 reserved": second.reserved,
            "total": second.total,
            "grown by 1 GiB": grown,
        },
    )
    assert GIB <= grown < 3 * GIB
    assert abs(second.used + second.reserved + second.free - second.total) < 64 << 20


def test_ring_of_samples_has_the_cadence_that_the_source_counts_on(gpu: Any, show: Show, start: Start) -> None:
    """3: how many samples at first, how far apart, what an idle GPU says, and whose clock it is."""
    load = start(**{"on": 12, "for": 12})
    time.sleep(11.5)
    first = sorted(_samples(gpu, 0))
    offset = time.time() - first[-1][0] / 1e6
    load.wait()
    time.sleep(3)
    gaps = [(later[0] - earlier[0]) / 1e6 for earlier, later in itertools.pairwise(first)]
    idle = _samples(gpu, first[-1][0])
    show(
        "3 Ring",
        {
            "first call": len(first),
            "median gap s": statistics.median(gaps),
            "shortest, longest gap s": (min(gaps), max(gaps)),
            "offset to time.time() s": offset,
            "after 3 s of rest": idle[-40:],
            "percent": [percent for _, percent in first[-10:]],
        },
    )
    assert len(first) >= 10
    assert 0.01 < statistics.median(gaps) <= 1.0


def test_two_processes_share_what_the_device_did(gpu: Any, show: Show, start: Start) -> None:
    """4: what the percents of two sliced processes add up to, and what they are a part of when the GPU rests half the time."""
    one, two = start(**{"on": 6, "for": 6}), start(**{"on": 6, "for": 6})
    time.sleep(0.5)
    begin = max((at for at, _ in _samples(gpu, 0)), default=0)
    time.sleep(5)
    both, ring = _process_percents(gpu, begin), _samples(gpu, begin)
    one.wait()
    two.wait()
    alone = start(**{"on": 0.5, "off": 0.5, "for": 10})
    time.sleep(1)
    begin = max((at for at, _ in _samples(gpu, 0)), default=0)
    time.sleep(6)
    resting, resting_ring = _process_percents(gpu, begin), _samples(gpu, begin)
    show(
        "4 Processes",
        {
            "two that never rest": {"percents": both, "device mean": statistics.mean(percent for _, percent in ring)},
            "one that rests half of the time": {
                "percent": resting.get(alone.pid),
                "mean of the ring's samples": statistics.mean(percent for _, percent in resting_ring),
                "samples in 6 s": len(resting_ring),
            },
        },
    )
    assert {one.pid, two.pid} <= both.keys()


def test_gpm_differences_two_samples(gpu: Any, show: Show, start: Start) -> None:
    """5: whether GPM works for us, what it says of one spinning thread, and what a sample costs."""
    support = _code(lambda: pynvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice)
    if support != 1:
        show("5 GPM", {"supported": support})
        return
    start(**{"on": 8, "for": 8})
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    costs = []
    for sample in samples:
        began = time.perf_counter()
        pynvml.nvmlGpmSampleGet(gpu, sample)
        costs.append(time.perf_counter() - began)
        time.sleep(3)
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics, asked.sample1, asked.sample2 = 1, 3, *samples
    for place, metric in enumerate((1, 2, 5)):
        asked.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(asked)
    values = {asked.metrics[place].metricId: asked.metrics[place].value for place in range(3)}
    for sample in samples:
        pynvml.nvmlGpmSampleFree(sample)
    show("5 GPM", {"supported": support, "user": os.getuid(), "graphics, SM, tensor %": values, "sample s": costs})
    assert 50 < values[1] <= 100


def test_calls_of_a_cycle_cost_little(gpu: Any, show: Show, start: Start) -> None:
    """6: time of each call, alone and with twenty CUDA contexts on the GPU."""
    calls: dict[str, Callable[[], Any]] = {
        "utilization": lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu),
        "samples": lambda: _samples(gpu, 0),
        "process utilization": lambda: _process_percents(gpu, 0),
        "processes": lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu),
        "memory": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2),
        "power": lambda: pynvml.nvmlDeviceGetPowerUsage(gpu),
        "energy": lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
        "ecc": lambda: _code(lambda: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 1)),
        "fields": lambda: pynvml.nvmlDeviceGetFieldValues(gpu, [74, 76, 83]),
    }
    alone = {name: _cost(call) for name, call in calls.items()}
    for _ in range(20):
        start(**{"on": 0, "for": 60})
    crowded = {name: _cost(call) for name, call in calls.items()}
    fields = pynvml.nvmlDeviceGetFieldValues(gpu, [74, 76, 83])
    show(
        "6 Cost, median ms",
        {"alone": alone, "20 contexts": crowded, "latencyUsec": [int(field.latencyUsec) for field in fields]},
    )
    assert alone["samples"] < 1000


def _cost(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(10):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 3)


def test_driver_is_held_by_whoever_has_it_open(show: Show) -> None:
    """7: references to the kernel module before NVML, with it, with a handle, and after its end, in a process of its own."""
    if not REFERENCES.exists():
        show("7 References", "no /sys/module/nvidia/refcnt here")
        return
    steps = (
        "import pynvml as n; f = lambda: open('/sys/module/nvidia/refcnt').read().strip(); a = [f()]; n.nvmlInit(); a += [f()];"
        "n.nvmlDeviceGetHandleByIndex(0); a += [f()]; n.nvmlShutdown(); a += [f()]; print(*a)"
    )
    told = subprocess.run([sys.executable, "-c", steps], capture_output=True, text=True, check=True).stdout.split()
    show("7 References", dict(zip(("before", "initialised", "handle", "shut down"), map(int, told), strict=True)))
    assert int(told[-1]) <= int(told[1])


def test_accounting_is_told_where_an_admin_switched_it_on(gpu: Any, show: Show, start: Start) -> None:
    """8: whether this driver has the second version of the statistics, and what it says of one process."""
    load = start(**{"on": 3, "for": 3})
    time.sleep(2)
    mode = _code(lambda: pynvml.nvmlDeviceGetAccountingMode(gpu))
    known = hasattr(pynvml.nvmlLib, "nvmlDeviceGetAccountingStats_v2")
    show("8 Accounting", {"mode": mode, "symbol of version 2": known, "pid": load.pid})
    branch = int(str(pynvml.nvmlSystemGetDriverVersion()).partition(".")[0])
    assert known or branch < FIRST_BRANCH_WITH_ACCOUNTING_V2


async def test_source_counts_every_burst_of_a_known_load(show: Show, start: Start) -> None:
    """The product's own reading: busy seconds over half a minute of bursts, against the script's, to within 3 %."""
    nvml = Nvml(library="libnvidia-ml.so.1", deadline_seconds=4.0)
    load = start(**{"on": 0.7, "off": 1.1, "for": 32})
    await _read(nvml)
    busy = measured = 0.0
    began = time.time()
    for _ in range(6):
        await asyncio.sleep(5)
        device = await _read(nvml)
        assert device.activity is not None
        busy += device.activity.busy_seconds
        measured += device.activity.measured_seconds
    ended = time.time()
    await nvml.close()
    load.wait()
    assert load.stdout
    bursts = [json.loads(line) for line in load.stdout]
    truth = sum(max(min(one["end"], ended) - max(one["begin"], began), 0.0) for one in bursts)
    show("9 The source", {"script s": truth, "source s": busy, "measured s": measured, "watched s": ended - began})
    assert measured == pytest.approx(ended - began, rel=0.02)
    assert busy / measured == pytest.approx(truth / (ended - began), abs=0.03)


async def _read(nvml: Nvml) -> Device:
    reading = await nvml.read()
    assert isinstance(reading, Fresh), reading
    return reading.value.devices[0]


def test_libraries_are_the_real_ones(show: Show) -> None:
    """No stand-in is loaded: this is what the other findings rest on."""
    with Path("/proc/self/maps").open() as maps:
        loaded = sorted({line.split()[-1] for line in maps if "libnvidia-ml" in line})
    show("Libraries", loaded)
    assert loaded
    assert not hasattr(ctypes.CDLL(loaded[0]), "gpu_ownership_simulated")
