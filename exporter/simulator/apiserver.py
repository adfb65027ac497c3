"""A stand-in for the Kubernetes API server: real HTTP, and of the API what a node's agent reads.

Pods by list and watch, single objects (also as PartialObjectMetadata), discovery. Everything is to be used from one event loop.
"""

import asyncio
import json
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from exporter.simulator.apiserver_history import PodHistory, event_line
from exporter.simulator.apiserver_objects import (
    Document,
    discovery_documents,
    metadata_only,
    single_objects,
    status_document,
)
from exporter.simulator.world import World

_PODS = "/api/v1/pods"
_GZIP_FROM_BYTES = 128 << 10
_REQUESTS_KEPT = 100_000
_HEADERS = {"Content-Type": "application/json"}
_CUT = b"cut"
_ERROR = b'{"type":"ERROR"'
_FOR_ALL = (_ERROR, b'{"type":"BOOKMARK"')


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    seconds: float
    """Monotonic."""
    user_agent: str

    @property
    def is_list(self) -> bool:
        """A list of pods."""
        return self.path == _PODS and "watch" not in self.query

    @property
    def is_watch(self) -> bool:
        """A watch of pods."""
        return self.path == _PODS and "watch" in self.query


class ApiServer:
    """Start it, show it a world, show it another one: watches get the difference."""

    def __init__(
        self, *, token: str = "", tls: ssl.SSLContext | None = None, bookmark_seconds: float = 60.0, pad_bytes: int = 0
    ) -> None:
        """With a `token`, requests without it get 401. Lists grow by `pad_bytes`."""
        self.token = token
        self.silent = False
        """Watches opened from now on send nothing and never end, like those of a peer that is gone."""
        self.url = ""
        """Address after the start."""
        self.requests: deque[ApiRequest] = deque(maxlen=_REQUESTS_KEPT)
        self._tls = tls
        self._bookmark_seconds = bookmark_seconds
        self._pad_bytes = pad_bytes
        self._history = PodHistory()
        self._world = World()
        self._objects: dict[str, Document] = {}
        self._discovery: dict[str, Document] = {}
        self._watches: set[asyncio.Queue[bytes]] = set()
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> str:
        """Listen on 127.0.0.1, on a free port unless one is given; returns the address."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=self._tls, reuse_address=True).start()
        self.url = f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self.url

    async def stop(self) -> None:
        """Cut all connections and close the port."""
        self.cut_watches()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def show(self, world: World) -> None:
        """Change what the API holds."""
        self._world = world
        self._objects = single_objects(world)
        self._discovery = discovery_documents(world)
        for change in self._history.show(world):
            self.send(change.line)

    def send(self, line: bytes) -> None:
        """Send a line to all open watches as it is."""
        for watch in self._watches:
            watch.put_nowait(line)

    def cut_watches(self) -> None:
        """Cut the connections of all open watches in the middle."""
        self.send(_CUT)

    def expire_watches(self) -> None:
        """Compact the history: open watches end with an ERROR 410 event, and resuming from an older version gets HTTP 410."""
        self._history.forget()
        self.send(event_line("ERROR", status_document(410, "The resourceVersion is too old"), of_a_pod=False))

    @property
    def open_watches(self) -> int:
        """Watches that are open now."""
        return len(self._watches)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(
            ApiRequest(
                request.method, request.path, dict(request.query), time.monotonic(), request.headers.get("User-Agent", "")
            )
        )
        fault = next((fault for fault in self._world.api_faults if request.path.startswith(fault.path)), None)
        if fault is not None:
            await asyncio.sleep(fault.delay_seconds)
            if fault.status is not None:
                return _failure(fault.status, "as the scenario has it")
        if self.token and not _holds(request, self.token):
            return _failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if request.path == _PODS:
            return await self._pods(request)
        return self._single(request)

    def _single(self, request: web.Request) -> web.Response:
        document = self._objects.get(request.path)
        if document is not None:
            partial = "as=PartialObjectMetadata" in request.headers.get("Accept", "")
            return _json(metadata_only(document) if partial else document)
        if request.path in self._discovery:
            return _json(self._discovery[request.path])
        return _failure(HTTPStatus.NOT_FOUND, f"{request.path} not found")

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        selector = request.query.get("fieldSelector", "")
        field, _, node = selector.partition("=")
        if selector and field != "spec.nodeName":
            return _failure(HTTPStatus.BAD_REQUEST, f"field label not supported: {field}")
        here = not selector or node == self._world.node
        if "watch" in request.query:
            return await self._watch(request, here=here)
        if self._world.pod_list is not None:
            return _json(self._world.pod_list)
        document = {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(self._history.version)},
            "items": self._history.items() if here else [],
        }
        response = _json(document, self._pad_bytes)
        large = response.content_length is not None and response.content_length >= _GZIP_FROM_BYTES
        if large and "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async def _watch(self, request: web.Request, *, here: bool) -> web.StreamResponse:
        since = int(request.query.get("resourceVersion") or 0)
        if 0 < since < self._history.oldest:
            return _failure(HTTPStatus.GONE, f"too old resource version: {since} ({self._history.oldest})")
        response = web.StreamResponse(headers=_HEADERS)
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.add(lines)
        try:
            for change in self._history.since(since) if here and not self.silent else ():
                await response.write(change.line)
            await self._follow(request, response, lines, here=here)
        except ConnectionError:
            return response
        finally:
            self._watches.discard(lines)
        return response

    async def _follow(
        self, request: web.Request, response: web.StreamResponse, lines: asyncio.Queue[bytes], *, here: bool
    ) -> None:
        """Until the time asked for is over, or the watch is cut, or it has expired."""
        silent = self.silent
        ends_at = time.monotonic() + float(request.query.get("timeoutSeconds", "1800"))
        while silent or time.monotonic() < ends_at:
            limit = self._bookmark_seconds if silent else min(self._bookmark_seconds, ends_at - time.monotonic())
            try:
                line = await asyncio.wait_for(lines.get(), limit)
            except TimeoutError:
                line = self._history.bookmark()
            if line == _CUT:
                if request.transport is not None:
                    request.transport.abort()
                return
            if silent or not (here or line.startswith(_FOR_ALL)):
                continue
            await response.write(line)
            if line.startswith(_ERROR):
                return


def _holds(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and given == token


def _json(document: object, pad_bytes: int = 0) -> web.Response:
    return web.Response(body=json.dumps(document, separators=(",", ":")).encode() + b" " * pad_bytes, headers=_HEADERS)


def _failure(status: int, message: str) -> web.Response:
    return web.Response(status=status, body=json.dumps(status_document(status, message)).encode(), headers=_HEADERS)
