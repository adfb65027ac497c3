"""Everything that can go wrong with a request, folded into one exception of this room and the closed enum of reasons.

`RequestFailed` never leaves the room: each `read()` turns it into a value.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from exporter.model.reading import MissingReason

GONE = 410

_REASONS = {
    401: MissingReason.UNAUTHORIZED,
    403: MissingReason.FORBIDDEN,
    404: MissingReason.NOT_FOUND,
    408: MissingReason.TIMEOUT,
    410: MissingReason.NOT_FOUND,
    413: MissingReason.TOO_LARGE,
    429: MissingReason.RATE_LIMITED,
}
_SERVER_ERRORS = 500
_CUT = (aiohttp.ClientPayloadError, aiohttp.ServerConnectionError, aiohttp.ClientOSError, ConnectionError)

DEFINITIVE = frozenset({MissingReason.FORBIDDEN, MissingReason.NOT_FOUND, MissingReason.DISABLED})
"""Reasons for which asking again soon does not help."""


class RequestFailed(Exception):  # noqa: N818 - reads as what happened
    """A request without a usable answer."""

    def __init__(
        self, reason: MissingReason, detail: str, *, status: int | None = None, retry_after_seconds: float = 0.0
    ) -> None:
        """`detail` holds addresses, paths and status lines only: never a header, a token or a body."""
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.status = status
        """HTTP status; None if there was no answer, or if the answer was refused for its body."""
        self.retry_after_seconds = retry_after_seconds
        """What the server asks us to wait; 0 if it does not say."""


class OwnLimit(RequestFailed):
    """Not asked: our own limit on look-ups was reached. Nothing is known of the server."""


CERTIFICATE_ERRORS = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)
"""TLS could not be agreed on: the authority's file may have been replaced since it was loaded."""


def failure_of_status(status: int, path: str, retry_after: str | None) -> RequestFailed:
    """Name the failure behind an HTTP status other than 200."""
    reason = MissingReason.SERVER_ERROR if status >= _SERVER_ERRORS else _REASONS.get(status, MissingReason.UNIMPLEMENTED)
    seconds = float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else 0.0
    return RequestFailed(reason, f"HTTP {status} for {path}", status=status, retry_after_seconds=seconds)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn what aiohttp, the event loop's timeout and the operating system raise into `RequestFailed`."""
    try:
        yield
    except TimeoutError as error:
        raise RequestFailed(MissingReason.TIMEOUT, f"no answer in time for {path}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # ValueError: an address or a header that aiohttp refuses to send.
        raise _named(error, path) from error


def _named(error: aiohttp.ClientError | OSError | ValueError, path: str) -> RequestFailed:
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, CERTIFICATE_ERRORS):
        refused = isinstance(error.os_error, ConnectionError)
        reason = MissingReason.CONNECTION_REFUSED if refused else MissingReason.UNREACHABLE
        return RequestFailed(reason, f"{kind} ({type(error.os_error).__name__}) for {path}")
    if isinstance(error, aiohttp.ClientResponseError):
        return RequestFailed(MissingReason.MALFORMED, f"{kind} for {path}")
    if not isinstance(error, CERTIFICATE_ERRORS) and isinstance(error, _CUT):
        return RequestFailed(MissingReason.CONNECTION_REFUSED, f"{kind} for {path}")
    return RequestFailed(MissingReason.UNREACHABLE, f"{kind} for {path}")
