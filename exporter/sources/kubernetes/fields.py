"""Reads fields of API objects that may be missing, null or of the wrong type. What cannot be read is empty, never an error."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from exporter.model.workload import OwnerReference

_TOO_MANY = 10**15
_OBJECT_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:]{0,252}")
_WHOLE_NUMBER = re.compile(r"(?P<digits>[0-9]{1,18})(?:(?P<suffix>[kMG])|[eE](?P<power>[0-9]{1,2}))?")
_POWERS = {"k": 3, "M": 6, "G": 9}


def mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A nested object; empty if there is none."""
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def objects(parent: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The objects in a list; other elements are left out."""
    value = parent.get(key)
    if isinstance(value, list):
        yield from (element for element in value if isinstance(element, dict))


def text(parent: Mapping[str, Any], key: str) -> str:
    """A string; empty if there is none."""
    value = parent.get(key)
    return value if isinstance(value, str) else ""


def strings(parent: Mapping[str, Any], key: str) -> dict[str, str]:
    """A map of strings (labels, annotations); other values are left out."""
    return {name: value for name, value in mapping(parent, key).items() if isinstance(value, str)}


def chosen_strings(parent: Mapping[str, Any], key: str, names: frozenset[str]) -> dict[str, str]:
    """A map of strings, cut down to `names`."""
    found = mapping(parent, key)
    return {name: found[name] for name in names if isinstance(found.get(name), str)}


def timestamp_seconds(parent: Mapping[str, Any], key: str) -> float | None:
    """Unix seconds of an RFC 3339 time; None if there is none, or none that can be read."""
    written = text(parent, key)
    try:
        moment = datetime.fromisoformat(written)
        return None if moment.tzinfo is None else moment.timestamp()
    except (ValueError, OverflowError):
        return None


def whole_number(value: object) -> int | None:
    """A quantity in whole units, ``1k`` and ``1e3`` included, as Kubernetes writes 1000; None for any other."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value < _TOO_MANY else None
    match = _WHOLE_NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    power = int(match["power"]) if match["power"] else _POWERS.get(match["suffix"] or "", 0)
    number = int(match["digits"]) * 10**power
    return number if number < _TOO_MANY else None


def extended_resources(parent: Mapping[str, Any], key: str) -> dict[str, int]:
    """Resources with a slash in their name, in whole units."""
    counted = {name: whole_number(value) for name, value in mapping(parent, key).items() if "/" in name}
    return {name: count for name, count in counted.items() if count is not None}


def is_object_name(written: str) -> bool:
    """True if it can stand in a path as the name of an object or a resource, and cannot lead to another path."""
    return _OBJECT_NAME.fullmatch(written) is not None


def owner_references(metadata: Mapping[str, Any]) -> tuple[OwnerReference, ...]:
    """Entries of ``ownerReferences`` that name a kind, a name and a UID."""
    references = (
        OwnerReference(
            api_version=text(entry, "apiVersion"),
            kind=text(entry, "kind"),
            name=text(entry, "name"),
            uid=text(entry, "uid"),
            controller=entry.get("controller") is True,
        )
        for entry in objects(metadata, "ownerReferences")
    )
    return tuple(reference for reference in references if reference.kind and reference.name and reference.uid)
