"""One process's files: what is told, what is wrong with them, and whether they are all of one life."""

import os
import socket as sockets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.model.ids import ProcessKey
from exporter.model.process import ProcessRecord, ProcessTrouble
from exporter.simulator.proc import write_proc
from exporter.simulator.world import SimTask, World
from exporter.sources.procfs.process import LIMIT_BYTES, is_relative, read_file, read_process

POD = "0::/kubepods.slice/kubepods-pod11111111_2222_4333_8444_555555555501.slice/cri-containerd-" + "a" * 64 + ".scope"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A /proc with process 4001."""
    write_proc(World(tasks=(SimTask(pid=4001, cgroup=(POD,), parent=77, start_ticks=5000),)), tmp_path)
    return tmp_path


@pytest.fixture
def read(root: Path) -> Iterator[Callable[[str], bytes | ProcessTrouble]]:
    """Reads a file under the root."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield lambda path: read_file(handle, path)
    os.close(handle)


Read = Callable[[str], bytes | ProcessTrouble]


def _stat(name: bytes = b"python3", *, parent: bytes = b"77", start: bytes = b"5000") -> bytes:
    return b"4001 (" + name + b") S " + parent + b" 0" * 17 + b" " + start + b" 0" * 30 + b"\n"


def test_live_process_has_a_record(read: Read) -> None:
    """Identity in time, parent, name and control groups, as the files tell them."""
    assert read_process(4001, read) == ProcessRecord(ProcessKey(4001, 5000), 77, "python3", (POD,))


def test_real_process_has_a_record() -> None:
    """The kernel's own files are understood: our own process is found, with its parent."""
    handle = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    record = read_process(os.getpid(), lambda path: read_file(handle, path))
    os.close(handle)
    assert isinstance(record, ProcessRecord)
    assert record.key.pid == os.getpid()
    assert record.parent_pid == os.getppid()
    assert record.key.start_ticks > 0
    assert record.name == Path("/proc/self/comm").read_text().rstrip("\n")


@pytest.mark.parametrize("name", ["a) (b", ") R 1 2", "((", "))", "", " ", "(sd-pam)", "a b  c", "tab\there"])
def test_name_with_parentheses_and_spaces_shifts_no_field(name: str, root: Path, read: Read) -> None:
    """A name may look like the rest of the line; the last parenthesis ends it."""
    (root / "4001" / "stat").write_bytes(_stat(name.encode()))
    assert read_process(4001, read) == ProcessRecord(ProcessKey(4001, 5000), 77, name, (POD,))


def test_bytes_that_are_no_utf8_are_replaced(root: Path, read: Read) -> None:
    """A name and a control group may hold any byte; what is passed on is text that can be printed."""
    (root / "4001" / "stat").write_bytes(_stat(b"\xff\xfe"))
    (root / "4001" / "cgroup").write_bytes(b"0::/system.slice/\xe9.service\n")
    assert read_process(4001, read) == ProcessRecord(
        ProcessKey(4001, 5000), 77, "\ufffd\ufffd", ("0::/system.slice/\ufffd.service",)
    )


def test_lines_are_kept_as_they_are(root: Path, read: Read) -> None:
    """All hierarchies, colons in paths, empty controllers and odd separators inside a name are for others to judge."""
    lines = (
        "12:cpu,cpuacct:/kubepods/burstable/pod1",
        "1:name=systemd:/system.slice/a.service:cri-containerd:b",
        "0::/a\N{LINE SEPARATOR}b\x0bc (deleted)",
        "no such line",
    )
    (root / "4001" / "cgroup").write_text("\n".join(lines) + "\n")
    record = read_process(4001, read)
    assert isinstance(record, ProcessRecord)
    assert record.cgroup_lines == lines


@pytest.mark.parametrize("missing", ["4001", "4001/stat", "4001/cgroup"])
def test_vanished_files_mean_gone(missing: str, root: Path, read: Read) -> None:
    """A process may end before, or between, the reading of its files (PID-09)."""
    (root / missing).rename(root / "away")
    assert read_process(4001, read) is ProcessTrouble.GONE


def test_process_that_ends_while_its_file_is_open_is_gone(root: Path, read: Read) -> None:
    """The kernel says "no such process" on reading, not on opening (PID-09)."""
    child = subprocess.Popen(["sleep", "60"])
    handle = os.open(f"/proc/{child.pid}/stat", os.O_RDONLY)
    child.kill()
    child.wait()
    (root / "4001" / "stat").unlink()
    (root / "4001" / "stat").symlink_to(f"/proc/self/fd/{handle}")
    with pytest.raises(ProcessLookupError):
        (root / "4001" / "stat").read_bytes()
    assert read_process(4001, read) is ProcessTrouble.GONE
    os.close(handle)


def test_pid_used_again_between_two_files_is_gone() -> None:
    """A control group that may be another process's is not taken: the start is read before and after it (PID-09)."""
    starts = iter((b"5000", b"6000"))

    def read(path: str) -> bytes:
        return _stat(start=next(starts)) if path.endswith("stat") else POD.encode()

    assert read_process(4001, read) is ProcessTrouble.GONE
    assert next(starts, None) is None


@pytest.mark.parametrize("trouble", [ProcessTrouble.GONE, ProcessTrouble.PERMISSION_DENIED])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_trouble_at_any_of_the_reads_is_the_outcome(at: int, trouble: ProcessTrouble) -> None:
    """Neither half a record nor a guess comes of a read that failed (PID-09)."""
    answers = iter(trouble if read == at else content for read, content in enumerate((_stat(), POD.encode(), _stat())))
    assert read_process(4001, lambda _: next(answers)) is trouble


@pytest.mark.parametrize("name", ["stat", "cgroup"])
@pytest.mark.parametrize("kind", ["folder", "socket", "loop", "empty", "text", "no end", "zeros"])
def test_file_that_is_none_is_malformed(name: str, kind: str, root: Path, read: Read) -> None:
    """Whatever stands in a file's place costs that process and raises nothing (EXPO-06)."""
    path = root / "4001" / name
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with sockets.socket(sockets.AF_UNIX) as listener:
            listener.bind(str(path))
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "no end":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes({"empty": b"", "text": b"no file of the kernel\n", "zeros": b"\0" * 200}[kind])
    assert read_process(4001, read) is ProcessTrouble.MALFORMED


@pytest.mark.parametrize(
    "stat",
    [
        b"4001 (python3) S 77",
        b"4001 (python3) S x" + b" 0" * 50,
        b"4001 python3) S 77" + b" 0" * 50,
        _stat(start=b"5e3"),
        _stat(start=b"9" * 5000),
        _stat()[:40],
    ],
    ids=["short", "parent no number", "no parenthesis", "start no number", "start endless", "cut off"],
)
def test_stat_of_another_shape_is_malformed(stat: bytes, root: Path, read: Read) -> None:
    """Fields that are not where the kernel puts them are not guessed (EXPO-06)."""
    (root / "4001" / "stat").write_bytes(stat)
    assert read_process(4001, read) is ProcessTrouble.MALFORMED


@pytest.mark.parametrize(("size_bytes", "malformed"), [(LIMIT_BYTES, False), (LIMIT_BYTES + 1, True)])
def test_file_is_read_up_to_a_limit(size_bytes: int, malformed: bool, root: Path, read: Read) -> None:
    """A file of 64 KiB is read whole, and a longer one is not read to its end."""
    (root / "4001" / "cgroup").write_bytes((POD + "\n").encode().ljust(size_bytes, b"x"))
    assert (read_process(4001, read) is ProcessTrouble.MALFORMED) is malformed


def test_folder_of_a_process_that_is_a_file_is_malformed(root: Path, read: Read) -> None:
    """A file in a folder's place is not a process that has ended (EXPO-06)."""
    (root / "5001").write_text("")
    assert read_process(5001, read) is ProcessTrouble.MALFORMED


@pytest.mark.parametrize("pid", [0, -1, 2**32, 2**70])
def test_number_that_is_no_pid_is_gone(pid: int, read: Read) -> None:
    """Whatever number a driver names is looked up, and not found."""
    assert read_process(pid, read) is ProcessTrouble.GONE


@pytest.mark.parametrize(
    ("line", "relative"),
    [
        ("0::/../../kubepods-burstable-pod1.slice/cri-containerd-a.scope", True),
        ("0::/..", True),
        ("1:name=systemd:/a/../b", True),
        ("0::/", False),
        ("0::/..a/b", False),
        ("0::/a../b", False),
        ("a line without a path/../", False),
        (POD, False),
    ],
)
def test_path_that_climbs_is_relative(line: str, relative: bool) -> None:
    """Only whole segments of two dots climb (PID-06)."""
    assert is_relative(line) is relative
