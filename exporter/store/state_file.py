"""The ledger's state file: nothing is shown that a restart could take back.

Written before a cycle is published. If that fails, the file is made void, so that a restart begins at 0 and not behind what
was scraped; if nobody can say what became of it, because the write hangs, counters stand still until it returns.
"""

import functools
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.edge.one_thread import OneThread, StuckError
from exporter.edge.transitions import Transitions
from exporter.model.ledger import Ledger
from exporter.model.published import SourceHealth
from exporter.model.reading import MissingReason
from exporter.model.refusal import Refusal, RefusedStateError
from exporter.store.disk import Disk, DiskError

logger = logging.getLogger(__name__)

_NO_FILE = frozenset({MissingReason.NOT_A_FILE, MissingReason.FOLDER_MISSING})
LOAD_SECONDS, SAVE_SECONDS, CLOSE_SECONDS = 10.0, 2.0, 0.5


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why the last attempt failed."""

    reason: MissingReason
    detail: str
    undone: bool
    """False if an older state of this run is still there and can be neither replaced nor removed."""


class NoStateFile:
    """Stands for the state file where none is configured: counting begins at 0 with the process."""

    health: SourceHealth | None = None

    async def load(self) -> Ledger:
        """Nothing."""
        return Ledger()

    async def save(self, ledger: Ledger) -> Ledger:
        """All of it may be shown."""
        return ledger

    async def close(self) -> None:
        """Nothing to end."""


class StateFile:
    """Loads once, then saves after each cycle, in one thread of its own: never two writes at once.

    Args:
        path: Of the file. Other processes must not write it.
        encode: A ledger as a document of JSON types.
        decode: The same back; raises `RefusedStateError`.
        load_seconds: Longest wait for the first read and write.
        save_seconds: Longest wait for a write.
        wall: Unix time in seconds; names refused files.
    """

    def __init__(
        self,
        path: Path,
        *,
        encode: Callable[[Ledger], Mapping[str, object]],
        decode: Callable[[object], Ledger],
        load_seconds: float = LOAD_SECONDS,
        save_seconds: float = SAVE_SECONDS,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._disk = Disk(path)
        self._encode = encode
        self._decode = decode
        self._load_seconds = load_seconds
        self._save_seconds = save_seconds
        self._wall = wall
        self._thread = OneThread("state file")
        self._transitions = Transitions("state_file")
        self._shown = Ledger()
        self.health: SourceHealth | None = SourceHealth(up=False, reason=MissingReason.STARTING)
        # Of the thread alone:
        self._written = False
        """There is a file, and it says what this run has shown."""
        self._refused: tuple[MissingReason, str] | None = None
        self._in_the_way = False
        """A file that was refused is still at the path, and must not be overwritten."""

    async def load(self) -> Ledger:
        """What an earlier run has counted; nothing if there is no such file, or if it cannot be used.

        It is written again at once: a file that can be read and not written would fall behind what is scraped from now on.
        """
        try:
            ledger, trouble = await self._thread.call(self._load, self._load_seconds)
        except StuckError:
            # Whatever is there will be overwritten once the disk answers; until then nothing is shown.
            self._hear(_Trouble(MissingReason.TIMEOUT, self._stuck(self._load_seconds), undone=False))
            return Ledger()
        self._hear(trouble)
        self._shown = ledger
        return ledger

    async def save(self, ledger: Ledger) -> Ledger:
        """Write the ledger.

        Returns:
            What may be shown: the same, or an earlier one as long as a restart might take its counters back to that.
        """
        try:
            trouble = await self._thread.call(functools.partial(self._save, ledger), self._save_seconds)
        except StuckError:
            trouble = _Trouble(MissingReason.TIMEOUT, self._stuck(self._save_seconds), undone=False)
        self._hear(trouble)
        if trouble is None or trouble.undone:
            self._shown = ledger
        return self._shown

    async def close(self) -> None:
        """End the thread; what was published is on the disk already."""
        try:
            await self._thread.end(CLOSE_SECONDS)
        except StuckError:
            logger.warning("the state file is stuck in a write")

    def _hear(self, trouble: _Trouble | None) -> None:
        if trouble is not None:
            self._transitions.missing(trouble.reason, trouble.detail)
            self.health = SourceHealth(up=False, reason=trouble.reason, detail=trouble.detail)
            return
        self._transitions.answered()
        reason, detail = self._refused or ("", "")
        self.health = SourceHealth(up=True, reason=reason, detail=detail)

    def _stuck(self, seconds: float) -> str:
        return f"{self._disk.path}: no answer within {seconds:g} s; counters stand still until there is one"

    def _load(self) -> tuple[Ledger, _Trouble | None]:
        ledger = Ledger()
        try:
            content = self._disk.read()
            if content:
                ledger = self._decoded(content)
        except DiskError as error:
            # Where there is no file, there is none to refuse: the write will say what is wrong.
            if error.reason not in _NO_FILE:
                self._refuse(error.reason, error.detail)
        except RefusedStateError as error:
            self._refuse(MissingReason(error.refusal.value), f"{self._disk.path}: {error.detail}")
        trouble = self._save(ledger)
        if trouble is None:
            return ledger, None
        if ledger != Ledger():
            logger.warning("what was counted before is not used, counting begins at 0: the state file cannot be written")
        return Ledger(), trouble

    def _decoded(self, content: bytes) -> Ledger:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RefusedStateError(Refusal.DAMAGED, f"it is no JSON: {error}") from error
        return self._decode(document)

    def _refuse(self, reason: MissingReason, detail: str) -> None:
        logger.warning("what was counted before cannot be used, counting begins at 0: %s (%s)", detail, reason.value)
        self._refused = (reason, f"{detail}; counting began at 0")
        self._in_the_way = True

    def _save(self, ledger: Ledger) -> _Trouble | None:
        content = json.dumps(self._encode(ledger), separators=(",", ":"), allow_nan=False).encode("ascii")
        try:
            self._clear_the_way()
            self._disk.write(content)
        except DiskError as error:
            return self._undo(error)
        self._written = True
        return None

    def _clear_the_way(self) -> None:
        if self._in_the_way:
            aside = self._disk.put_aside(self._wall())
            self._in_the_way = False
            if aside is not None:
                logger.warning("the refused state file is kept as %s", aside)

    def _undo(self, error: DiskError) -> _Trouble:
        """Keep a restart from counting on from less than what is shown."""
        if self._in_the_way:
            return _Trouble(error.reason, error.detail, undone=True)
        try:
            self._disk.make_void()
        except DiskError as second:
            detail = f"{error.detail}; and the old one cannot be removed: {second.detail}"
            if self._written:
                detail += "; counters stand still"
            return _Trouble(error.reason, detail, undone=not self._written)
        self._written = False
        return _Trouble(error.reason, error.detail, undone=True)
