"""How far off is the utilisation that Prometheus computes from our counters, and from snapshots of a gauge?

A node of simulated GPUs runs a load whose truth is known to the microsecond: bursts of 0.2 to 3 s with periods of 1 to 60 s,
and idle stretches, on exclusive, shared and divided GPUs. Time is compressed; everything else is real: the unmodified
nvidia-ml-py, the sources, the cycle, the page, and a Prometheus server that computes the means.

    .venv/bin/python -m bench.accuracy            # prints the table of bench/README.md
"""

import argparse
import asyncio
import itertools
import random
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pynvml

from bench.load import MICROSECONDS, Load, Truth, a_load, truth_of_device, truth_of_process
from exporter.simulator.world import GIB, SimContainer, SimDevice, SimMig, SimPod, SimProcess, SimTask, World
from tests.line import Line, SimTime, a_line
from tests.page import Page
from tests.prometheus import Prometheus, a_prometheus, back_fill
from tests.worlds import WHOLE, cgroup, container_id, uid

START_SECONDS = 1_796_000_000
"""Unix time at which it begins."""
LOADED_SECONDS = 1_000
"""What the GPUs' clock says then."""
WARM_UP_SECONDS = 60
SCRAPES_SECONDS = (15, 30)
WINDOWS: Mapping[str, int] = {"15m": 900, "1h": 3600}
CYCLE_SECONDS, JITTER_SECONDS = 5.0, 0.05
EXCLUSIVE, SHARERS = 4, (2, 4)
MIG_SLICES = (3, 2, 2)
STEPS_SECONDS: Mapping[str, float] = {"on scrapes": 60.0, "anywhere": 37.0}
"""Instants at which means are asked for: on the scrapes of both intervals, or at any phase between them."""
QUANTILES = (0.5, 0.9, 0.95)
BOUNDS = (0.0, 0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
SEEDS = 20


@dataclass(frozen=True, slots=True)
class Subject:
    """Something whose utilisation is known and measured: a GPU, or a container on one."""

    kind: str
    """``exclusive``, ``2 sharers``, ``4 sharers``, ``MIG``."""
    name: str
    truth: Truth
    counter: str
    """The counter whose rate is its utilisation, as PromQL."""
    gauge: str
    """What a snapshot of it is called in the back-filled data; empty: there is none."""


@dataclass(slots=True)
class Fleet:
    """The node, and who is to be measured on it."""

    world: World
    subjects: list[Subject] = field(default_factory=list)


class Builder:
    """Puts a fleet together, GPU by GPU."""

    def __init__(self, seed: int, end_us: int) -> None:
        self._chance = random.Random(seed)
        self._end_us = end_us
        self._numbers = itertools.count(1)
        self._devices: list[SimDevice] = []
        self._pods: list[SimPod] = []
        self._tasks: list[SimTask] = []
        self._allocatable: dict[str, list[str]] = {}
        self._subjects: list[Subject] = []

    def fleet(self) -> Fleet:
        """What was put together."""
        world = World(
            devices=tuple(self._devices),
            pods=tuple(self._pods),
            tasks=tuple(self._tasks),
            allocatable={resource: tuple(ids) for resource, ids in self._allocatable.items()},
            namespaces={"team-red": {"labels": {"team": "red"}}},
        )
        return Fleet(world, self._subjects)

    def exclusive(self) -> None:
        """A GPU that one container holds."""
        uuid, index = self._next_uuid(), len(self._devices)
        load, _ = self._holder(uuid)
        self._devices.append(_device(index, [load]))
        counter = f'gpu_busy_seconds_total{{uuid="{uuid}"}}'
        self._subjects.append(Subject("exclusive", f"GPU {index}", truth_of_device([load]), counter, f"gpu_{index}"))

    def shared(self, sharers: int) -> None:
        """A GPU in replicas, all of them taken."""
        uuid, index = self._next_uuid(), len(self._devices)
        holders = [self._holder(f"{uuid}::{replica}") for replica in range(sharers)]
        loads = [load for load, _ in holders]
        self._devices.append(_device(index, loads))
        for load, pod in holders:
            counter = f'gpu_container_busy_seconds_total{{pod="{pod}"}}'
            truth = truth_of_process(loads, load.pid)
            self._subjects.append(Subject(f"{sharers} sharers", pod, truth, counter, f"process_{load.pid}"))

    def divided(self, sizes: Sequence[int]) -> None:
        """A GPU in MIG mode, all instances taken."""
        uuid, index = self._next_uuid(), len(self._devices)
        migs = [_mig(uuid, gi, size) for gi, size in enumerate(sizes, 1)]
        loads = []
        for mig in migs:
            load, pod = self._holder(mig.uuid, f"nvidia.com/mig-{mig.profile}", mig.gi)
            loads.append(load)
            counter = f'gpu_mig_busy_seconds_total{{gpu_instance_id="{mig.gi}"}}'
            self._subjects.append(Subject("MIG", f"{mig.profile} of {pod}", truth_of_device([load]), counter, ""))
        self._devices.append(_device(index, loads, migs))

    def _next_uuid(self) -> str:
        return _uuid(len(self._devices))

    def _holder(self, device_id: str, resource: str = WHOLE, gi: int | None = None) -> tuple[Load, str]:
        """A pod that holds this, its process, and what that does."""
        number = next(self._numbers)
        pid, name = 4000 + number, f"pod-{number}"
        container = SimContainer(id=container_id(number), limits={resource: "1"}, devices=((resource, (device_id,)),))
        self._pods.append(SimPod(name=name, namespace="team-red", uid=uid(number), containers=(container,)))
        self._tasks.append(SimTask(pid=pid, cgroup=(cgroup(uid(number), container_id(number)),)))
        self._allocatable.setdefault(resource, []).append(device_id)
        return a_load(self._chance, pid, LOADED_SECONDS * MICROSECONDS, self._end_us, gi), name


def a_fleet(seed: int, end_us: int, *, exclusive: int = EXCLUSIVE) -> Fleet:
    """GPUs of all kinds, each with a load of its own."""
    builder = Builder(seed, end_us)
    for _ in range(exclusive):
        builder.exclusive()
    for sharers in SHARERS:
        builder.shared(sharers)
    builder.divided(MIG_SLICES)
    return builder.fleet()


def _mig(uuid: str, gi: int, size: int) -> SimMig:
    return SimMig(
        uuid=f"MIG-{uuid[4:-1]}{gi}",
        gi=gi,
        profile=f"{size}g.{size * 10}gb",
        compute_slices=size,
        gpu_slices=size,
        memory_total=size * 10 * GIB,
    )


def _uuid(index: int) -> str:
    return f"GPU-0a0a0a0a-1111-4222-8333-{index:012d}"


def _device(index: int, loads: Sequence[Load], migs: Sequence[SimMig] = ()) -> SimDevice:
    bursts = tuple(sorted((burst for load in loads for burst in load.bursts), key=lambda burst: burst.start_us))
    gi_of = {load.pid: load.bursts[0].gi for load in loads}
    return SimDevice(
        uuid=_uuid(index),
        index=index,
        load=bursts,
        gpm=True,
        mig_mode=1 if migs else 0,
        migs=tuple(migs),
        utilization=None if migs else 0,
        busy_power=400_000,
        processes=tuple(
            SimProcess(pid=load.pid, memory=8 * GIB, gi=gi_of[load.pid], ci=None if gi_of[load.pid] is None else 0)
            for load in loads
        ),
    )


@dataclass(slots=True)
class Recording:
    """What Prometheus would have scraped, as OpenMetrics lines by family."""

    lines: dict[str, list[str]] = field(default_factory=dict)

    def add(self, family: str, series: str, value: float, at: float) -> None:
        """One sample."""
        self.lines.setdefault(family, []).append(f"{series} {value!r} {at:.3f}")

    def counters(self, page: Page, names: Iterable[str], at: float, **further: str) -> None:
        """All samples of some families of a page."""
        wanted = tuple(names)
        for sample in page.samples:
            if sample.name in wanted:
                labels = ",".join(f'{name}="{value}"' for name, value in sorted({**sample.labels, **further}.items()))
                self.add(sample.name, f"{sample.name}{{{labels}}}", sample.value, at)

    def text(self) -> Iterable[str]:
        """Families in one piece each."""
        for family, lines in self.lines.items():
            yield f"# TYPE {family} gauge"
            yield from lines


NAMES = (
    "gpu_busy_seconds_total",
    "gpu_container_busy_seconds_total",
    "gpu_mig_busy_seconds_total",
    "gpu_container_utilization_distribution_ratio_bucket",
)


async def record(fleet: Fleet, seconds: int, seed: int, folder: Path) -> Recording:
    """Run the node for so long, and note what scrapes at each interval would have read."""
    recording = Recording()
    chance = random.Random(seed)
    time = SimTime(folder, seconds=LOADED_SECONDS, started_timestamp_seconds=START_SECONDS)
    async with a_line(folder, fleet.world, sim_time=time) as line:
        page = await line.cycle()
        pynvml.nvmlInit()
        next_cycle = CYCLE_SECONDS
        for second in range(1, seconds + 1):
            while next_cycle <= second:
                time.advance(next_cycle - time.passed_seconds)
                page = await _cycle(line)
                next_cycle += CYCLE_SECONDS + chance.uniform(0.0, JITTER_SECONDS)
            time.advance(second - time.passed_seconds)
            for interval in SCRAPES_SECONDS:
                if second % interval == 0:
                    recording.counters(page, NAMES, START_SECONDS + second, scrape=f"{interval}s")
                    _snapshot(recording, fleet, interval, START_SECONDS + second)
        pynvml.nvmlShutdown()
    return recording


async def _cycle(line: Line) -> Page:
    page = await line.cycle()
    line.pages.clear()
    return page


def _snapshot(recording: Recording, fleet: Fleet, interval: int, at: float) -> None:
    """What an exporter of gauges reads at the moment of a scrape: the driver's one figure, and its figures by process."""
    for device in fleet.world.devices:
        if device.mig_mode:
            continue
        handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
        figures = {f"gpu_{device.index}": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu}
        try:
            seen = {one.pid: one.smUtil for one in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)}
        except pynvml.NVMLError_NotFound:
            seen = {}
        figures |= {f"process_{process.pid}": seen.get(process.pid, 0) for process in device.processes}
        for name, percent in figures.items():
            recording.add("snapshot", f'snapshot{{of="{name}",scrape="{interval}s"}}', percent / 100, at)


