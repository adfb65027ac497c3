"""docs/configuration.md says what the schema says."""

import subprocess
import sys
from pathlib import Path

import yaml

from exporter.config.loading import dump_config
from exporter.config.schema import Config

ROOT = Path(__file__).resolve().parents[2]


def test_configuration_page_is_not_stale() -> None:
    """The page in the tree is the one that the schema gives."""
    command = [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "configuration", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_defaults_on_the_page_are_the_defaults() -> None:
    """What users copy from the page changes nothing."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    block = page.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(block) == yaml.safe_load(dump_config(Config()))


def test_every_setting_has_a_row_that_explains_it() -> None:
    """No key without its effect."""
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) >= 30
    assert not [row for row in rows if not row.split(" | ")[2].strip()]
