"""Who holds what: the kubelet's list, laid on the devices that NVML knows and the pods that the API knows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.device_ids import GpuPart, ParsedDeviceId, Passthrough, Unknown, parse_device_id
from exporter.attribution.pods import PodIndex, container_key
from exporter.attribution.resolve import Place, Unresolved, resolve
from exporter.attribution.resources import counts_as_gpu, is_gpu_resource, may_be_gpu
from exporter.model.attribution import (
    Allocation,
    Conflict,
    ConflictKind,
    HoldingSource,
    PlaceKey,
    UnresolvedAllocation,
    UnresolvedReason,
)
from exporter.model.device import NvmlState
from exporter.model.holding import ClaimedDevice, Holding, Holdings
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey, PodUid

DRA_DRIVERS = frozenset({"gpu.nvidia.com"})
"""Drivers whose devices are GPUs that NVML can know."""


@dataclass(frozen=True, slots=True)
class Held:
    """One device id that one container holds, on one place."""

    container: ContainerKey
    place: Place
    allocation: Allocation
    replica: int | None
    """Number of the replica in the id; None if the id stands for the whole place."""

    @property
    def key(self) -> PlaceKey:
        """Identity of the place."""
        return place_key(self.place)


@dataclass(frozen=True, slots=True)
class Holders:
    """What became of the kubelet's list."""

    held: tuple[Held, ...] = ()
    unresolved: tuple[tuple[ContainerKey, UnresolvedAllocation], ...] = ()
    possible: frozenset[DeviceUuid] = frozenset()
    """Devices that an unresolved allocation may be on, since we could not read enough to say."""
    conflicts: frozenset[Conflict] = frozenset()
    units: Mapping[str, int] = field(default_factory=dict)
    """Distinct device ids held, by resource."""

    @property
    def containers(self) -> frozenset[ContainerKey]:
        """Every container that holds something, resolved or not."""
        return frozenset({held.container for held in self.held} | {container for container, _ in self.unresolved})


def place_key(place: Place) -> PlaceKey:
    """Identity of a place."""
    device, mig = place
    return (device.uuid, None if mig is None else mig.key)


def find_holders(holdings: Holdings | None, nvml: NvmlState | None, pods: PodIndex) -> Holders:
    """Keep what is a GPU and whose pod can hold something; resolve it, or say why not."""
    listed = gpu_holdings(holdings, nvml)
    claims = _claims(holdings, nvml, pods)
    valid = [(container, holding, parsed) for holding, parsed in listed if (container := _holder(holding, pods))]
    resolved = [(container, holding, parsed, resolve(parsed, nvml)) for container, holding, parsed in valid]
    held = [
        _held(container, place, holding, parsed)
        for container, holding, parsed, resolution in resolved
        if not isinstance(resolution, Unresolved)
        for place in resolution
    ]
    failed = [(container, holding, why) for container, holding, _, why in resolved if isinstance(why, Unresolved)]
    return Holders(
        held=tuple(sorted(held, key=_order)),
        unresolved=(*((container, _unresolved(holding, why)) for container, holding, why in failed), *claims),
        possible=frozenset(uuid for _, _, why in failed for uuid in why.possible)
        | (_all(nvml) if claims else frozenset())
        | _in_doubt(listed, nvml, pods),
        conflicts=frozenset(conflict for holding, _ in listed for conflict in _contradiction(holding, pods)),
        units=count_units((holding.resource, holding.device_id) for _, holding, _ in valid),
    )


def gpu_holdings(holdings: Holdings | None, nvml: NvmlState | None) -> list[tuple[Holding, ParsedDeviceId]]:
    """The listed ids that count as GPUs, each once, sorted.

    A resource that one id proves to be a GPU is one for all its ids, whatever it is called.
    """
    listed = () if holdings is None else holdings.holdings
    named = {resource for resource in {holding.resource for holding in listed} if is_gpu_resource(resource)}
    likely = [holding for holding in listed if holding.resource in named or may_be_gpu(holding.device_id)]
    parsed = {holding: parse_device_id(holding.device_id) for holding in likely}
    proven = {holding.resource for holding, form in parsed.items() if counts_as_gpu(holding.resource, form, nvml)}
    strange = (holding for holding in listed if holding.resource in proven and holding not in parsed)
    parsed |= {holding: parse_device_id(holding.device_id) for holding in strange}
    return [
        (holding, parsed[holding])
        for holding in sorted(parsed)
        if holding.resource in proven and not isinstance(parsed[holding], GpuPart)
    ]


