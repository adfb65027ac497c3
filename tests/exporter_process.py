"""The process itself over a simulated node: started as users start it, read as Prometheus reads it."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import aiohttp

from tests.page import Page

START_SECONDS = 20.0
LISTENING = re.compile(r"listening on \S+ port (\d+)")


@dataclass(slots=True)
class Exporter:
    """A running exporter."""

    process: Process
    session: aiohttp.ClientSession
    log: list[str] = field(default_factory=list)
    url: str = ""

    async def get(self, path: str, **headers: str) -> tuple[int, str, Mapping[str, str]]:
        """Status, body and headers."""
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, await response.text(), response.headers

    async def page(self) -> Page:
        """What Prometheus would read now."""
        status, body, _ = await self.get("/metrics")
        assert status == 200
        return Page(body)

    async def page_when(self, ready: Callable[[Page], object], seconds: float = 15.0) -> Page:
        """The first page of which `ready` is true."""
        page = await self.page()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not ready(page):
                    await asyncio.sleep(0.05)
                    page = await self.page()
        assert ready(page), page.text
        return page

    async def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 5.0) -> int:
        """Ask it to end, and its exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def _follow_log(self) -> None:
        assert self.process.stderr
        async for line in self.process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())

    async def wait_for_url(self) -> None:
        """Read the port off the log."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                found = [match for match in map(LISTENING.search, self.log) if match]
                if found:
                    self.url = f"http://127.0.0.1:{found[0].group(1)}"
                    return
                assert self.process.returncode is None, "\n".join(self.log)
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def an_exporter(*arguments: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[Exporter]:
    """Start ``python -m exporter`` on a free port and end it afterwards."""
    command = [sys.executable, "-m", "exporter", *arguments, "--listen", "127.0.0.1:0"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPU_OWNERSHIP_")}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env={**inherited, **(environment or {})}
    )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        exporter = Exporter(process, session)
        following = asyncio.create_task(exporter._follow_log())
        try:
            await exporter.wait_for_url()
            yield exporter
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await following
