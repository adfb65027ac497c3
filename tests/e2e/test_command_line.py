"""Commands as users type them: one clear line on an error, the right exit code, never a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "exporter", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_check_config_prints_the_effective_configuration(tmp_path: Path) -> None:
    """What a file comes to, with every default."""
    path = tmp_path / "config.yaml"
    path.write_text("interval: 2s\n")
    done = _run("check-config", str(path))
    assert done.returncode == 0, done.stderr
    assert "interval: 2s\n" in done.stdout
    assert "max_age: 1m\n" in done.stdout


@pytest.mark.parametrize("command", ["check-config", "serve", "demo"])
def test_broken_configuration_is_one_line_and_exit_2(tmp_path: Path, command: str) -> None:
    """File, line, key, reason."""
    path = tmp_path / "config.yaml"
    path.write_text("interval: 5s\nintervall: 5s\n")
    done = _run(command, "--config", str(path))
    assert done.returncode == 2
    assert done.stderr.strip() == f"gpu-ownership-exporter: {path}:2: intervall: unknown key, the nearest is interval"


def test_output_that_cannot_be_written_is_one_line_and_exit_1() -> None:
    """A full disk is no traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "exporter", "check-config"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        1,
        "gpu-ownership-exporter: the output cannot be written: No space left on device\n",
    )


def test_serve_is_the_default_command() -> None:
    """Flags without a command are serve's."""
    done = _run("--config", "/nowhere/at/all.yaml")
    assert done.returncode == 2
    assert "/nowhere/at/all.yaml: No such file" in done.stderr


@pytest.mark.parametrize("arguments", [["frobnicate"], ["serve", "--nope"], ["serve", "--log-level", "loud"]])
def test_bad_usage_is_exit_2(arguments: list[str]) -> None:
    """An unknown command or flag shows the usage."""
    done = _run(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help_are_told() -> None:
    """The first two things that anybody types."""
    assert _run("--version").stdout.startswith("gpu-ownership-exporter ")
    assert "check-config" in _run("--help").stdout


def test_address_in_use_is_one_line_and_exit_1() -> None:
    """It ran and failed."""
    import socket  # noqa: PLC0415 - only here

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = _run("serve", "--node-name", "n", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr
