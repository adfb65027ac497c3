"""When a counter is published: born at 0, held for a while, kept after its end."""

from dataclasses import dataclass, field

import pytest

from exporter.accounting.books import Books
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    Ledger,
    LedgerRules,
    OwnerLabels,
    OwnerSubject,
    Quantity,
    Subject,
)
from exporter.model.policy import WorkloadClass

DEVICE = DeviceSubject(0, DeviceUuid("GPU-0"))
OWNER = OwnerSubject("H100", "team-red", "red", "4711", WorkloadClass.TRAINING)
LABELS = OwnerLabels("job", "train", WorkloadClass.TRAINING, "red", "4711")
CONTAINER = ContainerSubject(DEVICE, None, "team-red", "train-0", "main", LABELS)
RULES = LedgerRules(birth_hold_seconds=30.0, ended_retention_seconds=60.0, owner_retention_seconds=600.0)
CYCLE_SECONDS = 5.0


@dataclass
class Bookkeeper:
    """Cycles of five seconds."""

    rules: LedgerRules = RULES
    ledger: Ledger = field(default_factory=Ledger)

    def cycle(self, *alive: Subject, amount: float = CYCLE_SECONDS, observed: float | None = None) -> None:
        """Book the amount on everybody who is there."""
        books = Books.open(self.ledger, self.ledger.clock_seconds + CYCLE_SECONDS, self.rules)
        books.see(alive)
        books.book({Account(subject, Quantity.HELD_SECONDS, "active"): amount for subject in alive})
        for subject in alive if observed is not None else ():
            books.observe(subject, observed or 0.0, CYCLE_SECONDS)
        self.ledger = books.close(self.ledger)

    def shown(self, subject: Subject = CONTAINER) -> float | None:
        """What is published of the subject."""
        tally = self.ledger.tallies.get(Account(subject, Quantity.HELD_SECONDS, "active"))
        return None if tally is None else tally.shown

    def shown_over(self, cycles: int, *alive: Subject) -> list[float | None]:
        """What is published after each of some cycles."""
        values = []
        for _ in range(cycles):
            self.cycle(*alive)
            values.append(self.shown())
        return values


def test_new_counter_is_shown_at_zero_for_the_whole_hold_and_then_with_all_that_was_booked() -> None:
    """Two scrapes see the 0, so that increase() sees the rest."""
    assert Bookkeeper().shown_over(8, CONTAINER) == [0, 0, 0, 0, 0, 0, 35, 40]


def test_container_that_ends_within_the_hold_is_shown_with_its_bookings_at_its_end() -> None:
    """A pod of 10 s is billed for 10 s."""
    keeper = Bookkeeper()
    assert keeper.shown_over(2, CONTAINER) == [0, 0]
    assert keeper.shown_over(2) == [10, 10]


def test_ended_container_stays_unchanged_for_its_retention_and_then_goes() -> None:
    """The last partial scrape interval is not lost, and the page does not grow for ever."""
    keeper = Bookkeeper()
    keeper.shown_over(10, CONTAINER)
    assert keeper.shown_over(14) == [50] * 12 + [None, None]
    assert not keeper.ledger.lives


def test_container_that_comes_back_while_it_is_still_shown_goes_on_counting() -> None:
    """One exposure of a label set is one counter, and it never falls."""
    keeper = Bookkeeper()
    keeper.shown_over(10, CONTAINER)
    keeper.shown_over(5)
    assert keeper.shown_over(2, CONTAINER) == [55, 60]


def test_container_that_comes_back_after_its_retention_is_born_anew() -> None:
    """A new exposure begins at 0, again with its hold."""
    keeper = Bookkeeper()
    keeper.shown_over(10, CONTAINER)
    keeper.shown_over(20)
    assert keeper.shown_over(7, CONTAINER) == [0, 0, 0, 0, 0, 0, 35]


def test_owner_outlives_its_containers_by_its_own_retention() -> None:
    """Long windows are answered from owners, whose pods are gone."""
    keeper = Bookkeeper()
    for _ in range(10):
        keeper.cycle(OWNER)
    for _ in range(120):
        keeper.cycle()
    assert keeper.shown(OWNER) == 50
    keeper.cycle()
    assert keeper.shown(OWNER) is None


def test_cycle_in_which_nobody_could_look_ends_nobody() -> None:
    """While the driver is away containers neither end nor come."""
    keeper = Bookkeeper()
    keeper.cycle(CONTAINER)
    for _ in range(40):
        books = Books.open(keeper.ledger, keeper.ledger.clock_seconds + CYCLE_SECONDS, RULES)
        books.see_as_before()
        keeper.ledger = books.close(keeper.ledger)
    assert keeper.shown() == 5
    keeper.cycle(CONTAINER)
    assert keeper.shown() == 10


def test_without_a_hold_bookings_are_shown_at_once() -> None:
    """A scrape interval of less than a cycle needs none."""
    assert Bookkeeper(LedgerRules(birth_hold_seconds=0.0)).shown_over(2, CONTAINER) == [5, 10]


def test_what_is_born_after_the_end_of_its_subject_waits_for_the_hold_all_the_same() -> None:
    """A pod whose owner was found only after it had gone still needs a 0 that a scrape can see."""
    keeper = Bookkeeper()
    books = Books.open(keeper.ledger, 5.0, RULES)
    books.book({Account(CONTAINER, Quantity.HELD_SECONDS, "active"): 10.0})
    keeper.ledger = books.close(keeper.ledger)
    assert [keeper.shown(), *keeper.shown_over(7)] == [0, 0, 0, 0, 0, 0, 10, 10]


def test_distribution_is_held_and_shown_with_the_counters() -> None:
    """Its count never runs ahead of the seconds that it describes."""
    keeper = Bookkeeper()
    for _ in range(6):
        keeper.cycle(CONTAINER, observed=0.4)
    assert sum(keeper.ledger.distributions[CONTAINER].shown.counts) == 0
    keeper.cycle(CONTAINER, observed=0.4)
    assert sum(keeper.ledger.distributions[CONTAINER].shown.counts) == 35
    assert keeper.ledger.distributions[CONTAINER].shown.total == pytest.approx(14.0)


def test_ten_thousand_short_containers_leave_nothing_behind() -> None:
    """What a ledger keeps is bounded by who is there and by the retention, not by who ever was."""
    keeper = Bookkeeper()
    for number in range(10_000 // 20):
        pods = [ContainerSubject(DEVICE, None, "ns", f"pod-{number}-{each}", "main", LABELS) for each in range(20)]
        keeper.cycle(*pods)
        assert len(keeper.ledger.tallies) <= 20 * (RULES.ended_retention_seconds / CYCLE_SECONDS + 2)
