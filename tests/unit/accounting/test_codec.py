"""A saved ledger is exactly what it was, or it is refused."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.accounting.codec import VERSION, decode, encode
from exporter.accounting.distribution import begin
from exporter.accounting.saving import surviving
from exporter.model.attribution import State
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey, MigUuid, PodUid
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    Distribution,
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
from exporter.model.refusal import Refusal, RefusedStateError
from tests.unit.accounting.ledgers import ledgers

NODE = "gpu-n1"
GPU = DeviceUuid("GPU-0")
DEVICE = DeviceSubject(0, GPU)
MIG = MigSubject(DEVICE, 1, 0, "1g.10gb")
LABELS = OwnerLabels("job", "train", WorkloadClass.TRAINING, "red", "4711", (("project", "x"),))
CONTAINER = ContainerSubject(DEVICE, MIG, "team-red", "train-0", "main", LABELS)
OWNER = OwnerSubject("H100", "team-red", "red", "4711", WorkloadClass.TRAINING, (("project", "x"),))
KEY = UseKey(ContainerKey(PodUid("u-1"), "team-red", "train-0", "main"), GPU, MigKey(1, 0, MigUuid("MIG-1")))


def _a_ledger() -> Ledger:
    """One of everything."""
    return Ledger(
        clock_seconds=100.0,
        tallies={
            Account(DEVICE, Quantity.PROVISIONED_SECONDS): Tally(0.0, 95.0, 5.0),
            Account(CONTAINER, Quantity.HELD_SECONDS, State.ACTIVE): Tally(5.0, 90.0),
            Account(OWNER, Quantity.COST, "USD/active"): Tally(5.0, 0.1),
        },
        distributions={CONTAINER: begin(5.0)},
        lives={subject: Life(100.0, 95.0) for subject in (DEVICE, CONTAINER, OWNER, MIG)},
        pending={KEY: Pending(90.0, CONTAINER, OWNER, {("owner", Quantity.MEASURED_SECONDS, ""): 5.0}, ((0.5, 5.0),))},
        idle_clocks={KEY: IdleClock(1_796_000_000.5, ever_active=True, from_start=False, seen_at=100.0)},
        gpu_indexes={GPU: 3},
        lost_sample_seconds=0.25,
        energy_joules={GPU: MonotoneCounter(5000.0, 6000.0, 1_796_000_000.0, 20.0, 1_796_000_005.0)},
        ecc_errors={(GPU, "corrected"): MonotoneCounter(1.0, 2.0)},
        clock_event_seconds={(GPU, "sw_power"): MonotoneCounter(1.0, 2.0)},
        rejected_readings={("utilization", "out_of_range"): 2},
    )


def _through_json(ledger: Ledger) -> Any:
    return json.loads(json.dumps(encode(ledger, NODE), allow_nan=False))


def _refused(document: object, node: str = NODE) -> tuple[Refusal, str]:
    with pytest.raises(RefusedStateError) as caught:
        decode(document, node)
    return caught.value.refusal, caught.value.detail


@given(ledgers())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_ledger_comes_back_as_it_was(ledger: Ledger) -> None:
    """Every number and every label survives the bytes, but for what belongs to the life of one process."""
    assert decode(_through_json(ledger), NODE) == surviving(ledger)


def test_one_of_everything_comes_back_as_it_was() -> None:
    """The hand-made ledger with which the refusals are tried is itself accepted."""
    assert decode(_through_json(_a_ledger()), NODE) == _a_ledger()


def test_watching_begins_anew_and_own_counts_begin_at_0() -> None:
    """What the exporter says of itself belongs to its process, as `process_*` does."""
    ledger = Ledger(
        watching_since_timestamp_seconds=1.0, source_errors={("nvml", "timeout"): 3}, cycle_duration=begin(0.0).shown
    )
    assert decode(_through_json(ledger), NODE) == Ledger()


def test_label_set_is_written_once() -> None:
    """Thousands of counters of a few hundred label sets stay small: a counter more costs its numbers."""
    one = {Account(CONTAINER, Quantity.HELD_SECONDS, State.ACTIVE): Tally(0.0)}
    four = {Account(CONTAINER, Quantity.HELD_SECONDS, state): Tally(0.0) for state in State}
    lives: dict[Subject, Life] = {CONTAINER: Life(0.0, 0.0)}
    small = len(json.dumps(encode(Ledger(tallies=one, lives=lives), NODE)))
    assert len(json.dumps(encode(Ledger(tallies=four, lives=lives), NODE))) - small < 3 * 60


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"node": "gpu-n2"}, Refusal.FOREIGN),
        ({"format": "something else"}, Refusal.FOREIGN),
        ({"format": None}, Refusal.FOREIGN),
        ({"version": VERSION + 1, "tallies": "of a kind that nobody knows yet"}, Refusal.NEWER),
        ({"version": 0}, Refusal.DAMAGED),
        ({"version": "1"}, Refusal.DAMAGED),
        ({"version": True}, Refusal.DAMAGED),
        ({"node": None}, Refusal.DAMAGED),
        ({"more": []}, Refusal.DAMAGED),
        ({"bounds": [0.0, 0.5, 1.0]}, Refusal.DAMAGED),
    ],
)
def test_document_that_is_not_ours_is_refused_with_its_reason(changes: dict[str, object], wanted: Refusal) -> None:
    """Another node's, another program's and a newer version's state are told from a damaged one."""
    assert _refused(_through_json(_a_ledger()) | changes)[0] is wanted


