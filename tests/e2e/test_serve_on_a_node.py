"""serve over a simulated node, as a process: what Prometheus reads, and what happens when a part of the node hangs."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from exporter.simulator.node import SimulatedNode
from exporter.simulator.world import ApiFault, KubeletFault, NvmlFault, World
from tests.exporter_process import Exporter, an_exporter
from tests.page import assert_sound
from tests.worlds import G0, G1, b0

GOLDEN = Path(__file__).parent / "golden" / "baseline.metrics"
OWN = ("process_", "python_", "gpu_exporter_", "# ")
"""Lines about the exporter itself, which differ from run to run."""

NOW = re.compile(r"^(gpu_\w+_last_active_timestamp_seconds\{.*\}) \S+$")
"""It is at work as we look."""


@asynccontextmanager
async def _serving(folder: Path, world: World) -> AsyncIterator[tuple[SimulatedNode, Exporter]]:
    node = SimulatedNode(folder, world)
    await node.start()
    settings = [word for setting in node.settings() for word in ("--set", setting)]
    try:
        async with an_exporter("serve", "--interval", "200ms", *settings, environment=node.environment()) as exporter:
            yield node, exporter
    finally:
        await node.stop()


async def test_page_of_the_baseline_node_is_the_golden_one(tmp_path: Path) -> None:
    """Every sample of a known node, with every label: what a dashboard is built on."""
    async with _serving(tmp_path, b0()) as (_, exporter):
        page = await exporter.page_when(lambda page: page.series("gpu_pod_owner_info", team="red"))
    assert_sound(page, {G0, G1})
    lines = [NOW.sub(r"\1 now", line) for line in page.text.splitlines() if not line.startswith(OWN)]
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()


async def test_driver_call_that_never_returns_blocks_neither_http_nor_the_end(tmp_path: Path) -> None:
    """A sick driver costs its own figures: probes and scrapes go on, and SIGTERM ends it within 5 s (LIFE-02)."""
    hang = NvmlFault(symbol="nvmlDeviceGetUtilizationRates", device=0, delay_seconds=600)
    async with _serving(tmp_path, b0()) as (node, exporter):
        await exporter.page_when(lambda page: page.series("gpu_utilization_ratio"))
        node.show(replace(b0(), nvml_faults=(hang,)))
        page = await exporter.page_when(lambda page: page.value("gpu_exporter_source_up", source="nvml") == 0)
        assert page.value("gpu_exporter_source_missing", source="nvml", reason="timeout") == 1
        assert not page.series("gpu_utilization_ratio")
        assert not page.series("gpu_allocated_ratio")
        for path in ("/healthz", "/metrics", "/", "/api/v1/node"):
            started = time.monotonic()
            assert (await exporter.get(path))[0] == 200
            assert time.monotonic() - started < 1
        started = time.monotonic()
        assert await exporter.end() == 0
        assert time.monotonic() - started < 5


async def test_driver_that_comes_back_is_read_again_by_the_same_process(tmp_path: Path) -> None:
    """No restart is needed after a call that hung for a while."""
    hang = NvmlFault(symbol="nvmlDeviceGetUtilizationRates", device=0, delay_seconds=600)
    async with _serving(tmp_path, replace(b0(), nvml_faults=(hang,))) as (node, exporter):
        await exporter.page_when(lambda page: page.value("gpu_exporter_source_up", source="nvml") == 0)
        node.show(b0())
        page = await exporter.page_when(lambda page: page.series("gpu_utilization_ratio"))
        assert page.value("gpu_container_utilization_ratio", pod="train-0") is not None


async def test_kubelet_and_api_that_hang_cost_their_own_part_only(tmp_path: Path) -> None:
    """Device figures are fresh while nobody answers about pods, and SIGTERM still ends it in time (RPC-10)."""
    slow = replace(
        b0(), kubelet_faults=(KubeletFault(delay_seconds=600),), api_faults=(ApiFault(path="/api/v1/pods", delay_seconds=600),)
    )
    async with _serving(tmp_path, slow) as (_, exporter):
        page = await exporter.page_when(lambda page: page.series("gpu_utilization_ratio"), seconds=20)
        assert page.value("gpu_exporter_source_up", source="pod_resources") == 0
        assert not page.series("gpu_allocated_ratio")
        assert not page.series("gpu_container_unallocated_use")
        assert (await exporter.get("/healthz"))[0] == 200
        started = time.monotonic()
        assert await exporter.end() == 0
        assert time.monotonic() - started < 5


async def test_twenty_scrapes_at_once_get_one_page(tmp_path: Path) -> None:
    """A page is rendered once a cycle, whoever asks how often."""
    async with _serving(tmp_path, b0()) as (_, exporter):
        await exporter.page_when(lambda page: page.series("gpu_pod_owner_info"))
        answers = await asyncio.gather(*(exporter.get("/metrics") for _ in range(20)))
    assert {status for status, _, _ in answers} == {200}
    assert len({body for _, body, _ in answers}) <= 2
