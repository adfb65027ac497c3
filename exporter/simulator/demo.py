"""The demo's node over time: eight GPUs, each with another story."""

import math

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
from exporter.simulator.world import GIB, SimDevice, SimMig, SimProcess, World

NODE = "gpu-node-07"
NOTEBOOK_GOES_QUIET_AFTER_SECONDS = 20.0
IDLE_MILLIWATTS, CONTEXT_MILLIWATTS, MILLIWATTS_PER_PERCENT = 72_000, 45_000, 5_900
MEGAJOULES_BEFORE = 5_000_000_000
"""Millijoules on each energy counter when the demo begins."""


def world_at(seconds: float) -> World:
    """The node `seconds` after the demo began."""
    return World(
        node=NODE,
        devices=_devices(seconds),
        tasks=tasks(),
        pods=PODS,
        allocatable=ALLOCATABLE,
        namespaces=NAMESPACES,
        node_labels=NODE_LABELS,
        node_provider_id="sim:///zone-a/gpu-node-07",
        node_capacity={WHOLE: "6", SHARED: str(REPLICAS), "nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-2g.20gb": "1"},
        objects=OBJECTS,
    )


def _wave(seconds: float, low: int, high: int, period_seconds: float, phase: float = 0.0) -> int:
    middle, reach = (low + high) / 2, (high - low) / 2
    return round(middle + reach * math.sin(2 * math.pi * (seconds / period_seconds + phase)))


def _notebook_load(seconds: float) -> int:
    return _wave(seconds, 20, 70, 9) if seconds < NOTEBOOK_GOES_QUIET_AFTER_SECONDS else 0


def _chat_load(seconds: float) -> int:
    return _wave(seconds, 15, 45, 23)


def _embed_load(seconds: float) -> int:
    return _wave(seconds, 5, 30, 17, 0.4)


def _devices(seconds: float) -> tuple[SimDevice, ...]:
    training = [_wave(seconds, 91, 99, 11, phase) for phase in (0.0, 0.3)]
    chat, embed, notebook = _chat_load(seconds), _embed_load(seconds), _notebook_load(seconds)
    in_use_seconds = min(seconds, NOTEBOOK_GOES_QUIET_AFTER_SECONDS)
    return (
        _device(0, seconds, training[0], 95 * seconds, (SimProcess(pid=41000, memory=71 * GIB, sm=training[0]),)),
        _device(1, seconds, training[1], 95 * seconds, (SimProcess(pid=41001, memory=70 * GIB, sm=training[1]),)),
        _device(2, seconds, notebook, 45 * in_use_seconds, (SimProcess(pid=42000, memory=22 * GIB, sm=notebook or None),)),
        _device(
            3,
            seconds,
            chat + embed,
            47.5 * seconds,
            (SimProcess(pid=43000, memory=31 * GIB, sm=chat), SimProcess(pid=43100, memory=12 * GIB, sm=embed)),
        ),
        _mig_device(4, seconds),
        _device(5, seconds, 3, 3 * seconds, (SimProcess(pid=45000, memory=2 * GIB, sm=3),)),
        _device(6, seconds, 0, 0, ()),
        _device(7, seconds, 12, 12 * seconds, (SimProcess(pid=47000, memory=9 * GIB, sm=12),)),
    )


def _device(
    index: int, seconds: float, utilization: int, percent_seconds: float, processes: tuple[SimProcess, ...]
) -> SimDevice:
    """`percent_seconds` is the integral of the utilisation since the demo began, by its mean: energy never falls."""
    base = IDLE_MILLIWATTS + (CONTEXT_MILLIWATTS if processes else 0)
    return SimDevice(
        uuid=gpu_of(index),
        index=index,
        utilization=utilization,
        memory_reserved=600 << 20,
        power=base + utilization * MILLIWATTS_PER_PERCENT,
        temperature=31 + utilization // 2,
        energy=MEGAJOULES_BEFORE + int(seconds * base + percent_seconds * MILLIWATTS_PER_PERCENT),
        processes=processes,
    )


def _mig_device(index: int, seconds: float) -> SimDevice:
    return SimDevice(
        uuid=gpu_of(index),
        index=index,
        utilization=None,
        mig_mode=1,
        memory_reserved=600 << 20,
        power=260_000,
        temperature=46,
        energy=MEGAJOULES_BEFORE + int(seconds * 260_000),
        migs=(
            SimMig(uuid=mig_of(3), gi=3, profile="2g.20gb", compute_slices=2, gpu_slices=2, memory_total=20 * GIB),
            SimMig(uuid=mig_of(9), gi=9, profile="1g.10gb", memory_total=10 * GIB),
            SimMig(uuid=mig_of(10), gi=10, profile="1g.10gb", memory_total=10 * GIB),
        ),
        processes=(
            SimProcess(pid=44000, memory=14 * GIB, gi=3, ci=0),
            SimProcess(pid=44100, memory=6 * GIB, gi=9, ci=0),
        ),
    )
