"""What a source answers: a fresh value, or why there is none. Absence is a value, never zero."""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


@unique
class MissingReason(StrEnum):
    """Why a source has no answer. Closed: every value is documented and stands in ``gpu_exporter_source_missing{reason}``."""

    STARTING = "starting"
    """Not asked yet, or the first answer is still on its way."""
    DISABLED = "disabled"
    """Switched off in the configuration."""
    SOCKET_MISSING = "socket_missing"
    """No socket at the configured path."""
    CONNECTION_REFUSED = "connection_refused"
    """Somebody was there and is not now: refused, reset or closed."""
    UNREACHABLE = "unreachable"
    """No route, no name, no certificate match: never connected."""
    PERMISSION_DENIED = "permission_denied"
    """The operating system or the driver refuses us."""
    UNAUTHORIZED = "unauthorized"
    """HTTP 401: our token is not accepted."""
    FORBIDDEN = "forbidden"
    """HTTP 403: a role is missing."""
    NOT_FOUND = "not_found"
    """HTTP 404: the object or the API is not there."""
    UNIMPLEMENTED = "unimplemented"
    """The other side does not know this call."""
    TIMEOUT = "timeout"
    """No answer before the deadline, or a call that hangs."""
    RATE_LIMITED = "rate_limited"
    """Too many requests."""
    TOO_LARGE = "too_large"
    """The answer is larger than the limit."""
    MALFORMED = "malformed"
    """The answer cannot be decoded."""
    SERVER_ERROR = "server_error"
    """HTTP 5xx, or a gRPC status that names the server's own fault."""
    NO_CONFIGURATION = "no_configuration"
    """Neither a service account nor a kubeconfig was found."""
    LIBRARY_MISSING = "library_missing"
    """libnvidia-ml.so.1 cannot be loaded."""
    DRIVER_NOT_LOADED = "driver_not_loaded"
    """The kernel module is not there."""
    VERSION_MISMATCH = "version_mismatch"
    """Library and kernel module differ: only a new container loads the new library."""
    DRIVER_ERROR = "driver_error"
    """Any other code of the driver for the whole of NVML."""
    HOST_PID_MISSING = "host_pid_missing"
    """We do not see the host's processes (hostPID is not set, or /proc is not the host's)."""
    PRIVATE_CGROUP_VIEW = "private_cgroup_view"
    """cgroup paths are relative: pods other than our own still resolve, host processes do not."""
    RELEASED = "released"
    """The driver was let go on request."""
    FOLDER_MISSING = "folder_missing"
    """The folder of the state file is not there."""
    NOT_A_FILE = "not_a_file"
    """At the path of the state file is something else: a folder, a symbolic link, a device."""
    READ_FAILED = "read_failed"
    """The state file cannot be read, for a cause without a reason of its own."""
    WRITE_FAILED = "write_failed"
    """The state file cannot be written, for a cause without a reason of its own: a read-only file system, an I/O error."""
    DISK_FULL = "disk_full"
    """No space, or no quota, for the state file."""
    REFUSED_FOREIGN = "refused_foreign"
    """The state file is another node's, or no state file of this exporter: kept aside."""
    REFUSED_NEWER = "refused_newer"
    """The state file was written by a newer version: kept aside."""
    REFUSED_DAMAGED = "refused_damaged"
    """The state file says what cannot be: kept aside."""


@dataclass(frozen=True, slots=True)
class Fresh(Generic[T_co]):
    """An answer and when it was true."""

    value: T_co
    taken_at: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No answer, and why."""

    reason: MissingReason
    at: float
    """Monotonic seconds."""
    detail: str = ""
    """For the log and the node page (a path, a status line); never a label, never compared."""


Reading = Fresh[T_co] | Missing


@dataclass(frozen=True, slots=True)
class Observed(Generic[T_co]):
    """What this cycle may use of a source (`usable`) beside what the source said just now (`missing`).

    Measured values are never kept: for them `usable` is None as soon as `missing` is set. Holdings and metadata are kept for
    ``max_age`` after the last good answer.
    """

    usable: Fresh[T_co] | None
    missing: Missing | None
    """Set when the last read failed, also while a kept answer is still usable."""
    duration_seconds: float | None = None
    """How long this cycle's read took; None where nothing was asked in this cycle."""

    @property
    def value(self) -> T_co | None:
        """The usable answer, or None."""
        return None if self.usable is None else self.usable.value
