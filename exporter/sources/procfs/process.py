"""One process's files under /proc. Trouble with one process is a value; nothing here knows of the others."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exporter.model.ids import ProcessKey
from exporter.model.process import ProcessRecord, ProcessTrouble

LIMIT_BYTES: Final = 64 * 1024
"""A stat or cgroup file has some hundred bytes; whatever is longer than this is none."""

_CHUNK_BYTES: Final = 16 * 1024
_PARENT_FIELD: Final = 4
_START_FIELD: Final = 22
_FIRST_FIELD_AFTER_NAME: Final = 3

FileReader = Callable[[str], bytes | ProcessTrouble]
"""Path under the root -> the file's bytes."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What ``/proc/<pid>/stat`` tells of a process."""

    name: str
    parent_pid: int
    start_ticks: int


def read_file(root_fd: int, path: str) -> bytes | ProcessTrouble:
    """A small file under the folder `root_fd`."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=root_fd)
        try:
            return _read(file)
        finally:
            os.close(file)
    except (FileNotFoundError, ProcessLookupError):
        return ProcessTrouble.GONE
    except PermissionError:
        return ProcessTrouble.PERMISSION_DENIED
    except OSError:
        # A folder, a socket, a loop of links, an input/output error: there, and of no use.
        return ProcessTrouble.MALFORMED


def read_process(pid: int, read: FileReader) -> ProcessRecord | ProcessTrouble:
    """A process whose files are all of one life: its start is read before and after the control groups."""
    before = read_stat(pid, read)
    if isinstance(before, ProcessTrouble):
        return before
    raw = read(f"{pid}/cgroup")
    if isinstance(raw, ProcessTrouble):
        return raw
    after = read_stat(pid, read)
    if isinstance(after, ProcessTrouble):
        return after
    if after.start_ticks != before.start_ticks:
        return ProcessTrouble.GONE
    # Not splitlines: that breaks at characters which a control group's name may contain.
    lines = tuple(line for line in raw.decode(errors="replace").split("\n") if line)
    if not any(_path_of(line) for line in lines):
        return ProcessTrouble.MALFORMED
    return ProcessRecord(ProcessKey(pid, before.start_ticks), before.parent_pid, before.name, lines)


def read_stat(pid: int, read: FileReader) -> Stat | ProcessTrouble:
    """The name stands in parentheses and may contain any byte, parentheses included: the last one ends it."""
    raw = read(f"{pid}/stat")
    if isinstance(raw, ProcessTrouble):
        return raw
    head, _, tail = raw.rpartition(b")")
    _, opening, name = head.partition(b"(")
    fields = tail.split()
    try:
        parent_pid = int(fields[_PARENT_FIELD - _FIRST_FIELD_AFTER_NAME])
        start_ticks = int(fields[_START_FIELD - _FIRST_FIELD_AFTER_NAME])
    except (IndexError, ValueError):
        return ProcessTrouble.MALFORMED
    if not opening:
        return ProcessTrouble.MALFORMED
    return Stat(name.decode(errors="replace"), parent_pid, start_ticks)


def is_relative(cgroup_line: str) -> bool:
    """True if the path is told from a control group below the host's root: it climbs."""
    return ".." in _path_of(cgroup_line).split("/")


def _path_of(cgroup_line: str) -> str:
    """From ``hierarchy:controllers:path``, where the path may contain colons; empty if it is no such line."""
    return ":".join(cgroup_line.split(":")[2:])


def _read(file: int) -> bytes | ProcessTrouble:
    content = b""
    while len(content) <= LIMIT_BYTES:
        chunk = os.read(file, _CHUNK_BYTES)
        if not chunk:
            return content
        content += chunk
    return ProcessTrouble.MALFORMED
