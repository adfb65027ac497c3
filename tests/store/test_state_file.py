"""Nothing is shown that a restart could take back."""

import asyncio
import json
import logging
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.model.ledger import Ledger
from exporter.model.reading import MissingReason
from exporter.store.state_file import StateFile
from tests.store.state_files import NOW, Gate, a_state_file, counted, names_in, no_file_larger_than

ROOT = Path(__file__).parents[2]


async def _restored(path: Path) -> Ledger:
    """What the next run finds."""
    store = a_state_file(path)
    ledger = await store.load()
    await store.close()
    return ledger


def _health(store: StateFile) -> tuple[bool, str]:
    assert store.health is not None
    return store.health.up, store.health.reason


def _break_writing(path: Path) -> Path:
    """A folder stands where the new file is written, whoever we are: writing fails, removing does not."""
    in_the_way = path.with_name(f".{path.name}.new")
    in_the_way.mkdir()
    return in_the_way


async def test_what_was_shown_last_is_what_the_next_run_finds(tmp_path: Path) -> None:
    """Each ledger is on the disk before it may be shown."""
    store = a_state_file(tmp_path / "state.json")
    assert await store.load() == Ledger()
    for seconds in (5.0, 10.0):
        assert await store.save(counted(seconds)) == counted(seconds)
        assert _health(store) == (True, "")
        assert await _restored(tmp_path / "state.json") == counted(seconds)
    await store.close()


