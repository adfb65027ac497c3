"""The way to the API server: lazy configuration, renewed credentials, bounded answers. The official client without its models.

The generated models are not touched: they cost 25 MB and a second of start-up, and refuse a whole list for one odd pod.
"""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.config.config_exception import ConfigException

from exporter.model.reading import MissingReason
from exporter.sources.kubernetes.configuration import ServiceAccount, load_client
from exporter.sources.kubernetes.failures import CERTIFICATE_ERRORS, RequestFailed, failure_of_status, translated
from exporter.sources.kubernetes.pacing import Pacer

MAX_BODY_BYTES = 64 << 20
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""Metadata without spec and status; servers that cannot do that send the whole object."""

_RENEW_AFTER_SECONDS = 5.0
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3), (socket.TCP_USER_TIMEOUT, 30_000))

Query = Sequence[tuple[str, str]]


class Connection:
    """One API server for all sources of this room.

    Configuration is loaded with the first request; a missing one fails that request with NO_CONFIGURATION and is looked for
    again later. A 401 loads it anew, at most every five seconds, and asks once more: tokens and kubeconfigs rotate.
    """

    def __init__(
        self,
        *,
        api_server: str = "",
        kubeconfig: str = "",
        request_timeout_seconds: float = 10.0,
        user_agent: str = "gpu-ownership-exporter",
        service_account: ServiceAccount | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.request_timeout_seconds = request_timeout_seconds
        self.look_ups = Pacer()
        """Shared by all look-ups of the process."""
        self._place = (api_server, kubeconfig, service_account or ServiceAccount())
        self._user_agent = user_agent
        self._clock = clock
        self._client: ApiClient | None = None
        self._retired: ApiClient | None = None
        """The client before this one: a watch may still be open on it."""
        self._loaded_at = 0.0
        self._refused: RequestFailed | None = None
        """Why the last attempt to load a configuration failed."""
        self._loading = asyncio.Lock()

    async def close(self) -> None:
        """Give up all connections; a later request opens new ones."""
        clients, self._client, self._retired = (self._client, self._retired), None, None
        for client in clients:
            if client is not None:
                await client.close()

    async def get(
        self, path: str, query: Query = (), *, accept: str = "application/json", timeout_seconds: float | None = None
    ) -> Mapping[str, Any]:
        """Read one JSON object, within the request timeout or a shorter one; fails with `RequestFailed`."""
        limit_seconds = min(self.request_timeout_seconds, timeout_seconds or self.request_timeout_seconds)
        with translated(path):
            async with asyncio.timeout(limit_seconds):
                response = await self._open(path, query, {"Accept": accept})
                try:
                    body = await _bounded(response, path)
                finally:
                    response.close()
        return _decoded(body, path)

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *, limit_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an answer that goes on, for at most `limit_seconds`; both opening and reading fail with `RequestFailed`."""
        with translated(path):
            async with asyncio.timeout(self.request_timeout_seconds):
                response = await self._open(path, query, {"Accept": "application/json", "Accept-Encoding": "identity"})
        try:
            _notice_dead_peers(response)
            yield _chunks(response, path, asyncio.get_running_loop().time() + limit_seconds)
        finally:
            response.close()

    async def _open(self, path: str, query: Query, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        client = await self._ready()
        response = await self._send(client, path, query, headers)
        if response.status == HTTPStatus.UNAUTHORIZED and self._may_renew(client):
            response.close()
            await self._retire(client)
            response = await self._send(await self._ready(), path, query, headers)
        if response.status != HTTPStatus.OK:
            response.close()
            raise failure_of_status(response.status, path, response.headers.get("Retry-After"))
        return response

    def _may_renew(self, client: ApiClient) -> bool:
        """Another request may have renewed the credentials meanwhile."""
        return client is not self._client or self._clock() - self._loaded_at >= _RENEW_AFTER_SECONDS

    async def _ready(self) -> ApiClient:
        async with self._loading:
            if self._client is None:
                self._client = await self._load()
                self._client.user_agent = self._user_agent
            return self._client

    async def _load(self) -> ApiClient:
        last = self._refused
        if last is not None and self._clock() - self._loaded_at < _RENEW_AFTER_SECONDS:
            raise RequestFailed(last.reason, last.detail)
        self._loaded_at = self._clock()
        try:
            client = await load_client(*self._place)
        except RequestFailed as failure:
            self._refused = failure
            raise
        self._refused = None
        return client

    async def _retire(self, client: ApiClient) -> None:
        if client is not self._client:
            return
        forgotten, self._retired, self._client = self._retired, client, None
        if forgotten is not None:
            await forgotten.close()

    async def _send(self, client: ApiClient, path: str, query: Query, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        try:
            _, url, sent, _, _ = await client.param_serialize(
                "GET", path, query_params=list(query), header_params=dict(headers), auth_settings=["BearerToken"]
            )
        except (ConfigException, OSError) as error:
            raise RequestFailed(MissingReason.NO_CONFIGURATION, f"token cannot be read: {type(error).__name__}") from error
        if "authorization" in sent:
            # A token file may end in a newline, which no header may hold.
            sent["authorization"] = sent["authorization"].strip()
        try:
            answer = await client.call_api(
                "GET", url, sent, _preload_content=False, _request_timeout=aiohttp.ClientTimeout(total=None)
            )
        except CERTIFICATE_ERRORS:
            await self._retire(client)
            raise
        response: aiohttp.ClientResponse = answer.response
        return response


async def _bounded(response: aiohttp.ClientResponse, path: str) -> bytes:
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise RequestFailed(MissingReason.TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes for {path}")
    return bytes(body)


def _decoded(body: bytes, path: str) -> Mapping[str, Any]:
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestFailed(MissingReason.MALFORMED, f"no JSON for {path}") from error
    if not isinstance(decoded, dict):
        raise RequestFailed(MissingReason.MALFORMED, f"no JSON object for {path}")
    return decoded


async def _chunks(response: aiohttp.ClientResponse, path: str, ends_at: float) -> AsyncIterator[bytes]:
    while True:
        with translated(path):
            async with asyncio.timeout_at(ends_at):
                chunk = await response.content.readany()
        if not chunk:
            return
        yield chunk


def _notice_dead_peers(response: aiohttp.ClientResponse) -> None:
    """Let the kernel find out within half a minute that nobody is there: a quiet watch looks the same as a dead one."""
    transport = None if response.connection is None else response.connection.transport
    raw = None if transport is None else transport.get_extra_info("socket")
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # A socket that was closed in between says so when the stream is read.
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            raw.setsockopt(socket.IPPROTO_TCP, option, value)
