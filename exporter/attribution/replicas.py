"""Into how many parts a shared GPU or MIG instance is divided."""

from collections.abc import Iterable, Mapping

from exporter.attribution.device_ids import parse_device_id
from exporter.attribution.holders import Held, PlaceKey, place_key, replica_of
from exporter.attribution.resolve import Unresolved, resolve
from exporter.attribution.resources import counts_as_gpu
from exporter.model.device import NvmlState
from exporter.model.holding import Holdings


def advertised_replicas(holdings: Holdings | None, nvml: NvmlState | None) -> dict[PlaceKey, int]:
    """Replicas that the kubelet can give out, by place; a place without an entry is not known to be divided."""
    allocatable = {} if holdings is None or holdings.allocatable is None else holdings.allocatable
    ids: dict[PlaceKey, set[str]] = {}
    for resource, device_id in ((resource, device_id) for resource, listed in allocatable.items() for device_id in listed):
        parsed = parse_device_id(device_id)
        resolution = resolve(parsed, nvml)
        if replica_of(parsed) is None or isinstance(resolution, Unresolved) or not counts_as_gpu(resource, parsed, nvml):
            continue
        for place in resolution:
            ids.setdefault(place_key(place), set()).add(device_id)
    return {key: len(device_ids) for key, device_ids in ids.items()}


def count_replicas(held: Iterable[Held], advertised: Mapping[PlaceKey, int], labels: Mapping[str, str]) -> dict[PlaceKey, int]:
    """Parts of each place that is divided: as advertised, else by the node's label, else the highest number held + 1.

    A device plugin that is down advertises nothing while the kubelet goes on listing what is held; the label stays.
    """
    highest: dict[PlaceKey, int] = {}
    labelled: dict[PlaceKey, int] = {}
    for one in held:
        if one.replica is not None:
            highest[one.key] = max(highest.get(one.key, 0), one.replica + 1)
            labelled[one.key] = max(labelled.get(one.key, 0), _label(one.allocation.resource, labels))
    return {key: labelled[key] or highest[key] for key in highest} | dict(advertised)


def _label(resource: str, node_labels: Mapping[str, str]) -> int:
    """``nvidia.com/gpu.replicas`` and its like, written by GPU feature discovery; 0 if it says nothing of sharing."""
    text = node_labels.get(f"{resource.removesuffix('.shared')}.replicas", "")
    replicas = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0  # noqa: PLR2004 - more is no number of replicas
    return replicas if replicas > 1 else 0
