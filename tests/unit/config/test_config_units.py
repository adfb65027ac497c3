"""Durations, sizes and addresses as people write them."""

import pytest

from exporter.config.units import (
    Address,
    format_duration,
    format_size,
    parse_address,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("1h30m", 5400), ("14d", 1_209_600), ("250ms", 0.25), ("0.5s", 0.5), (" 5m ", 300), ("1d1h1m1s", 90_061)],
)
def test_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    """Units add up."""
    assert parse_duration(text) == pytest.approx(seconds)
    assert parse_duration(format_duration(parse_duration(text))) == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["", "5", 5, 5.0, "5 s s", "-5s", "1s1h", "s", None, True, "1e3s", "\u0661s"])
def test_anything_else_is_no_duration(value: object) -> None:
    """A bare number would leave its unit open."""
    with pytest.raises(ValueError, match="duration with its unit"):
        parse_duration(value)


@pytest.mark.parametrize(("text", "size"), [("64MiB", 64 << 20), ("1 GiB", 1 << 30), ("512B", 512)])
def test_size_is_read_in_bytes(text: str, size: int) -> None:
    """Binary units only."""
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("value", ["64", 64, "64MB", "-1MiB", "", None])
def test_anything_else_is_no_size(value: object) -> None:
    """MB is not MiB."""
    with pytest.raises(ValueError, match="size with its unit"):
        parse_size(value)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9836", Address("", 9836)),
        ("127.0.0.1:1", Address("127.0.0.1", 1)),
        ("[::1]:9836", Address("::1", 9836)),
        ("localhost:0", Address("localhost", 0)),
        ("[fe80::1%eth0]:9836", Address("fe80::1%eth0", 9836)),
    ],
)
def test_address_is_read_and_written_back(text: str, address: Address) -> None:
    """IPv6 stands in brackets."""
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("value", ["", "9836", 9836, ":", "::1:9836", ":65536", "a:b", None])
def test_anything_else_is_no_address(value: object) -> None:
    """A port is always wanted."""
    with pytest.raises(ValueError, match="address with its port"):
        parse_address(value)
