"""The way to the API server: where it is found, who we are to it, and what each kind of trouble is called."""

import asyncio
import json
import logging
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from exporter.model.reading import MissingReason
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import World
from exporter.sources.kubernetes.configuration import ServiceAccount
from exporter.sources.kubernetes.connection import MAX_BODY_BYTES, Connection
from exporter.sources.kubernetes.failures import RequestFailed
from tests.sources.kubernetes.kubernetes_support import FIXTURES, NODE, Clock, a_pod, a_world, connected

TLS = FIXTURES / "tls"
NODE_PATH = f"/api/v1/nodes/{NODE}"


@pytest.fixture
async def secure_api() -> AsyncIterator[ApiServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server-key.pem")
    server = ApiServer(token="first", tls=context)
    await server.start()
    server.show(World(node=NODE))
    yield server
    await server.stop()


def an_account(folder: Path, url: str, *, authority: str = "authority.pem") -> ServiceAccount:
    (folder / "token").write_text("first\n", encoding="utf-8")
    (folder / "ca.crt").write_bytes((TLS / authority).read_bytes())
    host, _, port = url.removeprefix("https://").partition(":")
    return ServiceAccount(
        token_file=str(folder / "token"),
        certificate_file=str(folder / "ca.crt"),
        environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
    )


def a_kubeconfig(folder: Path, url: str, user: dict[str, str]) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
        "clusters": [{"name": "one", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


async def failure_of(connection: Connection, path: str = NODE_PATH) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        await connection.get(path)
    return caught.value


async def test_pod_with_a_service_account_reaches_the_api_by_its_environment(secure_api: ApiServer, tmp_path: Path) -> None:
    """Address from the environment, authority and token from the mounted files; a newline after the token does not matter."""
    async with connected("", service_account=an_account(tmp_path, secure_api.url)) as connection:
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_explicit_https_address_goes_with_the_service_account(secure_api: ApiServer, tmp_path: Path) -> None:
    """A node whose service address is not routed names the API server by hand, and is the same account there."""
    account = an_account(tmp_path, "https://192.0.2.1:443")
    async with connected(secure_api.url, service_account=account) as connection:
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_plain_http_address_never_gets_the_token(tmp_path: Path) -> None:
    """Without TLS the account's token would be read by anybody on the way."""
    account = an_account(tmp_path, "https://192.0.2.1:443")
    async with _listening({}) as (url, seen), connected(url, service_account=account) as connection:
        await connection.get(NODE_PATH)
    assert "Authorization" not in seen[0].headers


async def test_rotated_token_file_is_read_again_within_one_request(secure_api: ApiServer, tmp_path: Path) -> None:
    """Projected tokens rotate: the first 401 makes us read the file again and ask again, and nobody notices."""
    clock = Clock()
    async with connected("", service_account=an_account(tmp_path, secure_api.url), clock=clock) as connection:
        await connection.get(NODE_PATH)
        secure_api.token = "second"
        (tmp_path / "token").write_text("second", encoding="utf-8")
        clock.advance(60.0)
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_requests_side_by_side_all_survive_the_rotation(secure_api: ApiServer, tmp_path: Path) -> None:
    """One of them renews the token, and the others use what it found."""
    clock = Clock()
    async with connected("", service_account=an_account(tmp_path, secure_api.url), clock=clock) as connection:
        await connection.get(NODE_PATH)
        secure_api.token = "second"
        (tmp_path / "token").write_text("second", encoding="utf-8")
        clock.advance(60.0)
        answers = await asyncio.gather(*(connection.get(NODE_PATH) for _ in range(5)))
    assert [answer["kind"] for answer in answers] == ["Node"] * 5


async def test_proxies_of_the_environment_are_not_used(
    api: ApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node behind a proxy reaches its API server directly, whatever NO_PROXY says."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    api.show(World(node=NODE))
    assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_kubeconfig_token_file_is_read_again_too(api: ApiServer, tmp_path: Path) -> None:
    """The official client reads a kubeconfig's tokenFile once; a 401 makes us load the kubeconfig anew."""
    clock = Clock()
    api.token = "first"
    api.show(World(node=NODE))
    (tmp_path / "token").write_text("first", encoding="utf-8")
    kubeconfig = a_kubeconfig(tmp_path, api.url, {"tokenFile": str(tmp_path / "token")})
    async with connected("", kubeconfig=kubeconfig, clock=clock) as connection:
        await connection.get(NODE_PATH)
        api.token = "second"
        (tmp_path / "token").write_text("second", encoding="utf-8")
        clock.advance(60.0)
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_token_that_stays_wrong_is_unauthorized_and_not_asked_in_a_loop(api: ApiServer, tmp_path: Path) -> None:
    """A 401 is asked again once at most, and not again within five seconds."""
    clock = Clock()
    api.token = "right"
    kubeconfig = a_kubeconfig(tmp_path, api.url, {"token": "wrong"})
    async with connected("", kubeconfig=kubeconfig, clock=clock) as connection:
        assert (await failure_of(connection)).reason is MissingReason.UNAUTHORIZED
        assert len(api.requests) == 1
        clock.advance(60.0)
        assert (await failure_of(connection)).reason is MissingReason.UNAUTHORIZED
        assert len(api.requests) == 3
        assert (await failure_of(connection)).reason is MissingReason.UNAUTHORIZED
        assert len(api.requests) == 4


async def test_watch_survives_the_renewal_of_credentials(api: ApiServer, tmp_path: Path) -> None:
    """A stream that is open when another request renews the token stays open."""
    clock = Clock()
    api.token = "first"
    api.show(World(node=NODE))
    (tmp_path / "token").write_text("first", encoding="utf-8")
    kubeconfig = a_kubeconfig(tmp_path, api.url, {"tokenFile": str(tmp_path / "token")})
    async with connected("", kubeconfig=kubeconfig, clock=clock) as connection:
        query = (("watch", "1"), ("resourceVersion", "100"))
        async with connection.stream("/api/v1/pods", query, limit_seconds=10.0) as chunks:
            api.token = "second"
            (tmp_path / "token").write_text("second", encoding="utf-8")
            clock.advance(60.0)
            await connection.get(NODE_PATH)
            api.send(b"still there\n")
            assert await anext(aiter(chunks)) == b"still there\n"


async def test_explicit_address_replaces_the_one_in_a_kubeconfig(api: ApiServer, tmp_path: Path) -> None:
    """As with kubectl --server: the kubeconfig's user at another address."""
    api.token = "mine"
    api.show(World(node=NODE))
    kubeconfig = a_kubeconfig(tmp_path, "http://192.0.2.1:1", {"token": "mine"})
    async with connected(api.url + "/", kubeconfig=kubeconfig) as connection:
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


async def test_no_configuration_is_a_reason_and_is_looked_for_again(secure_api: ApiServer, tmp_path: Path) -> None:
    """Outside a pod and without a kubeconfig nothing raises; an account that appears is used without a restart."""
    clock = Clock()
    account = an_account(tmp_path, secure_api.url)
    (tmp_path / "token").unlink()
    async with connected("", service_account=account, clock=clock) as connection:
        assert (await failure_of(connection)).reason is MissingReason.NO_CONFIGURATION
        (tmp_path / "token").write_text("first", encoding="utf-8")
        assert (await failure_of(connection)).reason is MissingReason.NO_CONFIGURATION
        clock.advance(10.0)
        assert (await connection.get(NODE_PATH))["kind"] == "Node"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "current-context: here",
        "{",
        "current-context: a\ncontexts: 5\n",
        "a: b: c",
        "\x00",
        "contexts: [{name: a}]",
    ],
)
async def test_broken_kubeconfig_is_no_configuration(tmp_path: Path, content: str) -> None:
    """A kubeconfig of any shape is one reason, and never an exception."""
    (tmp_path / "kubeconfig").write_text(content, encoding="utf-8")
    async with connected("", kubeconfig=str(tmp_path / "kubeconfig")) as connection:
        failure = await failure_of(connection)
    assert failure.reason is MissingReason.NO_CONFIGURATION
    assert str(tmp_path) in failure.detail


async def test_kubeconfig_that_is_not_there_is_no_configuration(tmp_path: Path) -> None:
    """A path that leads nowhere names itself."""
    async with connected("", kubeconfig=str(tmp_path / "nowhere")) as connection:
        assert (await failure_of(connection)).reason is MissingReason.NO_CONFIGURATION


async def test_token_file_that_vanishes_later_is_no_configuration(secure_api: ApiServer, tmp_path: Path) -> None:
    """A token that cannot be read any more when it has to be renewed is a value, not an exception."""
    clock = Clock()
    async with connected("", service_account=an_account(tmp_path, secure_api.url), clock=clock) as connection:
        await connection.get(NODE_PATH)
        (tmp_path / "token").unlink()
        secure_api.token = "second"
        clock.advance(60.0)
        assert (await failure_of(connection)).reason is MissingReason.NO_CONFIGURATION


async def test_certificate_of_an_unknown_authority_is_unreachable_until_the_file_changes(
    secure_api: ApiServer, tmp_path: Path
) -> None:
    """Somebody answers who cannot prove to be the API server; the authority's file is read again for the next request."""
    account = an_account(tmp_path, secure_api.url, authority="another-authority.pem")
    clock = Clock()
    async with connected("", service_account=account, clock=clock) as connection:
        assert (await failure_of(connection)).reason is MissingReason.UNREACHABLE
        (tmp_path / "ca.crt").write_bytes((TLS / "authority.pem").read_bytes())
        assert (await connection.get(NODE_PATH))["kind"] == "Node"
    assert len(secure_api.requests) == 1


async def test_nobody_listening_is_refused(api: ApiServer, connection: Connection) -> None:
    """A closed port."""
    await api.stop()
    assert (await failure_of(connection)).reason is MissingReason.CONNECTION_REFUSED


async def test_name_that_does_not_resolve_is_unreachable() -> None:
    """No such host (the name is reserved for that)."""
    async with connected("http://nowhere.invalid:6443") as connection:
        assert (await failure_of(connection)).reason is MissingReason.UNREACHABLE


@pytest.mark.parametrize("address", ["nonsense", "http://", "ftp://127.0.0.1", "http://127.0.0.1:99999"])
async def test_address_that_is_none_is_unreachable(address: str) -> None:
    """An address that cannot be one is a reason too."""
    async with connected(address) as connection:
        assert (await failure_of(connection)).reason is MissingReason.UNREACHABLE


async def test_tls_client_at_a_plain_server_is_unreachable(api: ApiServer) -> None:
    """The wrong scheme is trouble outside, not ours."""
    async with connected(api.url.replace("http:", "https:"), service_account=ServiceAccount("", "", {})) as connection:
        assert (await failure_of(connection)).reason in {MissingReason.UNREACHABLE, MissingReason.CONNECTION_REFUSED}


class _listening:  # noqa: N801 - used like a function
    """A server that answers every GET with one prepared response, or with raw bytes."""

    def __init__(self, document: object = None, *, raw: bytes | None = None, body: bytes | None = None) -> None:
        self._body = json.dumps(document).encode() if body is None else body
        self._raw = raw
        self._seen: list[web.BaseRequest] = []

    async def __aenter__(self) -> tuple[str, list[web.BaseRequest]]:
        if self._raw is not None:
            self._server: asyncio.Server = await asyncio.start_server(self._write_raw, "127.0.0.1", 0)
        else:
            handler = web.Server(self._respond, access_log=None)
            self._server = await asyncio.get_running_loop().create_server(handler, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}", self._seen

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        self._seen.append(request)
        return web.Response(body=self._body, content_type="application/json")

    async def _write_raw(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._raw or b"")
        writer.close()


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[]", b"null", b"\xff\xfe", b'{"a":', b"[" * 200_000])
async def test_answer_that_is_no_json_object_is_malformed(body: bytes) -> None:
    """A proxy's login page, half an answer, a bomb of brackets: one reason."""
    async with _listening(body=body) as (url, _), connected(url) as connection:
        assert (await failure_of(connection)).reason is MissingReason.MALFORMED


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", MissingReason.CONNECTION_REFUSED),
        (b"SSH-2.0-OpenSSH_9.9\r\n", MissingReason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", MissingReason.CONNECTION_REFUSED),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", MissingReason.MALFORMED),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope", MissingReason.CONNECTION_REFUSED),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", MissingReason.CONNECTION_REFUSED),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", MissingReason.UNIMPLEMENTED),
    ],
)
async def test_broken_http_has_a_reason(raw: bytes, expected: MissingReason) -> None:
    """Whatever answers on the port, a reason comes out."""
    async with _listening(raw=raw) as (url, _), connected(url) as connection:
        assert (await failure_of(connection)).reason is expected


