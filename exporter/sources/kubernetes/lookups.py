"""Look-ups of what stands above and around the pods: owners, namespaces, this node. Single GETs, never a list or a watch.

With thousands of nodes each change of a watched owner would go to all of them, and a list each would be worse.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from exporter.edge.transitions import Transitions
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.model.workload import Lookup, NamespaceTable, NodeMeta, ObjectMeta, OwnerKey, OwnerTable
from exporter.sources.kubernetes.asking import Asker, Visit
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.discovery import Discovery
from exporter.sources.kubernetes.failures import DEFINITIVE, OwnLimit, RequestFailed
from exporter.sources.kubernetes.fields import is_object_name
from exporter.sources.kubernetes.objects import node_meta, object_meta
from exporter.sources.kubernetes.shelf import FAILED_SECONDS, REFUSED_SECONDS, Shelf

_MOST_HOPS = 8


class Owners:
    """Controllers above pods: each reference asked for and its controller ancestors, metadata only."""

    def __init__(
        self,
        connection: Connection,
        *,
        annotation_keys: frozenset[str],
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
        ttl_seconds: float = 3600.0,
        max_stale_seconds: float = 86400.0,
        deadline_seconds: float = 3.0,
    ) -> None:
        """An owner is asked for again after `ttl_seconds`; while that fails, the last answer counts for `max_stale_seconds`."""
        self._annotation_keys = annotation_keys
        self._enabled = enabled
        self._clock = clock
        shelf = Shelf(ttl_seconds=ttl_seconds, max_stale_seconds=max_stale_seconds, clock=clock)
        self._asker = Asker(connection, shelf, source="owners", deadline_seconds=deadline_seconds, clock=clock)
        self._discovery = Discovery(self._asker.get, clock)

    async def read(self, keys: Collection[OwnerKey]) -> Reading[OwnerTable]:
        """Look up what is not known yet, within the deadline.

        Failures are in the table, each with its reason, and the most frequent one is the table's `trouble`. Missing: disabled.
        """
        if not self._enabled:
            return Missing(MissingReason.DISABLED, self._clock())
        visit = Visit()
        asked = tuple(dict.fromkeys(keys))
        unsettled = [key for key in asked if any(self._asker.shelf.due(_identity(above)) for above in self._chain(key))]
        if unsettled:
            await self._asker.settle(self._climb(key, visit) for key in unsettled)
        reached = {_identity(above): above for key in asked for above in self._chain(key)}
        answers, trouble = self._asker.answers(reached, visit)
        return Fresh(OwnerTable(_by_uid(reached, answers), trouble), self._clock())

    def _chain(self, key: OwnerKey) -> Iterator[OwnerKey]:
        """The reference itself and its controller ancestors, as far as they are known when the next one is asked for."""
        seen: set[str] = set()
        above: OwnerKey | None = key
        while above is not None and above.uid not in seen and len(seen) <= _MOST_HOPS:
            seen.add(above.uid)
            yield above
            found = self._asker.shelf.answer(_identity(above))
            above = _controller(found) if isinstance(found, ObjectMeta) else None

    async def _climb(self, key: OwnerKey, visit: Visit) -> None:
        for above in self._chain(key):
            await self._asker.ask(_identity(above), partial(self._fetch, above), visit)

    async def _fetch(self, key: OwnerKey) -> ObjectMeta:
        document = await self._asker.get(await self._discovery.path_of(key))
        found = object_meta(document, key.api_version, key.kind, self._annotation_keys)
        if found is None:
            raise RequestFailed(MissingReason.MALFORMED, "an object without name or UID")
        if found.uid != key.uid:
            raise RequestFailed(MissingReason.NOT_FOUND, "another object of the same name")
        return found


def _identity(key: OwnerKey) -> str:
    """All that a reference says: anybody can write another object's UID beside a name of their own."""
    return f"{key.namespace}\0{key.api_version}\0{key.kind}\0{key.name}\0{key.uid}"


def _by_uid(reached: Mapping[str, OwnerKey], answers: Mapping[str, Lookup]) -> dict[str, Lookup]:
    """An object that was found stands against all false references to its UID."""
    objects: dict[str, Lookup] = {}
    for identity, key in reached.items():
        if not isinstance(objects.get(key.uid), ObjectMeta):
            objects[key.uid] = answers[identity]
    return objects


