"""State files for tests: the real codec, one node, and ledgers of which only the clock differs."""

import contextlib
import functools
import resource
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from exporter.accounting.codec import decode, encode
from exporter.model.ledger import Ledger
from exporter.store.state_file import StateFile

NODE = "gpu-n1"
NOW = 1_796_098_548.0
"""2026-12-01T04:15:48Z."""


def counted(seconds: float) -> Ledger:
    """What was counted after so many seconds."""
    return Ledger(clock_seconds=seconds, lost_sample_seconds=seconds)


class Gate:
    """Encodes ledgers, and stands for a disk that hangs while it is shut."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._inside = 0
        self.most_at_once = 0

    def shut(self) -> None:
        """From now on nothing gets through."""
        self._open.clear()

    def open(self) -> None:
        """Whoever waits goes on."""
        self._open.set()

    def encode(self, ledger: Ledger) -> Mapping[str, object]:
        """The document, once it gets through."""
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        self._open.wait(30)
        self._inside -= 1
        return encode(ledger, NODE)


def a_state_file(
    path: Path, *, gate: Gate | None = None, save_seconds: float = 10.0, load_seconds: float = 10.0, now: float = NOW
) -> StateFile:
    """Of the node NODE."""
    return StateFile(
        path,
        encode=(gate or Gate()).encode,
        decode=functools.partial(decode, node=NODE),
        save_seconds=save_seconds,
        load_seconds=load_seconds,
        wall=lambda: now,
    )


@contextlib.contextmanager
def no_file_larger_than(size_bytes: int) -> Iterator[None]:
    """A limit that the kernel holds writes to, as a full disk or a quota does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(folder: Path) -> list[str]:
    """What lies there."""
    return sorted(path.name for path in folder.iterdir())