@dataclass(frozen=True, slots=True)
class Error:
    """How far off one figure was."""

    subject: Subject
    window: str
    scrape: int
    asked: str
    ours: float
    snapshots: float | None


async def errors(
    prometheus: Prometheus, fleet: Fleet, seconds: int, windows: Iterable[str], grids: Iterable[str]
) -> list[Error]:
    """The largest error of each subject over all instants of a grid, by Prometheus' own arithmetic."""
    cases = itertools.product(fleet.subjects, windows, SCRAPES_SECONDS, grids)
    return [
        await _error(prometheus, subject, seconds, window, scrape, grid)
        for subject, window, scrape, grid in cases
        if seconds >= WINDOWS[window] + WARM_UP_SECONDS
    ]


async def _error(prometheus: Prometheus, subject: Subject, seconds: int, window: str, scrape: int, grid: str) -> Error:
    series = subject.counter.replace("{", f'{{scrape="{scrape}s",')
    ours = await _worst(prometheus, f"rate({series}[{window}])", subject, WINDOWS[window], seconds, grid)
    if not subject.gauge:
        return Error(subject, window, scrape, grid, ours, None)
    query = f'avg_over_time(snapshot{{of="{subject.gauge}",scrape="{scrape}s"}}[{window}])'
    return Error(subject, window, scrape, grid, ours, await _worst(prometheus, query, subject, WINDOWS[window], seconds, grid))


