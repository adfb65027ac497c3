"""One pass over the processes asked for and their ancestors. Blocks; runs in the source's worker thread."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.sources.procfs.host import is_host_view
from exporter.sources.procfs.process import is_relative, read_file, read_process

_MAX_ANCESTORS: Final = 32


@dataclass(slots=True)
class Scanner:
    """Reads under one root; remembers nothing of processes between two passes."""

    root: Path
    reading: str = ""
    """The file that is being read, for whoever waits for it in vain."""
    _host_seen: bool = False
    """What made this /proc the host's once does not go away with the process that showed it."""

    def scan(self, pids: Collection[int], now: float) -> Reading[ProcessTable]:
        """The processes as they are now.

        Missing: not_found (no such folder), permission_denied.
        """
        self.reading = str(self.root)
        try:
            root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError as error:
            return Missing(MissingReason.PERMISSION_DENIED, now, f"{self.root}: {error.strerror}")
        except OSError as error:
            return Missing(MissingReason.NOT_FOUND, now, f"{self.root}: {error.strerror}")
        try:
            return Fresh(self._table(root_fd, pids), now)
        finally:
            os.close(root_fd)

    def _table(self, root_fd: int, pids: Collection[int]) -> ProcessTable:
        found = _Pass(self, root_fd)
        for pid in sorted(set(pids)):
            found.climb(pid)
        troubles = {pid: trouble for pid in sorted(set(pids)) if isinstance(trouble := found.processes[pid], ProcessTrouble)}
        records = {pid: each for pid, each in sorted(found.processes.items()) if isinstance(each, ProcessRecord)}
        nobody = all(trouble is ProcessTrouble.GONE for trouble in troubles.values()) and len(troubles) == len(set(pids))
        return ProcessTable(
            records=records,
            troubles=troubles,
            private_cgroup_view=any(is_relative(line) for record in records.values() for line in record.cgroup_lines),
            host_pid_missing=nobody and not self._sees_host(found),
        )

    def _sees_host(self, found: "_Pass") -> bool:
        self._host_seen = self._host_seen or is_host_view(found.root_fd, found.read)
        return self._host_seen


@dataclass(slots=True)
class _Pass:
    """What one pass has read so far."""

    scanner: Scanner
    root_fd: int
    processes: dict[int, ProcessRecord | ProcessTrouble] = field(default_factory=dict)

    def read(self, path: str) -> bytes | ProcessTrouble:
        self.scanner.reading = path
        return read_file(self.root_fd, path)

    def climb(self, pid: int) -> None:
        """Reads a process and what is above it, up to PID 1, a limit, or one that was read before."""
        for _ in range(_MAX_ANCESTORS + 1):
            if pid in self.processes:
                return
            process = self.processes[pid] = read_process(pid, self.read)
            if isinstance(process, ProcessTrouble) or process.parent_pid <= 0:
                return
            pid = process.parent_pid