async def test_file_is_ours_alone_and_nothing_else_is_left_beside_it(tmp_path: Path) -> None:
    """Names of teams and workloads are nobody else's business."""
    store = a_state_file(tmp_path / "state.json")
    await store.load()
    await store.save(counted(5.0))
    await store.close()
    assert stat.S_IMODE((tmp_path / "state.json").stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["state.json"]


async def test_leftover_of_a_crash_is_replaced(tmp_path: Path) -> None:
    """A process that was killed within a write leaves the old state and half a new one: the old one counts."""
    store = a_state_file(tmp_path / "state.json")
    await store.load()
    await store.save(counted(5.0))
    (tmp_path / ".state.json.new").write_text('{"format": "gpu-own')
    assert await _restored(tmp_path / "state.json") == counted(5.0)
    assert names_in(tmp_path) == ["state.json"]


REFUSED = [
    (json.dumps({"format": "other"}), "refused_foreign"),
    (json.dumps({"format": "gpu-ownership-exporter ledger", "version": 99}), "refused_newer"),
    (json.dumps({"format": "gpu-ownership-exporter ledger", "version": 1, "node": "gpu-n1"}), "refused_damaged"),
    ('{"format": "gpu-own', "refused_damaged"),
    ("\x00" * 100, "refused_damaged"),
    ("[" * 100_000, "refused_damaged"),
    ("9" * 10_000, "refused_damaged"),
]


@pytest.mark.parametrize(("content", "reason"), REFUSED)
async def test_refused_file_is_kept_aside_and_counting_begins_at_0(tmp_path: Path, content: str, reason: str) -> None:
    """Nobody's counts are lost or overwritten, and the reason shows for as long as the process lives."""
    path = tmp_path / "state.json"
    path.write_text(content)
    store = a_state_file(path)
    assert await store.load() == Ledger()
    assert _health(store) == (True, reason)
    assert (tmp_path / "state.json.refused-20261201T041548.000000Z").read_text() == content
    assert await store.save(counted(5.0)) == counted(5.0)
    assert _health(store) == (True, reason)
    await store.close()
    assert await _restored(path) == counted(5.0)


async def test_refused_files_never_overwrite_each_other_and_the_latest_three_are_kept(tmp_path: Path) -> None:
    """A node whose name changes with every start must not fill its disk."""
    path = tmp_path / "state.json"
    for number in range(5):
        path.write_text(f"no JSON, {number}")
        store = a_state_file(path, now=NOW + number / 4)
        await store.load()
        await store.close()
    kept = [name for name in names_in(tmp_path) if name != path.name]
    assert [(tmp_path / name).read_text()[-1] for name in kept] == ["2", "3", "4"]


async def test_refused_file_waits_rather_than_overwrite_another(tmp_path: Path) -> None:
    """As long as it cannot be put aside, it is not written over either, and counting goes on."""
    path, taken = tmp_path / "state.json", tmp_path / "state.json.refused-20261201T041548.000000Z"
    path.write_text("no JSON")
    taken.write_text("an earlier one")
    store = a_state_file(path)
    await store.load()
    assert await store.save(counted(5.0)) == counted(5.0)
    assert _health(store) == (False, "write_failed")
    assert (path.read_text(), taken.read_text()) == ("no JSON", "an earlier one")
    taken.unlink()
    await store.save(counted(10.0))
    assert _health(store) == (True, "refused_damaged")
    assert taken.read_text() == "no JSON"
    await store.close()


async def test_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A state of 64 MiB is none of ours, and must not cost its size in memory."""
    path = tmp_path / "state.json"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 1)
    store = a_state_file(path)
    assert await store.load() == Ledger()
    assert _health(store) == (True, "too_large")
    await store.close()
    assert names_in(tmp_path) == ["state.json", "state.json.refused-20261201T041548.000000Z"]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
async def test_what_is_no_file_is_left_alone(tmp_path: Path, kind: str) -> None:
    """It is neither followed nor waited for nor replaced; counting goes on without a state file, and the reason shows."""
    path, target = tmp_path / "state.json", tmp_path / "other"
    target.write_text("somebody else's")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(target)
    else:
        os.mkfifo(path)
    mode = path.lstat().st_mode
    store = a_state_file(path)
    assert await store.load() == Ledger()
    assert await store.save(counted(5.0)) == counted(5.0)
    assert _health(store) == (False, "not_a_file")
    await store.close()
    assert path.lstat().st_mode == mode
    assert target.read_text() == "somebody else's"


async def test_folder_that_is_missing_is_found_when_it_comes(tmp_path: Path) -> None:
    """It is never made: a state that lies in the container and not on the node would be lost without a word."""
    store = a_state_file(tmp_path / "later" / "state.json")
    await store.load()
    assert await store.save(counted(5.0)) == counted(5.0)
    assert _health(store) == (False, "folder_missing")
    assert not (tmp_path / "later").exists()
    (tmp_path / "later").mkdir()
    assert await store.save(counted(10.0)) == counted(10.0)
    assert _health(store) == (True, "")
    await store.close()
    assert await _restored(tmp_path / "later" / "state.json") == counted(10.0)


async def test_file_that_can_be_read_and_not_written_is_not_used(tmp_path: Path) -> None:
    """It would fall behind what is scraped from now on, and the next restart would go back to it."""
    path = tmp_path / "state.json"
    first = a_state_file(path)
    await first.load()
    await first.save(counted(100.0))
    await first.close()
    in_the_way = _break_writing(path)
    store = a_state_file(path)
    assert await store.load() == Ledger()
    assert _health(store) == (False, "write_failed")
    assert not path.exists()
    in_the_way.rmdir()
    assert await store.save(counted(5.0)) == counted(5.0)
    await store.close()
    assert await _restored(path) == counted(5.0)


async def test_save_that_fails_removes_the_file_and_counting_goes_on(tmp_path: Path) -> None:
    """A restart then begins at 0, which Prometheus understands; behind what was scraped it would count all of it twice."""
    path = tmp_path / "state.json"
    store = a_state_file(path)
    await store.load()
    await store.save(counted(5.0))
    in_the_way = _break_writing(path)
    assert await store.save(counted(10.0)) == counted(10.0)
    assert _health(store) == (False, "write_failed")
    assert not path.exists()
    in_the_way.rmdir()
    assert await store.save(counted(15.0)) == counted(15.0)
    assert _health(store) == (True, "")
    await store.close()
    assert await _restored(path) == counted(15.0)


async def test_counters_stand_still_while_a_write_hangs(tmp_path: Path) -> None:
    """Which of two states is on the disk, nobody knows: the one that is known to be there is shown, until the disk answers."""
    gate = Gate()
    store = a_state_file(tmp_path / "state.json", gate=gate, save_seconds=1.0)
    await store.load()
    assert await store.save(counted(5.0)) == counted(5.0)
    gate.shut()
    for seconds in (10.0, 15.0, 20.0):
        assert await store.save(counted(seconds)) == counted(5.0)
        assert _health(store) == (False, "timeout")
    assert await _restored(tmp_path / "state.json") == counted(5.0)
    gate.open()
    async with asyncio.timeout(10):
        while await store.save(counted(25.0)) != counted(25.0):
            await asyncio.sleep(0.01)
    assert _health(store) == (True, "")
    assert gate.most_at_once == 1
    await store.close()
    assert await _restored(tmp_path / "state.json") == counted(25.0)


async def test_nothing_is_shown_while_the_first_read_hangs(tmp_path: Path) -> None:
    """What is there is not known yet, so nothing may be shown that it does not say; then counting begins at 0."""
    gate = Gate()
    gate.shut()
    store = a_state_file(tmp_path / "state.json", gate=gate, load_seconds=0.1, save_seconds=0.2)
    assert await store.load() == Ledger()
    assert await store.save(counted(5.0)) == Ledger()
    assert _health(store) == (False, "timeout")
    gate.open()
    async with asyncio.timeout(10):
        while await store.save(counted(10.0)) != counted(10.0):
            await asyncio.sleep(0.01)
    assert gate.most_at_once == 1
    await store.close()


async def test_end_does_not_wait_for_a_write_that_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SIGTERM has to end the process, whatever the disk does; and what was published is on it."""
    gate = Gate()
    store = a_state_file(tmp_path / "state.json", gate=gate, save_seconds=0.05)
    await store.load()
    gate.shut()
    await store.save(counted(5.0))
    async with asyncio.timeout(5):
        await store.close()
    assert "stuck" in caplog.text
    gate.open()


AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from tests.store.state_files import a_state_file, counted

async def main():
    store = a_state_file(Path(sys.argv[1]))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    loaded = await store.load()
    shown = await store.save(counted(5.0))
    print(loaded.clock_seconds, shown.clock_seconds, store.health.up, store.health.reason)

asyncio.run(main())
"""


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that everybody may look into and nobody but its owner may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield folder
        folder.chmod(0o700)


@pytest.mark.parametrize("mode", [0o000, 0o644])
def test_file_that_is_not_ours_to_write_is_left_as_it_is(closed_folder: Path, mode: int) -> None:
    """Whether it may be read or not: it cannot be put aside nor written, so counting begins at 0 and the reason shows."""
    path = closed_folder / "state.json"
    path.write_text("another user's")
    path.chmod(mode)
    closed_folder.chmod(0o555)
    command = [sys.executable, "-c", AS_NOBODY, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["0.0", "5.0", "False", "permission_denied"]
    path.chmod(0o600)
    assert path.read_text() == "another user's"


async def test_disk_without_space_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """The space of a state that cannot be written is given back, and it comes back by itself."""
    path = tmp_path / "state.json"
    store = a_state_file(path)
    await store.load()
    await store.save(counted(5.0))
    with no_file_larger_than(16):
        assert await store.save(counted(10.0)) == counted(10.0)
        assert _health(store) == (False, "disk_full")
        assert names_in(tmp_path) == []
    assert await store.save(counted(15.0)) == counted(15.0)
    await store.close()
    assert await _restored(path) == counted(15.0)


AS_OWNER_OF_A_LOCKED_FOLDER = """
import asyncio, os, sys
from pathlib import Path
from tests.store.state_files import a_state_file, counted

async def main():
    path = Path(sys.argv[1])
    if os.geteuid() == 0:
        os.chown(path.parent, 65534, 65534)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    store = a_state_file(path)
    await store.load()
    told = [(await store.save(counted(5.0))).clock_seconds]
    path.chmod(0o400)
    path.parent.chmod(0o500)
    told.append((await store.save(counted(10.0))).clock_seconds)
    told.append(store.health.reason)
    again = a_state_file(path)
    told.append((await again.load()).clock_seconds)
    path.parent.chmod(0o700)
    path.chmod(0o600)
    told.append((await store.save(counted(15.0))).clock_seconds)
    told.append(store.health.up)
    print(*told)

asyncio.run(main())
"""


def test_counters_stand_still_where_a_state_can_be_neither_written_nor_removed(closed_folder: Path) -> None:
    """What is on the disk would be counted on from; a start that cannot write it counts from 0; then all is well again."""
    command = [sys.executable, "-c", AS_OWNER_OF_A_LOCKED_FOLDER, str(closed_folder / "state.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["5.0", "5.0", "permission_denied", "0.0", "15.0", "True"]


async def test_trouble_is_logged_when_it_comes_and_when_it_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What happens every cycle is a metric."""
    caplog.set_level(logging.INFO)
    store = a_state_file(tmp_path / "later" / "state.json")
    await store.load()
    for seconds in (5.0, 10.0, 15.0):
        await store.save(counted(seconds))
    (tmp_path / "later").mkdir()
    await store.save(counted(20.0))
    await store.close()
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("transitions")]
    assert [line.split(" after ")[0].split(" (")[0] for line in lines] == [
        "state_file missing: folder_missing",
        "state_file back",
    ]


def test_reasons_of_a_refusal_are_reasons_of_a_source() -> None:
    """The enumeration that is documented is the one that shows."""
    assert {reason for _, reason in REFUSED} <= {reason.value for reason in MissingReason}
