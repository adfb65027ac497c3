"""The simulated /proc shows the world's tasks, with the kernel's file formats, and nothing else."""

from pathlib import Path

from exporter.simulator.proc import write_proc
from exporter.simulator.world import SimTask, World

CGROUP = ("12:pids:/kubepods/pod1/c1", "0::/kubepods/pod1/c1")


def _pids(root: Path) -> set[int]:
    return {int(entry.name) for entry in root.iterdir() if entry.name.isdecimal()}


def test_task_has_the_kernels_files(tmp_path: Path) -> None:
    """The stat file has 52 fields with parent and start in place; comm and status agree with it; cgroup is verbatim."""
    write_proc(World(tasks=(SimTask(pid=4001, cgroup=CGROUP, parent=77, start_ticks=123, comm="a) (b"),)), tmp_path)
    stat = (tmp_path / "4001" / "stat").read_text()
    assert stat.startswith("4001 (a) (b) S 77 ")
    fields = stat.rpartition(")")[2].split()
    assert len(fields) == 50
    assert fields[22 - 3] == "123"
    assert (tmp_path / "4001" / "cgroup").read_text() == "12:pids:/kubepods/pod1/c1\n0::/kubepods/pod1/c1\n"
    assert (tmp_path / "4001" / "comm").read_text() == "a) (b\n"
    assert "\nPPid:\t77\n" in (tmp_path / "4001" / "status").read_text()


def test_long_name_is_cut_as_the_kernel_does(tmp_path: Path) -> None:
    """A name has at most 15 bytes."""
    write_proc(World(tasks=(SimTask(pid=5, comm="gpu-ownership-exporter"),)), tmp_path)
    assert (tmp_path / "5" / "comm").read_text() == "gpu-ownership-e\n"


def test_host_view_has_init_and_kernel_threads(tmp_path: Path) -> None:
    """PIDs 1 and 2 are the host's, unless the world is a container's or has its own."""
    write_proc(World(), tmp_path)
    assert (tmp_path / "1" / "comm").read_text() == "systemd\n"
    assert (tmp_path / "1" / "cgroup").read_text() == "0::/init.scope\n"
    assert (tmp_path / "2" / "comm").read_text() == "kthreadd\n"
    write_proc(World(tasks=(SimTask(pid=1, comm="init"),)), tmp_path)
    assert (tmp_path / "1" / "comm").read_text() == "init\n"
    write_proc(World(host_view=False, tasks=(SimTask(pid=7),)), tmp_path)
    assert _pids(tmp_path) == {7}


def test_tree_follows_the_world(tmp_path: Path) -> None:
    """Tasks are added, changed and removed; what stays the same is not touched, and what is not a process is left alone."""
    (tmp_path / "stat").write_text("cpu 0\n")
    write_proc(World(tasks=(SimTask(pid=10), SimTask(pid=11), SimTask(pid=12))), tmp_path)
    untouched = (tmp_path / "10" / "stat").stat()
    write_proc(World(tasks=(SimTask(pid=10), SimTask(pid=11, cgroup=CGROUP, parent=10), SimTask(pid=13))), tmp_path)
    assert _pids(tmp_path) == {1, 2, 10, 11, 13}
    assert (tmp_path / "10" / "stat").stat() == untouched
    assert (tmp_path / "11" / "cgroup").read_text().startswith("12:pids:")
    assert (tmp_path / "11" / "stat").read_text().startswith("11 (python3) S 10 ")
    assert {entry.name for entry in tmp_path.iterdir() if not entry.name.isdecimal()} == {"stat"}
    assert {entry.name for entry in (tmp_path / "11").iterdir()} == {"stat", "cgroup", "comm", "status"}


def test_pid_used_again_is_a_new_folder(tmp_path: Path) -> None:
    """No file of an earlier process is left for the next one of the same PID."""
    write_proc(World(tasks=(SimTask(pid=10, start_ticks=1),)), tmp_path)
    (tmp_path / "10" / "environ").write_text("")
    write_proc(World(tasks=(SimTask(pid=10, start_ticks=2),)), tmp_path)
    assert not (tmp_path / "10" / "environ").exists()


def test_damaged_tree_is_mended(tmp_path: Path) -> None:
    """Whatever a test put in a file's or a folder's place is gone with the next world."""
    world = World(tasks=(SimTask(pid=10, cgroup=CGROUP), SimTask(pid=11)))
    write_proc(world, tmp_path)
    (tmp_path / "10" / "cgroup").unlink()
    (tmp_path / "10" / "cgroup").mkdir()
    (tmp_path / "11" / "stat").write_bytes(b"")
    (tmp_path / "12").write_text("")
    write_proc(world, tmp_path)
    assert (tmp_path / "10" / "cgroup").read_text().startswith("12:pids:")
    assert (tmp_path / "11" / "stat").read_text().startswith("11 (")
    assert _pids(tmp_path) == {1, 2, 10, 11}
