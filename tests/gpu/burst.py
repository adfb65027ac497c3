"""A process that keeps a GPU busy on a known beat, by the CUDA driver alone: no toolkit, no framework.

Run as ``python burst.py --on 0.5 --off 0.5 --for 20``. Prints one line of JSON for each burst: Unix times of its begin and end.
"""

import argparse
import ctypes
import json
import sys
import time
from typing import Final

SUCCESS: Final = 0
SPIN_PTX: Final = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 begin, now, gone, limit;
    .reg .pred again;
    ld.param.u64 limit, [nanoseconds];
    mov.u64 begin, %globaltimer;
turn:
    mov.u64 now, %globaltimer;
    sub.u64 gone, now, begin;
    setp.lt.u64 again, gone, limit;
    @again bra turn;
    ret;
}
\0"""
LONGEST_KERNEL_SECONDS: Final = 0.05
"""Short kernels, one after the other: a burst ends when it should, and others get their turn."""


class CudaError(RuntimeError):
    """A call of the CUDA driver failed."""


class Cuda:
    """One context on one GPU."""

    def __init__(self, device: int, memory_bytes: int) -> None:
        """Open the GPU and allocate memory on it.

        Raises:
            CudaError: there is no such GPU, or no memory.
        """
        try:
            self._driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"the CUDA driver is not here: {error}") from error
        self._call("cuInit", ctypes.c_uint(0))
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(device))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(SPIN_PTX))
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, ctypes.c_char_p(b"spin"))
        if memory_bytes:
            pointer = ctypes.c_uint64()
            self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(memory_bytes))

    def spin(self, seconds: float) -> None:
        """One block of one thread turns for this time, and we wait for it."""
        nanoseconds = ctypes.c_uint64(int(seconds * 1e9))
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(nanoseconds), ctypes.c_void_p))
        one, none = ctypes.c_uint(1), ctypes.c_uint(0)
        self._call("cuLaunchKernel", self._kernel, one, one, one, one, one, one, none, None, arguments, None)
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code != SUCCESS:
            raise CudaError(f"{name}: {code}")


def burst(cuda: Cuda, seconds: float) -> None:
    """Keep the GPU busy for this time."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        cuda.spin(min(left, LONGEST_KERNEL_SECONDS))


def main() -> int:
    """Burst until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--on", type=float, default=1.0, help="seconds of a burst")
    parser.add_argument("--off", type=float, default=0.0, help="seconds between two bursts")
    parser.add_argument("--for", dest="total", type=float, default=10.0, help="seconds in all")
    parser.add_argument("--memory", type=int, default=0, help="bytes to allocate")
    options = parser.parse_args()
    try:
        cuda = Cuda(options.device, options.memory)
    except CudaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(json.dumps({"ready": time.time()}), flush=True)  # noqa: T201 - what it prints is its answer
    end = time.monotonic() + options.total
    while time.monotonic() < end:
        began = time.time()
        if options.on > 0:
            burst(cuda, options.on)
        print(json.dumps({"begin": began, "end": time.time()}), flush=True)  # noqa: T201
        time.sleep(options.off if options.on > 0 else max(end - time.monotonic(), 0.0))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
