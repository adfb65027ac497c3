"""HTTP: /, /metrics, /api/v1/node, /healthz, /readyz. Answers from the last published value; never waits for a source."""

import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from exporter.exposition.api import encode, node_document
from exporter.exposition.labels import refuse_unusable
from exporter.exposition.negotiation import Encoding, choose_encoding, wants_openmetrics
from exporter.exposition.page import NodePage
from exporter.exposition.rendering import Format, Page, Renderer, metric_content_type, metric_pages
from exporter.model.published import Build, Published

STALLED_AFTER_INTERVALS = 10
"""A last cycle older than this many intervals fails the liveness probe: the loop itself hangs."""

STALLED_AFTER_SECONDS = 30.0
"""Never sooner: with a short interval, a cycle in which every source runs into its deadline outlasts ten of them."""

_BARE_POLICY = "default-src 'none'; frame-ancestors 'none'"
_PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Service:
    """What the handlers share."""

    latest: Callable[[], Published | None]
    renderer: Renderer
    page: NodePage
    interval_seconds: float
    clock: Callable[[], float]
    created_at: float

    @property
    def stalled(self) -> bool:
        """True if the last cycle, or the start before the first one, is 10 intervals ago or more."""
        published = self.latest()
        since = self.created_at if published is None else published.snapshot.taken_at
        interval = self.interval_seconds if published is None else published.interval_seconds
        return self.clock() - since >= max(STALLED_AFTER_INTERVALS * interval, STALLED_AFTER_SECONDS)

    async def metrics(self, request: web.Request) -> web.Response:
        """Families of the last cycle."""
        form = Format.OPENMETRICS if wants_openmetrics(_header(request, hdrs.ACCEPT)) else Format.TEXT
        response = await self._rendered(request, form, metric_content_type(form))
        response.headers[hdrs.VARY] = f"{hdrs.ACCEPT}, {hdrs.ACCEPT_ENCODING}"
        return response

    async def node_page(self, request: web.Request) -> web.Response:
        """The page for people."""
        response = await self._rendered(
            request, Format.STALLED_PAGE if self.stalled else Format.PAGE, "text/html; charset=utf-8"
        )
        response.headers["Content-Security-Policy"] = self.page.content_security_policy
        return response

    async def node_api(self, request: web.Request) -> web.Response:
        """The node as JSON; 503 before the first cycle."""
        if self.latest() is None:
            return web.json_response({"version": 1, "error": "no cycle has ended yet"}, status=503)
        return await self._rendered(request, Format.JSON, "application/json; charset=utf-8")

    async def healthz(self, _: web.Request) -> web.Response:
        """Liveness: the loop goes on."""
        if self.stalled:
            return _line(f"no cycle has ended for {STALLED_AFTER_INTERVALS} intervals", status=503)
        return _line("ok")

    async def readyz(self, _: web.Request) -> web.Response:
        """Readiness: there is something to scrape, also without a driver."""
        return _line("no cycle has ended yet", status=503) if self.latest() is None else _line("ok")

    async def _rendered(self, request: web.Request, form: Format, content_type: str) -> web.Response:
        encoding = choose_encoding(_header(request, hdrs.ACCEPT_ENCODING))
        body = await self.renderer.render(self.latest(), form, encoding)
        headers = {hdrs.CONTENT_TYPE: content_type, hdrs.VARY: hdrs.ACCEPT_ENCODING}
        if encoding is Encoding.GZIP:
            headers[hdrs.CONTENT_ENCODING] = encoding.value
        return web.Response(body=body, headers=headers)


def create_application(
    *,
    latest: Callable[[], Published | None],
    build: Build,
    interval_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    extra_labels: tuple[str, ...] = (),
) -> web.Application:
    """The application, to be served by a runner of `create_runner`.

    Args:
        latest: Gives the outcome of the last cycle; None before the first.
        build: What is running; stands on /metrics from the start.
        interval_seconds: Between cycles; what counts until the first cycle tells its own.
        clock: Monotonic seconds, the clock of ``Snapshot.taken_at``.
        extra_labels: Names of the configured further owner labels.

    Raises:
        ValueError: An extra label has a name that the contract uses, or that is none.
    """
    refuse_unusable(extra_labels)
    page = NodePage(build, interval_seconds)
    renderer = Renderer({**metric_pages(build, extra_labels), **_people_pages(page)})
    service = _Service(latest, renderer, page, interval_seconds, clock, clock())
    application = web.Application()
    application.router.add_get("/", service.node_page)
    application.router.add_get("/metrics", service.metrics)
    application.router.add_get("/api/v1/node", service.node_api)
    application.router.add_get("/healthz", service.healthz)
    application.router.add_get("/readyz", service.readyz)
    application.on_response_prepare.append(_secure)
    application.cleanup_ctx.append(_closing(renderer))
    return application


def create_runner(application: web.Application) -> web.AppRunner:
    """A runner without access log and signal handlers, which ends open connections within 2 s."""
    logger = logging.getLogger("exporter.http")
    logger.addFilter(_is_our_mistake)
    return web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=2.0, logger=logger)


def _is_our_mistake(record: logging.LogRecord) -> bool:
    """False for requests that are no HTTP: they are answered with 400, and a port scanner must not fill the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _people_pages(page: NodePage) -> dict[Format, Page]:
    return {
        Format.PAGE: page.draw,
        Format.STALLED_PAGE: lambda published: page.draw(published, stalled=True),
        Format.JSON: lambda published: encode({} if published is None else node_document(published)),
    }


def _closing(renderer: Renderer) -> Callable[[web.Application], AsyncIterator[None]]:
    async def context(_: web.Application) -> AsyncIterator[None]:
        yield
        renderer.close()

    return context


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in (
        ("Content-Security-Policy", _BARE_POLICY),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
        (hdrs.CACHE_CONTROL, "no-store"),
    ):
        response.headers.setdefault(name, value)
    response.headers[hdrs.SERVER] = "gpu-ownership-exporter"


def _header(request: web.Request, name: str) -> str:
    """All values of a header that may come more than once."""
    return ",".join(request.headers.getall(name, ()))


def _line(text: str, status: int = 200) -> web.Response:
    return web.Response(text=f"{text}\n", status=status, headers={hdrs.CONTENT_TYPE: _PLAIN})
