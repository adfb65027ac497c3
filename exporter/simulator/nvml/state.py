"""Writes what the stand-in library shows: the file format that ``state.c`` reads, and nothing else knows.

Lines of ``key value``; a line with a section's name alone begins a new entry. Text is written in hexadecimal, so that
any bytes are carried; numbers are unsigned, and a ``span`` of a script is a row of them. A key that is absent makes the call
for it answer NVML_ERROR_NOT_SUPPORTED.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from exporter.simulator.nvml.build import library_symbols
from exporter.simulator.nvml.clock import CLOCK_VARIABLE, SimClock
from exporter.simulator.nvml.script import track_lines
from exporter.simulator.world import NOT_AVAILABLE, NvmlFault, SimDevice, SimMig, SimProcess, World

STATE_VARIABLE = "GPU_OWNERSHIP_SIMULATED_NVML"
"""The environment variable that names the file to the library."""

_NO_INSTANCE = 0xFFFFFFFF
_LONGEST_DELAY_SECONDS = 1e9
# The first driver branch with each version of CUDA, as NVML numbers them.
_CUDA_OF_BRANCH = {525: 12000, 535: 12020, 550: 12040, 560: 12060, 570: 12080, 575: 12090, 580: 13000, 590: 13010, 595: 13020}
_UNKNOWN_BRANCH_CUDA = 12000
_ORIGIN = re.compile(rb"origin_us (\d+)\n")


def environment(path: Path, clock: SimClock | None = None) -> dict[str, str]:
    """The variables with which a process finds the state at `path`, and the GPUs' clock; None: the wall clock."""
    return {STATE_VARIABLE: str(path), CLOCK_VARIABLE: str(clock.path) if clock else ""}


def write_state(world: World, path: Path) -> None:
    """Show `world` from the next call on, to every process that looks at `path`. Replaces the file at once.

    By the wall clock, the driver counts as loaded when the first world was shown there: what a scripted load adds up,
    in energy and accounting, it adds up from then on.

    Of several faults that strike one call, the first decides. A call that a fault delays looks again every few
    hundredths of a second, and ends as soon as its fault is no longer shown: so a hang can be let go.

    Raises:
        ValueError: A number does not fit the field of the call that gives it, or a fault names a call that is not there.
    """
    lines = _lines(world, _origin_us(path))
    content = "".join(f"{line}\n" for line in lines)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(content)
        # The library tells versions apart by inode, size and time, and file systems stamp two writes in a row alike.
        now = time.time_ns()
        os.utime(temporary, ns=(now, now))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _origin_us(path: Path) -> int:
    """When a state was first written to `path`; now, if there is none."""
    try:
        with path.open("rb") as file:
            known = _ORIGIN.match(file.readline())
    except FileNotFoundError:
        known = None
    return int(known[1]) if known else time.time_ns() // 1000


def _lines(world: World, origin_us: int) -> list[str]:
    return [
        f"origin_us {origin_us}",
        _text("driver_version", world.driver_version),
        f"cuda_version {_cuda_version(world.driver_version)}",
        *chain.from_iterable(_device(device) for device in world.devices),
        *chain.from_iterable(_fault(fault) for fault in world.nvml_faults),
        "end",
    ]


def _cuda_version(driver_version: str) -> int:
    branch = re.match(r"\d{3,4}(?=\.)", driver_version, re.ASCII)
    if branch is None:
        return _UNKNOWN_BRANCH_CUDA
    known = [cuda for first, cuda in _CUDA_OF_BRANCH.items() if first <= int(branch[0])]
    return max(known, default=_UNKNOWN_BRANCH_CUDA)


