"""The HTTP server on a real socket: what each path answers, and how."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
from aiohttp import web

from exporter.exposition.rendering import Format
from exporter.exposition.server import create_application, create_runner
from exporter.model.published import Published
from tests.exposition.examples import BUILD, a_busy_node, a_published
from tests.exposition.pages import samples
from tests.exposition.test_accept_headers import PROMETHEUS_2, PROMETHEUS_3

TEXT = "text/plain; version=0.0.4; charset=utf-8"
PATHS = ("/", "/metrics", "/api/v1/node", "/healthz", "/readyz")


@dataclass
class Served:
    """A running server, and what it is told."""

    session: aiohttp.ClientSession
    url: str = ""
    published: Published | None = None
    now: float = 1000.0

    async def get(self, path: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
        """The answer to a GET with exactly these headers, and its body as sent."""
        async with self.session.get(
            self.url + path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        ) as response:
            return response, await response.read()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["Accept", "Accept-Encoding"]) as session:
        state = Served(session)
        application = create_application(
            latest=lambda: state.published,
            build=BUILD,
            interval_seconds=5.0,
            clock=lambda: state.now,
            extra_labels=("project",),
        )
        runner = create_runner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        state.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield state
        await runner.cleanup()


@pytest.mark.parametrize(
    ("accept", "form", "content_type"),
    [
        (PROMETHEUS_2, Format.OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"),
        (PROMETHEUS_3, Format.OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"),
        ("*/*", Format.TEXT, TEXT),
        (None, Format.TEXT, TEXT),
        ("complete nonsense", Format.TEXT, TEXT),
        ("application/openmetrics-text;version=7.0.0", Format.TEXT, TEXT),
    ],
)
@pytest.mark.parametrize("encoding", [None, "gzip", "gzip;q=0"])
async def test_metrics_body_matches_its_content_type(
    served: Served, accept: str | None, form: Format, content_type: str, encoding: str | None
) -> None:
    """The type that is returned is valid and fits the body, with and without gzip (EXPO-10)."""
    served.published = a_busy_node()
    headers = {"Accept": accept, "Accept_Encoding": encoding}
    response, body = await served.get("/metrics", **{name: value for name, value in headers.items() if value is not None})
    assert response.status == 200
    assert response.headers["Content-Type"] == content_type
    assert response.headers["Vary"] == "Accept, Accept-Encoding"
    assert response.headers.get("Content-Encoding") == ("gzip" if encoding == "gzip" else None)
    text = gzip.decompress(body) if encoding == "gzip" else body
    assert len(samples(text, form)) > 150
    assert text.endswith(b"# EOF\n") == (form is Format.OPENMETRICS)


async def test_accept_sent_as_two_headers_is_read_whole(served: Served) -> None:
    """A list that is spread over two header lines counts as one."""
    headers = [("Accept", "text/plain;q=0.1"), ("Accept", "application/openmetrics-text;version=1.0.0")]
    async with served.session.get(served.url + "/metrics", headers=headers) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")


async def test_metrics_before_the_first_cycle_say_what_is_running(served: Served) -> None:
    """The page is never empty: a scrape during the start gets 200 and the build."""
    response, body = await served.get("/metrics")
    assert response.status == 200
    assert {"gpu_exporter_build_info"} <= {sample.name for sample in samples(body)}


async def test_metrics_follow_the_published_value(served: Served) -> None:
    """A new cycle shows at the next scrape."""
    for generation, node in ((1, "first"), (2, "second")):
        served.published = a_published(generation=generation, node=node)
        _, body = await served.get("/metrics")
        assert {sample.labels["node"] for sample in samples(body) if sample.name == "gpu_up"} == {node}


async def test_liveness_fails_only_when_the_loop_stalls(served: Served) -> None:
    """200 while the last cycle is younger than 10 intervals, then 503 with one line, and 200 again after a cycle (DEP-04)."""
    served.published = a_published(taken_at=1000.0)
    for now, status in ((1000.0, 200), (1049.9, 200), (1050.0, 503), (9999.0, 503)):
        served.now = now
        response, body = await served.get("/healthz")
        assert (response.status, body.count(b"\n")) == (status, 1)
    served.published = a_published(taken_at=9990.0, generation=2)
    response, _ = await served.get("/healthz")
    assert response.status == 200


async def test_liveness_counts_the_start_from_the_servers_creation(served: Served) -> None:
    """A first cycle that never ends fails liveness after 10 intervals too (DEP-04)."""
    for now, status in ((1000.0, 200), (1049.9, 200), (1050.0, 503)):
        served.now = now
        response, _ = await served.get("/healthz")
        assert response.status == status


async def test_liveness_goes_by_the_interval_of_the_last_cycle(served: Served) -> None:
    """A changed interval counts from the cycle that used it."""
    served.published, served.now = replace(a_published(taken_at=1000.0), interval_seconds=4.0), 1040.0
    response, _ = await served.get("/healthz")
    assert response.status == 503


async def test_liveness_outlasts_a_cycle_in_which_every_source_runs_into_its_deadline(served: Served) -> None:
    """With an interval of 0.2 s ten of them are over while one source is still waited for: that is no stalled loop (DEP-04)."""
    served.published = replace(a_published(taken_at=1000.0), interval_seconds=0.2)
    for served.now, status in ((1029.9, 200), (1030.0, 503)):
        response, _ = await served.get("/healthz")
        assert response.status == status


async def test_readiness_begins_with_the_first_cycle(served: Served) -> None:
    """503 before the first cycle, 200 after it, also without a driver."""
    response, _ = await served.get("/readyz")
    assert response.status == 503
    served.published = a_published(devices=None)
    response, _ = await served.get("/readyz")
    assert response.status == 200


async def test_node_api_serves_the_document(served: Served) -> None:
    """The API answers with versioned JSON, and with 503 before there is a node to describe."""
    response, body = await served.get("/api/v1/node")
    assert (response.status, json.loads(body)["version"]) == (503, 1)
    served.published = a_busy_node()
    response, body = await served.get("/api/v1/node")
    assert (response.status, response.headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert json.loads(body)["node"] == "gpu-n1"


async def test_page_tells_when_the_loop_has_stalled(served: Served) -> None:
    """An old picture says that it is old, and no longer once cycles go on."""
    served.published = a_published(taken_at=1000.0)
    told = []
    for served.now in (1001.0, 1050.0, 1001.0):
        response, body = await served.get("/")
        assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        told.append(b"Stalled" in body)
    assert told == [False, True, False]


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
async def test_every_answer_has_the_security_headers(served: Served, path: str) -> None:
    """No answer can be framed, sniffed, cached or name its referrer, errors included."""
    response, _ = await served.get(path)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "aiohttp" not in response.headers["Server"].lower()


@pytest.mark.parametrize(
    "path", ["/nowhere", "/metrics/", "/metrics/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/<script>", "/favicon.ico"]
)
async def test_unknown_path_is_a_plain_404(served: Served, path: str) -> None:
    """What is not served is 404 in plain text that does not echo the path."""
    response, body = await served.get(path)
    assert response.status == 404
    assert response.headers["Content-Type"].startswith("text/plain")
    assert b"script" not in body


@pytest.mark.parametrize("path", PATHS)
async def test_other_methods_are_refused(served: Served, path: str) -> None:
    """Only GET and HEAD are served."""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        async with served.session.request(method, served.url + path) as response:
            assert response.status == 405


async def test_head_has_the_headers_and_no_body(served: Served) -> None:
    """HEAD answers like GET without a body."""
    served.published = a_busy_node()
    _, body = await served.get("/metrics")
    async with served.session.head(served.url + "/metrics") as response:
        assert (response.status, response.headers["Content-Length"]) == (200, str(len(body)))
        assert await response.read() == b""


async def test_many_scrapers_at_once_get_the_same_page(served: Served) -> None:
    """Fifty concurrent scrapes are answered, all alike (DEP-04)."""
    served.published = a_busy_node()
    answers = await asyncio.gather(*(served.get("/metrics") for _ in range(50)))
    assert {response.status for response, _ in answers} == {200}
    assert len({body for _, body in answers}) == 1


def test_unusable_extra_label_ends_the_start() -> None:
    """A label that would break the page is refused when the server is made, not at a scrape."""
    with pytest.raises(ValueError, match="extra labels: pod"):
        create_application(latest=lambda: None, build=BUILD, interval_seconds=5.0, extra_labels=("pod",))
