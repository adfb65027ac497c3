"""From the lines of ``/proc/<pid>/cgroup`` to the pod and container that they name; nothing is looked up here.

A container that may write to its cgroup filesystem can create children with any name, so what stands further out in a
path is stronger evidence than what stands further in: candidates come outermost first, and a caller takes the first one
that it knows.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exporter.model.ids import ContainerId, PodUid

# A UID is 8-4-4-4-12 hex digits, dashes turned to underscores by the systemd driver, or the 32 hex digits of a static
# pod's configuration hash. A containerd that does not know of the systemd driver appends ``:<runtime>:<id>``.
POD_SEGMENT = re.compile(
    r"(?:[A-Za-z0-9_.@-]*-)?pod"
    r"(?P<uid>[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-fA-F]{32})"
    r"(?:\.slice)?(?::(?P<rest>.+))?",
)
CONTAINER_SEGMENT = re.compile(r"(?:(?P<runtime>[A-Za-z0-9_.-]+)[-_:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")
UNIT_SUFFIXES = (".service", ".scope")


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod that a path names, and the container below it."""

    pod_uid: PodUid
    """Lower case, with dashes (or 32 hex digits, as written)."""
    container_id: ContainerId | None = None
    """None for the pod's own cgroup, a helper's, or one in an unknown form."""
    conmon: bool = False
    """True for CRI-O's monitor of a container, whose name holds a container id without being in it."""


@dataclass(frozen=True, slots=True)
class CgroupPlace:
    """All that the cgroup lines of one process tell."""

    pods: tuple[PodPlace, ...] = ()
    """Candidates, outermost first."""
    container_id: ContainerId | None = None
    """Outermost container id where no pod is named."""
    unit: str = ""
    """Outermost systemd service or scope where neither pod nor container is named; empty if there is none."""
    relative: bool = False
    """True if a path climbs out of our own cgroup: we look from a private cgroup namespace."""
    ambiguous: bool = False
    """True if the hierarchies of cgroup v1 name different outermost pods."""


def parse_cgroup(lines: Sequence[str]) -> CgroupPlace:
    """Read every line: on cgroup v1 and hybrid nodes some of them, the unified one too, may name the runtime's own service."""
    paths = [path for line in lines if (path := _segments(line)) is not None]
    relative = any(".." in path for path in paths)
    cleaned = [[segment for segment in path if segment not in {".", ".."}] for path in paths]
    found = [pods for path in cleaned if (pods := list(_pods(path)))]
    if found:
        return CgroupPlace(pods=_merged(found), relative=relative, ambiguous=len({pods[0].pod_uid for pods in found}) > 1)
    container_id = next((found_id for path in cleaned if (found_id := _first_container(path))), None)
    unit = "" if container_id else next((unit for path in cleaned if (unit := _unit(path))), "")
    return CgroupPlace(container_id=container_id, unit=unit, relative=relative)


def _segments(line: str) -> list[str] | None:
    """Path segments of ``hierarchy:controllers:path``; the path may hold colons of its own."""
    fields = line.split(":", 2)
    if len(fields) != 3:  # noqa: PLR2004 - the three fields of cgroups(7)
        return None
    return [segment for segment in fields[2].removesuffix(" (deleted)").split("/") if segment]


def _pods(path: Sequence[str]) -> Iterable[PodPlace]:
    """Each pod once, where it stands outermost: its own name further in would be somebody's invention too."""
    seen: set[PodUid] = set()
    for segment, following in zip(path, [*path, ""][1:], strict=True):
        match = POD_SEGMENT.fullmatch(segment)
        if match is None:
            continue
        uid = PodUid(match["uid"].replace("_", "-").lower())
        if uid not in seen:
            seen.add(uid)
            yield PodPlace(uid, *_container(match["rest"] or following))


def _container(segment: str) -> tuple[ContainerId | None, bool]:
    """Container id in the segment, and whether the segment is a monitor's and thus no container."""
    match = CONTAINER_SEGMENT.fullmatch(segment)
    if match is None:
        return None, False
    if (match["runtime"] or "").endswith("conmon"):
        return None, True
    return ContainerId(match["id"]), False


def _first_container(path: Iterable[str]) -> ContainerId | None:
    return next((container_id for segment in path if (container_id := _container(segment)[0])), None)


def _unit(path: Iterable[str]) -> str:
    return next((segment for segment in path if segment.endswith(UNIT_SUFFIXES)), "")


def _merged(found: Sequence[Sequence[PodPlace]]) -> tuple[PodPlace, ...]:
    """One place for each UID, in the order of the outermost first; containers only where all hierarchies agree."""
    depth: dict[PodUid, int] = {}
    places: dict[PodUid, set[tuple[ContainerId | None, bool]]] = {}
    for pods in found:
        for position, place in enumerate(pods):
            depth[place.pod_uid] = min(position, depth.get(place.pod_uid, position))
            places.setdefault(place.pod_uid, set()).add((place.container_id, place.conmon))
    return tuple(_agreed(uid, places[uid]) for uid in sorted(places, key=lambda uid: (depth[uid], uid)))


def _agreed(uid: PodUid, said: set[tuple[ContainerId | None, bool]]) -> PodPlace:
    conmon = any(is_conmon for _, is_conmon in said)
    containers = {container_id for container_id, _ in said if container_id is not None}
    return PodPlace(uid, containers.pop() if len(containers) == 1 and not conmon else None, conmon)