async def _worst(prometheus: Prometheus, query: str, subject: Subject, length: int, seconds: int, grid: str) -> float:
    start, end = START_SECONDS + WARM_UP_SECONDS + length, START_SECONDS + seconds
    curve = await prometheus.curve(query, float(start), float(end), STEPS_SECONDS[grid])
    if not curve:
        raise RuntimeError(f"no value for {query}")
    return max(abs(value - subject.truth.mean(_gpu_us(at - length), _gpu_us(at))) for at, value in curve)


async def quantiles(prometheus: Prometheus, fleet: Fleet, seconds: int) -> list[tuple[Subject, float, int, int]]:
    """(subject, quantile, bucket by the script, bucket by the histogram) of exclusive GPUs over the last hour."""
    found = []
    end = START_SECONDS + seconds
    for index, subject in enumerate(subject for subject in fleet.subjects if subject.kind == "exclusive"):
        means = [
            subject.truth.mean(_gpu_us(at), _gpu_us(at + CYCLE_SECONDS)) for at in range(end - 3600, end, int(CYCLE_SECONDS))
        ]
        for quantile in QUANTILES:
            query = (
                f"histogram_quantile({quantile}, sum by (le) (increase(gpu_container_utilization_distribution_ratio_bucket"
                f'{{scrape="15s",uuid="{_uuid(index)}"}}[1h])))'
            )
            told = await prometheus.number(query, float(end))
            found.append((subject, quantile, _bucket(_quantile(means, quantile)), _bucket(told)))
    return found


