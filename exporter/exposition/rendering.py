"""Bytes for clients, made at most once per cycle, format and encoding, on a thread of their own."""

import asyncio
import gzip
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum, unique
from typing import Any, TypeVar

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from exporter.exposition.collector import families
from exporter.exposition.collector_node import build_families
from exporter.exposition.negotiation import Encoding
from exporter.model.published import Build, Published

_GZIP_LEVEL = 1  # 9 takes five times as long for a page half the size; a scrape crosses a data centre, not an ocean

T = TypeVar("T")


@unique
class Format(StrEnum):
    """What can be asked for."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"
    JSON = "json"
    PAGE = "page"
    STALLED_PAGE = "stalled_page"
    """The page when no cycle has ended for long."""


Page = Callable[[Published | None], bytes]
"""Makes one format of the last published value; None: no cycle has ended yet."""

_ACCEPT = {Format.TEXT: "", Format.OPENMETRICS: "application/openmetrics-text; version=1.0.0"}


class Renderer:
    """Remembers the bytes of the newest generation only."""

    def __init__(self, pages: Mapping[Format, Page]) -> None:
        self._pages = pages
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")
        self._generation: int | None = None
        self._plain: dict[Format, asyncio.Task[bytes]] = {}
        self._zipped: dict[Format, asyncio.Task[bytes]] = {}

    async def render(self, published: Published | None, form: Format, encoding: Encoding) -> bytes:
        """The bytes; whoever asks for the same while they are being made waits for them."""
        generation = None if published is None else published.generation
        if generation != self._generation:
            self._generation = generation
            self._plain, self._zipped = {}, {}
        plain = self._remembered(self._plain, form, lambda: self._work(lambda: self._pages[form](published)))
        if encoding is Encoding.IDENTITY:
            return await asyncio.shield(plain)
        return await asyncio.shield(self._remembered(self._zipped, form, lambda: self._zip(plain)))

    def close(self) -> None:
        """Let the thread end; what it is at work on is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _zip(self, plain: asyncio.Task[bytes]) -> bytes:
        data = await asyncio.shield(plain)
        return await self._work(lambda: gzip.compress(data, _GZIP_LEVEL, mtime=0))

    async def _work(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    @staticmethod
    def _remembered(
        tasks: dict[Format, asyncio.Task[bytes]], form: Format, start: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> asyncio.Task[bytes]:
        task = tasks.get(form)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = tasks[form] = asyncio.create_task(start())
        return task


class _Families(Collector):
    """What `prometheus_client` wants to be given in place of a list of families."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._found


def metric_pages(build: Build, extra_labels: tuple[str, ...]) -> dict[Format, Page]:
    """Makers of the metrics page in the formats that Prometheus asks for."""
    process = ProcessCollector(registry=None)

    def collect(published: Published | None) -> Iterable[Metric]:
        yield from build_families(build) if published is None else families(published, extra_labels)
        yield from _own_process(process)

    def page(form: Format) -> Page:
        encoder, _ = choose_encoder(_ACCEPT[form])
        return lambda published: encoder(_Families(collect(published)))

    return {form: page(form) for form in _ACCEPT}


def _own_process(process: ProcessCollector) -> Iterable[Metric]:
    """``process_*``: CPU time, memory, file descriptors of this process; nothing where /proc cannot be understood."""
    try:
        return list(process.collect())
    except (OSError, ValueError):
        return []


def metric_content_type(form: Format) -> str:
    """Content-Type of a format of the metrics page, as its encoder names it."""
    return choose_encoder(_ACCEPT[form])[1]
