"""API objects -> slim values: owners, namespaces and the node."""

from collections.abc import Mapping
from typing import Any

from exporter.model.workload import NodeMeta, ObjectMeta
from exporter.sources.kubernetes.fields import (
    chosen_strings,
    extended_resources,
    mapping,
    owner_references,
    strings,
    text,
    timestamp_seconds,
)


def object_meta(document: Mapping[str, Any], api_version: str, kind: str, annotation_keys: frozenset[str]) -> ObjectMeta | None:
    """Metadata of an object asked for as `kind` (the answer itself may say PartialObjectMetadata).

    None if it has no name or no UID.
    """
    metadata = mapping(document, "metadata")
    name, uid = text(metadata, "name"), text(metadata, "uid")
    if not name or not uid:
        return None
    return ObjectMeta(
        api_version=api_version,
        kind=kind,
        namespace=text(metadata, "namespace"),
        name=name,
        uid=uid,
        labels=strings(metadata, "labels"),
        annotations=chosen_strings(metadata, "annotations", annotation_keys),
        owners=owner_references(metadata),
    )


def node_meta(document: Mapping[str, Any]) -> NodeMeta | None:
    """A Node object; None if it has no name."""
    metadata, spec = mapping(document, "metadata"), mapping(document, "spec")
    name = text(metadata, "name")
    if not name:
        return None
    return NodeMeta(
        name=name,
        labels=strings(metadata, "labels"),
        provider_id=text(spec, "providerID"),
        created_timestamp_seconds=timestamp_seconds(metadata, "creationTimestamp"),
        unschedulable=spec.get("unschedulable") is True,
        capacity=extended_resources(mapping(document, "status"), "capacity"),
    )