@pytest.mark.parametrize("document", [None, [], "x", 1, {}, [{}]])
def test_anything_else_is_foreign(document: object) -> None:
    """JSON of any other shape is no state file."""
    assert _refused(document)[0] is Refusal.FOREIGN


@pytest.mark.parametrize("section", sorted(_through_json(_a_ledger()).keys() - {"format", "version", "node"}))
def test_missing_section_is_damage(section: str) -> None:
    """Half a ledger is not counted on from."""
    document = _through_json(_a_ledger())
    del document[section]
    assert _refused(document)[0] is Refusal.DAMAGED


INFINITY, NAN = float("inf"), float("nan")
WRONG: list[tuple[str, list[int], object]] = [
    ("clock_seconds", [], -1.0),
    ("clock_seconds", [], NAN),
    ("clock_seconds", [], 10**400),
    ("clock_seconds", [], 1.0),  # everything in it was later
    ("lost_sample_seconds", [], None),
    ("tallies", [0], [0]),
    ("tallies", [0, 0], 99),
    ("tallies", [0, 0], -1),
    ("tallies", [0, 0], 0.0),
    ("tallies", [0, 1], "teapots"),
    ("tallies", [0, 1], "held_seconds"),  # a device holds nothing
    ("tallies", [0, 2], "active"),
    ("tallies", [1, 2], "asleep"),
    ("tallies", [2, 2], "USD"),
    ("tallies", [2, 2], "dollars/active"),
    ("tallies", [0, 3], 101.0),
    ("tallies", [0, 4], -5.0),
    ("tallies", [0, 4], INFINITY),
    ("tallies", [0, 4], "95.0"),
    ("tallies", [0, 4], True),
    ("distributions", [0, 2], [1] * 3),
    ("distributions", [0, 2, 0], -1),
    ("distributions", [0, 2, 0], 0.5),
    ("lives", [], []),
    ("lives", [0, 1], 101.0),
    ("subjects", [0], ["planet", 1]),
    ("subjects", [0, 1], -1),
    ("subjects", [0, 2], None),
    ("subjects", [1, 1], 1),  # a row that names itself
    ("subjects", [2, 8], "hobby"),
    ("subjects", [2, 11, 0], ["project"]),
    ("subjects", [1], ["device", 0, "GPU-0"]),
    ("pending", [0, 5], [1, 0]),
    ("pending", [0, 7], 0),
    ("pending", [0, 8], 0),
    ("pending", [0, 9, 0, 0], "neighbour"),
    ("pending", [0, 9, 0, 3], -1.0),
    ("pending", [0, 10, 0, 0], 1.5),
    ("idle_clocks", [0, 6], None),
    ("idle_clocks", [0, 7], 1),
    ("idle_clocks", [0, 9], 101.0),
    ("gpu_indexes", [0, 1], 1.5),
    ("energy_joules", [0, 2], -1.0),
    ("ecc_errors", [0, 1], 5),
    ("rejected_readings", [0, 2], -1),
]


@pytest.mark.parametrize(("section", "place", "value"), WRONG)
def test_value_that_cannot_be_is_damage(section: str, place: list[int], value: object) -> None:
    """Wrong types, unknown words, negative and infinite numbers, times to come and places that are not there."""
    document = _through_json(_a_ledger())
    _put(document, [section, *place], value)
    assert _refused(document)[0] is Refusal.DAMAGED


def _put(document: Any, place: list[Any], value: object) -> None:
    for step in place[:-1]:
        document = document[step]
    document[place[-1]] = value


@pytest.mark.parametrize(
    "section", ["tallies", "distributions", "lives", "pending", "idle_clocks", "gpu_indexes", "ecc_errors"]
)
def test_row_that_stands_there_twice_is_damage(section: str) -> None:
    """Of two values for one counter nobody knows which is right."""
    document = _through_json(_a_ledger())
    document[section].append(document[section][0])
    assert _refused(document)[0] is Refusal.DAMAGED


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def places(draw: st.DrawFn, document: Any) -> list[Any]:
    """Where anything in the document stands."""
    found: list[Any] = [draw(st.sampled_from(sorted(document.keys() - {"format", "version", "node"})))]
    inner = document[found[0]]
    while isinstance(inner, list) and inner and draw(st.booleans()):
        found.append(draw(st.integers(0, len(inner) - 1)))
        inner = inner[found[-1]]
    return found


@given(st.data(), JUNK)
@settings(deadline=None)
def test_junk_anywhere_is_refused_or_read_as_something_possible(data: st.DataObject, junk: object) -> None:
    """No document makes the exporter stumble: a refusal is the only way in which it fails, and what is read can be saved."""
    document = copy.deepcopy(_through_json(_a_ledger()))
    _put(document, data.draw(places(document)), junk)
    with contextlib.suppress(RefusedStateError):
        ledger = decode(document, NODE)
        assert decode(_through_json(ledger), NODE) == ledger


def test_numbers_that_are_not_finite_are_never_written() -> None:
    """A mistake of ours is seen at once, and not after the next restart."""
    ledger = Ledger(clock_seconds=INFINITY, distributions={OWNER: Distribution(0.0, begin(0.0).shown, begin(0.0).shown)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        _through_json(ledger)
