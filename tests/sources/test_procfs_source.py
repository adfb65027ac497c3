"""The /proc source over real folders: whom it finds, what it concludes of the view, and every reason for no answer."""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from exporter.model.process import ProcessTable, ProcessTrouble
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.simulator.proc import write_proc
from exporter.simulator.world import SimTask, World
from exporter.sources.procfs.source import ProcFs

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "fixtures" / "recorded"
POD = "0::/kubepods.slice/kubepods-pod11111111_2222_4333_8444_555555555501.slice/cri-containerd-" + "a" * 64 + ".scope"
NOW = 1000.0


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[ProcFs]:
    """Reads the test's folder, at an unchanging time."""
    source = ProcFs(tmp_path, deadline_seconds=5.0, clock=lambda: NOW)
    yield source
    await source.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="proc-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _table(reading: Reading[ProcessTable]) -> ProcessTable:
    assert isinstance(reading, Fresh), reading
    assert reading.taken_at == NOW
    return reading.value


def _container_view(*names: str) -> World:
    """A PID namespace of its own: PIDs 1 to 40 and, above them, the names given."""
    tasks = tuple(SimTask(pid=pid, parent=0 if pid == 1 else 1) for pid in range(1, 41))
    return World(host_view=False, tasks=(*tasks, *(SimTask(pid=100 + n, comm=name) for n, name in enumerate(names))))


# Whom it finds


async def test_processes_come_with_their_ancestors(tmp_path: Path, source: ProcFs) -> None:
    """Each PID asked for has a record, and so has everything above it up to PID 1."""
    tasks = (
        SimTask(pid=4001, parent=3001, cgroup=(POD,)),
        SimTask(pid=3001, parent=2001, comm="containerd-shim"),
        SimTask(pid=2001, parent=1),
        SimTask(pid=4002, parent=2001),
        SimTask(pid=9000, parent=1),
    )
    write_proc(World(tasks=tasks), tmp_path)
    table = _table(await source.read([4002, 4001, 4001]))
    assert set(table.records) == {1, 2001, 3001, 4001, 4002}
    assert table.records[4001].cgroup_lines == (POD,)
    assert table.records[3001].name == "containerd-shim"
    assert table.records[1].name == "systemd"
    assert not table.troubles


async def test_parents_in_a_circle_are_read_once(tmp_path: Path, source: ProcFs) -> None:
    """Parents that point at each other end the climb."""
    write_proc(World(tasks=(SimTask(pid=10, parent=11), SimTask(pid=11, parent=12), SimTask(pid=12, parent=10))), tmp_path)
    assert set(_table(await source.read([10])).records) == {10, 11, 12}


async def test_climb_ends_after_32_ancestors(tmp_path: Path, source: ProcFs) -> None:
    """A chain without end costs no more than its first 32 ancestors."""
    write_proc(World(tasks=tuple(SimTask(pid=pid, parent=pid + 1) for pid in range(100, 200))), tmp_path)
    assert set(_table(await source.read([100])).records) == set(range(100, 133))


async def test_ancestor_that_is_gone_ends_the_climb_alone(tmp_path: Path, source: ProcFs) -> None:
    """Troubles are for PIDs asked for; a lost ancestor is simply not there."""
    write_proc(World(tasks=(SimTask(pid=4001, parent=3001),)), tmp_path)
    table = _table(await source.read([4001]))
    assert set(table.records) == {4001}
    assert not table.troubles


async def test_one_bad_process_costs_itself_alone(tmp_path: Path, source: ProcFs) -> None:
    """A PID that is gone and one whose files are none stand beside those that were read (PID-09, EXPO-06)."""
    write_proc(World(tasks=(SimTask(pid=4001, cgroup=(POD,)), SimTask(pid=4002))), tmp_path)
    (tmp_path / "4002" / "cgroup").unlink()
    (tmp_path / "4002" / "cgroup").mkdir()
    table = _table(await source.read([4001, 4002, 4999]))
    assert set(table.records) == {1, 4001}
    assert table.troubles == {4002: ProcessTrouble.MALFORMED, 4999: ProcessTrouble.GONE}
    assert not table.host_pid_missing


