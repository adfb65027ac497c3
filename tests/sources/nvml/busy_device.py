"""A device that answers every call, and what the source should make of it."""

from dataclasses import fields, replace
from typing import Any

from exporter.model.device import Device, GpuProcess, MigMode, ProcessKind, ProcessUse
from exporter.model.ids import DeviceUuid
from exporter.simulator.world import GIB, SimDevice, SimProcess

BUSY = SimDevice(
    uuid="GPU-b",
    index=1,
    minor=3,
    pci_bus_id="0000000A:BC:00.0",
    utilization=40,
    memory_reserved=512,
    memory_used=20 * GIB,
    power=210_000,
    energy=7_500,
    temperature=61,
    ecc_corrected=5,
    ecc_uncorrected=1,
    row_remap_pending=1,
    clock_event_ns={74: 1_500_000_000, 76: 2_000_000_000, 269: 3_000_000_000, 270: 4_000_000_000, 271: 5_000_000_000},
    processes=(SimProcess(pid=4001, memory=20 * GIB, sm=35),),
)
QUIET = replace(BUSY, uuid="GPU-a", index=0, minor=0)

COMPLETE = Device(
    uuid=DeviceUuid("GPU-b"),
    index=1,
    model="NVIDIA H100 80GB HBM3",
    pci_bus_id="0000000a:bc:00.0",
    minor_number=3,
    architecture="Hopper",
    mig_mode=MigMode.DISABLED,
    utilization_ratio=0.4,
    memory_used_bytes=20 * GIB,
    memory_reserved_bytes=512,
    memory_total_bytes=80 * GIB,
    power_watts=210.0,
    power_limit_watts=700.0,
    temperature_celsius=61,
    energy_joules=7.5,
    ecc_errors={"corrected": 5, "uncorrected": 1},
    row_remap_pending=True,
    clock_event_seconds={"sw_power": 1.5, "sync_boost": 2.0, "sw_thermal": 3.0, "hw_thermal": 4.0, "hw_power_brake": 5.0},
    processes=(GpuProcess(4001, frozenset({ProcessKind.COMPUTE}), 20 * GIB),),
    process_use=(ProcessUse(4001, 0.35),),
)

NO_MEMORY = {"memory_used_bytes": None, "memory_reserved_bytes": None, "memory_total_bytes": None}


def differing(device: Device) -> dict[str, Any]:
    """The fields in which the device is not complete, without the notes on what went wrong."""
    names = {one.name for one in fields(Device)} - {"failed_calls", "rejected"}
    return {name: getattr(device, name) for name in names if getattr(device, name) != getattr(COMPLETE, name)}
