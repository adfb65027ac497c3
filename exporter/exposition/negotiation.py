"""Which form of an answer a client asked for. Pure; whatever it asks, one of a few known forms comes out."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique

_OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_VERSION = "1.0.0"
_TEXT_RANGES = ("text/plain", "text/*", "*/*")


@unique
class Encoding(StrEnum):
    """Content-Encoding."""

    IDENTITY = "identity"
    GZIP = "gzip"


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of an Accept header."""

    name: str
    parameters: dict[str, str]
    weight: float


def wants_openmetrics(accept: str) -> bool:
    """True if OpenMetrics 1.0 is asked for at least as strongly as plain text; nonsense asks for plain text."""
    items = tuple(_items(accept))
    openmetrics = max((item.weight for item in items if _is_openmetrics(item)), default=0.0)
    text = max((item.weight for item in items if item.name in _TEXT_RANGES), default=0.0)
    return openmetrics > 0 and openmetrics >= text


def choose_encoding(accept_encoding: str) -> Encoding:
    """Gzip if it is asked for, by name or by ``*``, and not refused by ``q=0``."""
    weights = {item.name: item.weight for item in _items(accept_encoding)}
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return Encoding.GZIP if gzip > 0 and gzip >= weights.get("identity", 0.0) else Encoding.IDENTITY


def _is_openmetrics(item: _Item) -> bool:
    return item.name == _OPENMETRICS and item.parameters.get("version", _OPENMETRICS_VERSION) == _OPENMETRICS_VERSION


def _items(header: str) -> Iterator[_Item]:
    for entry in header.split(","):
        name, *rest = (part.strip() for part in entry.split(";"))
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in (part.partition("=") for part in rest)}
        yield _Item(name.lower(), parameters, _weight(parameters.get("q", "1")))


def _weight(text: str) -> float:
    """A quality value; what is none is 0: not asked for."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value <= 1 else 0.0
