"""The rules of the house that no off-the-shelf tool holds."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CEILING_LINES = 300
FREE_OF_THE_CEILING = {"exporter/catalogue.py"}


def _modules() -> list[Path]:
    return [path for path in sorted((ROOT / "exporter").rglob("*.py")) if "_pb2" not in path.name]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_module_stays_below_the_ceiling(path: Path) -> None:
    """A module that outgrows its room is split by question."""
    if _name(path) not in FREE_OF_THE_CEILING:
        assert len(path.read_text().splitlines()) <= CEILING_LINES


@pytest.mark.parametrize("path", [path for path in _modules() if path.name == "__init__.py"], ids=_name)
def test_package_file_holds_a_docstring_and_no_code(path: Path) -> None:
    """Importing a room runs nothing and re-exports nothing."""
    body = ast.parse(path.read_text()).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_module_says_what_it_is_for(path: Path) -> None:
    """Every module begins with a docstring."""
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", _modules(), ids=_name)
def test_no_except_catches_everything(path: Path) -> None:
    """Every except names what it catches, and none names all there is."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            names = {found.id for found in ast.walk(node.type) if isinstance(found, ast.Name)}
            assert not names & {"Exception", "BaseException"}, f"{path}:{node.lineno}"


def test_tree_holds_the_top_level_that_users_look_for() -> None:
    """pyproject.toml exporter/ deploy/ dashboards/ alerts/ tests/ are where they are looked for."""
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    tops = {name.split("/")[0] for name in tracked}
    assert {"pyproject.toml", "exporter", "deploy", "dashboards", "alerts", "tests", "docs", "README.md"} <= tops
