"""Durations, sizes and addresses as people write them."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)", re.ASCII)
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Za-z:.%_-]+\]|[^:\[\]]*):(?P<port>\d{1,5})")
_LAST_PORT = 65535


def parse_duration(value: object) -> float:
    """Seconds of ``5s``, ``1h30m``, ``14d``, ``250ms``.

    Raises:
        ValueError: it is none of these; a bare number would leave its unit open.
    """
    text = value.strip() if isinstance(value, str) else ""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("a duration with its unit is wanted, such as 5s, 90s, 1h30m or 14d")
    days, hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds).total_seconds()
    except OverflowError:
        raise ValueError("a shorter duration is wanted") from None


def format_duration(seconds: float) -> str:
    """The shortest way to write it."""
    if seconds != int(seconds):
        return f"{seconds:g}s"
    rest, parts = int(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_size(value: object) -> int:
    """Bytes of ``64MiB``.

    Raises:
        ValueError: it is no whole number with a binary unit.
    """
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a size with its unit is wanted, such as 64MiB")
    return int(match.group(1)) * _BYTES[match.group(2)]


def format_size(size_bytes: int) -> str:
    """In the largest unit that divides it."""
    unit = next(unit for unit in ("GiB", "MiB", "KiB", "B") if size_bytes % _BYTES[unit] == 0)
    return f"{size_bytes // _BYTES[unit]}{unit}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    """Empty: every address of every family."""
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(value: object) -> Address:
    """``:9836``, ``127.0.0.1:9836``, ``[::1]:9836``; port 0 picks a free one.

    Raises:
        ValueError: it is none of these.
    """
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ValueError("an address with its port is wanted, such as :9836, 127.0.0.1:9836 or [::1]:9836")
    return Address(match["host"].strip("[]"), int(match["port"]))


Seconds = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
Bytes = Annotated[int, BeforeValidator(parse_size), PlainSerializer(format_size)]
ListenAddress = Annotated[Address, BeforeValidator(parse_address), PlainSerializer(str)]
