"""Reads one value of a saved ledger: it is what is wanted, or the whole document is refused."""

import math
from collections.abc import Hashable, Iterable
from enum import StrEnum
from typing import TypeVar

from exporter.model.refusal import Refusal, RefusedStateError

E = TypeVar("E", bound=StrEnum)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_LARGEST_WHOLE = 1 << 63


def damaged(why: str) -> RefusedStateError:
    """The refusal of something that no version of ours has written."""
    return RefusedStateError(Refusal.DAMAGED, why)


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise damaged("a text is wanted")
    return value


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise damaged("true or false is wanted")
    return value


def whole(value: object) -> int:
    """A whole number that is not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_WHOLE:
        raise damaged("a whole number of at least 0 is wanted")
    return value


def real(value: object, most: float = math.inf) -> float:
    """A finite number from 0 up to `most`."""
    number = value if isinstance(value, float) else float(whole(value))
    if not (math.isfinite(number) and 0 <= number <= most):
        raise damaged("a finite number within its bounds is wanted")
    return number


def member(kind: type[E], value: object) -> E:
    """One of the values of an enumeration."""
    try:
        return kind(text(value))
    except ValueError:
        raise damaged(f"a {kind.__name__} is wanted") from None


def rows(value: object) -> list[object]:
    """A list of any length."""
    if not isinstance(value, list):
        raise damaged("a list is wanted")
    return value


def row(value: object, width: int) -> list[object]:
    """A list of so many values."""
    found = rows(value)
    if len(found) != width:
        raise damaged(f"a list of {width} is wanted")
    return found


def without_repetition(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """A mapping of which no key stands twice."""
    found: dict[K, V] = {}
    for key, value in pairs:
        if key in found:
            raise damaged("the same entry stands there twice")
        found[key] = value
    return found
