"""What the hardware showed is collected and written down: `make gpu-check` leaves it in ``build/gpu-check.md``."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

REPORT = Path("build/gpu-check.md")
BURST = Path(__file__).parent / "burst.py"
START_SECONDS = 30.0

Show = Callable[[str, Any], None]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def show() -> Iterator[Show]:
    """Note a finding under a heading."""
    found: dict[str, Any] = {}
    yield found.__setitem__
    REPORT.parent.mkdir(exist_ok=True)
    lines = [
        f"## {heading}\n\n```json\n{json.dumps(finding, indent=1, default=str)}\n```\n" for heading, finding in found.items()
    ]
    REPORT.write_text("\n".join(["# What the hardware showed\n", *lines]))


@pytest.fixture(scope="session")
def gpu() -> Iterator[Any]:
    """The first GPU, through the unmodified binding."""
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


@pytest.fixture(scope="session", autouse=True)
def _machine(show: Show, gpu: Any) -> None:
    show(
        "Machine",
        {
            "gpu": pynvml.nvmlDeviceGetName(gpu),
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "binding": getattr(pynvml, "__version__", ""),
            "mig": _or_code(lambda: pynvml.nvmlDeviceGetMigMode(gpu)),
        },
    )


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a burst load, wait until it has its context, and end it afterwards."""
    running: list[subprocess.Popen[str]] = []

    def started(**options: float) -> subprocess.Popen[str]:
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        process = subprocess.Popen([sys.executable, str(BURST), *arguments], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout
        assert "ready" in process.stdout.readline()
        return process

    yield started
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def _or_code(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except pynvml.NVMLError as error:
        return f"NVML error {error.value}"
