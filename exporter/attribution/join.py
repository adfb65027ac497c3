"""The join of one snapshot: who holds each device, who uses it, and whose they are."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from exporter.attribution.conflicts import running_elsewhere
from exporter.attribution.containers import DeviceUse, PodFacts, container_rows, row_order
from exporter.attribution.devices import Allocations, device_row, may_be_served, sharing_of
from exporter.attribution.holders import Holders, count_units, find_holders, gpu_holdings
from exporter.attribution.memory import split_memory
from exporter.attribution.mig_utilization import split_mig_utilization
from exporter.attribution.node_identity import node_identity
from exporter.attribution.owners import owners_of_pods
from exporter.attribution.podrows import pod_rows
from exporter.attribution.pods import index_pods
from exporter.attribution.presence import who_is_here
from exporter.attribution.prices import price_of
from exporter.attribution.processes import Whose, is_mps_server, processes_known, whose_processes
from exporter.attribution.replicas import advertised_replicas, count_replicas, gpu_ids, recollect
from exporter.attribution.restart import prolong
from exporter.attribution.shares import divide
from exporter.attribution.unallocated import Market
from exporter.attribution.utilization import split_utilization
from exporter.attribution.wanted import asks_for_gpu, gpu_pods, gpu_resources, pids_wanted
from exporter.model.attribution import (
    Attribution,
    Conflict,
    ContainerRow,
    DeviceRow,
    Ownership,
    PodRow,
    Recollection,
    Sharing,
    UnattributedReason,
    UnresolvedPid,
)
from exporter.model.device import Device, MigMode
from exporter.model.holding import Holding, Holdings
from exporter.model.ids import ContainerKey
from exporter.model.policy import OwnershipPolicy
from exporter.model.reading import MissingReason
from exporter.model.snapshot import Snapshot

UNRESOLVED_PIDS = frozenset(
    {UnattributedReason.DEAD_PROCESS, UnattributedReason.UNRESOLVED_PID, UnattributedReason.NOT_IN_POD},
)
"""A process of the host, or an MPS server, is told apart for certain: those are answers, not gaps."""


def attribute(
    snapshot: Snapshot, policy: OwnershipPolicy, before: Recollection | None = None, *, max_age_seconds: float = 60.0
) -> Attribution:
    """Lay holdings on devices, processes on containers, and owners on both; every device that NVML knows has its row.

    Args:
        snapshot: This cycle's readings.
        policy: What the configuration decides about owners.
        before: What the join before this one handed over.
        max_age_seconds: How long the kubelet's word is remembered that it does not repeat.
    """
    before = before or Recollection()
    nvml = snapshot.nvml.value
    pods = index_pods(snapshot.pods.value, fresh=snapshot.pods.missing is None and not _node_is_unknown(snapshot))
    pods = pods if pods.known else replace(pods, remembered=before.holders)
    whose = whose_processes(pids_wanted(nvml), snapshot.procfs.value, pods)
    recent = {holding: at for holding, at in before.listed.items() if snapshot.taken_at - at <= max_age_seconds}
    holdings = prolong(snapshot.pod_resources.value, recent, nvml, pods, whose)
    holders = find_holders(holdings, nvml, pods)
    known = recollect(holders.held, advertised_replicas(holdings, nvml), before)
    allocations = _allocations(snapshot, holders, known)
    uses = _uses(snapshot, whose, allocations)
    devices = [_device_row(use, sharing, snapshot, allocations, policy) for use, sharing in uses]
    owners = owners_of_pods(snapshot, pods, policy, before.owners)
    rows = _rows(uses, devices, allocations, PodFacts(owners.of, owners.pods))
    pod_rows_found = _pod_rows(snapshot, holders, rows, owners.of)
    return Attribution(
        devices=tuple(devices),
        containers=rows,
        pods=pod_rows_found,
        unresolved_allocations=tuple(allocation for _, allocation in holders.unresolved),
        unresolved_pids=_unresolved_pids(use for use, _ in uses),
        conflicts=_conflicts(uses, holders, allocations),
        allocatable=(allocatable := _allocatable(snapshot)),
        allocated=dict.fromkeys(allocatable, 0) | dict(holders.units),
        recollection=replace(
            known,
            listed=_listed(snapshot, holdings, recent),
            owners=owners.remember({row.uid for row in pod_rows_found} | {row.container.pod_uid for row in rows}),
            holders={(one.namespace, one.pod): one.pod_uid for one in holders.containers if one.pod_uid},
        ),
        currency=policy.prices.currency if any(row.price_per_hour is not None for row in devices) else "",
    )


def _listed(snapshot: Snapshot, holdings: Holdings | None, recent: Mapping[Holding, float]) -> Mapping[Holding, float]:
    """When the kubelet last named each GPU's holding; what is only prolonged keeps its time."""
    said = snapshot.pod_resources.value
    if said is None:
        return recent
    now = {holding: snapshot.taken_at for holding, _ in gpu_holdings(said, snapshot.nvml.value)}
    prolonged = set(() if holdings is None else holdings.holdings) - set(said.holdings)
    return {holding: recent[holding] for holding in prolonged} | now


