"""Splits a stream of bytes into lines of bounded length."""

from collections.abc import Iterator

MAX_LINE_BYTES = 16 << 20
"""Ten times what etcd takes as one object."""


class LineSplitter:
    """Feed it chunks as they come. A line that is too long is dropped whole and counted; the lines after it are unharmed."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self._skipping = False
        self._too_long = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Complete lines without their newline, empty ones left out."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._append(end)
            if not self._skipping and self._rest:
                yield bytes(self._rest)
            self._rest.clear()
            self._skipping = False
        self._append(rest)

    def take_too_long(self) -> int:
        """Lines dropped for their length since the last call."""
        count, self._too_long = self._too_long, 0
        return count

    def _append(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(part) > self._max_line_bytes:
            self._rest.clear()
            self._skipping = True
            self._too_long += 1
            return
        self._rest += part
