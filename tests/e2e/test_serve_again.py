"""serve with a state file, ended in every way and started again: what Prometheus has seen is never undone."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from exporter.simulator.node import SimulatedNode
from tests.exporter_process import Exporter, an_exporter
from tests.page import Page, assert_sound
from tests.worlds import G0, b0

PROVISIONED = "gpu_provisioned_seconds_total"
SURVIVING = ("gpu_container_", "gpu_owner_", "gpu_mig_", "gpu_exporter_rejected_", "gpu_exporter_lost_")
"""With the devices' own: everything that does not belong to the process."""


@asynccontextmanager
async def _serving(node: SimulatedNode, state_file: Path) -> AsyncIterator[Exporter]:
    settings = (*node.settings(), f"ledger.state_file={state_file}", "ledger.birth_hold=0s")
    words = [word for setting in settings for word in ("--set", setting)]
    async with an_exporter("serve", "--interval", "200ms", *words, environment=node.environment()) as exporter:
        yield exporter


def _counters(page: Page) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for sample in page.samples
        if sample.name.endswith(("_total", "_bucket", "_count"))
        and sample.name.startswith("gpu_")
        and (not sample.name.startswith("gpu_exporter_") or sample.name.startswith(SURVIVING))
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_counter_falls_however_the_process_ends(tmp_path: Path, number: signal.Signals) -> None:
    """The last page that was scraped is on the disk already, whatever happens to the process after it."""
    node = SimulatedNode(tmp_path / "node", b0())
    await node.start()
    last: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    try:
        for _ in range(3):
            async with _serving(node, tmp_path / "state.json") as exporter:
                page = await exporter.page_when(lambda page: (page.value(PROVISIONED, uuid=G0) or 0) > 0.3)
                fallen = {key: (last[key], value) for key, value in _counters(page).items() if value < last.get(key, 0.0)}
                assert not fallen
                assert last.keys() <= _counters(page).keys()
                assert page.value("gpu_exporter_source_up", source="state_file") == 1
                assert_sound(page)
                last = _counters(await exporter.page())
                await exporter.end(number)
    finally:
        await node.stop()
    assert max(value for (name, _), value in last.items() if name == PROVISIONED) > 0.3


async def test_state_file_that_cannot_be_written_costs_nothing_but_itself(tmp_path: Path) -> None:
    """The exporter serves, says why on the page, and ends cleanly."""
    node = SimulatedNode(tmp_path / "node", b0())
    await node.start()
    try:
        async with _serving(node, tmp_path / "no" / "such" / "folder" / "state.json") as exporter:
            page = await exporter.page_when(lambda page: (page.value(PROVISIONED, uuid=G0) or 0) > 0.3)
            assert page.value("gpu_exporter_source_up", source="state_file") == 0
            assert page.value("gpu_exporter_source_missing", source="state_file", reason="folder_missing") == 1
            assert (await exporter.get("/"))[0] == 200
            assert (await exporter.get("/healthz"))[0] == 200
            assert await exporter.end() == 0
    finally:
        await node.stop()
    assert sum("folder_missing" in line for line in exporter.log) == 1
