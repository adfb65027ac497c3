"""Debian's own Prometheus: fed by real scrapes or by a back-filled page, asked over its HTTP API."""

import asyncio
import contextlib
import os
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS = 30.0


class PrometheusError(RuntimeError):
    """A program of Prometheus failed; says what it said."""


@dataclass(slots=True)
class Prometheus:
    """A running server."""

    url: str
    session: aiohttp.ClientSession

    async def query(self, expression: str, at: float) -> dict[tuple[tuple[str, str], ...], float]:
        """Value by labels, at one instant."""
        answer = await self._ask("/api/v1/query", query=expression, time=str(at))
        return {tuple(sorted(each["metric"].items())): float(each["value"][1]) for each in answer}

    async def number(self, expression: str, at: float) -> float:
        """The one value of an expression without labels.

        Raises:
            PrometheusError: there is none.
        """
        found = await self.query(expression, at)
        if len(found) != 1:
            raise PrometheusError(f"{len(found)} values for {expression}")
        return next(iter(found.values()))

    async def curve(self, expression: str, start: float, end: float, step: float) -> list[tuple[float, float]]:
        """(time, value) of an expression with one series."""
        answer = await self._ask("/api/v1/query_range", query=expression, start=str(start), end=str(end), step=str(step))
        if len(answer) != 1:
            raise PrometheusError(f"{len(answer)} series for {expression}")
        return [(float(at), float(value)) for at, value in answer[0]["values"]]

    async def _ask(self, path: str, **parameters: str) -> list[Any]:
        async with self.session.get(self.url + path, params=parameters) as response:
            body = await response.json()
        if body["status"] != "success":
            raise PrometheusError(str(body))
        found: list[Any] = body["data"]["result"]
        return found


@contextlib.asynccontextmanager
async def a_prometheus(folder: Path, scrape_config: str = "") -> AsyncIterator[Prometheus]:
    """Start a server over the blocks in `folder`, with these entries of ``scrape_configs``, and end it afterwards."""
    configuration = folder / "prometheus.yml"
    configuration.write_text(f"scrape_configs:\n{scrape_config}" if scrape_config else "scrape_configs: []\n")
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.retention.time=10y",
        "--query.lookback-delta=5m",
        "--log.level=warn",
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env=os.environ,
    )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        server = Prometheus(f"http://127.0.0.1:{port}", session)
        draining = asyncio.create_task(_drained(process))
        try:
            await _ready(server, process)
            yield server
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
            await draining


async def back_fill(folder: Path, samples: Iterable[str]) -> None:
    """Make blocks of OpenMetrics lines with timestamps, families in one piece each, as `promtool` wants them.

    Raises:
        PrometheusError: promtool refuses them.
    """
    page = folder / "samples.om"
    with page.open("w") as file:
        file.writelines(f"{line}\n" for line in samples)
        file.write("# EOF\n")
    process = await asyncio.create_subprocess_exec(
        *("promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(page), str(folder / "tsdb")),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise PrometheusError((output + errors).decode(errors="replace"))
    page.unlink()


async def _ready(server: Prometheus, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                raise PrometheusError("prometheus ended at once")
            with contextlib.suppress(aiohttp.ClientError):
                async with server.session.get(f"{server.url}/-/ready") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)


async def _drained(process: asyncio.subprocess.Process) -> None:
    """Its log is read so that it cannot block on it."""
    assert process.stderr
    async for _ in process.stderr:
        pass


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