def _rows(
    uses: Iterable[tuple[DeviceUse, Sharing]],
    devices: Iterable[DeviceRow],
    allocations: Allocations,
    facts: PodFacts,
) -> tuple[ContainerRow, ...]:
    rows = (
        row
        for (use, _), device in zip(uses, devices, strict=True)
        for row in container_rows(use, allocations.shares, facts, holders_known=device.allocated_ratio is not None)
    )
    return tuple(sorted(rows, key=row_order))


def _device_row(
    use: DeviceUse, sharing: Sharing, snapshot: Snapshot, allocations: Allocations, policy: OwnershipPolicy
) -> DeviceRow:
    device = use.presence.device
    row = device_row(device, allocations, sharing, use.memory.unattributed, use.utilization)
    meta = snapshot.node_meta.value
    price = price_of(policy.prices, device.model, None if meta is None else node_identity(meta))
    return replace(row, price_per_hour=price)


def _conflicts(uses: Iterable[tuple[DeviceUse, Sharing]], holders: Holders, allocations: Allocations) -> tuple[Conflict, ...]:
    elsewhere = running_elsewhere(holders.held, [use.presence for use, _ in uses])
    return tuple(sorted(holders.conflicts | allocations.shares.conflicts | elsewhere))


def _allocations(snapshot: Snapshot, holders: Holders, known: Recollection) -> Allocations:
    holdings = snapshot.pod_resources.value
    counts = count_replicas(holders.held, known, _node_labels(snapshot))
    node = snapshot.node_meta.value
    advertised = advertised_replicas(holdings, snapshot.nvml.value)
    return Allocations(
        known=holdings is not None,
        shares=divide(holders.held, counts),
        held=holders.held,
        replicas=counts,
        ids_known=holdings is not None and holdings.allocatable is not None,
        possible=holders.possible,
        market=Market(advertised, cordoned=node is not None and node.unschedulable),
    )


def _uses(snapshot: Snapshot, whose: Mapping[int, Whose], allocations: Allocations) -> list[tuple[DeviceUse, Sharing]]:
    """Everybody on each device, in the order of the devices, and how they share it."""
    nvml = snapshot.nvml.value
    devices = sorted(() if nvml is None else nvml.devices, key=lambda device: (device.index, device.uuid))
    return [_use(device, snapshot, whose, allocations) for device in devices]


def _use(device: Device, snapshot: Snapshot, whose: Mapping[int, Whose], allocations: Allocations) -> tuple[DeviceUse, Sharing]:
    table = snapshot.procfs.value
    held = tuple(one for one in allocations.held if one.key[0] == device.uuid)
    labels = _node_labels(snapshot)
    served_here = may_be_served(device, allocations, labels)
    presence = who_is_here(
        device,
        held,
        whose,
        lambda pid: served_here and is_mps_server(pid, table),
        processes_known=processes_known(table),
    )
    served = UnattributedReason.MPS_SERVER in presence.whose.values()
    sharing = sharing_of(device, allocations, labels, mps_server=served)
    if device.mig_mode is MigMode.ENABLED:
        utilization = split_mig_utilization(presence)
    else:
        utilization = split_utilization(presence, mps=sharing is Sharing.MPS)
    return DeviceUse(presence, held, split_memory(presence), utilization), sharing


def _pod_rows(
    snapshot: Snapshot, holders: Holders, rows: Iterable[ContainerRow], owner_of: Callable[[ContainerKey], Ownership]
) -> tuple[PodRow, ...]:
    """Pods that ask for, hold or use a GPU; one that only serves others (MPS) does none of these."""
    nvml, holdings = snapshot.nvml.value, snapshot.pod_resources.value
    resources = gpu_resources(holdings, nvml)
    present = {row.container.pod_uid for row in rows} | {container.pod_uid for container in holders.containers}
    concerned = gpu_pods(nvml, holdings, snapshot.pods.value, snapshot.procfs.value)
    return pod_rows(
        (pod for pod in concerned if pod.uid in present or asks_for_gpu(pod, resources)),
        holders,
        resources,
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
        (resource, device_id) for resource, device_ids in listed.items() for device_id in gpu_ids(resource, device_ids, nvml)
    )


def _node_is_unknown(snapshot: Snapshot) -> bool:
    """True if the API knows no node of our name: then its list of the pods on that node says nothing about this one."""
    missing = snapshot.node_meta.missing
    return missing is not None and missing.reason is MissingReason.NOT_FOUND


def _node_labels(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.node_meta.value is None else snapshot.node_meta.value.labels
