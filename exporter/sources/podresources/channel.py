"""Calls over the kubelet's socket: bytes in, and bytes or the reason for none out. Knows gRPC, and no message."""

import os
import re
import socket as sockets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import grpc

from exporter.model.reading import MissingReason

_DETAIL_LENGTH: Final = 300
_ADDRESS_BYTES: Final = 107
"""Longest path that fits into sockaddr_un."""

_REASONS: Final = {
    grpc.StatusCode.UNIMPLEMENTED: MissingReason.UNIMPLEMENTED,
    grpc.StatusCode.DEADLINE_EXCEEDED: MissingReason.TIMEOUT,
    grpc.StatusCode.PERMISSION_DENIED: MissingReason.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED: MissingReason.UNAUTHORIZED,
}
"""Any other status is the server's own fault."""

_SIZE_AGAINST_LIMIT: Final = re.compile(r"\(\d+ vs\. \d+\)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call without an answer."""

    reason: MissingReason
    detail: str


@dataclass(frozen=True, slots=True)
class _Connection:
    channel: grpc.aio.Channel
    file: tuple[int, int, int]
    """Device, inode and time of change of the socket file: a kubelet that comes back may get the same inode again."""


class SocketChannel:
    """A gRPC channel to a path; whoever listens there now is who answers."""

    def __init__(self, socket: Path, max_message_bytes: int) -> None:
        self._socket = socket
        self._options = (
            ("grpc.max_receive_message_length", max_message_bytes),
            # Else the path, percent-encoded, is the authority, and strict HTTP/2 servers refuse that.
            ("grpc.default_authority", "localhost"),
            # Channels share connections, and the pause after a failed one, unless told not to: a new channel must be new.
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_http_proxy", 0),
        )
        self._connection: _Connection | None = None

    async def call(self, method: str, deadline_seconds: float) -> bytes | Refusal:
        """The answer to an empty request, undecoded.

        Refusals: socket_missing, permission_denied, connection_refused, unreachable, timeout, unimplemented, unauthorized,
        rate_limited, too_large, server_error.
        """
        file = _look(self._socket)
        if isinstance(file, Refusal):
            await self.close()
            return file
        channel = await self._channel_to(file)
        # No deserialiser: inside the library a failing one is a logged traceback, and None for an answer.
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        try:
            return await ask(b"", timeout=deadline_seconds)
        except grpc.aio.AioRpcError as error:
            return await self._refusal(error)

    async def close(self) -> None:
        """Hangs up; a later call dials again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.channel.close()

    async def _channel_to(self, file: tuple[int, int, int]) -> grpc.aio.Channel:
        if self._connection is not None and self._connection.file != file:
            await self.close()
        if self._connection is None:
            target = f"unix:{quote(str(self._socket))}"
            self._connection = _Connection(grpc.aio.insecure_channel(target, options=self._options), file)
        return self._connection.channel

    async def _refusal(self, error: grpc.aio.AioRpcError) -> Refusal:
        code = error.code()
        detail = f"{code.name}: {error.details()}"[:_DETAIL_LENGTH]
        if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
            await self.close()
        if code is grpc.StatusCode.UNAVAILABLE:
            return Refusal(_probe(self._socket), f"{self._socket}: {detail}")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Refusal(_exhausted(error.details() or ""), detail)
        return Refusal(_REASONS.get(code, MissingReason.SERVER_ERROR), detail)


def _look(path: Path) -> tuple[int, int, int] | Refusal:
    """The socket file's identity. An empty folder in its place is what a hostPath mount leaves where nothing was."""
    try:
        file = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return Refusal(MissingReason.SOCKET_MISSING, str(path))
    except PermissionError:
        return Refusal(MissingReason.PERMISSION_DENIED, str(path))
    except OSError as error:
        return Refusal(MissingReason.UNREACHABLE, f"{path}: {error.strerror}")
    if not stat.S_ISSOCK(file.st_mode):
        return Refusal(MissingReason.SOCKET_MISSING, f"{path} is not a socket")
    if len(os.fsencode(path)) > _ADDRESS_BYTES:
        return Refusal(MissingReason.UNREACHABLE, f"{path} is too long for a socket's address")
    return file.st_dev, file.st_ino, file.st_ctime_ns


def _probe(path: Path) -> MissingReason:
    """Why gRPC found nobody: its UNAVAILABLE does not tell."""
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM | sockets.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(os.fsencode(path))
        except FileNotFoundError:
            return MissingReason.SOCKET_MISSING
        except PermissionError:
            return MissingReason.PERMISSION_DENIED
        except BlockingIOError:
            # The queue of connections is full: somebody listens and does not accept.
            return MissingReason.TIMEOUT
        except ConnectionError:
            return MissingReason.CONNECTION_REFUSED
        except OSError:
            # A socket of another kind.
            return MissingReason.UNREACHABLE
    # It lets us in now, and hung up before.
    return MissingReason.CONNECTION_REFUSED


def _exhausted(details: str) -> MissingReason:
    """The kubelet's rate limit, or an answer above our own limit of size.

    Both are RESOURCE_EXHAUSTED, and neither carries metadata: this is the only error that is told by its text. A message above
    a limit, ours or the server's, is reported with both sizes, in grpc's C core and in grpc-go alike; nothing else is.
    """
    return MissingReason.TOO_LARGE if _SIZE_AGAINST_LIMIT.search(details) else MissingReason.RATE_LIMITED
