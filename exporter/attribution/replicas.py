"""Into how many parts a shared GPU or MIG instance is divided."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.attribution.device_ids import parse_device_id
from exporter.attribution.holders import Held, place_key, replica_of
from exporter.attribution.resolve import Unresolved, resolve
from exporter.attribution.resources import counts_as_gpu, is_gpu_resource, may_be_gpu
from exporter.model.attribution import PlaceKey, Recollection
from exporter.model.device import NvmlState
from exporter.model.holding import Holdings


@dataclass(frozen=True, slots=True)
class Advertised:
    """What the kubelet says that it can give out."""

    replicas: Mapping[PlaceKey, int] = field(default_factory=dict)
    """Replicas of each divided place."""
    whole: frozenset[PlaceKey] = frozenset()
    """Places that are given out undivided."""


def advertised_replicas(holdings: Holdings | None, nvml: NvmlState | None) -> Advertised:
    """Sort what can be given out into divided and undivided places."""
    allocatable = {} if holdings is None or holdings.allocatable is None else holdings.allocatable
    ids: dict[PlaceKey, set[str]] = {}
    whole: set[PlaceKey] = set()
    for device_id in (one for resource, listed in allocatable.items() for one in gpu_ids(resource, listed, nvml)):
        parsed = parse_device_id(device_id)
        resolution = resolve(parsed, nvml)
        for key in () if isinstance(resolution, Unresolved) else map(place_key, resolution):
            if replica_of(parsed) is None:
                whole.add(key)
            else:
                ids.setdefault(key, set()).add(device_id)
    return Advertised({key: len(device_ids) for key, device_ids in ids.items()}, frozenset(whole))


def gpu_ids(resource: str, listed: Iterable[str], nvml: NvmlState | None) -> Iterable[str]:
    """Those of a resource's ids that are GPUs'."""
    named = is_gpu_resource(resource)
    likely = (device_id for device_id in listed if named or may_be_gpu(device_id))
    return (device_id for device_id in likely if counts_as_gpu(resource, parse_device_id(device_id), nvml))


def recollect(held: Iterable[Held], advertised: Advertised, before: Recollection) -> Recollection:
    """What is known of replicas by now, this cycle included.

    A device plugin that is down advertises nothing while the kubelet goes on listing what is held; a place that is given out
    undivided now is divided no more.
    """
    kept = {key: count for key, count in before.advertised.items() if key not in advertised.whole}
    highest = {key: count for key, count in before.highest.items() if key not in advertised.whole}
    for one in held:
        if one.replica is not None:
            highest[one.key] = max(highest.get(one.key, 0), one.replica + 1)
    return Recollection(advertised=kept | dict(advertised.replicas), highest=highest)


def count_replicas(held: Iterable[Held], known: Recollection, labels: Mapping[str, str]) -> dict[PlaceKey, int]:
    """Parts of each place that is divided: as last advertised, else by the node's label, else the highest number seen + 1."""
    labelled: dict[PlaceKey, int] = {}
    for one in held:
        if one.replica is not None:
            labelled[one.key] = max(labelled.get(one.key, 0), _label(one.allocation.resource, labels))
    return {key: count or known.highest[key] for key, count in labelled.items()} | dict(known.advertised)


def _label(resource: str, node_labels: Mapping[str, str]) -> int:
    """``nvidia.com/gpu.replicas`` and its like, written by GPU feature discovery; 0 if it says nothing of sharing."""
    text = node_labels.get(f"{resource.removesuffix('.shared')}.replicas", "")
    replicas = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0  # noqa: PLR2004 - more is no number of replicas
    return replicas if replicas > 1 else 0
