"""A /proc tree with the world's tasks, for a reader that is at it at the same time."""

import shutil
from pathlib import Path
from typing import Final

from exporter.simulator.world import SimTask, World

_HOST: Final = (
    SimTask(pid=1, cgroup=("0::/init.scope",), parent=0, start_ticks=1, comm="systemd"),
    SimTask(pid=2, cgroup=("0::/",), parent=0, start_ticks=1, comm="kthreadd"),
)
_COMM_BYTES: Final = 15
_NEW: Final = ".new"
_OLD: Final = ".old"


def write_proc(world: World, root: Path) -> None:
    """Makes the folders with numbers under `root` show the world's tasks, and no other. What has not changed is not touched.

    A folder appears and disappears whole, and a file changes whole, as in the real /proc.
    """
    root.mkdir(parents=True, exist_ok=True)
    tasks = {task.pid: task for task in (*(_HOST if world.host_view else ()), *world.tasks)}
    for entry in list(root.iterdir()):
        if entry.name.isdecimal() and int(entry.name) not in tasks:
            _discard(entry)
    for task in tasks.values():
        _show(task, root / str(task.pid))


def _show(task: SimTask, folder: Path) -> None:
    files = _files(task)
    if folder.is_dir() and _same_process(folder, files["stat"]):
        for name, content in files.items():
            _write(folder / name, content)
        return
    # A new process: nothing of it may be seen together with something of an earlier one of the same PID.
    new = folder.with_name(f"{_NEW}-{folder.name}")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, content in files.items():
        (new / name).write_bytes(content)
    _discard(folder)
    new.rename(folder)


def _same_process(folder: Path, stat: bytes) -> bool:
    path = folder / "stat"
    return path.is_file() and path.read_bytes().rpartition(b")")[2].split()[19:20] == stat.rpartition(b")")[2].split()[19:20]


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    if path.is_dir():
        _discard(path)
    new = path.with_name(f"{_NEW}-{path.name}")
    new.write_bytes(content)
    new.replace(path)


def _discard(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    old = path.with_name(f"{_OLD}-{path.name}")
    shutil.rmtree(old, ignore_errors=True)
    path.rename(old)
    shutil.rmtree(old)


def _files(task: SimTask) -> dict[str, bytes]:
    comm = task.comm.encode()[:_COMM_BYTES]
    # Fields 5 to 21 and 23 to 52 of proc_pid_stat(5) are of no concern here.
    before = b" ".join([b"0"] * 17)
    after = b" ".join([b"0"] * 30)
    return {
        "stat": b"%d (%s) S %d %s %d %s\n" % (task.pid, comm, task.parent, before, task.start_ticks, after),
        "cgroup": "".join(f"{line}\n" for line in task.cgroup).encode(errors="surrogateescape"),
        "comm": comm + b"\n",
        "status": b"Name:\t%s\nState:\tS (sleeping)\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\n"
        % (comm, task.pid, task.pid, task.parent),
    }