def _text(key: str, value: str) -> str:
    return f"{key} {value.encode('utf-8', 'surrogateescape').hex()}"


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Makes number lines; `owner` is named when one does not fit."""

    owner: str

    def line(self, key: str, value: int | None, *, bits: int = 32, signed: bool = False) -> Iterator[str]:
        """Nothing for None; a negative value as the unsigned one with the same bits."""
        if value is None:
            return
        low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
        if not low <= value < high:
            raise ValueError(f"{self.owner}: {key}={value} does not fit {bits} bits")
        yield f"{key} {value & ((1 << bits) - 1)}"


def _device(device: SimDevice) -> Iterator[str]:
    numbers = _Numbers(f"device {device.index}")
    yield "device"
    yield _text("uuid", device.uuid)
    yield _text("name", device.name)
    yield _text("pci_bus_id", device.pci_bus_id or _made_up_bus_id(device.index))
    yield from numbers.line("index", device.index, bits=31)
    yield from numbers.line("minor", device.index if device.minor is None else device.minor)
    yield from numbers.line("architecture", device.architecture)
    yield from numbers.line("mig_mode", device.mig_mode)
    yield from numbers.line("max_mig_devices", device.max_mig_devices)
    yield from numbers.line("utilization", device.utilization)
    yield from numbers.line("memory_total", device.memory_total, bits=64)
    yield from numbers.line("memory_used", _used_by(device), bits=64)
    yield from numbers.line("memory_reserved", device.memory_reserved, bits=64)
    yield from numbers.line("power", device.power)
    yield from numbers.line("power_limit", device.power_limit)
    yield from numbers.line("temperature", device.temperature, signed=True)
    yield from numbers.line("energy", device.energy, bits=64)
    yield from numbers.line("ecc_corrected", device.ecc_corrected, bits=64)
    yield from numbers.line("ecc_uncorrected", device.ecc_uncorrected, bits=64)
    yield from numbers.line("row_remap_pending", device.row_remap_pending)
    yield from _sampling(device, numbers)
    for field, nanoseconds in device.clock_event_ns.items():
        yield "counter"
        yield from numbers.line("field", field)
        yield from numbers.line("value", nanoseconds, bits=64)
    for place, mig in enumerate(device.migs):
        yield from _mig(device, mig, place)
    for process in device.processes:
        yield from _process(process)


def _sampling(device: SimDevice, numbers: _Numbers) -> Iterator[str]:
    yield from numbers.line("load_period", device.load_period_us, bits=64)
    yield from numbers.line("busy_power", device.busy_power)
    yield from numbers.line("ring_rests", device.ring_rests)
    yield from numbers.line("gpm", device.gpm)
    yield from numbers.line("sm_percent_of_busy", device.sm_percent_of_busy)
    yield from numbers.line("tensor_percent_of_busy", device.tensor_percent_of_busy)
    yield from numbers.line("accounting", device.accounting)
    if device.ring is not None:
        yield "verbatim_ring 1"
    for sample in device.ring or ():
        yield "sample"
        yield from numbers.line("timestamp", sample.timestamp_us, bits=64)
        yield from numbers.line("value", sample.percent)
    if device.load is not None:
        yield from track_lines(device.load, device.load_period_us)


def _made_up_bus_id(index: int) -> str:
    return f"{index // 255:08X}:{index % 255 + 1:02X}:00.0"


def _mig(device: SimDevice, mig: SimMig, place: int) -> Iterator[str]:
    numbers = _Numbers(f"MIG device {mig.uuid}")
    yield "mig"
    yield _text("uuid", mig.uuid)
    yield _text("name", f"{device.name} MIG {mig.profile}" if mig.profile else device.name)
    yield from numbers.line("slot", place if mig.slot is None else mig.slot)
    yield from numbers.line("gi", mig.gi)
    yield from numbers.line("ci", mig.ci)
    yield from numbers.line("memory_total", mig.memory_total, bits=64)
    yield from numbers.line("memory_used", _used_in(mig, device), bits=64)
    yield from numbers.line("utilization", device.utilization if mig.utilization is None else mig.utilization)
    if mig.profile:
        yield from numbers.line("gpu_slices", mig.gpu_slices)
        yield from numbers.line("compute_slices", mig.compute_slices)


def _is_in(process: SimProcess, mig: SimMig) -> bool:
    """A process that names no compute instance belongs to any of its GPU instance."""
    return process.gi == mig.gi and process.ci in {mig.ci, None}


def _total(processes: Iterator[SimProcess]) -> int:
    return sum(process.memory for process in processes if process.memory != NOT_AVAILABLE)


def _used_in(mig: SimMig, device: SimDevice) -> int:
    if mig.memory_used is not None:
        return mig.memory_used
    return _total(process for process in device.processes if _is_in(process, mig))


def _used_by(device: SimDevice) -> int:
    """What its MIG devices use, and the processes that are in none of them."""
    if device.memory_used is not None:
        return device.memory_used
    migs = device.migs if device.mig_mode == 1 else ()
    outside = _total(process for process in device.processes if not any(_is_in(process, mig) for mig in migs))
    return outside + sum(_used_in(mig, device) for mig in migs)


def _process(process: SimProcess) -> Iterator[str]:
    numbers = _Numbers(f"process {process.pid}")
    yield "process"
    yield from numbers.line("pid", process.pid)
    yield from numbers.line("memory", process.memory, bits=64)
    yield from numbers.line("gi", _NO_INSTANCE if process.gi is None else process.gi)
    yield from numbers.line("ci", _NO_INSTANCE if process.ci is None else process.ci)
    for name in sorted(process.lists):
        if name not in {"compute", "graphics", "mps"}:
            raise ValueError(f"process {process.pid}: there is no list {name!r}")
        yield f"{name} 1"
    yield from numbers.line("sm", process.sm)
    yield from numbers.line("sm_timestamp", process.sm_timestamp, bits=64)


def _fault(fault: NvmlFault) -> Iterator[str]:
    if fault.symbol != "*" and fault.symbol not in library_symbols():
        raise ValueError(f"a fault for {fault.symbol!r}, which the library does not have")
    numbers = _Numbers(f"fault of {fault.symbol}")
    yield "fault"
    yield _text("symbol", fault.symbol)
    yield from numbers.line("device", fault.device)
    yield from numbers.line("code", fault.code)
    yield from numbers.line("delay_us", int(min(fault.delay_seconds, _LONGEST_DELAY_SECONDS) * 1e6), bits=64)
