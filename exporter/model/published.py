"""The one value that a scrape, a probe and the page read: replaced whole, once a cycle."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.model.attribution import Attribution
from exporter.model.ledger import Ledger
from exporter.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Build:
    """What is running."""

    version: str
    commit: str
    python: str
    simulated: bool


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """One source in one cycle."""

    up: bool
    reason: str = ""
    """A `MissingReason`, empty while up."""
    detail: str = ""
    kept_since_seconds: float | None = None
    """Age of the last good answer that is used in its place; None if none is used."""


@dataclass(frozen=True, slots=True)
class Published:
    """The outcome of one cycle."""

    generation: int
    """Counts cycles; a page is rendered at most once per generation, format and encoding."""
    snapshot: Snapshot
    attribution: Attribution
    ledger: Ledger
    build: Build
    interval_seconds: float
    sources: Mapping[str, SourceHealth] = field(default_factory=dict)
    """By the name of the source, enabled ones only."""
