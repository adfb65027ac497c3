"""One row for each container on each device or MIG instance that it holds or uses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from exporter.attribution.holders import Held
from exporter.attribution.memory import MemorySplit
from exporter.attribution.presence import Presence, RowKey
from exporter.attribution.shares import Shares, part_of_gpu
from exporter.attribution.utilization import UtilizationSplit
from exporter.model.attribution import Allocation, ContainerRow, Ownership, PlaceKey
from exporter.model.device import Device, MigInstance
from exporter.model.ids import ContainerKey, MigKey, PodUid
from exporter.model.workload import Pod


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What rows say of the pod that they belong to."""

    owner_of: Callable[[ContainerKey], Ownership]
    pods: Mapping[PodUid, Pod]

    def started(self, container: ContainerKey) -> float | None:
        """Unix time at which the container began to run, else its pod; None: unknown."""
        pod = self.pods.get(container.pod_uid)
        return None if pod is None else pod.container_starts.get(container.container, pod.start_timestamp_seconds)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """Everybody on one device, and what each of them used of it."""

    presence: Presence
    held: tuple[Held, ...]
    memory: MemorySplit
    utilization: UtilizationSplit


def container_rows(use: DeviceUse, shares: Shares, facts: PodFacts, *, holders_known: bool) -> Iterable[ContainerRow]:
    """The rows of one device.

    Args:
        use: Everybody on the device.
        shares: Who has how much.
        facts: What is known of each container's pod.
        holders_known: True if it is certain who holds the device, and who does not.
    """
    device = use.presence.device
    instances: dict[MigKey, MigInstance] = {mig.key: mig for mig in device.mig_instances}
    allocations = _allocations(use.held)
    for row in use.presence.rows:
        container, mig = row
        yield ContainerRow(
            container=container,
            device=device.uuid,
            mig=None if mig is None else instances[mig],
            owner=facts.owner_of(container),
            allocations=allocations.get(row, ()),
            share_ratio=_share(shares, container, (device.uuid, mig)),
            uses_unheld=holders_known and row not in allocations and not _of_a_holder(container, use.held),
            place_ratio=None if (size := _size(device, mig, instances)) is None else float(size),
            utilization_ratio=use.utilization.by_row.get(row),
            activity=use.utilization.activities.get(row),
            started_timestamp_seconds=facts.started(container),
            memory_used_bytes=use.memory.by_row[row],
            processes=use.presence.processes(row),
        )


def row_order(row: ContainerRow) -> tuple[ContainerKey, str, tuple[MigKey, ...]]:
    """Sort key: container by container, then device by device."""
    return (row.container, row.device, () if row.mig is None else (row.mig.key,))


def _size(device: Device, mig: MigKey | None, instances: Mapping[MigKey, MigInstance]) -> Fraction | None:
    return part_of_gpu(device, None if mig is None else instances[mig])


def _share(shares: Shares, container: ContainerKey, place: PlaceKey) -> float | None:
    share = shares.by_holder.get((container, place))
    if share is None:
        return 0.0
    return None if place in shares.unknown else float(share)


def _of_a_holder(container: ContainerKey, held: Iterable[Held]) -> bool:
    """True if only the pod is known, and one of its containers holds the device: a sandbox, or one that has just started."""
    return not container.container and any(one.container.pod_uid == container.pod_uid for one in held)


def _allocations(held: Iterable[Held]) -> dict[RowKey, tuple[Allocation, ...]]:
    found: dict[RowKey, set[Allocation]] = {}
    for one in held:
        found.setdefault((one.container, one.key[1]), set()).add(one.allocation)
    return {row: tuple(sorted(allocations, key=_allocation_order)) for row, allocations in found.items()}


def _allocation_order(allocation: Allocation) -> tuple[str, str, str]:
    return (allocation.resource, allocation.source, allocation.device_id)
