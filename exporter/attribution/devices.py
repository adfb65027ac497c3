"""One row for each physical GPU, whoever holds it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.holders import Held
from exporter.attribution.replicas import Advertised
from exporter.attribution.shares import Shares, part_of_gpu
from exporter.attribution.unallocated import Market, rest_of
from exporter.attribution.utilization import UtilizationSplit
from exporter.model.attribution import DeviceRow, PlaceKey, Sharing, UnattributedReason
from exporter.model.device import Device, MigMode, ProcessKind
from exporter.model.ids import DeviceUuid

STRATEGY_LABEL = "nvidia.com/gpu.sharing-strategy"
"""Written by GPU feature discovery; nothing in a device id tells MPS from time-slicing."""
_STRATEGIES = {"none": Sharing.NONE, "time-slicing": Sharing.TIME_SLICING, "mps": Sharing.MPS}


@dataclass(frozen=True, slots=True)
class Allocations:
    """What is known of who holds what."""

    known: bool
    """False if the kubelet has no usable answer."""
    shares: Shares
    held: tuple[Held, ...] = ()
    replicas: Mapping[PlaceKey, int] = field(default_factory=dict)
    """Into how many parts each divided place is divided."""
    ids_known: bool = False
    """True if the kubelet said what it can give out."""
    possible: frozenset[DeviceUuid] = frozenset()
    """Devices that an unresolved allocation may be on."""
    market: Market = field(default_factory=lambda: Market(Advertised(), cordoned=False))


def device_row(
    device: Device,
    allocations: Allocations,
    sharing: Sharing,
    memory: Mapping[UnattributedReason, int],
    utilization: UtilizationSplit,
) -> DeviceRow:
    """Put the row together.

    Args:
        device: The device.
        allocations: Who holds what.
        sharing: How it is shared.
        memory: What of its memory is nobody's.
        utilization: Whose its utilisation was.
    """
    sizes = {mig.key: part_of_gpu(device, mig) for mig in device.mig_instances}
    allocated = _allocated_ratio(device, allocations)
    rest = rest_of(device, allocations.shares, allocations.market, known=allocated is not None)
    return DeviceRow(
        device=device,
        sharing=sharing,
        allocated_ratio=allocated,
        activity=utilization.activity,
        utilization_ratio=utilization.utilization_ratio,
        unattributed_ratios=dict(sorted(utilization.unattributed.items())),
        unallocated_ratios=rest.unallocated,
        allocation_unknown_ratio=rest.unknown,
        unattributed_memory_bytes=dict(sorted(memory.items())),
        mig_share_ratios={key: float(size) for key, size in sorted(sizes.items()) if size is not None},
    )


def sharing_of(device: Device, allocations: Allocations, node_labels: Mapping[str, str], *, mps_server: bool) -> Sharing:
    """How the device is shared: by its mode, by the form of its ids, and by the node's label between the two forms of replicas.

    Args:
        device: The device.
        allocations: Who holds what.
        node_labels: Labels of the node.
        mps_server: True if an MPS server is on the device.
    """
    if device.mig_mode is MigMode.ENABLED:
        return Sharing.MIG
    labelled = _STRATEGIES.get(node_labels.get(STRATEGY_LABEL, "").strip().lower(), Sharing.UNKNOWN)
    if not _in_replicas(device, allocations):
        told = allocations.known and (
            allocations.ids_known or labelled is Sharing.UNKNOWN or _is_held(device, allocations.held)
        )
        return Sharing.NONE if told else labelled
    if labelled in {Sharing.TIME_SLICING, Sharing.MPS}:
        return labelled
    by_process = mps_server or any(ProcessKind.MPS in process.kinds for process in device.processes or ())
    return Sharing.MPS if by_process else Sharing.UNKNOWN


def may_be_served(device: Device, allocations: Allocations, node_labels: Mapping[str, str]) -> bool:
    """True if an MPS server may work for others on this device: only where it is, or may be, shared by MPS.

    Anybody can call a process like the server. On a device that is held whole such a process is its own pod's.
    """
    sharing = sharing_of(device, allocations, node_labels, mps_server=False)
    return sharing in {Sharing.MPS, Sharing.UNKNOWN} or device.uuid in allocations.possible


def _in_replicas(device: Device, allocations: Allocations) -> bool:
    """True if an id of the device names a replica, or if several are there to be given out."""
    by_id = any(one.replica is not None for one in allocations.held if one.key[0] == device.uuid)
    return by_id or any(count > 1 for (uuid, _), count in allocations.replicas.items() if uuid == device.uuid)


def _is_held(device: Device, held: Iterable[Held]) -> bool:
    return any(one.key[0] == device.uuid for one in held)


def _allocated_ratio(device: Device, allocations: Allocations) -> float | None:
    """Sum of the shares.

    None without an answer, with an instance of unknown size among what is held, and where the device only looks free.
    """
    if not allocations.known or any(uuid == device.uuid for uuid, _ in allocations.shares.unknown):
        return None
    total = allocations.shares.by_gpu.get(device.uuid)
    if not total and device.uuid in allocations.possible:
        return None
    return 0.0 if total is None else float(total)
