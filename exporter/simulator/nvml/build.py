"""Compiles the stand-in library with the compiler of this machine, or with PyPI's ziglang where there is none."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

LIBRARY = "libnvidia-ml.so.1"
"""The name by which nvidia-ml-py asks for the library."""

_SOURCES = Path(__file__).parent
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}")
_WARNINGS = ("-Wall", "-Wextra", "-Werror")
_FUNCTION = re.compile(r"^NVML_API [\w *]+?\b(nvml\w+)\(", re.MULTILINE)


class StandinBuildError(RuntimeError):
    """The library could not be compiled; says what to install, or what the compilers answered."""


@cache
def library_symbols() -> frozenset[str]:
    """The C symbols of the library as it is without `omit`."""
    return frozenset(symbol for source in _SOURCES.glob("*.c") for symbol in _FUNCTION.findall(source.read_text("utf-8")))


def find_compilers(search_path: str | None = None) -> Iterator[list[str]]:
    """How to call each C compiler that is installed, best first; `search_path` is as PATH, which it is by default."""
    for name in ("cc", "gcc", "clang"):
        found = shutil.which(name, path=search_path)
        if found:
            yield [found]
    if importlib.util.find_spec("ziglang"):
        yield [sys.executable, "-m", "ziglang", "cc"]


def build_library(
    directory: Path, *, omit: frozenset[str] = frozenset(), strict: bool = False, search_path: str | None = None
) -> Path:
    """Compile the library into `directory`, unless the one there is of these sources and options already.

    Args:
        directory: Where ``libnvidia-ml.so.1`` shall be; made if missing.
        omit: C symbols that shall not be found in it, as in an older driver.
        strict: Warnings are errors.
        search_path: Where to look for a compiler, in the form of PATH; None: in PATH.

    Returns:
        The library's path.

    Raises:
        StandinBuildError: No compiler is installed, or none of them could compile it.
    """
    library, stamp = directory / LIBRARY, directory / f"{LIBRARY}.built-from"
    options = [*_FLAGS, *(_WARNINGS if strict else ()), *(f"-D{symbol}=omitted_{symbol}" for symbol in sorted(omit))]
    fingerprint = _fingerprint(options)
    if library.exists() and stamp.exists() and stamp.read_text("utf-8") == fingerprint:
        return library
    directory.mkdir(parents=True, exist_ok=True)
    # Compiled aside and moved into place: whoever has the old one mapped keeps it whole.
    with tempfile.TemporaryDirectory(dir=directory) as aside:
        made = Path(aside) / LIBRARY
        _compile(made, options, search_path)
        made.replace(library)
    stamp.write_text(fingerprint, "utf-8")
    return library


def _fingerprint(options: list[str]) -> str:
    digest = hashlib.sha256("\0".join(options).encode())
    for source in sorted([*_SOURCES.glob("*.c"), *_SOURCES.glob("*.h")]):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _compile(library: Path, options: list[str], search_path: str | None) -> None:
    sources = [str(source) for source in sorted(_SOURCES.glob("*.c"))]
    complaints = []
    for compiler in find_compilers(search_path):
        command = [*compiler, *options, *sources, "-o", str(library)]
        done = subprocess.run(  # noqa: S603 - a compiler that is installed here, over our own sources
            command, check=False, capture_output=True, text=True, errors="replace", env={**os.environ, "LC_ALL": "C"}
        )
        if done.returncode == 0:
            return
        complaints.append(f"{' '.join(compiler)}: {done.stderr.strip()}")
    if complaints:
        raise StandinBuildError("no compiler here could compile the simulated NVML library:\n" + "\n".join(complaints))
    raise StandinBuildError(
        "the simulated NVML library needs a C compiler: install gcc or clang, or the Python package ziglang"
    )
