"""What look-ups have found, for how long it counts, and when it is time to ask again. No I/O."""

import time
from collections.abc import Callable

from cachetools import LRUCache, TTLCache

from exporter.model.reading import MissingReason
from exporter.model.workload import Lookup, LookupFailure, ObjectMeta
from exporter.sources.kubernetes.failures import DEFINITIVE

REFUSED_SECONDS = 60.0
FAILED_SECONDS = 10.0
"""How long definitive failures and other ones count before the next attempt."""
_MOST = 4096


class Shelf:
    """Keeps the last good answer beside the last failure: an answer outlives look-ups that fail.

    A 404 does not age the last answer (the object is gone, and will never be different); every other failure lets it stand for
    `max_stale_seconds` after it was given.
    """

    def __init__(self, *, ttl_seconds: float, max_stale_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """An answer is asked for again after `ttl_seconds`, a definitive failure after a minute, another one after 10 s."""
        self._ttl_seconds = ttl_seconds
        self._max_stale_seconds = max_stale_seconds
        self._clock = clock
        self._known: LRUCache[str, tuple[float, ObjectMeta]] = LRUCache(_MOST)
        self._refused: TTLCache[str, MissingReason] = TTLCache(_MOST, REFUSED_SECONDS, timer=clock)
        self._failed: TTLCache[str, MissingReason] = TTLCache(_MOST, FAILED_SECONDS, timer=clock)

    def due(self, key: str) -> bool:
        """True if it should be asked for now."""
        if self.failure(key) is not None:
            return False
        known = self._known.get(key)
        return known is None or self._clock() - known[0] >= self._ttl_seconds

    def put(self, key: str, found: ObjectMeta) -> None:
        """Take an answer."""
        self._known[key] = (self._clock(), found)
        self._refused.pop(key, None)
        self._failed.pop(key, None)

    def fail(self, key: str, reason: MissingReason) -> None:
        """Take a failure."""
        (self._refused if reason in DEFINITIVE else self._failed)[key] = reason

    def failure(self, key: str) -> MissingReason | None:
        """Why the last look-up failed; None if it did not, or if it is time for another one."""
        return self._failed.get(key) or self._refused.get(key)

    def answer(self, key: str) -> Lookup | None:
        """The last good answer while it counts, else the failure, else None: never asked."""
        known, reason = self._known.get(key), self.failure(key)
        if known is not None:
            at, found = known
            if reason is MissingReason.NOT_FOUND or self._clock() - at <= max(self._ttl_seconds, self._max_stale_seconds):
                return found
        return None if reason is None else LookupFailure(reason, definitive=reason in DEFINITIVE)
