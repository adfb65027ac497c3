"""Why a saved ledger is not taken up: said by the codec, heard by the store."""

from enum import StrEnum, unique

from exporter.model.reading import MissingReason


@unique
class Refusal(StrEnum):
    """What is wrong with a saved ledger; each is a `MissingReason` too."""

    FOREIGN = MissingReason.REFUSED_FOREIGN.value
    NEWER = MissingReason.REFUSED_NEWER.value
    DAMAGED = MissingReason.REFUSED_DAMAGED.value


class RefusedStateError(Exception):
    """A saved ledger that must not be counted on from."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.refusal = refusal
        self.detail = detail
