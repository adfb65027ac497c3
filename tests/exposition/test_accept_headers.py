"""Whatever a client sends, one of the known forms comes out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exposition.negotiation import Encoding, choose_encoding, wants_openmetrics

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2,
        PROMETHEUS_3,
        "application/openmetrics-text",
        "application/openmetrics-text; version=1.0.0",
        'Application/OpenMetrics-Text; version="1.0.0"',
        "text/plain;q=0.5, application/openmetrics-text;q=0.5",
    ],
)
def test_openmetrics_is_given_to_who_asks_for_it(accept: str) -> None:
    """Prometheus' own headers, and any that puts OpenMetrics 1.0 first or level, get OpenMetrics (EXPO-10)."""
    assert wants_openmetrics(accept)


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/plain",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/json",
        "nonsense;;;,,=",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.2,text/plain;q=0.9",
        "application/openmetrics-text;version=0.0.1",
        "application/openmetrics-text;version=99",
        "application/openmetrics-text;version=1.0.0\x00",
        "application/openmetrics-text;q=nan",
        "application/openmetrics-text;q=2",
        "application/openmetrics-text;q=",
    ],
)
def test_plain_text_is_given_to_everybody_else(accept: str) -> None:
    """No header, nonsense, refusals and other versions get text 0.0.4 (EXPO-10)."""
    assert not wants_openmetrics(accept)


@pytest.mark.parametrize(
    "header", ["gzip", "GZIP", "deflate, gzip;q=1.0", "*", "gzip;q=0.1", "br, gzip", "identity;q=0.5, gzip", "x-gzip"]
)
def test_gzip_is_given_to_who_takes_it(header: str) -> None:
    """Gzip by name or by a star is gzip."""
    assert choose_encoding(header) is Encoding.GZIP


@pytest.mark.parametrize(
    "header", ["", "identity", "gzip;q=0", "gzip; q=0.0", "*;q=0", "gzip;q=0, *", "br", "gzip;q=x", "identity, gzip;q=0.5"]
)
def test_gzip_is_not_forced_on_anybody(header: str) -> None:
    """Who does not name gzip, refuses it with q=0, or prefers identity gets plain bytes."""
    assert choose_encoding(header) is Encoding.IDENTITY


@given(header=st.text())
def test_any_header_gets_an_answer(header: str) -> None:
    """No header can make negotiation fail."""
    assert wants_openmetrics(header) in {True, False}
    assert choose_encoding(header) in set(Encoding)
