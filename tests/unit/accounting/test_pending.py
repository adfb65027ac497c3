"""One pod leaves one series: what it does while its owner is being looked up waits for the owner."""

from dataclasses import dataclass, field, replace

from exporter.accounting.activity import judge
from exporter.accounting.health import source_health
from exporter.accounting.ledger import Change, account
from exporter.model.attribution import ContainerRow, Ownership
from exporter.model.ledger import Account, ContainerSubject, Ledger, LedgerRules, OwnerSubject, Quantity
from tests.unit.accounting.rows import (
    BLUE,
    CYCLE_SECONDS,
    RED,
    a_cycle_snapshot,
    a_device_row,
    a_holder,
    an_attribution,
    steady,
)

UNKNOWN = replace(RED, workload="unknown", team="unknown", cost_center="unknown", complete=False)
AT_ONCE = LedgerRules(birth_hold_seconds=0.0)


@dataclass
class Node:
    """One GPU, held by one pod or by nobody, cycle by cycle."""

    rules: LedgerRules = AT_ONCE
    ledger: Ledger = field(default_factory=Ledger)
    cycles: int = 0

    def cycle(self, *owners: Ownership) -> None:
        """The pod with this owner holds the GPU and works on it; no owner: nobody does."""
        rows: list[ContainerRow] = [a_holder(activity=steady(0.5), owner=owner) for owner in owners]
        device = a_device_row(activity=steady(0.5), free=0.0 if owners else 1.0)
        before, now = (a_cycle_snapshot(self.cycles + step, (device.device,)) for step in (0, 1))
        attribution = judge(an_attribution(*rows, device=device), self.rules.active_above_ratio)
        self.ledger = account(self.ledger, Change(before, now, attribution, source_health(now), 0.01), self.rules)
        self.cycles += 1

    def held(self) -> dict[str, float]:
        """What is published by team, container families."""
        return self._by_team(ContainerSubject)

    def owned(self) -> dict[str, float]:
        """The same, owner families."""
        return self._by_team(OwnerSubject)

    def _by_team(self, kind: type[ContainerSubject] | type[OwnerSubject]) -> dict[str, float]:
        found: dict[str, float] = {}
        for key, tally in self.ledger.tallies.items():
            subject = key.subject
            if isinstance(subject, kind) and key == Account(subject, Quantity.HELD_SECONDS, "active"):
                team = subject.team if isinstance(subject, OwnerSubject) else subject.owner.team
                found[team] = tally.shown
        return found


def test_owner_that_comes_late_gets_all_that_was_done_meanwhile() -> None:
    """Fifteen seconds of looking up: no series for `unknown`, and nothing is lost."""
    node = Node()
    for _ in range(3):
        node.cycle(UNKNOWN)
        assert (node.held(), node.owned()) == ({}, {})
    node.cycle(RED)
    assert node.held() == node.owned() == {"red": 4 * CYCLE_SECONDS}
    assert not node.ledger.pending


def test_owner_that_does_not_come_within_the_wait_is_booked_as_unknown() -> None:
    """After 30 s the time is published under what is known, and goes on so without a second wait."""
    node = Node()
    for _ in range(7):
        node.cycle(UNKNOWN)
    assert node.held() == node.owned() == {"unknown": 7 * CYCLE_SECONDS}
    node.cycle(UNKNOWN)
    assert node.held() == {"unknown": 8 * CYCLE_SECONDS}


def test_owner_that_comes_after_the_wait_starts_its_own_series_and_rewrites_nothing() -> None:
    """What was published stays."""
    node = Node()
    for _ in range(8):
        node.cycle(UNKNOWN)
    node.cycle(RED)
    assert node.held() == {"unknown": 8 * CYCLE_SECONDS, "red": CYCLE_SECONDS}


def test_pod_that_ends_before_its_owner_is_known_is_booked_as_last_known() -> None:
    """Ten seconds of a pod that nobody could look up are ten seconds of somebody."""
    node = Node()
    node.cycle(UNKNOWN)
    node.cycle(UNKNOWN)
    node.cycle()
    assert node.held() == node.owned() == {"unknown": 2 * CYCLE_SECONDS}
    assert not node.ledger.pending


def test_change_of_a_known_owner_starts_new_series_from_that_moment() -> None:
    """A relabelled pod moves forward in time only."""
    node = Node()
    node.cycle(RED)
    node.cycle(RED)
    node.cycle(BLUE)
    assert node.held() == node.owned() == {"red": 2 * CYCLE_SECONDS, "blue": CYCLE_SECONDS}


def test_late_owner_is_born_at_zero_like_any_other() -> None:
    """The hold of birth begins when the labels are known: a scrape must see the 0 under those labels."""
    node = Node(LedgerRules(birth_hold_seconds=30.0))
    for _ in range(3):
        node.cycle(UNKNOWN)
    shown = []
    for _ in range(7):
        node.cycle(RED)
        shown.append(node.held()["red"])
    assert shown == [0, 0, 0, 0, 0, 0, 10 * CYCLE_SECONDS]
