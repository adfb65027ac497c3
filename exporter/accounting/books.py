"""When what was booked is published: births at 0, a hold after each birth, an afterlife for what has ended.

Prometheus sees growth only between two scrapes of a series. So a new counter is shown at 0 first, and what is booked on it
waits until two scrapes must have seen that; and the counters of something that has ended stay for a while, unchanged.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from exporter.accounting.distribution import begin, observe_utilization, show
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    Distribution,
    Ledger,
    LedgerRules,
    Life,
    MigSubject,
    OwnerSubject,
    Quantity,
    Subject,
    Tally,
)

V = TypeVar("V")

WHOLES = frozenset({Quantity.PROVISIONED_SECONDS, Quantity.PROVISIONED_COST, Quantity.OBSERVED_SECONDS, Quantity.BUSY_SECONDS})
"""Of a device: what others are parts of."""


@dataclass(slots=True)
class Books:
    """The counters of a ledger while one cycle is booked; used up by `close`."""

    now: float
    """Ledger clock of this cycle."""
    before: float
    """Ledger clock of the cycle before."""
    rules: LedgerRules
    tallies: dict[Account, Tally]
    distributions: dict[Subject, Distribution]
    lives: dict[Subject, Life]
    _alive: set[Subject] = field(default_factory=set)
    _whole_is_held_back: bool = False

    @classmethod
    def open(cls, ledger: Ledger, now: float, rules: LedgerRules) -> "Books":
        """Take the counters out of a ledger."""
        return cls(now, ledger.clock_seconds, rules, dict(ledger.tallies), dict(ledger.distributions), dict(ledger.lives))

    def see(self, subjects: Iterable[Subject]) -> None:
        """Note who is there in this cycle."""
        self._alive.update(subjects)

    def see_as_before(self) -> None:
        """In a cycle in which nobody could look, whoever was there in the one before still is."""
        self._alive.update(subject for subject, life in self.lives.items() if life.seen_at >= self.before)

    def book(self, amounts: Mapping[Account, float]) -> None:
        """Add to counters, opening those that are new."""
        for account, amount in amounts.items():
            tally = self.tallies.get(account)
            if tally is None:
                tally = Tally(self.now)
            self.tallies[account] = Tally(tally.born_at, tally.shown, tally.waiting + amount)
            self._touch(account.subject, grew=amount > 0)

    def observe(self, subject: Subject, utilization_ratio: float, measured_seconds: float) -> None:
        """Add an observation to a distribution, opening it if it is new."""
        before = self.distributions.get(subject) or begin(self.now)
        self.distributions[subject] = observe_utilization(before, utilization_ratio, measured_seconds)
        self._touch(subject, grew=measured_seconds > 0)

    def close(self, ledger: Ledger) -> Ledger:
        """Publish what has waited long enough, forget what ended long ago, and put the counters back."""
        self._bury()
        self._whole_is_held_back = any(
            isinstance(account.subject, DeviceSubject) and account.quantity in WHOLES and not self._has_waited(tally.born_at)
            for account, tally in self.tallies.items()
        )
        for account, tally in self.tallies.items():
            if tally.waiting and self._is_due(account.subject, tally.born_at):
                self.tallies[account] = Tally(tally.born_at, tally.shown + tally.waiting)
        for subject, distribution in self.distributions.items():
            if self._is_due(subject, distribution.born_at):
                self.distributions[subject] = show(distribution)
        return replace(ledger, clock_seconds=self.now, tallies=self.tallies, distributions=self.distributions, lives=self.lives)

    def _touch(self, subject: Subject, *, grew: bool) -> None:
        life = self.lives.get(subject) or Life(self.before, self.now)
        self.lives[subject] = Life(life.seen_at, self.now if grew else life.booked_at)

    def _is_due(self, subject: Subject, born_at: float) -> bool:
        """After the hold, or at the subject's end; what is born after that end waits for the hold all the same.

        A part is never shown before the whole: right after a start provisioned time is held back, too.
        """
        seen_at = self.lives[subject].seen_at
        ended = seen_at < self.now and born_at <= seen_at and not self._whole_is_held_back
        return ended or self._has_waited(born_at)

    def _has_waited(self, born_at: float) -> bool:
        return self.now - born_at >= self.rules.birth_hold_seconds

    def _bury(self) -> None:
        for subject in self._alive & self.lives.keys():
            self.lives[subject] = Life(self.now, self.lives[subject].booked_at)
        gone = {subject for subject, life in self.lives.items() if subject not in self._alive and self._is_over(subject, life)}
        if gone:
            self.lives = _without(self.lives, gone)
            self.distributions = _without(self.distributions, gone)
            self.tallies = {account: tally for account, tally in self.tallies.items() if account.subject not in gone}

    def _is_over(self, subject: Subject, life: Life) -> bool:
        match subject:
            case OwnerSubject():
                return self.now - max(life.booked_at, life.seen_at) > self.rules.owner_retention_seconds
            case ContainerSubject() | DeviceSubject() | MigSubject():
                return self.now - life.seen_at > self.rules.ended_retention_seconds


def _without(kept: Mapping[Subject, V], gone: Collection[Subject]) -> dict[Subject, V]:
    return {subject: value for subject, value in kept.items() if subject not in gone}
