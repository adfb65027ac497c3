"""A scripted load of which the truth is known: bursts, pauses and idle stretches, on whole, shared and divided GPUs."""

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from exporter.simulator.world import SimBurst

MICROSECONDS = 1_000_000
SHORTEST_BURST_SECONDS, LONGEST_BURST_SECONDS = 0.2, 3.0
SHORTEST_PERIOD_SECONDS, LONGEST_PERIOD_SECONDS = 1.0, 60.0
LONGEST_IDLE_SECONDS = 240.0
PHASES_WITHOUT_IDLE = 3
"""After some phases of bursts with one period comes an idle stretch."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one process does, in order of time."""

    pid: int
    bursts: tuple[SimBurst, ...]


def a_load(chance: random.Random, pid: int, start_us: int, end_us: int, gi: int | None = None) -> Load:
    """Bursts of 0.2 to 3 s with periods of 1 to 60 s, in phases of half a minute to four minutes, with idle stretches.

    Args:
        chance: Where the script comes from.
        pid: Whose it is.
        start_us: When it begins, by the GPU's clock.
        end_us: When it ends.
        gi: GPU instance in MIG mode.
    """
    bursts: list[SimBurst] = []
    now = start_us
    phases = 0
    while now < end_us:
        phases += 1
        if phases % (PHASES_WITHOUT_IDLE + 1) == 0:
            now += _us(chance.uniform(30.0, LONGEST_IDLE_SECONDS))
            continue
        period = chance.uniform(SHORTEST_PERIOD_SECONDS, LONGEST_PERIOD_SECONDS) ** chance.choice((0.5, 1.0))
        phase_end = min(now + _us(chance.uniform(30.0, 240.0)), end_us)
        while now < phase_end:
            length = chance.uniform(SHORTEST_BURST_SECONDS, min(LONGEST_BURST_SECONDS, period))
            end = min(now + _us(length), end_us)
            bursts.append(SimBurst(pid=pid, start_us=now, end_us=end, percent=chance.choice((100, 100, 70, 40)), gi=gi))
            now += _us(max(period, length))
    return Load(pid, tuple(burst for burst in bursts if burst.end_us > burst.start_us))


class Truth:
    """The integral of what a device, or one process on it, did."""

    def __init__(self, edges_us: Sequence[int], ratios: Sequence[float]) -> None:
        """`ratios[i]` holds from `edges_us[i]` to `edges_us[i + 1]`; 0 outside."""
        self._edges = edges_us
        self._ratios = ratios
        pieces = ((end - start) / MICROSECONDS * ratio for (start, end), ratio in zip(pairwise(edges_us), ratios, strict=True))
        self._sums = [0.0, *accumulate(pieces)]

    def busy_seconds(self, start_us: int, end_us: int) -> float:
        """Busy time between two moments."""
        return self._until(end_us) - self._until(start_us)

    def mean(self, start_us: int, end_us: int) -> float:
        """Utilisation between two moments, 0 to 1."""
        return self.busy_seconds(start_us, end_us) / ((end_us - start_us) / MICROSECONDS)

    def _until(self, moment_us: int) -> float:
        place = bisect_right(self._edges, moment_us) - 1
        if place < 0:
            return 0.0
        if place >= len(self._ratios):
            return self._sums[-1]
        return self._sums[place] + (moment_us - self._edges[place]) / MICROSECONDS * self._ratios[place]


def truth_of_device(loads: Iterable[Load]) -> Truth:
    """Time in which any of them ran; what several do at once adds up, to at most all of the time."""
    return _truth(tuple(loads), None)


def truth_of_process(loads: Iterable[Load], pid: int) -> Truth:
    """Time of one of them; what several do at once is sliced evenly between them."""
    return _truth(tuple(loads), pid)


def _truth(loads: tuple[Load, ...], pid: int | None) -> Truth:
    events: dict[int, list[tuple[SimBurst, bool]]] = {}
    for load in loads:
        for burst in load.bursts:
            events.setdefault(burst.start_us, []).append((burst, True))
            events.setdefault(burst.end_us, []).append((burst, False))
    running: dict[int, int] = {}
    edges, ratios = sorted(events), []
    for moment in edges[:-1]:
        for burst, begins in sorted(events[moment], key=lambda event: event[1]):
            if begins:
                running[burst.pid] = burst.percent
            elif running.get(burst.pid) is not None:
                del running[burst.pid]
        ratios.append(_ratio(running, pid))
    return Truth(edges, ratios)


def _ratio(running: dict[int, int], pid: int | None) -> float:
    if not running or (pid is not None and pid not in running):
        return 0.0
    busy = min(sum(running.values()) / 100, 1.0)
    return busy if pid is None else busy / len(running)


def _us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
