"""What /proc says of processes that NVML named. Names only: no command lines, no environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from exporter.model.ids import ProcessKey


@unique
class ProcessTrouble(StrEnum):
    """Why a PID could not be looked up."""

    GONE = "gone"
    """No such process (any more)."""
    PERMISSION_DENIED = "permission_denied"
    MALFORMED = "malformed"
    """Its files are there and cannot be understood (or are not files)."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A live process, as far as it tells whose it is."""

    key: ProcessKey
    parent_pid: int
    """0 for a process without a parent in our view."""
    name: str
    """``comm``, at most 15 bytes, replaced where it is no UTF-8."""
    cgroup_lines: tuple[str, ...]
    """Lines of ``/proc/<pid>/cgroup``, unparsed."""


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The processes asked for, and their ancestors up to PID 1."""

    records: Mapping[int, ProcessRecord]
    """By PID; ancestors included."""
    troubles: Mapping[int, ProcessTrouble]
    """PIDs asked for that have no record."""
    private_cgroup_view: bool = False
    """True if paths are relative (``/../..``): our own cgroup namespace, not the host's."""
    host_pid_missing: bool = False
    """True if this /proc cannot be the one whose PIDs NVML names."""
