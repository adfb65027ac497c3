"""The exporter is restarted on a node that goes on: what was scraped is never undone, nothing is made up for the time down."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.ledger import LedgerRules
from exporter.simulator.world import SimDevice
from tests.line import SimTime, a_line
from tests.page import Page
from tests.store.state_files import Gate, a_state_file
from tests.worlds import G0, G1, b0

HELD = "gpu_container_held_seconds_total"
PROVISIONED = "gpu_provisioned_seconds_total"
OF_THE_PROCESS = ("gpu_exporter_source_", "gpu_exporter_device_", "gpu_exporter_cycle_")
"""Begin at 0 with it, as process_* does."""


def _assert_no_counter_fell(before: Page, after: Page) -> None:
    values = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in after.samples}
    for sample in before.samples:
        if sample.name.endswith(("_total", "_bucket", "_count")) and not sample.name.startswith(OF_THE_PROCESS):
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert values.get(key, sample.value) >= sample.value, key


async def test_counters_go_on_where_they_were_and_the_time_down_is_nobodys(tmp_path: Path) -> None:
    """A restart of two minutes costs two minutes and one cycle, and no counter falls (the state file's promise)."""
    sim_time, state = SimTime(tmp_path), tmp_path / "state.json"
    async with a_line(tmp_path / "first", b0(), sim_time=sim_time, state_file=state) as line:
        before = (await line.cycles(13))[-1]
    sim_time.advance(120)
    async with a_line(tmp_path / "second", b0(), sim_time=sim_time, state_file=state) as line:
        after = await line.cycle()
        later = (await line.cycles(2))[-1]
    assert before.value(PROVISIONED, uuid=G0) == pytest.approx(60)
    assert after.value(PROVISIONED, uuid=G0) == pytest.approx(60)
    assert later.value(PROVISIONED, uuid=G0) == pytest.approx(70)
    assert sum(before.values(HELD, "state", pod="train-0").values()) == pytest.approx(60)
    assert sum(later.values(HELD, "state", pod="train-0").values()) == pytest.approx(70)
    for one, other in ((before, after), (after, later)):
        _assert_no_counter_fell(one, other)


async def test_without_a_state_file_counting_begins_at_0(tmp_path: Path) -> None:
    """And there is no such source to be down."""
    sim_time = SimTime(tmp_path)
    async with a_line(tmp_path / "first", b0(), sim_time=sim_time) as line:
        before = (await line.cycles(3))[-1]
    async with a_line(tmp_path / "second", b0(), sim_time=sim_time) as line:
        after = (await line.cycles(1))[-1]
    assert before.value(PROVISIONED, uuid=G0) == pytest.approx(10)
    assert after.value(PROVISIONED, uuid=G0) == 0
    assert not after.series("gpu_exporter_source_up", source="state_file")


async def test_what_the_hold_keeps_back_is_kept_over_a_restart(tmp_path: Path) -> None:
    """The hold counts the time in which the exporter ran, and what waits in it is not lost with the process."""
    sim_time, state, rules = SimTime(tmp_path), tmp_path / "state.json", LedgerRules(birth_hold_seconds=30)
    async with a_line(tmp_path / "first", b0(), sim_time=sim_time, state_file=state, rules=rules) as line:
        await line.cycle()
        born = (await line.cycles(3))[-1]
    sim_time.advance(3600)
    async with a_line(tmp_path / "second", b0(), sim_time=sim_time, state_file=state, rules=rules) as line:
        pages = [await line.cycle(), *(await line.cycles(4))]
    assert born.value(PROVISIONED, uuid=G0) == 0
    assert [page.value(PROVISIONED, uuid=G0) for page in pages] == pytest.approx([0, 0, 0, 30, 35])


async def test_gpu_keeps_its_index_over_a_restart(tmp_path: Path) -> None:
    """What the driver calls GPU 0 after a reboot may have been GPU 1: the series are the same GPU's."""
    state = tmp_path / "state.json"
    async with a_line(tmp_path / "first", b0(), state_file=state) as line:
        await line.cycle()
    swapped = tuple(replace(device, index=1 - device.index) for device in reversed(b0().devices))
    async with a_line(tmp_path / "second", replace(b0(), devices=swapped), state_file=state) as line:
        page = await line.cycle()
    assert page.values("gpu_info", "gpu", uuid=G0) == {"0": 1}
    assert page.values("gpu_info", "gpu", uuid=G1) == {"1": 1}


async def test_idle_clock_goes_on_over_a_restart(tmp_path: Path) -> None:
    """No restart makes anybody look busy who has not worked since yesterday."""
    sim_time, state = SimTime(tmp_path), tmp_path / "state.json"
    idle = replace(b0(), devices=(SimDevice(uuid=G0, index=0), b0().devices[1]), tasks=())
    name = "gpu_container_last_active_timestamp_seconds"
    async with a_line(tmp_path / "first", b0(), sim_time=sim_time, state_file=state) as line:
        await line.cycles(2)
        await line.show(idle)
        before = (await line.cycles(2))[-1].value(name, pod="train-0")
    sim_time.advance(86_400)
    async with a_line(tmp_path / "second", idle, sim_time=sim_time, state_file=state) as line:
        after = (await line.cycles(2))[-1].value(name, pod="train-0")
    assert before is not None
    assert after == before


async def test_page_stands_still_while_the_disk_hangs_and_no_time_is_lost(tmp_path: Path) -> None:
    """Counters wait for the disk, gauges do not; when it answers, all that was counted meanwhile shows at once."""
    gate, sim_time = Gate(), SimTime(tmp_path)
    async with a_line(tmp_path / "node", b0(), sim_time=sim_time) as line:
        line.store = a_state_file(tmp_path / "state.json", gate=gate, save_seconds=1.0)
        await line.store.load()
        good = (await line.cycles(3))[-1]
        gate.shut()
        stuck = (await line.cycles(3))[-1]
        gate.open()
        async with asyncio.timeout(10):
            while not (back := await line.cycle()).value("gpu_exporter_source_up", source="state_file"):
                await asyncio.sleep(0.01)
    assert [page.value(PROVISIONED, uuid=G0) for page in (good, stuck, back)] == pytest.approx([10, 10, 25])
    assert stuck.value("gpu_utilization_ratio", uuid=G0) == pytest.approx(0.4)
    assert stuck.value("gpu_exporter_source_up", source="state_file") == 0
    assert stuck.value("gpu_exporter_source_missing", source="state_file", reason="timeout") == 1
    assert stuck.value("gpu_exporter_source_errors_total", source="state_file", reason="timeout") == 3
    for one, other in ((good, stuck), (stuck, back)):
        _assert_no_counter_fell(one, other)


async def test_refused_state_shows_its_reason_on_the_page(tmp_path: Path) -> None:
    """Counting goes on from 0, and whoever wonders why finds out."""
    (tmp_path / "state.json").write_text("{}")
    async with a_line(tmp_path / "node", b0(), state_file=tmp_path / "state.json") as line:
        page = await line.cycle()
    assert page.value("gpu_exporter_source_up", source="state_file") == 1
    assert page.value("gpu_exporter_source_missing", source="state_file", reason="refused_foreign") == 1
