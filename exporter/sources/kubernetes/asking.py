"""Asks for single objects: each at most once a read, so many at a time, and all of them within one deadline."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.edge.transitions import Transitions
from exporter.model.reading import MissingReason
from exporter.model.workload import Lookup, LookupFailure, ObjectMeta
from exporter.sources.kubernetes.connection import METADATA_ONLY, Connection
from exporter.sources.kubernetes.failures import OwnLimit, RequestFailed
from exporter.sources.kubernetes.shelf import Shelf

_PART_FOR_ONE_REQUEST = 0.8
"""A request that hangs fails before the read's deadline and is then left alone for a while: the others get their turn."""


@dataclass(slots=True)
class Visit:
    """One read on its way."""

    not_asked: set[str] = field(default_factory=set)
    """Keys beyond our own limit."""
    locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """So that two ways to one object ask for it once."""


class Asker:
    """The shelf of one kind of objects, and the way to fill it."""

    def __init__(
        self,
        connection: Connection,
        shelf: Shelf,
        *,
        source: str,
        deadline_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A read takes no longer than `deadline_seconds`, nor than the connection's request timeout."""
        self.shelf = shelf
        self._connection = connection
        self._deadline_seconds = min(deadline_seconds, connection.request_timeout_seconds)
        self._transitions = Transitions(f"kubernetes {source}", clock)

    async def get(self, path: str) -> Mapping[str, Any]:
        """Read one object's metadata when it is our turn."""
        async with self._connection.look_ups.turn():
            return await self._connection.get(
                path, accept=METADATA_ONLY, timeout_seconds=self._deadline_seconds * _PART_FOR_ONE_REQUEST
            )

    async def ask(self, key: str, fetch: Callable[[], Awaitable[ObjectMeta]], visit: Visit) -> None:
        """Fill the shelf for `key` if it is due; failures are kept there too."""
        async with visit.locks[key]:
            if not self.shelf.due(key):
                return
            try:
                self.shelf.put(key, await fetch())
            except OwnLimit:
                visit.not_asked.add(key)
            except RequestFailed as failure:
                self.shelf.fail(key, failure.reason)

    async def settle(self, jobs: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all jobs side by side; what is not done by the deadline is dropped."""
        try:
            async with asyncio.timeout(self._deadline_seconds), asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(job)
        except TimeoutError:
            return

    def answers(self, keys: Iterable[str], visit: Visit) -> tuple[dict[str, Lookup], MissingReason | None]:
        """The answer for each key, and what most of the failures among them were for (404 left out)."""
        found: dict[str, Lookup] = {}
        troubles: Counter[MissingReason] = Counter()
        for key in keys:
            unfinished = MissingReason.RATE_LIMITED if key in visit.not_asked else MissingReason.TIMEOUT
            reason = self.shelf.failure(key) or (unfinished if self.shelf.due(key) else None)
            found[key] = self.shelf.answer(key) or LookupFailure(unfinished, definitive=False)
            if reason is not None and reason is not MissingReason.NOT_FOUND:
                troubles[reason] += 1
        trouble = max(troubles, key=lambda reason: (troubles[reason], reason.value), default=None)
        if trouble is None:
            self._transitions.answered()
        else:
            self._transitions.missing(trouble, f"{troubles.total()} of {len(found)} look-ups")
        return found, trouble
