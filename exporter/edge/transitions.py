"""Log lines for changes of a source's state, and for nothing else: what happens every cycle is a metric."""

import logging
import time
from collections.abc import Callable

from exporter.model.reading import Missing, MissingReason, Reading

logger = logging.getLogger(__name__)


class Transitions:
    """Remembers whether a source answers, and since when it does not."""

    def __init__(self, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._reason: MissingReason | None = None
        self._since = 0.0

    def heard(self, reading: Reading[object]) -> None:
        """Logged when the reading is another kind of answer than the one before."""
        if isinstance(reading, Missing):
            self.missing(reading.reason, reading.detail)
        else:
            self.answered()

    def missing(self, reason: MissingReason, detail: str) -> None:
        """Logged when the source stops to answer, and when the reason changes."""
        if self._reason is reason:
            return
        if self._reason is None:
            self._since = self._clock()
        self._reason = reason
        logger.warning("%s missing: %s%s", self._source, reason.value, f" ({detail})" if detail else "")

    def answered(self) -> None:
        """Logged when the source answers again."""
        if self._reason is None:
            return
        logger.info("%s back after %.1f s (%s)", self._source, self._clock() - self._since, self._reason.value)
        self._reason = None
