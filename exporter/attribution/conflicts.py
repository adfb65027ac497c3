"""A container that holds one device and runs on another: a wrong index or environment in the workload, or a wrong list."""

from collections.abc import Iterable

from exporter.attribution.holders import Held
from exporter.attribution.presence import Presence
from exporter.model.attribution import Conflict, ConflictKind, PlaceKey, UnattributedReason
from exporter.model.ids import ContainerKey


def running_elsewhere(held: Iterable[Held], presences: Iterable[Presence]) -> frozenset[Conflict]:
    """One for each container all of whose processes are on devices that it does not hold, while it holds others."""
    holds: dict[ContainerKey, set[PlaceKey]] = {}
    for one in held:
        holds.setdefault(one.container, set()).add(one.key)
    runs: dict[ContainerKey, set[PlaceKey]] = {}
    for presence in presences:
        for laid in presence.laid or ():
            if not isinstance(laid.whose, UnattributedReason):
                runs.setdefault(laid.whose, set()).add((presence.device.uuid, laid.mig))
    return frozenset(
        _conflict(container, holds[container], places)
        for container, places in runs.items()
        if container in holds and not any(_is_held(place, holds[container]) for place in places)
    )


def _is_held(place: PlaceKey, held: Iterable[PlaceKey]) -> bool:
    """True also where the driver names the GPU and not the instance, or the container holds the GPU around the instance."""
    uuid, mig = place
    return any(held_uuid == uuid and (mig is None or held_mig in {None, mig}) for held_uuid, held_mig in held)


def _conflict(container: ContainerKey, holds: Iterable[PlaceKey], runs: Iterable[PlaceKey]) -> Conflict:
    pod = f"{container.namespace}/{container.pod}"
    detail = f"Container {container.container} of {pod} holds {_names(holds)} and runs on {_names(runs)} only."
    return Conflict(ConflictKind.ALLOCATED_HERE_RUNNING_THERE, pod, detail)


def _names(places: Iterable[PlaceKey]) -> str:
    return ", ".join(sorted(uuid if mig is None else mig.uuid for uuid, mig in places))
