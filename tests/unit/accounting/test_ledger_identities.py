"""The two identities, over random nodes, holders, samples, gaps and restarts: every GPU-second and joule has one place."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.activity import judge
from exporter.accounting.booking import OF_CONTAINER, OF_OWNER
from exporter.accounting.health import source_health
from exporter.accounting.ledger import Change, account
from exporter.attribution.join import attribute
from exporter.model.attribution import Attribution
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import Account, ContainerSubject, DeviceSubject, Ledger, LedgerRules, OwnerSubject, Quantity
from exporter.model.policy import PriceBook
from exporter.model.snapshot import Snapshot
from tests.builders import a_policy, missing
from tests.random_nodes import LENIENT, nodes

POLICY = replace(a_policy(), prices=PriceBook(default_per_gpu_hour=3.6))
RULES = LedgerRules(birth_hold_seconds=11.0, ended_retention_seconds=20.0, metadata_hold_seconds=12.0)
PARTS = (Quantity.UNALLOCATED_SECONDS, Quantity.ALLOCATION_UNKNOWN_SECONDS, Quantity.HELD_SECONDS)
TINY = 1e-6


def _cycles(snapshots: Iterable[Snapshot], steps: Iterable[float]) -> Iterable[Snapshot]:
    """The snapshots one after the other, with these steps between them."""
    now = 0.0
    for snapshot, step in zip(snapshots, steps, strict=False):
        now += step
        yield replace(snapshot, taken_at=1000.0 + now, timestamp_seconds=1_796_000_000.0 + now)


def _all_that_was_booked(ledger: Ledger) -> dict[tuple[str, str, str, str], float]:
    """(scope, device, quantity, detail) to what was booked, shown or not."""
    found: dict[tuple[str, str, str, str], float] = defaultdict(float)
    for key, tally in ledger.tallies.items():
        scope, device = _place(key)
        found[scope, device, key.quantity, key.detail] += tally.shown + tally.waiting
    for use, pending in ledger.pending.items():
        for (scope, quantity, detail), amount in pending.amounts.items():
            found[scope, use.device if scope == OF_CONTAINER else "", quantity, detail] += amount
    return found


def _place(key: Account) -> tuple[str, str]:
    match key.subject:
        case DeviceSubject(uuid=uuid):
            return "device", uuid
        case ContainerSubject(device=device):
            return OF_CONTAINER, device.uuid
        case OwnerSubject():
            return OF_OWNER, ""
        case _:
            return "mig", ""


def _sum(booked: dict[tuple[str, str, str, str], float], scope: str, device: str, *quantities: str) -> float:
    return sum(amount for key, amount in booked.items() if key[0] == scope and key[1] == device and key[2] in quantities)


class Books:
    """A ledger that is never pruned, so that all that was ever booked can be added up."""

    def __init__(self) -> None:
        self.rules = replace(RULES, ended_retention_seconds=1e9, owner_retention_seconds=1e9)
        self.ledger = Ledger()
        self.attribution = Attribution()
        self.provisioned: dict[DeviceUuid, float] = defaultdict(float)
        self.before_watching: dict[DeviceUuid, float] = {}

    def cycle(self, previous: Snapshot, snapshot: Snapshot) -> None:
        """One cycle, and what must hold of it."""
        self.attribution = judge(attribute(snapshot, POLICY, self.attribution.recollection), self.rules.active_above_ratio)
        change = Change(previous, snapshot, self.attribution, source_health(snapshot), 0.01)
        self.ledger = account(self.ledger, change, self.rules)
        for uuid, counter in self.ledger.energy_joules.items():
            self.before_watching.setdefault(uuid, counter.total)
        if change.watched:
            for row in self.attribution.devices:
                self.provisioned[row.device.uuid] += change.elapsed_seconds

    def check(self) -> None:
        """Provisioned = unallocated + unknown + held, for each device; what containers have, owners have."""
        booked = _all_that_was_booked(self.ledger)
        for uuid, provisioned in self.provisioned.items():
            parts = sum(_sum(booked, scope, uuid, *PARTS) for scope in ("device", OF_CONTAINER))
            assert abs(_sum(booked, "device", uuid, Quantity.PROVISIONED_SECONDS) - provisioned) < TINY
            assert abs(parts - provisioned) < TINY
            busy = _sum(booked, "device", uuid, Quantity.BUSY_SECONDS)
            nobodys = _sum(booked, "device", uuid, Quantity.UNATTRIBUTED_BUSY_SECONDS)
            assert abs(_sum(booked, OF_CONTAINER, uuid, Quantity.BUSY_SECONDS) + nobodys - busy) < TINY * max(busy, 1.0)
            self._check_energy(uuid, booked)
        held = sum(_sum(booked, OF_CONTAINER, uuid, Quantity.HELD_SECONDS) for uuid in self.provisioned)
        assert abs(_sum(booked, OF_OWNER, "", Quantity.HELD_SECONDS) - held) < TINY * 10
        self._check_money(booked)

    def _check_energy(self, uuid: DeviceUuid, booked: dict[tuple[str, str, str, str], float]) -> None:
        counter = self.ledger.energy_joules.get(uuid)
        nobodys = _sum(booked, "device", uuid, Quantity.UNATTRIBUTED_ENERGY_JOULES)
        parts = nobodys + _sum(booked, OF_CONTAINER, uuid, Quantity.ENERGY_JOULES)
        whole = 0.0 if counter is None else counter.total - self.before_watching[uuid]
        assert abs(parts - whole) < TINY * max(parts, 1.0)

    def _check_money(self, booked: dict[tuple[str, str, str, str], float]) -> None:
        costs = (Quantity.UNALLOCATED_COST, Quantity.ALLOCATION_UNKNOWN_COST)
        nobodys = sum(_sum(booked, "device", uuid, *costs) for uuid in self.provisioned)
        owners = _sum(booked, OF_OWNER, "", Quantity.COST)
        whole = sum(_sum(booked, "device", uuid, Quantity.PROVISIONED_COST) for uuid in self.provisioned)
        assert abs(nobodys + owners - whole) < TINY


GAP = st.sampled_from([None, None, None, "nvml", "restart"])


@LENIENT
@given(st.lists(st.tuples(nodes(), st.floats(0.1, 60.0), GAP), min_size=2, max_size=6))
def test_every_second_joule_and_cent_has_one_place(line: list[tuple[Snapshot, float, str | None]]) -> None:
    """Over any node, with gaps in which nobody watched: the parts are the whole, for each device, in each cycle."""
    books = Books()
    previous: Snapshot | None = None
    steps = [step for _, step, _ in line]
    for snapshot, (_, _, gap) in zip(_cycles((snapshot for snapshot, _, _ in line), steps), line, strict=True):
        now = replace(snapshot, nvml=missing()) if gap == "nvml" else snapshot
        # After a restart nothing is known of the cycle before.
        before = replace(now, nvml=missing()) if previous is None or gap == "restart" else previous
        books.cycle(before, now)
        books.check()
        previous = now


@LENIENT
@given(st.lists(st.tuples(nodes(), st.floats(0.1, 60.0)), min_size=2, max_size=6))
def test_nothing_that_is_shown_ever_falls(line: list[tuple[Snapshot, float]]) -> None:
    """One exposure of a label set is monotone, whatever comes, goes and is forgotten."""
    ledger, attribution = Ledger(), Attribution()
    previous: Snapshot | None = None
    for snapshot in _cycles((snapshot for snapshot, _ in line), [step for _, step in line]):
        attribution = judge(attribute(snapshot, POLICY, attribution.recollection), RULES.active_above_ratio)
        change = Change(previous or replace(snapshot, nvml=missing()), snapshot, attribution, source_health(snapshot), 0.01)
        after = account(ledger, change, RULES)
        for key in after.tallies.keys() & ledger.tallies.keys():
            assert after.tallies[key].shown >= ledger.tallies[key].shown
            assert after.tallies[key].waiting >= 0
        for subject in after.distributions.keys() & ledger.distributions.keys():
            counts = zip(after.distributions[subject].shown.counts, ledger.distributions[subject].shown.counts, strict=True)
            assert all(now >= before for now, before in counts)
        assert all(
            counter.total >= ledger.energy_joules[uuid].total
            for uuid, counter in after.energy_joules.items()
            if uuid in ledger.energy_joules
        )
        ledger, previous = after, snapshot