async def test_nothing_is_remembered_of_a_process(tmp_path: Path, source: ProcFs) -> None:
    """Each reading is of its own moment: a PID used again is another process."""
    write_proc(World(tasks=(SimTask(pid=4001, start_ticks=100),)), tmp_path)
    assert _table(await source.read([4001])).records[4001].key.start_ticks == 100
    write_proc(World(tasks=(SimTask(pid=4001, start_ticks=200, cgroup=(POD,)),)), tmp_path)
    record = _table(await source.read([4001])).records[4001]
    assert (record.key.start_ticks, record.cgroup_lines) == (200, (POD,))
    write_proc(World(), tmp_path)
    assert _table(await source.read([4001])).troubles == {4001: ProcessTrouble.GONE}


async def test_pid_used_again_while_it_is_read_is_gone(tmp_path: Path, source: ProcFs) -> None:
    """A control group that was read after another process took the PID is not laid at the first one's door (PID-09)."""
    write_proc(World(tasks=(SimTask(pid=4001, start_ticks=1),)), tmp_path)
    slow = tmp_path / "4001" / "cgroup"
    slow.unlink()
    os.mkfifo(slow)
    reading = asyncio.create_task(source.read([4001]))
    await asyncio.sleep(0)
    with slow.open("wb") as end:  # opens once the reader is there, after it has read the start
        write_proc(World(tasks=(SimTask(pid=4001, start_ticks=2),)), tmp_path)
        end.write(POD.encode())
    table = _table(await reading)
    assert table.troubles == {4001: ProcessTrouble.GONE}
    assert not table.records


# What it concludes of the view


async def test_recorded_private_view_is_noticed(tmp_path: Path, source: ProcFs) -> None:
    """A real container's view of other pods' control groups is relative, and the lines still name the pods (PID-06)."""
    text = (RECORDED / "api-mixed" / "cgroups-seen-from-private-cgroupns.txt").read_text()
    blocks = [block.strip().split("\n") for block in text.split("# ")[1:]]
    lines = {int(head.removeprefix("pid ")): tuple(body) for head, *body in blocks if head.startswith("pid ")}
    write_proc(World(tasks=tuple(SimTask(pid=pid, cgroup=each) for pid, each in lines.items())), tmp_path)
    table = _table(await source.read([pid for pid in lines if pid != 1]))
    assert table.private_cgroup_view
    assert {pid: table.records[pid].cgroup_lines for pid in lines} == lines


async def test_recorded_host_view_is_not_private(tmp_path: Path, source: ProcFs) -> None:
    """The host's own view of the same node has nothing relative in it (PID-06)."""
    text = (RECORDED / "api-mixed" / "cgroups.txt").read_text()
    blocks = [block.strip().split("\n")[1:] for block in text.split("# ")[1:]]
    tasks = tuple(SimTask(pid=5000 + n, cgroup=tuple(lines)) for n, lines in enumerate(blocks) if lines)
    assert len(tasks) > 10
    write_proc(World(tasks=tasks), tmp_path)
    table = _table(await source.read([task.pid for task in tasks]))
    assert not table.private_cgroup_view
    assert len(table.records) == len(tasks) + 1


async def test_own_control_group_alone_is_no_private_view(tmp_path: Path, source: ProcFs) -> None:
    """A path of "/" is what kernel threads have on any host (PID-06)."""
    write_proc(World(tasks=(SimTask(pid=4002, cgroup=("0::/",)),)), tmp_path)
    assert not _table(await source.read([4002])).private_cgroup_view


async def test_relative_and_own_paths_are_both_passed_on(tmp_path: Path, source: ProcFs) -> None:
    """One process resolves from a relative path, one has none, and the view is known to be private (PID-06)."""
    relative = (
        "0::/../../kubepods-burstable-pod11111111_2222_4333_8444_555555555501.slice/cri-containerd-" + "a" * 64 + ".scope"
    )
    write_proc(World(tasks=(SimTask(pid=4001, cgroup=(relative,)), SimTask(pid=4002, cgroup=("0::/",)))), tmp_path)
    table = _table(await source.read([4001, 4002]))
    assert table.private_cgroup_view
    assert table.records[4001].cgroup_lines == (relative,)
    assert table.records[4002].cgroup_lines == ("0::/",)


@pytest.mark.parametrize("pids", [[250001, 250002], []], ids=["PIDs of the host", "an empty list"])
async def test_containers_own_proc_is_noticed(pids: list[int], tmp_path: Path, source: ProcFs) -> None:
    """Without hostPID drivers name PIDs that are not here, or none at all: neither is an idle node (PID-07)."""
    write_proc(_container_view(), tmp_path)
    table = _table(await source.read(pids))
    assert table.host_pid_missing
    assert table.troubles == dict.fromkeys(pids, ProcessTrouble.GONE)
    assert not table.records


