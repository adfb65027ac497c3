"""A guarded call gives a value or None, and None costs one field of one device. What was dropped and why is kept beside it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import pynvml

from exporter.model.device import RejectedReading
from exporter.sources.nvml import codes

T = TypeVar("T")
N = TypeVar("N", int, float)

OUT_OF_RANGE: Final = "out_of_range"
NOT_AVAILABLE: Final = "not_available"
ALL_ONES_32: Final = 0xFFFFFFFF
ALL_ONES_64: Final = 0xFFFFFFFFFFFFFFFF

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Watch:
    """What the NVML thread is about just now, so that a hang can be named from outside."""

    call: str = ""


@dataclass(slots=True)
class Calls:
    """What a device has said of each call, by name; outlives the cycle."""

    absent: set[str] = field(default_factory=set)
    """It does not know them, and they are not made again."""
    answered: set[str] = field(default_factory=set)
    """It does know them: nothing unlearns a call, so that it says otherwise later is a failure."""

    def clear(self) -> None:
        """Ask everything anew."""
        self.absent.clear()
        self.answered.clear()


class Readings:
    """The calls about one device in one cycle."""

    __slots__ = ("_calls", "_subject", "_watch", "failed", "rejected")

    def __init__(self, calls: Calls, watch: Watch, subject: str) -> None:
        self._calls = calls
        self._watch = watch
        self._subject = subject
        self.rejected: list[RejectedReading] = []
        self.failed: list[tuple[str, str]] = []

    def about_part(self, calls: Calls, subject: str) -> "Readings":
        """For a MIG device: its own memory of what it knows; what goes wrong still counts for the GPU."""
        part = Readings(calls, self._watch, subject)
        part.rejected = self.rejected
        part.failed = self.failed
        return part

    def can_answer(self, call: str) -> bool:
        """False once the device has said that it does not know the call."""
        return call not in self._calls.absent

    def ask(self, call: str, question: Callable[[], T]) -> T | None:
        """The answer; None if there is none: `can_answer` tells then whether the call is absent or has failed.

        Raises:
            DeviceGoneError: the device does not answer at all.
            DriverGoneError: no device does.
        """
        if call in self._calls.absent:
            return None
        self._watch.call = f"{call} ({self._subject})"
        try:
            answer = question()
        except pynvml.NVMLError as error:
            code: int = error.value
        else:
            self._calls.answered.add(call)
            return answer
        codes.raise_if_gone(code, call)
        if code in codes.ABSENT and call not in self._calls.answered:
            self._calls.absent.add(call)
            logger.debug("%s: %s says %s, not asked again", self._subject, call, codes.name_of(code))
        else:
            self.fail(call, code)
        return None

    def fail(self, call: str, code: int) -> None:
        """Notes a call that was supported and failed."""
        self.failed.append((call, codes.name_of(code)))

    def reject(self, reading: str, reason: str = OUT_OF_RANGE) -> None:
        """Notes a value that was dropped."""
        self.rejected.append(RejectedReading(reading, reason))

    def within(self, reading: str, value: N | None, lowest: N, highest: N) -> N | None:
        """The value, if it can be true; a value that cannot is dropped and noted, never clamped."""
        if value is None or lowest <= value <= highest:
            return value
        self.reject(reading, NOT_AVAILABLE if value in {ALL_ONES_32, ALL_ONES_64} else OUT_OF_RANGE)
        return None
