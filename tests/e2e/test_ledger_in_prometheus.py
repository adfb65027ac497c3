"""GPU-seconds that add up, as Prometheus computes them: over real scrapes, and over a simulated hour that is back-filled."""

import asyncio
import os
import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.ledger import LedgerRules
from exporter.simulator.node import SimulatedNode
from exporter.simulator.world import KubeletFault, World
from tests.churn import Churn, a_churning_node
from tests.exporter_process import an_exporter
from tests.line import SimTime, a_line
from tests.page import Page, assert_sound
from tests.prometheus import Prometheus, a_prometheus, back_fill

SCRAPE_SECONDS = 2
BEGAN = 1_796_000_000
LIVE_SECONDS = int(os.environ.get("LEDGER_LIVE_SECONDS", "150"))
"""How long the real run lasts; the full length is 600, see ``make ledger-live``."""
WARM_UP_SECONDS = 40.0
"""By then every team has had a pod: Prometheus extrapolates a series that begins inside the window less than the others."""
TOLERANCE = 0.005
SHORT_WINDOW_TOLERANCE = 0.01
"""At both edges of the window the hold keeps back what was born just before: a cycle of one GPU weighs more in a short one."""
FAMILIES = (
    "gpu_provisioned_seconds_total",
    "gpu_unallocated_seconds_total",
    "gpu_allocation_unknown_seconds_total",
    "gpu_owner_held_seconds_total",
    "gpu_container_held_seconds_total",
    "gpu_busy_seconds_total",
    "gpu_unattributed_busy_seconds_total",
    "gpu_owner_busy_seconds_total",
    "gpu_owner_unheld_busy_seconds_total",
    "gpu_energy_joules_total",
    "gpu_unattributed_energy_joules_total",
    "gpu_owner_energy_joules_total",
)


async def _increase(prometheus: Prometheus, names: Iterable[str], window: str, at: float) -> float:
    return await prometheus.number(" + ".join(f"sum(increase({name}[{window}]))" for name in names), at)


async def _assert_adds_up(prometheus: Prometheus, window: str, at: float, tolerance: float = TOLERANCE) -> None:
    nobodys = ("gpu_unallocated_seconds_total", "gpu_allocation_unknown_seconds_total")
    provisioned = await _increase(prometheus, ["gpu_provisioned_seconds_total"], window, at)
    by_owner = await _increase(prometheus, ["gpu_owner_held_seconds_total", *nobodys], window, at)
    by_container = await _increase(prometheus, ["gpu_container_held_seconds_total", *nobodys], window, at)
    print(f"[{window}] provisioned {provisioned:.1f}, by owner {by_owner:.1f}, by container {by_container:.1f}")  # noqa: T201
    assert by_owner == pytest.approx(provisioned, rel=tolerance)
    assert by_container == pytest.approx(provisioned, rel=tolerance)


async def _churn(node: SimulatedNode, churn: Churn) -> None:
    began = asyncio.get_running_loop().time()
    while True:
        world = churn.world(asyncio.get_running_loop().time() - began)
        if world is not None:
            node.show(world)
        await asyncio.sleep(0.5)


@pytest.mark.timeout(LIVE_SECONDS + 120)
async def test_gpu_seconds_of_a_live_node_add_up_in_prometheus(tmp_path: Path) -> None:
    """Pods of 20 s to 5 min come and go, scraped every 2 s: owners and containers each sum to what was provisioned."""
    churn = a_churning_node(5, whole=4, replicas={4: 4, 5: 2})
    world = churn.world(0.0)
    assert world is not None
    node = SimulatedNode(tmp_path / "node", world)
    (tmp_path / "node").mkdir()
    await node.start()
    settings = (
        part for setting in (*node.settings(), f"ledger.birth_hold={2 * SCRAPE_SECONDS}s") for part in ("--set", setting)
    )
    churning = asyncio.create_task(_churn(node, churn))
    try:
        async with an_exporter("serve", *settings, environment=node.environment()) as exporter:
            target = exporter.url.removeprefix("http://")
            config = f"""
  - job_name: gpu
    honor_labels: true
    scrape_interval: {SCRAPE_SECONDS}s
    scrape_timeout: {SCRAPE_SECONDS}s
    static_configs: [{{targets: ["{target}"]}}]
"""
            (tmp_path / "prometheus").mkdir()
            async with a_prometheus(tmp_path / "prometheus", config) as prometheus:
                await exporter.page_when(lambda page: page.values("gpu_provisioned_seconds_total", "uuid"))
                await asyncio.sleep(WARM_UP_SECONDS + LIVE_SECONDS)
                assert_sound(await exporter.page())
                now = await prometheus.number("timestamp(max(gpu_exporter_last_cycle_timestamp_seconds))", time.time())
                tolerance = TOLERANCE if LIVE_SECONDS >= 600 else SHORT_WINDOW_TOLERANCE
                await _assert_adds_up(prometheus, f"{LIVE_SECONDS}s", now, tolerance)
                assert await prometheus.number("max_over_time(sum(up)[1h:1m])", now) == 1
    finally:
        churning.cancel()
        await asyncio.gather(churning, return_exceptions=True)
        await node.stop()


