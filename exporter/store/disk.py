"""The state file on its disk: read whole, written whole, made void, or put aside. Blocks; every trouble has a reason."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from exporter.model.reading import MissingReason

MAX_BYTES = 64 << 20
KEPT_ASIDE = 3
"""So many refused files are kept; older ones go."""

_MODE = 0o600
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Neither a link nor a pipe that was put there meanwhile is followed or waited for."""

_REASONS = {
    errno.ENOENT: MissingReason.FOLDER_MISSING,
    errno.ENOTDIR: MissingReason.FOLDER_MISSING,
    errno.EACCES: MissingReason.PERMISSION_DENIED,
    errno.EPERM: MissingReason.PERMISSION_DENIED,
    errno.ENOSPC: MissingReason.DISK_FULL,
    errno.EDQUOT: MissingReason.DISK_FULL,
    errno.EFBIG: MissingReason.DISK_FULL,
    errno.ELOOP: MissingReason.NOT_A_FILE,
}


class DiskError(Exception):
    """The state file cannot be read or written, and why."""

    def __init__(self, reason: MissingReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Disk:
    """One file, written by one thread of one process.

    Args:
        path: Where it is. It has to be a regular file, or nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._new = path.with_name(f".{path.name}.new")

    def read(self) -> bytes:
        """The whole content; nothing if there is no file.

        Raises:
            DiskError: not_a_file, too_large, permission_denied, read_failed.
        """
        with _explained(self.path, MissingReason.READ_FAILED):
            if not self._is_there():
                return b""
            with os.fdopen(os.open(self.path, os.O_RDONLY | _FLAGS), "rb") as file:
                content = file.read(MAX_BYTES + 1)
        _refuse_too_large(len(content))
        return content

    def write(self, content: bytes) -> None:
        """Replace the file: after a crash it is the old one or the new one, never a part of it.

        Raises:
            DiskError: folder_missing, not_a_file, too_large, permission_denied, disk_full, write_failed.
        """
        _refuse_too_large(len(content))
        with _explained(self.path, MissingReason.WRITE_FAILED):
            self._is_there()
            try:
                self._write_beside(content)
                self._new.replace(self.path)
            except OSError:
                with contextlib.suppress(
                    OSError
                ):  # the first trouble is the one to tell; what is left there is replaced next time
                    self._new.unlink(missing_ok=True)
                raise
            self._sync_folder()

    def make_void(self) -> None:
        """See to it that a restart finds nothing: remove the file, or empty it where it cannot be removed.

        Raises:
            DiskError: permission_denied, write_failed.
        """
        try:
            if self._is_there():
                self.path.unlink(missing_ok=True)
                self._sync_folder()
        except OSError:
            with _explained(self.path, MissingReason.WRITE_FAILED):
                self._empty()
        except DiskError:
            return  # it is no file: there is nothing that a restart could take up

    def put_aside(self, timestamp_seconds: float) -> Path | None:
        """Rename the file to ``<name>.refused-<UTC time>``, never onto another one, and let go of the oldest of these.

        Returns:
            Where it is now; None if it is not there any more.

        Raises:
            DiskError: folder_missing, not_a_file, permission_denied, write_failed.
        """
        with _explained(self.path, MissingReason.WRITE_FAILED):
            if not self._is_there():
                return None
            moment = datetime.fromtimestamp(timestamp_seconds, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            aside = self.path.with_name(f"{self.path.name}.refused-{moment}")
            if os.path.lexists(aside):
                raise FileExistsError(errno.EEXIST, "that name is taken", str(aside))
            self.path.rename(aside)
            for old in sorted(self._aside())[:-KEPT_ASIDE]:
                old.unlink(missing_ok=True)
        return aside

    def _is_there(self) -> bool:
        """Whether there is a file.

        Raises:
            DiskError: not_a_file.
            OSError: it cannot be seen.
        """
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(mode):
            raise DiskError(MissingReason.NOT_A_FILE, f"{self.path} is {_kind(mode)}: a regular file, or nothing, is wanted")
        return True

    def _write_beside(self, content: bytes) -> None:
        self._new.unlink(missing_ok=True)
        with os.fdopen(os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _MODE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _sync_folder(self) -> None:
        """A rename is safe only once the folder is."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _empty(self) -> None:
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_TRUNC | _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return  # it is gone
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _aside(self) -> Iterator[Path]:
        prefix = f"{self.path.name}.refused-"
        return (place for place in self.path.parent.iterdir() if place.name.startswith(prefix))


@contextlib.contextmanager
def _explained(path: Path, otherwise: MissingReason) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, otherwise)
        raise DiskError(reason, f"{error.filename or path}: {error.strerror or error}") from error


def _refuse_too_large(size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        raise DiskError(MissingReason.TOO_LARGE, f"the state is larger than {MAX_BYTES >> 20} MiB")


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