@pytest.mark.parametrize("pids", [[250001], []], ids=["a PID that has ended", "an empty list"])
@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(host_view=False, tasks=(SimTask(pid=1, comm="systemd"),)),
        World(host_view=False, tasks=(SimTask(pid=1, comm="init"),)),
        World(host_view=False, tasks=(SimTask(pid=2, comm="kthreadd"),)),
        *(_container_view(name) for name in ("kubelet", "kubelite", "k3s-server", "k3s-agent", "k0s")),
    ],
    ids=["host", "systemd", "init", "kthreadd", "kubelet", "kubelite", "k3s-server", "k3s-agent", "k0s"],
)
async def test_hosts_proc_is_known_by_what_runs_there(world: World, pids: list[int], tmp_path: Path, source: ProcFs) -> None:
    """Where the host's processes are seen, a vanished PID is gone and an empty list is an idle node (PID-07, PID-09)."""
    write_proc(world, tmp_path)
    assert not _table(await source.read(pids)).host_pid_missing


@pytest.mark.parametrize("name", ["kubelet-proxy", "my-kubelet", "k8s", "systemd", "kthreadd", "init"])
async def test_other_names_are_no_evidence(name: str, tmp_path: Path, source: ProcFs) -> None:
    """Names that only look alike, or stand at other PIDs, do not make a container's /proc the host's (PID-07)."""
    write_proc(_container_view(name), tmp_path)
    assert _table(await source.read([])).host_pid_missing


async def test_a_process_that_is_found_settles_the_view(tmp_path: Path, source: ProcFs) -> None:
    """As soon as one PID of the driver resolves, the others are simply gone (PID-09)."""
    write_proc(_container_view(), tmp_path)
    assert not _table(await source.read([7, 250001])).host_pid_missing


async def test_a_process_that_cannot_be_read_settles_the_view(tmp_path: Path, source: ProcFs) -> None:
    """A PID that is there, whatever is wrong with its files, is not a foreign one."""
    write_proc(_container_view(), tmp_path)
    (tmp_path / "7" / "stat").write_bytes(b"")
    table = _table(await source.read([7, 250001]))
    assert table.troubles == {7: ProcessTrouble.MALFORMED, 250001: ProcessTrouble.GONE}
    assert not table.host_pid_missing


async def test_evidence_outlives_the_process_that_gave_it(tmp_path: Path, source: ProcFs) -> None:
    """While the kubelet restarts, this is still the host's /proc."""
    write_proc(_container_view("kubelet"), tmp_path)
    assert not _table(await source.read([])).host_pid_missing
    write_proc(_container_view(), tmp_path)
    assert not _table(await source.read([250001])).host_pid_missing


async def test_foreign_view_is_logged_once(tmp_path: Path, source: ProcFs, caplog: pytest.LogCaptureFixture) -> None:
    """What stays wrong over twenty cycles is one line in the log, and one more when it is right (PID-07)."""
    caplog.set_level(logging.INFO)
    write_proc(_container_view(), tmp_path)
    for _ in range(20):
        await source.read([250001])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "hostPID" in caplog.text
    write_proc(World(), tmp_path)
    for _ in range(3):
        await source.read([250001])
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


# Why there is no answer


