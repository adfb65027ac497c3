"""The demo's node over time: eight GPUs, each with another story."""

from exporter.simulator.demo_cluster import (
    ALLOCATABLE,
    NAMESPACES,
    NODE_LABELS,
    OBJECTS,
    PODS,
    REPLICAS,
    SHARED,
    WHOLE,
    gpu_of,
    mig_of,
    tasks,
)
from exporter.simulator.world import GIB, SimBurst, SimDevice, SimMig, SimProcess, World

NODE = "gpu-node-07"
NOTEBOOK_GOES_QUIET_AFTER_SECONDS = 20.0
IDLE_MILLIWATTS, CONTEXT_MILLIWATTS, BUSY_MILLIWATTS = 72_000, 45_000, 540_000
MILLIJOULES_BEFORE = 5_000_000_000
"""On each energy counter when the demo begins."""
SECOND = 1_000_000
"""Microseconds, in which the GPUs' clock counts."""


def demo_world(begun_us: int) -> World:
    """The node; what its GPUs do goes on by itself.

    Args:
        begun_us: When the demo began, by the GPUs' clock.
    """
    return World(
        node=NODE,
        devices=_devices(begun_us),
        tasks=tasks(),
        pods=PODS,
        allocatable=ALLOCATABLE,
        namespaces=NAMESPACES,
        node_labels=NODE_LABELS,
        node_provider_id="sim:///zone-a/gpu-node-07",
        node_capacity={WHOLE: "6", SHARED: str(REPLICAS), "nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-2g.20gb": "1"},
        objects=OBJECTS,
    )


def _devices(begun_us: int) -> tuple[SimDevice, ...]:
    quiet_us = begun_us + round(NOTEBOOK_GOES_QUIET_AFTER_SECONDS * SECOND)
    training = [_bursts(41000 + rank, 11, (0.0 + rank / 4, 10.3 + rank / 4, 100)) for rank in (0, 1)]
    notebook = (SimBurst(pid=42000, start_us=begun_us, end_us=quiet_us, percent=45),)
    chat = _bursts(43000, 5, (0.2, 0.9, 100), (1.7, 2.1, 100), (3.6, 4.0, 100))
    embed = _bursts(43100, 5, (2.3, 3.1, 100))
    return (
        _device(0, SimProcess(pid=41000, memory=71 * GIB), load=training[0], load_period_us=11 * SECOND),
        _device(1, SimProcess(pid=41001, memory=70 * GIB), load=training[1], load_period_us=11 * SECOND),
        _device(2, SimProcess(pid=42000, memory=22 * GIB), load=notebook),
        _device(
            3,
            SimProcess(pid=43000, memory=31 * GIB),
            SimProcess(pid=43100, memory=12 * GIB),
            load=chat + embed,
            load_period_us=5 * SECOND,
        ),
        _mig_device(4),
        _device(5, SimProcess(pid=45000, memory=2 * GIB), load=_bursts(45000, 10, (4.0, 4.3, 100)), load_period_us=10 * SECOND),
        _device(6),
        _device(7, SimProcess(pid=47000, memory=9 * GIB), load=_bursts(47000, 10, (1.0, 2.2, 100)), load_period_us=10 * SECOND),
    )


def _bursts(pid: int, period_seconds: int, *pieces: tuple[float, float, int], gi: int | None = None) -> tuple[SimBurst, ...]:
    """(begin, end, percent) of each piece of a period."""
    return tuple(
        SimBurst(
            pid=pid,
            start_us=round(begin * SECOND),
            end_us=min(round(end * SECOND), period_seconds * SECOND),
            percent=percent,
            gi=gi,
        )
        for begin, end, percent in pieces
    )


def _device(index: int, *processes: SimProcess, load: tuple[SimBurst, ...] = (), load_period_us: int = 0) -> SimDevice:
    return SimDevice(
        uuid=gpu_of(index),
        index=index,
        gpm=True,
        memory_reserved=600 << 20,
        power=IDLE_MILLIWATTS + (CONTEXT_MILLIWATTS if processes else 0),
        busy_power=BUSY_MILLIWATTS,
        temperature=58 if load else 31,
        energy=MILLIJOULES_BEFORE,
        processes=processes,
        load=load,
        load_period_us=load_period_us,
    )


def _mig_device(index: int) -> SimDevice:
    return SimDevice(
        uuid=gpu_of(index),
        index=index,
        utilization=None,
        gpm=True,
        mig_mode=1,
        memory_reserved=600 << 20,
        power=140_000,
        busy_power=300_000,
        temperature=46,
        energy=MILLIJOULES_BEFORE,
        migs=(
            SimMig(uuid=mig_of(3), gi=3, profile="2g.20gb", compute_slices=2, gpu_slices=2, memory_total=20 * GIB),
            SimMig(uuid=mig_of(9), gi=9, profile="1g.10gb", memory_total=10 * GIB),
            SimMig(uuid=mig_of(10), gi=10, profile="1g.10gb", memory_total=10 * GIB),
        ),
        processes=(
            SimProcess(pid=44000, memory=14 * GIB, gi=3, ci=0),
            SimProcess(pid=44100, memory=6 * GIB, gi=9, ci=0),
        ),
        load=_bursts(44000, 6, (0.0, 3.7, 100), gi=3),
        load_period_us=6 * SECOND,
    )
