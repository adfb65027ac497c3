"""Which counters there can be: of whom each quantity is counted, and which values its further label takes."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from exporter.accounting.codec_checks import damaged, member, text
from exporter.model.attribution import State, UnallocatedReason, UnattributedReason
from exporter.model.ledger import ContainerSubject, DeviceSubject, MigSubject, OwnerSubject, Quantity, Subject

_CURRENCY_LETTERS = 3


def _nothing(detail: str) -> bool:
    return not detail


def _currency(detail: str) -> bool:
    return len(detail) == _CURRENCY_LETTERS and detail.isascii() and detail.isalpha() and detail.isupper()


def _one_of(kind: type[StrEnum]) -> Callable[[str], bool]:
    return frozenset(value.value for value in kind).__contains__


_state, _unallocated, _unattributed = _one_of(State), _one_of(UnallocatedReason), _one_of(UnattributedReason)


def _currency_and_state(detail: str) -> bool:
    currency, _, state = detail.partition("/")
    return _currency(currency) and _state(state)


_DEVICE, _OWNER, _CONTAINER = (DeviceSubject,), (OwnerSubject,), (ContainerSubject, OwnerSubject)
_ANY = (DeviceSubject, MigSubject, ContainerSubject, OwnerSubject)
_POSSIBLE: Mapping[Quantity, tuple[tuple[type, ...], Callable[[str], bool]]] = {
    Quantity.PROVISIONED_SECONDS: (_DEVICE, _nothing),
    Quantity.PROVISIONED_COST: (_DEVICE, _currency),
    Quantity.OBSERVED_SECONDS: (_DEVICE, _nothing),
    Quantity.UNALLOCATED_SECONDS: (_DEVICE, _unallocated),
    Quantity.UNALLOCATED_COST: (_DEVICE, _currency),
    Quantity.ALLOCATION_UNKNOWN_SECONDS: (_DEVICE, _nothing),
    Quantity.ALLOCATION_UNKNOWN_COST: (_DEVICE, _currency),
    Quantity.UNATTRIBUTED_BUSY_SECONDS: (_DEVICE, _unattributed),
    Quantity.UNATTRIBUTED_ENERGY_JOULES: (_DEVICE, _unattributed),
    Quantity.BUSY_SECONDS: (_ANY, _nothing),
    Quantity.UNHELD_BUSY_SECONDS: (_OWNER, _nothing),
    Quantity.HELD_SECONDS: (_CONTAINER, _state),
    Quantity.MEASURED_SECONDS: (_OWNER, _nothing),
    Quantity.ENERGY_JOULES: (_CONTAINER, _nothing),
    Quantity.COST: (_OWNER, _currency_and_state),
}


def read_line(subject: Subject, quantity: object, detail: object) -> tuple[Quantity, str]:
    """What is counted of a subject.

    Raises:
        RefusedStateError: damaged; such a thing is not counted of such a subject.
    """
    counted, value = member(Quantity, quantity), text(detail)
    kinds, possible = _POSSIBLE[counted]
    if not isinstance(subject, kinds) or not possible(value):
        raise damaged(f"{counted.value} is not counted like this")
    return counted, value