def replica_of(parsed: ParsedDeviceId) -> int | None:
    """Number of the replica that the id names."""
    return None if isinstance(parsed, GpuPart | Passthrough | Unknown) else parsed.replica


def count_units(ids: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Distinct device ids by resource."""
    counts: dict[str, int] = {}
    for resource, _ in sorted(set(ids)):
        counts[resource] = counts.get(resource, 0) + 1
    return counts


def _holder(holding: Holding | ClaimedDevice, pods: PodIndex) -> ContainerKey | None:
    """The container, or None if its pod has ended or does not exist.

    Without a complete answer about pods the list alone decides: the pod may be younger than what we know.
    """
    pod = pods.by_name.get((holding.namespace, holding.pod))
    if pod is not None:
        return None if pod.terminal else container_key(pod, holding.container)
    uid = pods.remembered.get((holding.namespace, holding.pod), PodUid(""))
    return None if pods.complete else ContainerKey(uid, holding.namespace, holding.pod, holding.container)


def _in_doubt(
    listed: Iterable[tuple[Holding, ParsedDeviceId]], nvml: NvmlState | None, pods: PodIndex
) -> frozenset[DeviceUuid]:
    """Devices that the kubelet lists for a pod which the API does not know: not held by our word, and not free by it."""
    doubtful = (resolve(parsed, nvml) for holding, parsed in listed if _contradiction(holding, pods))
    places = (place for resolution in doubtful if not isinstance(resolution, Unresolved) for place in resolution)
    return frozenset(device.uuid for device, _ in places)


def _claims(
    holdings: Holdings | None, nvml: NvmlState | None, pods: PodIndex
) -> list[tuple[ContainerKey, UnresolvedAllocation]]:
    """DRA devices: they are held, and which GPU each of them is stands in slices that are not read."""
    claimed = () if holdings is None or nvml is None else holdings.claimed
    held = [(container, claim) for claim in claimed if claim.driver in DRA_DRIVERS and (container := _holder(claim, pods))]
    return [
        (
            container,
            UnresolvedAllocation(
                namespace=claim.namespace,
                pod=claim.pod,
                container=claim.container,
                resource=claim.driver,
                device_id=f"{claim.driver}/{claim.pool}/{claim.device}",
                reason=UnresolvedReason.CLAIM_UNRESOLVED,
            ),
        )
        for container, claim in sorted(held)
    ]


def _all(nvml: NvmlState | None) -> frozenset[DeviceUuid]:
    return frozenset(device.uuid for device in (() if nvml is None else nvml.devices))


def _contradiction(holding: Holding, pods: PodIndex) -> tuple[Conflict, ...]:
    """A terminal pod in the list is how kubelets before 1.34 answer; a pod that the API does not know is a contradiction."""
    if not pods.complete or (holding.namespace, holding.pod) in pods.by_name:
        return ()
    name = f"{holding.namespace}/{holding.pod}"
    detail = f"The kubelet lists GPUs for {name}, and the API server knows no such pod on this node."
    return (Conflict(ConflictKind.SOURCE_DISAGREEMENT, name, detail),)


def _held(container: ContainerKey, place: Place, holding: Holding, parsed: ParsedDeviceId) -> Held:
    allocation = Allocation(holding.resource, HoldingSource.POD_RESOURCES, holding.device_id)
    return Held(container, place, allocation, replica_of(parsed))


def _unresolved(holding: Holding, resolution: Unresolved) -> UnresolvedAllocation:
    return UnresolvedAllocation(
        namespace=holding.namespace,
        pod=holding.pod,
        container=holding.container,
        resource=holding.resource,
        device_id=holding.device_id,
        reason=resolution.reason,
    )


def _order(held: Held) -> tuple[ContainerKey, DeviceUuid, tuple[MigKey, ...], str, str]:
    uuid, mig = held.key
    return (held.container, uuid, () if mig is None else (mig,), held.allocation.resource, held.allocation.device_id)
