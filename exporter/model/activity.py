"""What a device did over a stretch of time, sample by sample. What nobody measured is None, never 0."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of time with one figure."""

    seconds: float
    """Above 0."""
    ratio: float | None
    """Share of the span in which a kernel ran, 0 to 1; None: a sample that was lost, overwritten or could not be true."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a device did since it was last read."""

    spans: tuple[Span, ...]
    """Oldest first; together the time between the two reads by the host's clock, idle gaps included as spans of 0."""

    @property
    def seconds(self) -> float:
        """Length of the whole stretch."""
        return sum(span.seconds for span in self.spans)

    @property
    def measured_seconds(self) -> float:
        """The part of it that was really measured."""
        return sum(span.seconds for span in self.spans if span.ratio is not None)

    @property
    def lost_seconds(self) -> float:
        """The part of it of which nobody can say anything."""
        return sum(span.seconds for span in self.spans if span.ratio is None)

    @property
    def busy_seconds(self) -> float:
        """Integral of the utilisation over what was measured."""
        return sum(span.seconds * span.ratio for span in self.spans if span.ratio is not None)

    @property
    def utilization_ratio(self) -> float | None:
        """Mean over what was measured, 0 to 1; None if nothing was."""
        measured = self.measured_seconds
        return min(self.busy_seconds / measured, 1.0) if measured > 0 else None

    def active_seconds(self, above_ratio: float) -> float:
        """Time in spans whose figure is above the threshold."""
        return sum(span.seconds for span in self.spans if span.ratio is not None and span.ratio > above_ratio)

    def at(self, ratio: float | None) -> "Activity":
        """The same time with one figure for all that was measured; what was lost stays lost."""
        spans = (Span(self.measured_seconds, ratio), Span(self.lost_seconds, None))
        return Activity(tuple(span for span in spans if span.seconds > 0))