@pytest.mark.parametrize("variant", ["nothing", "file", "dangling link", "loop"])
async def test_root_that_is_not_there_is_not_found(variant: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong path is said once, with the path, and is used as soon as it is right."""
    caplog.set_level(logging.INFO)
    root = tmp_path / "host-proc"
    if variant == "file":
        root.write_text("")
    elif variant == "dangling link":
        root.symlink_to("nowhere")
    elif variant == "loop":
        root.symlink_to("host-proc")
    now = NOW - 60
    source = ProcFs(root, deadline_seconds=5.0, clock=lambda: now)
    for _ in range(3):
        reading = await source.read([1])
        assert isinstance(reading, Missing)
        assert (reading.reason, reading.at) == (MissingReason.NOT_FOUND, now)
        assert str(root) in reading.detail
    root.unlink(missing_ok=True)
    write_proc(World(), root)
    now = NOW
    assert set(_table(await source.read([1])).records) == {1}
    await source.close()
    assert len(caplog.records) == 2
    assert caplog.records[1].getMessage() == "procfs back after 60.0 s (not_found)"


AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from exporter.model.reading import Missing
from exporter.sources.procfs.source import ProcFs

async def main():
    source = ProcFs(Path(sys.argv[1]), deadline_seconds=5)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    reading = await source.read([4001, 4002, 4003])
    if isinstance(reading, Missing):
        print(reading.reason)
    else:
        print(*sorted(reading.value.records), *reading.value.troubles.values(), reading.value.host_pid_missing)

asyncio.run(main())
"""


def _as_nobody(root: Path) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(root)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout.split()


def test_processes_of_others_may_be_closed_to_us(open_folder: Path) -> None:
    """Files that may not be read cost their process, and are told from a process that has ended (DEP-02, PID-09)."""
    write_proc(World(host_view=False, tasks=(SimTask(pid=4001), SimTask(pid=4002))), open_folder)
    (open_folder / "4001" / "cgroup").chmod(0)
    (open_folder / "4002").chmod(0)
    assert _as_nobody(open_folder) == ["permission_denied", "permission_denied", "gone", "False"]
    (open_folder / "4002").chmod(0o755)


def test_root_that_may_not_be_read_is_permission_denied(open_folder: Path) -> None:
    """A /proc that is there and closed to us is not a missing one (DEP-02)."""
    root = open_folder / "proc"
    write_proc(World(tasks=(SimTask(pid=4001),)), root)
    root.chmod(0)
    assert _as_nobody(root) == ["permission_denied"]
    root.chmod(0o755)


async def _until_fresh(source: ProcFs) -> Reading[ProcessTable]:
    ends_at = time.monotonic() + 10
    while isinstance(reading := await source.read([4001]), Missing) and time.monotonic() < ends_at:
        await asyncio.sleep(0.01)
    return reading


def _workers() -> int:
    return sum(thread.name == "procfs" for thread in threading.enumerate())


async def test_read_that_hangs_costs_one_deadline_and_one_thread(tmp_path: Path) -> None:
    """A file that never ends its read is a timeout that names it, at once for whoever asks next, until it lets go."""
    write_proc(World(tasks=(SimTask(pid=4001),)), tmp_path)
    stuck = tmp_path / "4001" / "cgroup"
    stuck.unlink()
    os.mkfifo(stuck)
    source = ProcFs(tmp_path, deadline_seconds=0.2, clock=lambda: NOW)
    before = _workers()
    for limit_seconds in (3.0, 0.15, 0.15):
        started = time.monotonic()
        reading = await source.read([4001])
        assert time.monotonic() - started < limit_seconds
        assert isinstance(reading, Missing)
        assert reading.reason is MissingReason.TIMEOUT
        assert "4001/cgroup" in reading.detail
    assert _workers() == before + 1
    with stuck.open("wb"):
        stuck.rename(tmp_path / "away")
        stuck.write_text("0::/after\n")
    assert _table(await _until_fresh(source)).records[4001].cgroup_lines == ("0::/after",)
    await source.close()


async def test_late_answer_is_dropped(tmp_path: Path) -> None:
    """What a stuck read answers in the end is of the past, and nobody's next reading."""
    write_proc(World(tasks=(SimTask(pid=4001, start_ticks=1),)), tmp_path)
    stuck = tmp_path / "4001" / "cgroup"
    stuck.unlink()
    os.mkfifo(stuck)
    source = ProcFs(tmp_path, deadline_seconds=0.2, clock=lambda: NOW)
    assert isinstance(await source.read([4001]), Missing)
    with stuck.open("wb") as end:
        write_proc(World(tasks=(SimTask(pid=4001, start_ticks=2),)), tmp_path)
        end.write(b"0::/late\n")
    record = _table(await _until_fresh(source)).records[4001]
    assert (record.key.start_ticks, record.cgroup_lines) == (2, ("0::/",))
    await source.close()


async def test_close_while_a_read_hangs_does_not_wait(tmp_path: Path) -> None:
    """Leaving does not depend on the file that never answers."""
    write_proc(World(tasks=(SimTask(pid=4001),)), tmp_path)
    stuck = tmp_path / "4001" / "stat"
    stuck.unlink()
    os.mkfifo(stuck)
    source = ProcFs(tmp_path, deadline_seconds=0.1, clock=lambda: NOW)
    assert isinstance(await source.read([4001]), Missing)
    started = time.monotonic()
    await source.close()
    assert time.monotonic() - started < 1
    with stuck.open("wb"):
        pass
