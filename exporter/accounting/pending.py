"""Bookings of containers whose owner is still being looked up: kept back, so that one pod does not leave two series."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.accounting.booking import OF_CONTAINER, Use
from exporter.accounting.books import Books
from exporter.model.ledger import Account, LedgerRules, Pending, UseKey


def book_uses(books: Books, before: Mapping[UseKey, Pending], uses: Iterable[Use], rules: LedgerRules) -> dict[UseKey, Pending]:
    """Book what containers did, and give back what has to wait for its owner.

    What waits is booked as soon as the owner is known, when the wait has lasted too long, or when the container has ended.

    Args:
        books: Where it is booked.
        before: What waited after the cycle before.
        uses: Everybody on every device in this cycle.
        rules: How long an owner is waited for.
    """
    uses = tuple(uses)
    waiting: dict[UseKey, Pending] = {}
    for use in uses:
        pending = replace(
            before.get(use.key, Pending(books.now, use.container, use.owner)), container=use.container, owner=use.owner
        )
        pending = _added(pending, use)
        if not use.complete:
            waiting[use.key] = pending
        if use.complete or books.now - pending.since_at >= rules.metadata_hold_seconds:
            books.see((use.container, use.owner))
            _book(books, pending, rules)
            # One that has waited in vain stays known, so that it does not wait again.
            waiting |= {use.key: _emptied(pending)} if use.key in waiting else {}
    for key in before.keys() - {use.key for use in uses}:
        _book(books, before[key], rules)
    return waiting


def _added(pending: Pending, use: Use) -> Pending:
    amounts = dict(pending.amounts)
    for line, amount in use.amounts.items():
        amounts[line] = amounts.get(line, 0.0) + amount
    observed = () if use.observation is None else (use.observation,)
    return replace(pending, amounts=amounts, observations=(*pending.observations, *observed))


def _emptied(pending: Pending) -> Pending:
    return Pending(pending.since_at, pending.container, pending.owner)


def _book(books: Books, pending: Pending, rules: LedgerRules) -> None:
    books.book(
        {
            Account(pending.container if scope == OF_CONTAINER else pending.owner, quantity, detail): amount
            for (scope, quantity, detail), amount in pending.amounts.items()
        }
    )
    for utilization_ratio, measured_seconds in pending.observations:
        books.observe(pending.owner, utilization_ratio, measured_seconds)
        if rules.container_distribution:
            books.observe(pending.container, utilization_ratio, measured_seconds)