def _gpu_us(at: float) -> int:
    """A moment by the GPUs' clock."""
    return round((at - START_SECONDS + LOADED_SECONDS) * MICROSECONDS)


def _quantile(values: Sequence[float], quantile: float) -> float:
    return sorted(values)[min(int(quantile * len(values)), len(values) - 1)]


def _bucket(value: float) -> int:
    return sum(1 for bound in BOUNDS if value > bound + 1e-12)


async def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3600 + 900 + WARM_UP_SECONDS, help="simulated time of the main run")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of 16 minutes for the sharers")
    options = parser.parse_args()
    print(f"main run: {options.seconds} s simulated, seed 1", file=sys.stderr)
    table, buckets = await _run(1, options.seconds, tuple(WINDOWS), tuple(STEPS_SECONDS))
    _print_table(table)
    _print_quantiles(buckets)
    many: list[Error] = []
    for seed in range(1, options.seeds + 1):
        print(f"seed {seed} of {options.seeds}", file=sys.stderr)
        found, _ = await _run(seed, 900 + WARM_UP_SECONDS, ("15m",), ("on scrapes",), exclusive=0)
        many += [error for error in found if "sharers" in error.subject.kind]
    _print_sharers(many)
    return 0


async def _run(
    seed: int, seconds: int, windows: Sequence[str], grids: Sequence[str], *, exclusive: int = EXCLUSIVE
) -> tuple[list[Error], list[tuple[Subject, float, int, int]]]:
    fleet = a_fleet(seed, (LOADED_SECONDS + seconds) * MICROSECONDS, exclusive=exclusive)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "node").mkdir()
        recording = await record(fleet, seconds, seed, folder / "node")
        await back_fill(folder, recording.text())
        async with a_prometheus(folder) as prometheus:
            found = await errors(prometheus, fleet, seconds, windows, grids)
            told = await quantiles(prometheus, fleet, seconds) if exclusive and seconds > 3600 else []
    return found, told


def _print_table(found: Sequence[Error]) -> None:
    print("| kind | window | scrape | asked | worst error of our counters | worst error of snapshots | ratio |")
    print("|---|---|---|---|---|---|---|")
    groups: dict[tuple[str, str, int, str], list[Error]] = {}
    for error in found:
        groups.setdefault((error.subject.kind, error.window, error.scrape, error.asked), []).append(error)
    for (kind, window, scrape, asked), errors_found in groups.items():
        ours = max(error.ours for error in errors_found)
        told = [error.snapshots for error in errors_found if error.snapshots is not None]
        snapshots = f"{max(told):.2%}" if told else "no figure in MIG mode"
        ratio = f"1 / {max(told) / ours:.0f}" if told and ours else ""
        print(f"| {kind} | {window} | {scrape} s | {asked} | {ours:.2%} | {snapshots} | {ratio} |")


def _print_quantiles(told: Sequence[tuple[Subject, float, int, int]]) -> None:
    off = [abs(script - histogram) for _, _, script, histogram in told]
    if off:
        print(f"\nquantiles p50, p90, p95 of {len(told) // len(QUANTILES)} GPUs over 1 h: at most {max(off)} bucket(s) off")


def _print_sharers(found: Sequence[Error]) -> None:
    if not found:
        return
    for scrape in SCRAPES_SECONDS:
        ours = sorted(error.ours for error in found if error.scrape == scrape)
        snapshots = sorted(error.snapshots for error in found if error.scrape == scrape and error.snapshots is not None)
        rank = int(0.95 * (len(ours) - 1))
        print(
            f"\nsharers, {len(ours)} containers, 15m, scraped every {scrape} s: 95th percentile {ours[rank]:.2%} "
            f"(median {statistics.median(ours):.2%}), snapshots {snapshots[rank]:.2%}"
        )


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
