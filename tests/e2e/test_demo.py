"""The demo, as the README tells it."""

import asyncio
import json
import re
import shutil
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import ConsoleMessage, async_playwright
from playwright.async_api import Page as BrowserPage

from tests.exporter_process import Exporter, an_exporter
from tests.page import Page, assert_sound

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


@pytest.fixture
async def demo() -> AsyncIterator[Exporter]:
    """A running demo whose first owners have been resolved."""
    async with an_exporter("demo", "--interval", "500ms") as exporter:
        await exporter.page_when(lambda page: page.series("gpu_pod_owner_info", workload="nightly-embed"))
        yield exporter


async def test_demo_tells_its_eight_stories(demo: Exporter) -> None:
    """Training, a notebook, two sharers, MIG slices, an unowned pod, a free GPU, a host process: all on one page."""
    page = await demo.page()
    assert_sound(page)
    assert len(page.series("gpu_info")) == 8
    assert page.value("gpu_exporter_build_info", simulated="true") == 1
    assert {s.labels["source"]: s.value for s in page.series("gpu_exporter_source_up") if s.value != 1} == {}
    assert not page.series("gpu_exporter_unresolved_devices")
    assert not page.series("gpu_exporter_unresolved_pids")
    held = page.values("gpu_container_allocation_ratio", "team")
    assert held == pytest.approx(
        {"foundation": 2, "vision": 1, "search": 0.25, "ads": 0.25 + 1 / 7, "safety": 2 / 7, "unowned": 1}
    )
    training = page.series("gpu_pod_owner_info", workload="llm-pretrain")[0].labels
    assert (training["workload_type"], training["workload_class"]) == ("pytorchjob", "training")
    assert training["cost_center"] == "4711"
    assert page.series("gpu_pod_owner_info", workload_type="cronjob", workload="nightly-embed", cost_center="CC 4903/R&D")
    assert page.value("gpu_allocated_ratio", gpu="6") == 0
    assert page.values("gpu_unattributed_memory_bytes", "reason", gpu="7")["host_process"] > 0
    assert page.value("gpu_node_info", instance_type="gpu.8x-h100", capacity="on_demand") == 1


async def test_notebook_goes_quiet_while_it_runs(demo: Exporter) -> None:
    """The node is lively: what was active becomes idle, and its memory stays held."""
    await demo.page_when(lambda page: page.value("gpu_pod_devices_idle", pod="vision-notebook-0") == 0)
    page = await demo.page_when(lambda page: page.value("gpu_pod_devices_idle", pod="vision-notebook-0") == 1, seconds=60)
    assert (page.value("gpu_container_memory_used_bytes", pod="vision-notebook-0") or 0) > 0


async def test_every_format_is_strict_and_promtool_agrees(demo: Exporter) -> None:
    """Text and OpenMetrics parse, and Prometheus' own linter has nothing to say about our families."""
    _, text, headers = await demo.get("/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    _, openmetrics, headers = await demo.get("/metrics", Accept=OPENMETRICS)
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.endswith("# EOF\n")
    assert Page(openmetrics, openmetrics=True).series("gpu_info")
    promtool = await asyncio.create_subprocess_exec("promtool", "check", "metrics", stdin=PIPE, stdout=PIPE, stderr=STDOUT)
    said, _ = await promtool.communicate(text.encode())
    assert (promtool.returncode, said.decode()) == (0, "")


async def test_api_says_the_same_as_the_metrics(demo: Exporter) -> None:
    """One published value, three faces."""
    _, body, _ = await demo.get("/api/v1/node")
    document = json.loads(body)
    assert document["version"] == 1
    assert document["simulated"] is True
    assert len(document["devices"]) == 8


async def test_no_log_line_is_written_while_nothing_changes(demo: Exporter) -> None:
    """What happens every cycle is a metric."""
    before = len(demo.log)
    first = (await demo.page()).value("gpu_exporter_last_cycle_timestamp_seconds") or 0
    await demo.page_when(lambda page: (page.value("gpu_exporter_last_cycle_timestamp_seconds") or 0) > first + 2)
    assert demo.log[before:] == []


async def test_free_gpu_is_nobodys(demo: Exporter) -> None:
    """No series of a free GPU names a pod, ours least of all (EXPO-11)."""
    page = await demo.page()
    free = [sample for sample in page.samples if sample.labels.get("gpu") == "6"]
    assert free
    assert not [sample for sample in free if sample.labels.keys() & {"pod", "namespace", "container", "team"}]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
async def test_page_in_a_browser_shows_every_gpu_without_a_complaint(demo: Exporter, width: int, scheme: str) -> None:
    """Every GPU and owner is there; nothing is fetched from elsewhere, logged, or wider than the screen."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_FLAGS)
        page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        messages: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: messages.append(_told(message)))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        await page.goto(demo.url + "/")
        text = await page.inner_text("body")
        for word in ("SIMULATED", "llm-pretrain", "vision-notebook", "chat-api", "unowned", "foundation", "1g.10gb"):
            assert word in text, word
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        await _refreshes(page, requests)
        assert messages == []
        assert all(url.startswith(demo.url) for url in requests), requests
        await browser.close()


async def _refreshes(page: BrowserPage, requests: list[str]) -> None:
    """The page fetches itself again, and what it shows is newer."""
    before = len(requests)
    async with asyncio.timeout(20):
        while len(requests) < before + 2:
            await asyncio.sleep(0.1)
    assert re.search(r"GPU", await page.inner_text("body"))


def _told(message: ConsoleMessage) -> str:
    return f"{message.type}: {message.text}"
