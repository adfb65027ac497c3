"""Reads pages the way a strict consumer does: what holds of every page is asserted on the way."""

import math

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from exporter.exposition.rendering import Format, metric_pages
from exporter.model.published import Published
from tests.exposition.examples import BUILD


def page(published: Published | None, form: Format = Format.TEXT, extra_labels: tuple[str, ...] = ()) -> bytes:
    return metric_pages(BUILD, extra_labels)[form](published)


def samples(data: bytes, form: Format = Format.TEXT) -> list[Sample]:
    """Every sample of a page that is valid UTF-8, repeats no family and no series, and holds real numbers only."""
    text = data.decode("utf-8", "strict")
    parsed = list(
        parse_openmetrics(text)  # type: ignore[no-untyped-call]  # prometheus_client left this parser untyped
        if form is Format.OPENMETRICS
        else parse_text(text)
    )
    names = [family.name for family in parsed]
    assert len(names) == len(set(names))
    found = [sample for family in parsed for sample in family.samples]
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in found]
    assert len(series) == len(set(series))
    assert all(math.isfinite(sample.value) for sample in found)
    return found


def of(published: Published, name: str, form: Format = Format.TEXT, extra_labels: tuple[str, ...] = ()) -> list[Sample]:
    """Samples of one name."""
    return [sample for sample in samples(page(published, form, extra_labels), form) if sample.name == name]


def names(published: Published) -> set[str]:
    return {sample.name for sample in samples(page(published))}
