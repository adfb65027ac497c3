"""The join of one snapshot: who holds each device, who uses it, and whose they are."""

from collections.abc import Callable, Iterable, Mapping

from exporter.attribution.conflicts import running_elsewhere
from exporter.attribution.containers import DeviceUse, container_rows, row_order
from exporter.attribution.device_ids import parse_device_id
from exporter.attribution.devices import Allocations, device_row, sharing_of
from exporter.attribution.holders import Holders, count_units, find_holders
from exporter.attribution.memory import split_memory
from exporter.attribution.owners import owners_of_pods
from exporter.attribution.podrows import pod_rows
from exporter.attribution.pods import PodIndex, index_pods
from exporter.attribution.presence import who_is_here
from exporter.attribution.processes import Whose, is_mps_server, processes_known, whose_processes
from exporter.attribution.replicas import advertised_replicas, count_replicas
from exporter.attribution.resources import counts_as_gpu
from exporter.attribution.shares import divide
from exporter.attribution.utilization import split_utilization
from exporter.attribution.wanted import gpu_pods, gpu_resources, pids_wanted
from exporter.model.attribution import Attribution, Ownership, PodRow, Sharing, UnattributedReason, UnresolvedPid
from exporter.model.device import Device
from exporter.model.ids import ContainerKey
from exporter.model.policy import OwnershipPolicy
from exporter.model.snapshot import Snapshot

UNRESOLVED_PIDS = frozenset(
    {UnattributedReason.DEAD_PROCESS, UnattributedReason.UNRESOLVED_PID, UnattributedReason.NOT_IN_POD},
)
"""A process of the host, or an MPS server, is told apart for certain: those are answers, not gaps."""


def attribute(snapshot: Snapshot, policy: OwnershipPolicy) -> Attribution:
    """Lay holdings on devices, processes on containers, and owners on both; every device that NVML knows has its row."""
    pods = index_pods(snapshot.pods.value, fresh=snapshot.pods.missing is None)
    holders = find_holders(snapshot.pod_resources.value, snapshot.nvml.value, pods)
    allocations = _allocations(snapshot, holders)
    uses = _uses(snapshot, pods, allocations)
    owner_of = owners_of_pods(snapshot, pods, policy)
    rows = [row for use, _ in uses for row in container_rows(use, allocations.shares, owner_of)]
    elsewhere = running_elsewhere(holders.held, [use.presence for use, _ in uses])
    allocatable = _allocatable(snapshot)
    return Attribution(
        devices=tuple(device_row(use.presence.device, allocations, sharing, use.memory.unattributed) for use, sharing in uses),
        containers=tuple(sorted(rows, key=row_order)),
        pods=_pod_rows(snapshot, holders, owner_of),
        unresolved_allocations=tuple(allocation for _, allocation in holders.unresolved),
        unresolved_pids=_unresolved_pids(use for use, _ in uses),
        conflicts=tuple(sorted(holders.conflicts | allocations.shares.conflicts | elsewhere)),
        allocatable=allocatable,
        allocated=dict.fromkeys(allocatable, 0) | dict(holders.units),
    )


def _allocations(snapshot: Snapshot, holders: Holders) -> Allocations:
    holdings = snapshot.pod_resources.value
    advertised = advertised_replicas(holdings, snapshot.nvml.value)
    replicas = count_replicas(holders.held, advertised, _node_labels(snapshot))
    return Allocations(
        known=holdings is not None,
        shares=divide(holders.held, replicas),
        held=holders.held,
        replicas=replicas,
        ids_known=holdings is not None and holdings.allocatable is not None,
        possible=holders.possible,
    )


def _uses(snapshot: Snapshot, pods: PodIndex, allocations: Allocations) -> list[tuple[DeviceUse, Sharing]]:
    """Everybody on each device, in the order of the devices, and how they share it."""
    nvml = snapshot.nvml.value
    whose = whose_processes(pids_wanted(nvml), snapshot.procfs.value, pods)
    devices = sorted(() if nvml is None else nvml.devices, key=lambda device: (device.index, device.uuid))
    return [_use(device, snapshot, whose, allocations) for device in devices]


def _use(device: Device, snapshot: Snapshot, whose: Mapping[int, Whose], allocations: Allocations) -> tuple[DeviceUse, Sharing]:
    table = snapshot.procfs.value
    held = tuple(one for one in allocations.held if one.key[0] == device.uuid)
    presence = who_is_here(
        device,
        held,
        whose,
        lambda pid: is_mps_server(pid, table),
        processes_known=processes_known(table),
    )
    served = UnattributedReason.MPS_SERVER in presence.whose.values()
    sharing = sharing_of(device, allocations, _node_labels(snapshot), mps_server=served)
    utilization = split_utilization(presence, mps=sharing is Sharing.MPS)
    return DeviceUse(presence, held, split_memory(presence), utilization), sharing


def _pod_rows(snapshot: Snapshot, holders: Holders, owner_of: Callable[[ContainerKey], Ownership]) -> tuple[PodRow, ...]:
    nvml, holdings = snapshot.nvml.value, snapshot.pod_resources.value
    return pod_rows(
        gpu_pods(nvml, holdings, snapshot.pods.value, snapshot.procfs.value),
        holders,
        gpu_resources(holdings, nvml),
        owner_of,
        holdings_known=holdings is not None,
    )


def _unresolved_pids(uses: Iterable[DeviceUse]) -> tuple[UnresolvedPid, ...]:
    found = {
        UnresolvedPid(laid.pid, use.presence.device.uuid, laid.whose)
        for use in uses
        for laid in use.presence.laid or ()
        if isinstance(laid.whose, UnattributedReason) and laid.whose in UNRESOLVED_PIDS
    }
    return tuple(sorted(found))


def _allocatable(snapshot: Snapshot) -> dict[str, int]:
    """Device-plugin units of GPU resources that the kubelet can give out."""
    holdings, nvml = snapshot.pod_resources.value, snapshot.nvml.value
    listed = {} if holdings is None or holdings.allocatable is None else holdings.allocatable
    return count_units(
        (resource, device_id)
        for resource, device_ids in listed.items()
        for device_id in device_ids
        if counts_as_gpu(resource, parse_device_id(device_id), nvml)
    )


def _node_labels(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.node_meta.value is None else snapshot.node_meta.value.labels
