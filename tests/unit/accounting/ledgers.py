"""Random ledgers for hypothesis: whatever accounting can come to, with every kind of label and number."""

from hypothesis import strategies as st

from exporter.accounting.distribution import BOUNDS_RATIO
from exporter.model.attribution import State, UnallocatedReason, UnattributedReason
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey, MigUuid, PodUid
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    Distribution,
    Histogram,
    IdleClock,
    Ledger,
    Life,
    MigSubject,
    MonotoneCounter,
    OwnerLabels,
    OwnerSubject,
    Pending,
    Quantity,
    Subject,
    Tally,
    UseKey,
)
from exporter.model.policy import WorkloadClass

TEXTS = st.text(max_size=4)
COUNTS = st.integers(0, 1 << 53)
NUMBERS = st.floats(0, 1e15)
UUIDS = st.sampled_from(["GPU-0", "GPU-1", "GPU-2"]).map(DeviceUuid)
FURTHER = st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple)
CLASSES = st.sampled_from(WorkloadClass)

devices = st.builds(DeviceSubject, st.integers(0, 7), UUIDS)
migs = st.builds(MigSubject, devices, st.integers(0, 6), st.one_of(st.none(), st.integers(0, 6)), TEXTS)
labels = st.builds(OwnerLabels, TEXTS, TEXTS, CLASSES, TEXTS, TEXTS, FURTHER)
containers = st.builds(ContainerSubject, devices, st.one_of(st.none(), migs), TEXTS, TEXTS, TEXTS, labels)
owners = st.builds(OwnerSubject, TEXTS, TEXTS, TEXTS, TEXTS, CLASSES, FURTHER)

CURRENCIES = st.sampled_from(["USD", "EUR"])
DETAILS = {
    Quantity.HELD_SECONDS: st.sampled_from(State),
    Quantity.UNALLOCATED_SECONDS: st.sampled_from(UnallocatedReason),
    Quantity.UNATTRIBUTED_BUSY_SECONDS: st.sampled_from(UnattributedReason),
    Quantity.UNATTRIBUTED_ENERGY_JOULES: st.sampled_from(UnattributedReason),
    Quantity.PROVISIONED_COST: CURRENCIES,
    Quantity.UNALLOCATED_COST: CURRENCIES,
    Quantity.ALLOCATION_UNKNOWN_COST: CURRENCIES,
    Quantity.COST: st.builds("{}/{}".format, CURRENCIES, st.sampled_from(State)),
}
OF_SHARED = (Quantity.BUSY_SECONDS, Quantity.HELD_SECONDS, Quantity.ENERGY_JOULES)
OF_OWNER = (*OF_SHARED, Quantity.UNHELD_BUSY_SECONDS, Quantity.MEASURED_SECONDS, Quantity.COST)
OF_DEVICE = tuple(sorted(set(Quantity) - set(OF_OWNER) | {Quantity.BUSY_SECONDS}))


@st.composite
def lines(draw: st.DrawFn, quantities: tuple[Quantity, ...]) -> tuple[Quantity, str]:
    quantity = draw(st.sampled_from(quantities))
    return quantity, draw(DETAILS.get(quantity, st.just("")))


def _accounts(subjects: st.SearchStrategy[Subject], quantities: tuple[Quantity, ...]) -> st.SearchStrategy[Account]:
    return st.tuples(subjects, lines(quantities)).map(lambda found: Account(found[0], *found[1]))


accounts = st.one_of(
    _accounts(devices, OF_DEVICE),
    _accounts(migs, (Quantity.BUSY_SECONDS,)),
    _accounts(containers, OF_SHARED),
    _accounts(owners, OF_OWNER),
)
histograms = st.lists(COUNTS, min_size=len(BOUNDS_RATIO) + 1, max_size=len(BOUNDS_RATIO) + 1).flatmap(
    lambda counts: st.builds(Histogram, st.just(BOUNDS_RATIO), st.just(tuple(counts)), NUMBERS)
)
counters = st.builds(MonotoneCounter, NUMBERS, NUMBERS, NUMBERS, st.one_of(st.none(), NUMBERS), NUMBERS)
mig_keys = st.builds(MigKey, st.integers(0, 6), st.integers(0, 6), TEXTS.map(MigUuid))
container_keys = st.builds(ContainerKey, TEXTS.map(PodUid), TEXTS, TEXTS, TEXTS)
use_keys = st.builds(UseKey, container_keys, UUIDS, st.one_of(st.none(), mig_keys))
by_kind = st.dictionaries(st.tuples(UUIDS, TEXTS), counters, max_size=3)
amounts = st.dictionaries(
    st.one_of(
        lines(OF_SHARED).map(lambda line: ("container", *line)),
        lines(OF_OWNER).map(lambda line: ("owner", *line)),
    ),
    NUMBERS,
    max_size=3,
)
observations = st.lists(st.tuples(st.floats(0, 1), NUMBERS), max_size=3).map(tuple)


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """A ledger as it is in mid-life, the exporter's own counts included."""
    clock = draw(NUMBERS)
    times = st.floats(0, clock)
    tallies = draw(st.dictionaries(accounts, st.builds(Tally, times, NUMBERS, NUMBERS), max_size=6))
    subjects: st.SearchStrategy[Subject] = st.one_of(containers, owners)
    observed = st.builds(Distribution, times, histograms, histograms, NUMBERS)
    distributions = draw(st.dictionaries(subjects, observed, max_size=3))
    seen = {account.subject for account in tallies} | distributions.keys()
    others = draw(st.sets(st.one_of(devices, owners), max_size=2))
    return Ledger(
        clock_seconds=clock,
        watching_since_timestamp_seconds=draw(st.one_of(st.none(), NUMBERS)),
        tallies=tallies,
        distributions=distributions,
        lives={subject: draw(st.builds(Life, times, times)) for subject in [*seen, *(others - seen)]},
        pending=draw(
            st.dictionaries(use_keys, st.builds(Pending, times, containers, owners, amounts, observations), max_size=2)
        ),
        idle_clocks=draw(
            st.dictionaries(use_keys, st.builds(IdleClock, NUMBERS, st.booleans(), st.booleans(), times), max_size=3)
        ),
        gpu_indexes=draw(st.dictionaries(UUIDS, st.integers(0, 15))),
        lost_sample_seconds=draw(NUMBERS),
        energy_joules=draw(st.dictionaries(UUIDS, counters)),
        ecc_errors=draw(by_kind),
        clock_event_seconds=draw(by_kind),
        device_errors=draw(st.dictionaries(st.tuples(UUIDS, TEXTS), COUNTS, max_size=1)),
        unidentified_errors=draw(st.dictionaries(st.tuples(st.integers(0, 7), TEXTS), COUNTS, max_size=1)),
        source_errors=draw(st.dictionaries(st.tuples(TEXTS, TEXTS), COUNTS, max_size=1)),
        source_last_success_timestamp_seconds=draw(st.dictionaries(TEXTS, NUMBERS, max_size=1)),
        source_durations=draw(st.dictionaries(TEXTS, histograms, max_size=1)),
        rejected_readings=draw(st.dictionaries(st.tuples(TEXTS, TEXTS), COUNTS, max_size=2)),
        cycle_duration=draw(st.one_of(st.none(), histograms)),
    )
