"""A Pod object of the API -> the slim `Pod`. Environment, commands, images and volumes are never looked at."""

from collections.abc import Iterator, Mapping
from typing import Any

from exporter.model.ids import ContainerId, PodUid
from exporter.model.workload import Container, ContainerKind, Pod, PodPhase
from exporter.sources.kubernetes.fields import (
    chosen_strings,
    extended_resources,
    mapping,
    objects,
    owner_references,
    strings,
    text,
    timestamp_seconds,
)

CONFIG_HASH = "kubernetes.io/config.hash"
CONFIG_MIRROR = "kubernetes.io/config.mirror"

_INTERNAL = frozenset({CONFIG_HASH, CONFIG_MIRROR})

_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SPEC_LISTS = (
    ("containers", ContainerKind.MAIN),
    ("initContainers", ContainerKind.INIT),
    ("ephemeralContainers", ContainerKind.EPHEMERAL),
)
_PHASES = {phase.value: phase for phase in PodPhase}


def parse_pod(document: Mapping[str, Any], annotation_keys: frozenset[str]) -> Pod | None:
    """None if it has no UID, no namespace or no name: then nothing can be joined with it."""
    metadata, spec, status = mapping(document, "metadata"), mapping(document, "spec"), mapping(document, "status")
    uid, namespace, name = text(metadata, "uid").lower(), text(metadata, "namespace"), text(metadata, "name")
    if not uid or not namespace or not name:
        return None
    internal = chosen_strings(metadata, "annotations", _INTERNAL)
    return Pod(
        uid=PodUid(uid),
        namespace=namespace,
        name=name,
        phase=_PHASES.get(text(status, "phase"), PodPhase.UNKNOWN),
        labels=strings(metadata, "labels"),
        annotations=chosen_strings(metadata, "annotations", annotation_keys),
        owners=owner_references(metadata),
        containers=tuple(_containers(spec)),
        container_names=dict(_container_names(status)),
        container_starts=dict(_container_starts(status)),
        cgroup_uids=_cgroup_uids(internal, uid),
        is_mirror=_is_mirror(internal),
        priority_class=text(spec, "priorityClassName"),
        start_timestamp_seconds=timestamp_seconds(status, "startTime"),
        deletion_timestamp_seconds=timestamp_seconds(metadata, "deletionTimestamp"),
    )


def _container_starts(status: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Running containers only; a time that cannot be read costs that container's start."""
    for key in _STATUS_LISTS:
        for entry in objects(status, key):
            started = timestamp_seconds(mapping(mapping(entry, "state"), "running"), "startedAt")
            if started is not None and text(entry, "name"):
                yield text(entry, "name"), started


def _containers(spec: Mapping[str, Any]) -> Iterator[Container]:
    for key, kind in _SPEC_LISTS:
        for entry in objects(spec, key):
            name = text(entry, "name")
            if name:
                sidecar = kind is ContainerKind.INIT and entry.get("restartPolicy") == "Always"
                yield Container(
                    name=name,
                    kind=ContainerKind.SIDECAR if sidecar else kind,
                    limits=extended_resources(mapping(entry, "resources"), "limits"),
                )


def _container_names(status: Mapping[str, Any]) -> Iterator[tuple[ContainerId, str]]:
    """The current instance and the terminated one before it: a GPU process can outlive its container's restart."""
    for key in _STATUS_LISTS:
        for entry in objects(status, key):
            name = text(entry, "name")
            before = mapping(mapping(entry, "lastState"), "terminated")
            for written in (text(before, "containerID"), text(entry, "containerID")):
                container_id = written.rpartition("://")[2].lower()
                if name and container_id:
                    yield ContainerId(container_id), name


def _is_mirror(annotations: Mapping[str, str]) -> bool:
    """The kubelet marks the mirrors that it makes; a bare hash is on no mirror, and is written by anybody."""
    return CONFIG_MIRROR in annotations


def _cgroup_uids(annotations: Mapping[str, str], uid: str) -> tuple[PodUid, ...]:
    """A static pod's cgroup carries its configuration's hash, and the mirror in the API has a UID of its own."""
    written = annotations.get(CONFIG_HASH) or annotations.get(CONFIG_MIRROR) or ""
    known_as = written.lower().replace("-", "")
    return (PodUid(known_as),) if known_as and known_as != uid else ()
