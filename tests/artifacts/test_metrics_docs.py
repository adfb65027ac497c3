"""docs/metrics.md says what the catalogue says."""

import shutil
import subprocess
import sys
from pathlib import Path

from exporter import catalogue

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "generate_docs.py"


def test_metrics_page_is_not_stale() -> None:
    """The page in the tree is the one that the catalogue gives."""
    result = subprocess.run([sys.executable, SCRIPT, "metrics", "--check"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_metrics_page_explains_every_family() -> None:
    """Each family has a row with its help and when it is absent."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for family in catalogue.ALL:
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{family.name}` |") and family.help in line]
        assert family.absent_when in row


def test_stale_page_fails_the_check_and_is_left_alone(tmp_path: Path) -> None:
    """In a tree whose page differs the check fails, names the page, and writes nothing."""
    (tmp_path / "docs").mkdir()
    shutil.copytree(SCRIPT.parent, tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "exporter", tmp_path / "exporter", ignore=shutil.ignore_patterns("__pycache__"))
    stale = tmp_path / "docs" / "metrics.md"
    stale.write_text("old", encoding="utf-8")
    command = [sys.executable, str(tmp_path / "scripts" / "generate_docs.py"), "metrics"]
    checked = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert (checked.returncode, stale.read_text(encoding="utf-8")) == (1, "old")
    assert "docs/metrics.md" in checked.stderr
    assert subprocess.run(command, check=False).returncode == 0
    assert stale.read_bytes() == (ROOT / "docs" / "metrics.md").read_bytes()
