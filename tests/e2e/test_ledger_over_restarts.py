"""A state file carries the ledger over the death of the process, however it dies."""

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from exporter.simulator.node import SimulatedNode
from tests.churn import a_churning_node
from tests.exporter_process import an_exporter
from tests.page import Page, assert_sound

INTERVAL_SECONDS = 0.2
SLACK_SECONDS = 0.2
KILLS = 50
Series = tuple[str, tuple[tuple[str, str], ...]]


def _counters(page: Page) -> Mapping[Series, float]:
    """Everything that is counted of the node; the exporter's own counters begin anew with the process."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for sample in page.samples
        if sample.name.endswith(("_total", "_bucket", "_count", "_sum"))
        and not sample.name.startswith(("process_", "gpu_exporter_"))
    }


def _provisioned(page: Page) -> float:
    return sum(page.values("gpu_provisioned_seconds_total", "uuid").values())


@dataclass
class Lives:
    """What one life of the process leaves to be found by the next."""

    gpus: int
    scraped: Mapping[Series, float] = field(default_factory=dict)
    least_provisioned: float = 0.0

    def check_birth(self, page: Page) -> None:
        """Nothing that was scraped has been undone, and no more than a cycle has been lost."""
        now = _counters(page)
        assert not {key: (value, now[key]) for key, value in self.scraped.items() if key in now and now[key] < value}
        assert self.scraped.keys() <= now.keys()
        assert _provisioned(page) >= self.least_provisioned

    def note_death(self, first: Page, last: Page, alive_seconds: float) -> None:
        """All that was lived through, but for the cycle in progress and the one before it, has to be there again."""
        self.scraped = _counters(last)
        certain = alive_seconds - 2 * INTERVAL_SECONDS - SLACK_SECONDS
        self.least_provisioned = max(_provisioned(last), _provisioned(first) + self.gpus * certain)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SimulatedNode]:
    """A node under load."""
    world = a_churning_node(3, whole=2).world(0.0)
    assert world is not None
    folder = tmp_path / "node"
    folder.mkdir()
    node = SimulatedNode(folder, world)
    await node.start()
    yield node
    await node.stop()


def _settings(node: SimulatedNode, *further: str) -> list[str]:
    chosen = (*node.settings(), f"interval={INTERVAL_SECONDS}s", "ledger.birth_hold=0s", *further)
    return [part for setting in chosen for part in ("--set", setting)]


@pytest.mark.timeout(600)
async def test_fifty_kills_lose_at_most_a_cycle_each_and_nothing_that_was_scraped(node: SimulatedNode, tmp_path: Path) -> None:
    """SIGKILL at random instants under load: no counter falls below a scraped value, none loses more than its last cycle."""
    chance, lives = random.Random(17), Lives(len(node.world.devices))
    settings = _settings(node, f"ledger.state_file={tmp_path / 'ledger.json'}")
    for _ in range(KILLS):
        async with an_exporter("serve", *settings, environment=node.environment()) as exporter:
            first = await exporter.page_when(lambda page: page.series("gpu_exporter_last_cycle_timestamp_seconds"))
            lives.check_birth(first)
            began = first.value("gpu_exporter_last_cycle_timestamp_seconds") or 0.0
            await asyncio.sleep(chance.uniform(0.05, 1.2))
            last = await exporter.page()
            assert_sound(last)
            await asyncio.sleep(chance.uniform(0.0, 2 * INTERVAL_SECONDS))
            exporter.process.send_signal(signal.SIGKILL)
            lives.note_death(first, last, time.time() - began)
            await exporter.process.wait()
    assert lives.least_provisioned > KILLS * 0.1


@pytest.mark.timeout(60)
async def test_without_a_state_file_counters_begin_at_zero_and_never_half_way(node: SimulatedNode) -> None:
    """STALE-06: the same series after a restart, counted from 0; increase() over it is never above the true use."""
    pages = []
    for pod_name in ("exporter-aaaaa", "exporter-bbbbb"):
        environment = {**node.environment(), "POD_NAME": pod_name, "HOSTNAME": pod_name}
        began = time.time()
        async with an_exporter("serve", *_settings(node), environment=environment) as exporter:
            pages.append(await exporter.page_when(lambda page: _provisioned(page) > 1.0))
            assert _provisioned(pages[-1]) <= len(node.world.devices) * (time.time() - began)
            assert await exporter.end() == 0
    names = [{key for key in _counters(page) if key[0].startswith("gpu_")} for page in pages]
    assert names[0] == names[1]
