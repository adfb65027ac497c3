"""One catalogue entry and its values become one `Metric`: no sample for the unknown, none that is no number, none twice."""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.metrics_core import Metric

from exporter.catalogue import Family, FamilyType
from exporter.model.ledger import Histogram

Labels = dict[str, str]
Labelled = tuple[Labels, float | None]
"""Labels of a sample, and its value; None: unknown, so there is no sample."""

MAX_LABEL_LENGTH = 512
"""Longer label values are cut: names of strangers must not decide how large the page is."""

_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with U+FFFD for every lone surrogate: names from /proc can hold some, and UTF-8 has no place for them."""
    return _SURROGATES.sub("\ufffd", text)


def metric(family: Family, samples: Iterable[Labelled]) -> Iterator[Metric]:
    """The family with its samples; nothing if it has none. Of two samples with the same labels the first stays."""
    result = _empty(family)
    seen: set[tuple[tuple[str, str], ...]] = set()
    for labels, value in samples:
        if value is None or not math.isfinite(value):
            continue
        published = _published(labels)
        key = tuple(sorted(published.items()))
        if key not in seen:
            seen.add(key)
            result.add_sample(family.name, published, value)
    if result.samples:
        yield result


def info(family: Family, labels: Iterable[Labels]) -> Iterator[Metric]:
    """The family with a 1 for every set of labels."""
    return metric(family, ((each, 1) for each in labels))


def histogram(family: Family, histograms: Iterable[tuple[Labels, Histogram]]) -> Iterator[Metric]:
    """The family with cumulative buckets, sum and count; nothing if it has none."""
    result = _empty(family)
    for labels, value in histograms:
        published = _published(labels)
        cumulative = list(accumulate(value.counts))
        for bound, count in zip((*value.bounds, math.inf), cumulative, strict=True):
            result.add_sample(f"{family.name}_bucket", {**published, "le": _bound(bound)}, count)
        result.add_sample(f"{family.name}_count", published, cumulative[-1])
        result.add_sample(f"{family.name}_sum", published, value.total)
    if result.samples:
        yield result


def summed_histograms(histograms: Iterable[tuple[Labels, Histogram]]) -> Iterator[tuple[Labels, Histogram]]:
    """Histograms with equal labels added up, bucket by bucket; all of them have the same bounds."""
    totals: dict[tuple[tuple[str, str], ...], Histogram] = {}
    for labels, value in histograms:
        key = tuple(sorted(_published(labels).items()))
        before = totals.get(key)
        totals[key] = value if before is None else _both(before, value)
    for key, total in totals.items():
        yield dict(key), total


def _both(one: Histogram, other: Histogram) -> Histogram:
    counts = tuple(first + second for first, second in zip(one.counts, other.counts, strict=True))
    return Histogram(one.bounds, counts, one.total + other.total)


def latest(samples: Iterable[Labelled]) -> Iterator[Labelled]:
    """Of samples with equal labels the largest; unknown ones do not count."""
    greatest: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in samples:
        key = tuple(sorted(_published(labels).items()))
        if value is not None:
            greatest[key] = max(value, greatest.get(key, value))
    for key, value in greatest.items():
        yield dict(key), value


def summed(samples: Iterable[Labelled]) -> Iterator[Labelled]:
    """Samples with equal labels added up; unknown if one of them is.

    Two pods of one name (the old one ending while its successor runs) differ by a UID that container families do not carry.
    """
    totals: dict[tuple[tuple[str, str], ...], float | None] = {}
    for labels, value in samples:
        key = tuple(sorted(_published(labels).items()))
        before = totals.get(key, 0)
        totals[key] = None if before is None or value is None else before + value
    for key, total in totals.items():
        yield dict(key), total


def _bound(value: float) -> str:
    """As OpenMetrics wants it: always with a decimal point."""
    return "+Inf" if math.isinf(value) else repr(float(value))


def _empty(family: Family) -> Metric:
    kind = FamilyType.GAUGE if family.type is FamilyType.INFO else family.type
    return Metric(family.base_name, family.help, kind.value, family.unit)


def _published(labels: Labels) -> Labels:
    """Without empty values: to Prometheus an empty label is an absent one, so keeping it could hide a repeated series."""
    return {name: clean(value)[:MAX_LABEL_LENGTH] for name, value in labels.items() if value}