class _Recording:
    """Scrapes of a page that stays the same within a cycle, family by family."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {name: [] for name in FAMILIES}

    def add(self, page: Page, at: float) -> None:
        """One scrape."""
        for sample in page.samples:
            if sample.name in self._lines:
                labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                self._lines[sample.name].append(f"{sample.name}{{{labels}}} {sample.value!r} {at:.3f}")

    def text(self) -> Iterator[str]:
        """As promtool wants it."""
        for name, lines in self._lines.items():
            yield f"# TYPE {name.removesuffix('_total')} counter"
            yield from lines


KUBELET_AWAY_SECONDS = range(1500, 1620)


def _with_kubelet(world: World, second: float) -> World:
    away = KUBELET_AWAY_SECONDS.start <= second < KUBELET_AWAY_SECONDS.stop
    return replace(world, kubelet_faults=(KubeletFault(code="UNAVAILABLE"),) if away else ())


async def _hour(folder: Path, seconds: int) -> _Recording:
    """Cycles of 5 s with jitter, and what scrapes read."""
    churn, chance, recording = a_churning_node(11), random.Random(11), _Recording()
    now = SimTime(folder, seconds=1000.0, started_timestamp_seconds=BEGAN)
    world = churn.world(0.0)
    assert world is not None
    async with a_line(folder, world, sim_time=now, rules=LedgerRules(), max_age_seconds=30.0) as line:
        page, next_cycle = await line.cycle(), 5.0
        for second in range(SCRAPE_SECONDS, seconds, SCRAPE_SECONDS):
            while next_cycle <= second:
                now.advance(next_cycle - now.passed_seconds)
                line.node.show(_with_kubelet(churn.world(now.passed_seconds) or line.node.world, now.passed_seconds))
                await line.settled()
                page = await line.cycle()
                line.pages.clear()
                next_cycle += 5.0 + chance.uniform(0.0, 0.05)
            now.advance(second - now.passed_seconds)
            recording.add(page, BEGAN + second)
    return recording


@pytest.mark.timeout(600)
async def test_gpu_seconds_of_a_simulated_hour_add_up_in_prometheus(tmp_path: Path) -> None:
    """The default rules, a kubelet that is away for two minutes, scraped every 2 s: all parts sum to their wholes."""
    recording = await _hour(tmp_path, 3700)
    (tmp_path / "prometheus").mkdir()
    await back_fill(tmp_path / "prometheus", recording.text())
    async with a_prometheus(tmp_path / "prometheus") as prometheus:
        end = float(BEGAN + 3690)
        await _assert_adds_up(prometheus, "1h", end)
        await _assert_adds_up(prometheus, "50m", BEGAN + 3300.0)
        assert await _increase(prometheus, ["gpu_allocation_unknown_seconds_total"], "1h", end) > 60.0
        for whole, parts in (
            (
                "gpu_busy_seconds_total",
                (
                    "gpu_owner_busy_seconds_total",
                    "gpu_owner_unheld_busy_seconds_total",
                    "gpu_unattributed_busy_seconds_total",
                ),
            ),
            ("gpu_energy_joules_total", ("gpu_owner_energy_joules_total", "gpu_unattributed_energy_joules_total")),
        ):
            counted = await _increase(prometheus, [whole], "1h", end)
            assert await _increase(prometheus, parts, "1h", end) == pytest.approx(counted, rel=TOLERANCE)
