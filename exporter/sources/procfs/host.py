"""Is this /proc the host's? If not, NVML's PIDs mean nothing in it, and newer drivers hide them from us without an error.

A container's own /proc looks like any other; only what is certain to run on a node, and not in a container, can tell.
"""

import os
from typing import Final

from exporter.sources.procfs.process import FileReader

_INIT_NAMES: Final = frozenset({b"systemd", b"init"})
_KUBELET_NAMES: Final = frozenset({b"kubelet", b"kubelite"})
_KUBELET_PREFIXES: Final = (b"k3s", b"k0s")


def is_host_view(root_fd: int, read: FileReader) -> bool:
    """True if a kernel thread, the host's init or a kubelet is seen. PIDs 1 and 2 are asked first: they mostly settle it."""
    if _name_of("2", read) == b"kthreadd" or _name_of("1", read) in _INIT_NAMES:
        return True
    try:
        entries = os.listdir(root_fd)
    except OSError:
        return False
    return any(_is_kubelet(_name_of(entry, read)) for entry in entries if entry.isdecimal())


def _name_of(pid: str, read: FileReader) -> bytes:
    comm = read(f"{pid}/comm")
    return comm.rstrip(b"\n") if isinstance(comm, bytes) else b""


def _is_kubelet(name: bytes) -> bool:
    return name in _KUBELET_NAMES or name.startswith(_KUBELET_PREFIXES)