def _controller(found: ObjectMeta) -> OwnerKey | None:
    """An owner is in the same namespace, or in none: then the path does not say it."""
    for reference in found.owners:
        if reference.controller:
            return OwnerKey(reference.api_version, reference.kind, found.namespace, reference.name, reference.uid)
    return None


class Namespaces:
    """Labels and annotations of the namespaces that GPU pods are in, metadata only."""

    def __init__(
        self,
        connection: Connection,
        *,
        annotation_keys: frozenset[str],
        clock: Callable[[], float] = time.monotonic,
        ttl_seconds: float = 300.0,
        max_stale_seconds: float = 3600.0,
        deadline_seconds: float = 3.0,
    ) -> None:
        """Asked for again after `ttl_seconds`; while that fails, the last answer counts for `max_stale_seconds`."""
        self._annotation_keys = annotation_keys
        self._clock = clock
        shelf = Shelf(ttl_seconds=ttl_seconds, max_stale_seconds=max_stale_seconds, clock=clock)
        self._asker = Asker(connection, shelf, source="namespaces", deadline_seconds=deadline_seconds, clock=clock)

    async def read(self, names: Collection[str]) -> Reading[NamespaceTable]:
        """Look up what is not known or too old, within the deadline.

        Failures are in the table, each with its reason, and the most frequent one is the table's `trouble`. Never Missing.
        """
        visit = Visit()
        asked = dict.fromkeys(names)
        due = [name for name in asked if self._asker.shelf.due(name)]
        if due:
            await self._asker.settle(self._asker.ask(name, partial(self._fetch, name), visit) for name in due)
        namespaces, trouble = self._asker.answers(asked, visit)
        return Fresh(NamespaceTable(namespaces, trouble), self._clock())

    async def _fetch(self, name: str) -> ObjectMeta:
        if not is_object_name(name):
            raise RequestFailed(MissingReason.NOT_FOUND, "a name that no namespace can have")
        document = await self._asker.get(f"/api/v1/namespaces/{name}")
        found = object_meta(document, "v1", "Namespace", self._annotation_keys)
        if found is None or found.name != name:
            raise RequestFailed(MissingReason.MALFORMED, "not the namespace asked for")
        return found


class Node:
    """This node's labels, provider and capacity; an answer counts as current for `ttl_seconds`."""

    def __init__(
        self,
        connection: Connection,
        *,
        node: str,
        clock: Callable[[], float] = time.monotonic,
        ttl_seconds: float = 300.0,
        deadline_seconds: float = 3.0,
    ) -> None:
        """A read takes no longer than `deadline_seconds`, nor than the connection's request timeout."""
        self._connection = connection
        self._node = node
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._deadline_seconds = deadline_seconds
        self._transitions = Transitions("kubernetes node", clock)
        self._last: NodeMeta | RequestFailed | None = None
        self._ask_at = clock()

    async def read(self) -> Reading[NodeMeta]:
        """The node as last read, or as it is now.

        Missing: no_configuration, unauthorized, forbidden, not_found, rate_limited, server_error, unimplemented, timeout,
        connection_refused, unreachable, malformed, too_large.
        """
        if self._last is None or self._clock() >= self._ask_at:
            await self._ask()
        if isinstance(self._last, NodeMeta):
            return Fresh(self._last, self._clock())
        if self._last is None:
            return Missing(MissingReason.RATE_LIMITED, self._clock(), "our own limit on look-ups")
        return Missing(self._last.reason, self._clock(), self._last.detail)

    async def _ask(self) -> None:
        try:
            self._last = await self._fetch()
        except OwnLimit:
            return
        except RequestFailed as failure:
            self._last = failure
            self._ask_at = self._clock() + (REFUSED_SECONDS if failure.reason in DEFINITIVE else FAILED_SECONDS)
            self._transitions.missing(failure.reason, failure.detail)
        else:
            self._ask_at = self._clock() + self._ttl_seconds
            self._transitions.answered()

    async def _fetch(self) -> NodeMeta:
        path = f"/api/v1/nodes/{self._node}"
        if not is_object_name(self._node):
            raise RequestFailed(MissingReason.NOT_FOUND, "a name that no node can have")
        async with self._connection.look_ups.turn():
            document = await self._connection.get(path, timeout_seconds=self._deadline_seconds)
        found = node_meta(document)
        if found is None:
            raise RequestFailed(MissingReason.MALFORMED, f"no node at {path}")
        return found
