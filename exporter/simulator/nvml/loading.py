"""Puts the stand-in library in the place of NVIDIA's within this process.

nvidia-ml-py loads ``libnvidia-ml.so.1`` by that name. The dynamic linker knows a library that is already loaded by its
SONAME and hands out the same one, so loading the stand-in first is enough. A process keeps what it loaded first for as
long as it lives: to try another build of the library, start another process.
"""

import ctypes
from pathlib import Path

from exporter.simulator.nvml.build import LIBRARY


def preload(library: Path) -> None:
    """Load `library` for all of this process; to be called before pynvml's first nvmlInit.

    Raises:
        OSError: There is no such library, or it is none.
    """
    ctypes.CDLL(str(library.resolve()), mode=ctypes.RTLD_GLOBAL)


def live_gpm_samples() -> int:
    """GPM samples that this process has allocated from the library that it uses, and not freed."""
    return int(ctypes.CDLL(LIBRARY).standin_live_gpm_samples())