async def test_answer_above_the_limit_is_too_large() -> None:
    """An answer without end is cut off; it is not held in memory first."""
    body = b'{"a":"' + b"x" * MAX_BODY_BYTES + b'"}'
    async with _listening(body=body) as (url, _), connected(url, request_timeout_seconds=30.0) as connection:
        assert (await failure_of(connection)).reason is MissingReason.TOO_LARGE


async def test_large_list_comes_compressed() -> None:
    """A list above the API server's threshold is asked for and read with gzip."""
    server = ApiServer(pad_bytes=1 << 20)
    await server.start()
    server.show(a_world(a_pod("p")))
    started: list[str | None] = []

    async def note(_: object, __: object, params: aiohttp.TraceRequestEndParams) -> None:
        started.append(params.response.headers.get("Content-Encoding"))

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(note)
    async with connected(server.url) as connection:
        client = await connection._ready()
        client.configuration.trace_configs = [trace]
        answer = await connection.get("/api/v1/pods")
    await server.stop()
    assert len(answer["items"]) == 1
    assert started == ["gzip"]


async def test_token_is_in_no_error_and_in_no_log(api: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing that is logged or shown quotes credentials, whatever is wrong with them."""
    caplog.set_level(logging.DEBUG)
    api.token = "right"
    texts = []
    for number, user in enumerate(
        ({"token": "sup3rsecret"}, {"token": "sup3rsecret\nsecond: line"}, {"token": ["sup3rsecret"]})
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        kubeconfig = a_kubeconfig(folder, api.url, user)  # type: ignore[arg-type]  # one of them is wrong on purpose
        async with connected("", kubeconfig=kubeconfig) as connection:
            failure = await failure_of(connection)
            texts += [failure.detail, repr(failure), str(failure.__cause__)]
    assert "sup3rsecret" not in "\n".join([*texts, caplog.text])


async def test_generated_models_are_not_loaded(connection: Connection, api: ApiServer) -> None:
    """The official client's models cost 25 MB and a second: the transport does without."""
    api.show(World(node=NODE))
    await connection.get(NODE_PATH)
    assert "kubernetes.aio.client.api.core_v1_api" not in sys.modules
    assert "kubernetes.aio.client.models.v1_pod" not in sys.modules
