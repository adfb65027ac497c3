"""Pods of this node: one list, then a watch that lives for minutes, over and over. Reading costs nothing.

The list asks the API server's cache (resourceVersion=0), so that no node's restart reaches etcd. The watch resumes where it
was cut; a new list comes only with a 410 (our place in the history is gone) or another refusal of the watch.
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto, unique
from types import NoneType

from exporter.edge.transitions import Transitions
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.model.workload import PodStore
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.failures import GONE, RequestFailed
from exporter.sources.kubernetes.fields import mapping, text
from exporter.sources.kubernetes.lines import LineSplitter
from exporter.sources.kubernetes.pacing import Backoff
from exporter.sources.kubernetes.pod_cache import PodCache

_PATH = "/api/v1/pods"
_KEEP_PLACE = frozenset({MissingReason.UNAUTHORIZED, MissingReason.FORBIDDEN, MissingReason.RATE_LIMITED})
"""Refusals that say nothing about our place in the history: the watch is tried again from there."""


@unique
class _End(Enum):
    """How a watch came to its end."""

    REGULAR = auto()
    """By the server, as it was asked to."""
    INTERRUPTED = auto()
    """Cut, or silent for too long: it can be resumed."""
    RELIST = auto()
    """The server said, by HTTP status or in the stream, that it cannot go on from there."""


class Pods:
    """Start `run()` as a task; `read()` gives what it knows."""

    def __init__(
        self,
        connection: Connection,
        *,
        node: str,
        annotation_keys: frozenset[str],
        watch_timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        first_retry_seconds: float = 1.0,
        longest_retry_seconds: float = 30.0,
    ) -> None:
        """The server is asked to end each watch after one to two times `watch_timeout_seconds`."""
        self._connection = connection
        self._selector = ("fieldSelector", f"spec.nodeName={node}")
        self._watch_timeout_seconds = watch_timeout_seconds
        self._clock = clock
        self._first_retry_seconds = first_retry_seconds
        self._backoff = Backoff(first_retry_seconds, longest_retry_seconds)
        self._cache = PodCache(annotation_keys, clock)
        self._transitions = Transitions("kubernetes pods", clock)
        self._place: str | None = None
        """resourceVersion up to which everything is known; None: a list is needed."""
        self._watching = False
        self._alive_at = 0.0
        self._missing: Missing | None = Missing(MissingReason.STARTING, clock())

    @property
    def generation(self) -> int:
        """Grows with every change of the pods."""
        return self._cache.generation

    def read(self) -> Reading[PodStore]:
        """What is known now.

        Fresh while the last request succeeded: taken now while a watch is open, else when one was last heard of. Missing:
        starting, no_configuration, unauthorized, forbidden, not_found, rate_limited, server_error, unimplemented, timeout,
        connection_refused, unreachable, malformed, too_large.
        """
        if self._missing is not None:
            return self._missing
        return Fresh(self._cache.store(), self._clock() if self._watching else self._alive_at)

    async def run(self) -> None:
        """Keep the store up to date until cancelled."""
        while True:
            pause_seconds = await self._round()
            await asyncio.sleep(pause_seconds)

    async def _round(self) -> float:
        """List if need be, then watch to the watch's end; returns the seconds to wait before the next round."""
        try:
            place = self._place or await self._list()
            started = time.monotonic()
            end = await self._watch(place)
        except RequestFailed as failure:
            return self._failed(failure)
        if end is _End.RELIST:
            self._place = None
        if time.monotonic() - started > self._first_retry_seconds:
            self._backoff.reset()
            if end is _End.REGULAR:
                return 0.0
        return self._backoff.next_pause_seconds()

    async def _list(self) -> str:
        answer = await self._connection.get(_PATH, (self._selector, ("resourceVersion", "0")))
        place = text(mapping(answer, "metadata"), "resourceVersion")
        items = answer.get("items", ())
        if not place or not isinstance(items, (list, NoneType)):
            raise RequestFailed(MissingReason.MALFORMED, f"no list at {_PATH}")
        self._cache.replace(items or ())
        self._heard()
        self._place = place
        return place

    async def _watch(self, place: str) -> _End:
        seconds = max(1, round(self._watch_timeout_seconds * random.uniform(1.0, 2.0)))  # noqa: S311 - spread, not secret
        query = (
            self._selector,
            ("watch", "1"),
            ("resourceVersion", place),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(seconds)),
        )
        # A peer that is gone without a word ends no watch: our own limit does, a little after the server's.
        limit_seconds = seconds + self._connection.request_timeout_seconds
        try:
            async with self._connection.stream(_PATH, query, limit_seconds=limit_seconds) as chunks:
                self._transitions.answered()
                self._watching = True
                return await self._follow(chunks)
        except RequestFailed as failure:
            if failure.status == GONE:
                return _End.RELIST
            raise
        finally:
            self._watching = False

    async def _follow(self, chunks: AsyncIterator[bytes]) -> _End:
        splitter = LineSplitter()
        self._heard()
        try:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    if not self._take(line):
                        return _End.RELIST
                for _ in range(splitter.take_too_long()):
                    self._cache.count_malformed()
                self._heard()
        except RequestFailed:
            # Cut, or silent for too long. It is no failure unless it cannot be resumed.
            return _End.INTERRUPTED
        self._heard()
        return _End.REGULAR

    def _take(self, line: bytes) -> bool:
        """Take one event; False if the server says that the watch cannot go on."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
            self._cache.count_malformed()
            return True
        document, change = event["object"], event.get("type")
        if change == "ERROR":
            return False
        if change in {"ADDED", "MODIFIED"}:
            self._cache.put(document)
        elif change == "DELETED":
            self._cache.remove(document)
        elif change != "BOOKMARK":
            self._cache.count_malformed()
        self._place = text(mapping(document, "metadata"), "resourceVersion") or self._place
        return True

    def _heard(self) -> None:
        self._alive_at = self._clock()
        self._missing = None

    def _failed(self, failure: RequestFailed) -> float:
        """The server was asked and did not give what was asked for."""
        if failure.status is not None and failure.reason not in _KEEP_PLACE:
            self._place = None
        self._missing = Missing(failure.reason, self._clock(), failure.detail)
        self._transitions.missing(failure.reason, failure.detail)
        return self._backoff.next_pause_seconds(failure.retry_after_seconds)
