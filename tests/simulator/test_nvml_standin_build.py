"""Compiling the simulated NVML library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.simulator.nvml.build import LIBRARY, build_library, find_compilers, library_symbols
from exporter.simulator.nvml.state import environment, write_state
from exporter.simulator.world import SimDevice, World

ROOT = Path(__file__).parents[2]


def python(code: str, *arguments: str, **variables: str) -> str:
    """What the code prints in an interpreter of its own, which has loaded no library yet."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_unmodified_binding_finds_the_library_by_its_path(nvml_library: Path, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH is enough for a program that knows nothing of us."""
    write_state(World(devices=(SimDevice(uuid="GPU-0", index=0),)), tmp_path / "state")
    code = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0)))"
    variables = {"LD_LIBRARY_PATH": str(nvml_library.parent), **environment(tmp_path / "state")}
    assert python(code, **variables) == "GPU-0"


def test_omitted_symbol_is_missing_as_in_an_old_driver(tmp_path: Path) -> None:
    """The binding says FUNCTION_NOT_FOUND for it, and only for it."""
    library = build_library(tmp_path, omit=frozenset({"nvmlDeviceGetTemperatureV", "nvmlDeviceGetMemoryInfo_v2"}), strict=True)
    write_state(World(devices=(SimDevice(uuid="GPU-0", index=0),)), tmp_path / "state")
    code = """if True:
        import sys
        from pathlib import Path
        import pynvml
        from exporter.simulator.nvml.loading import preload
        preload(Path(sys.argv[1]))
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        for call in (pynvml.nvmlDeviceGetTemperatureV, pynvml.nvmlDeviceGetTemperature):
            try:
                print(call(gpu, 0))
            except pynvml.NVMLError_FunctionNotFound:
                print("missing")
        try:
            pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
        except pynvml.NVMLError_FunctionNotFound:
            print("missing")
    """
    assert python(code, str(library), **environment(tmp_path / "state")).split() == ["missing", "35", "missing"]


def test_every_symbol_can_be_omitted(tmp_path: Path) -> None:
    """A library without any of them still compiles without a warning, and exports none."""
    library = build_library(tmp_path, omit=library_symbols(), strict=True)
    code = """if True:
        import ctypes, sys
        library = ctypes.CDLL(sys.argv[1])
        print([symbol for symbol in sys.argv[2:] if hasattr(library, symbol)])
    """
    assert python(code, str(library), *sorted(library_symbols())) == "[]"


def test_library_that_is_up_to_date_is_kept(tmp_path: Path) -> None:
    """Building again with the same options does nothing; with other ones it replaces the file."""
    library = build_library(tmp_path / "new")
    built = library.stat()
    assert build_library(tmp_path / "new").stat().st_mtime_ns == built.st_mtime_ns
    assert build_library(tmp_path / "new", omit=frozenset({"nvmlDeviceGetBrand"})).stat().st_ino != built.st_ino
    assert {path.name for path in (tmp_path / "new").iterdir()} == {LIBRARY, f"{LIBRARY}.built-from"}


def test_compiler_that_fails_gives_way_to_the_next(tmp_path: Path) -> None:
    """A broken cc does not matter where gcc works."""
    (tmp_path / "cc").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    working = next(iter(find_compilers()))
    (tmp_path / "gcc").write_text(f'#!/bin/sh\nPATH="{os.environ["PATH"]}"\nexec {" ".join(working)} "$@"\n')
    (tmp_path / "gcc").chmod(0o755)
    assert build_library(tmp_path / "out", search_path=str(tmp_path)).stat().st_size > 0


BUILD = """if True:
    import sys
    from pathlib import Path
    sys.path.insert(0, "")
    from exporter.simulator.nvml.build import StandinBuildError, build_library
    try:
        build_library(Path(sys.argv[1]), search_path=sys.argv[2])
    except StandinBuildError as error:
        print(error)
"""


def without_packages(*arguments: str) -> str:
    """The same in an interpreter that sees no installed packages, ziglang among them."""
    done = subprocess.run([sys.executable, "-S", "-c", BUILD, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_machine_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    """The error is one sentence with the remedy."""
    message = without_packages(str(tmp_path), str(tmp_path))
    assert message == "the simulated NVML library needs a C compiler: install gcc or clang, or the Python package ziglang"
    assert not (tmp_path / LIBRARY).exists()


def test_compilers_that_all_fail_are_quoted(tmp_path: Path) -> None:
    """The error holds what each compiler said."""
    (tmp_path / "cc").write_text("#!/bin/sh\necho no headers here >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    assert "cc: no headers here" in without_packages(str(tmp_path / "out"), str(tmp_path))


def test_directory_that_cannot_be_made_is_an_error_of_the_file_system(tmp_path: Path) -> None:
    """It is not taken for a missing compiler."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        build_library(tmp_path / "file" / "below")
