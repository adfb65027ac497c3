"""A node on which everything goes wrong at random: whatever happens, pages stay sound and no counter falls."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from exporter.model.ledger import LedgerRules
from exporter.model.policy import PriceBook, PriceRule
from exporter.simulator.world import (
    ApiFault,
    KubeletFault,
    NvmlFault,
    SimDevice,
    SimMig,
    SimSample,
    World,
)
from tests.churn import Churn, a_churning_node
from tests.line import Line, SimTime, a_line
from tests.page import Page

CYCLES_PER_LIFE = 40
LIVES = 4
Series = tuple[str, tuple[tuple[str, str], ...]]
SYMBOLS = (
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlGpmMetricsGet",
    "nvmlGpmMigSampleGet",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetCount_v2",
    "*",
)
CODES = (3, 4, 6, 15, 16, 999)
PRICES = PriceBook(rules=(PriceRule(2.5, model="*H100*"),), default_per_gpu_hour=1.0)
RULES = LedgerRules(birth_hold_seconds=10.0, ended_retention_seconds=40.0, owner_retention_seconds=200.0)


@dataclass
class Chaos:
    """Makes one thing after the other go wrong, and right again."""

    chance: random.Random
    churn: Churn
    trouble: Callable[[World], World] = field(default=lambda world: world)

    def next(self, now: float, world: World) -> World:
        """The node's next state."""
        calm = self.churn.world(now) or world
        if self.chance.random() < 0.3:
            self.trouble = self.chance.choice(
                [
                    lambda found: found,
                    self._driver,
                    self._kubelet,
                    self._api,
                    self._absurd,
                    self._relabelled,
                    self._repartitioned,
                    self._without_a_gpu,
                    self._reset_energy,
                ]
            )
        return self.trouble(replace(calm, nvml_faults=(), kubelet_faults=(), api_faults=()))

    def _driver(self, world: World) -> World:
        device = self.chance.choice([None, 0, 1, 2, 3])
        fault = NvmlFault(symbol=self.chance.choice(SYMBOLS), device=device, code=self.chance.choice(CODES))
        if fault.symbol == "nvmlDeviceGetCount_v2":
            fault = replace(fault, device=None)
        return replace(world, nvml_faults=(fault,))

    def _kubelet(self, world: World) -> World:
        fault = self.chance.choice([KubeletFault(code="UNAVAILABLE"), KubeletFault(garbage=True)])
        return replace(world, kubelet_faults=(fault,))

    def _api(self, world: World) -> World:
        path = self.chance.choice(["/", "/api/v1/namespaces", "/apis/apps"])
        return replace(world, api_faults=(ApiFault(path=path, status=self.chance.choice([403, 500, 503])),))

    def _absurd(self, world: World) -> World:
        def spoilt(device: SimDevice) -> SimDevice:
            sample = SimSample(timestamp_us=self.chance.randrange(1 << 40), percent=self.chance.choice([101, 2**32 - 1, 50]))
            changes = [
                {"ring": (sample, sample)},
                {"utilization": self.chance.randrange(1 << 32), "load": None},
                {"power": self.chance.randrange(1 << 32)},
                {"memory_used": self.chance.randrange(1 << 62)},
                {"energy": self.chance.randrange(1 << 62)},
            ]
            return replace(device, **self.chance.choice(changes))  # type: ignore[arg-type]

        return self._changed(world, spoilt)

    def _reset_energy(self, world: World) -> World:
        return self._changed(world, lambda device: replace(device, energy=self.chance.choice([0, 10**9])))

    def _relabelled(self, world: World) -> World:
        team = self.chance.choice(["red", "blue", ""])
        return replace(world, pods=tuple(replace(pod, labels={"team": team}) for pod in world.pods))

    def _repartitioned(self, world: World) -> World:
        number = self.chance.randrange(1000)
        migs = tuple(SimMig(uuid=f"MIG-0a0a0a0a-3333-4222-8333-{number:09d}{gi:03d}", gi=gi) for gi in range(1, 4))
        return replace(
            world, devices=tuple(replace(device, migs=migs) if device.mig_mode else device for device in world.devices)
        )

    def _without_a_gpu(self, world: World) -> World:
        return replace(world, devices=world.devices[:-1])

    def _changed(self, world: World, change: Callable[[SimDevice], SimDevice]) -> World:
        chosen = self.chance.randrange(len(world.devices))
        return replace(
            world,
            devices=tuple(change(device) if place == chosen else device for place, device in enumerate(world.devices)),
        )


def _counters(page: Page) -> dict[Series, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for sample in page.samples
        if sample.name.endswith(("_total", "_bucket", "_count", "_sum")) and not sample.name.startswith("process_")
    }


def _assert_none_fell(before: Mapping[Series, float], after: Mapping[Series, float], own: tuple[str, ...] = ()) -> None:
    fallen = {key: (value, after[key]) for key, value in before.items() if key in after and after[key] < value - 1e-9}
    assert not {key: values for key, values in fallen.items() if not key[0].startswith(own or ("\0",))}


async def _live(line: Line, chaos: Chaos, time: SimTime, scraped: dict[Series, float]) -> dict[Series, float]:
    """Some cycles, some of them late; each page is checked by the line itself."""
    first = True
    for _ in range(CYCLES_PER_LIFE):
        line.node.show(chaos.next(time.passed_seconds, line.node.world))
        time.advance(chaos.chance.choice([5.0, 5.0, 5.0, 0.2, 12.0, 90.0]))
        now = _counters(await line.cycle())
        line.pages.clear()
        _assert_none_fell(scraped, now, own=("gpu_exporter_",) if first else ())
        scraped, first = now, False
    return scraped


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.timeout(240)
async def test_whatever_goes_wrong_pages_are_sound_and_no_counter_falls(tmp_path: Path, seed: int) -> None:
    """Drivers, kubelets and APIs that fail, lie and come back, layouts that change, restarts: identities hold throughout."""
    chance = random.Random(seed)
    time = SimTime(tmp_path)
    chaos = Chaos(chance, a_churning_node(seed))
    world = chaos.churn.world(0.0)
    assert world is not None
    scraped: dict[Series, float] = {}
    for life in range(LIVES):
        async with a_line(
            tmp_path / f"life-{life}",
            world,
            sim_time=time,
            rules=RULES,
            prices=PRICES,
            max_age_seconds=20.0,
            state_file=tmp_path / "state.json",
        ) as line:
            scraped = await _live(line, chaos, time, scraped)
            world = line.node.world
        world = replace(world, api_faults=())
        time.advance(chance.uniform(0.0, 100.0))
    assert len(scraped) > 50
