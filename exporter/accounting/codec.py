"""A ledger as a document of JSON types, and back: exactly what it was, or a refusal.

Left out is what belongs to the life of one process: since when devices are watched, and what the exporter counts of itself
(`exporter.accounting.saving`). A label set is written once (`codec_subjects`), a counter is a row of numbers.
"""

from collections.abc import Iterable, Iterator, Mapping

from exporter.accounting.booking import OF_CONTAINER, OF_OWNER
from exporter.accounting.codec_accounts import read_line
from exporter.accounting.codec_checks import damaged, flag, real, row, rows, text, whole, without_repetition
from exporter.accounting.codec_subjects import Subjects, SubjectTable
from exporter.accounting.distribution import BOUNDS_RATIO
from exporter.model.ids import ContainerKey, DeviceUuid, MigKey, MigUuid, PodUid
from exporter.model.ledger import (
    Account,
    Distribution,
    Histogram,
    IdleClock,
    Ledger,
    Life,
    MonotoneCounter,
    Pending,
    Quantity,
    Subject,
    Tally,
    UseKey,
)
from exporter.model.refusal import Refusal, RefusedStateError

FORMAT = "gpu-ownership-exporter ledger"
VERSION = 1
"""Grows with every change of the document that an older reader would misread."""

_HEAD = frozenset({"format", "version", "node"})
_SECTIONS = frozenset(
    {
        *("subjects", "clock_seconds", "lost_sample_seconds", "bounds", "tallies", "distributions", "lives", "pending"),
        *("idle_clocks", "gpu_indexes", "energy_joules", "ecc_errors", "clock_event_seconds", "rejected_readings"),
    }
)


def encode(ledger: Ledger, node: str) -> dict[str, object]:
    """The document.

    Args:
        ledger: What is to survive; all its numbers are finite.
        node: Whose it is.
    """
    table = SubjectTable()
    sections: dict[str, object] = {
        "clock_seconds": ledger.clock_seconds,
        "lost_sample_seconds": ledger.lost_sample_seconds,
        "bounds": list(BOUNDS_RATIO),
        "tallies": [
            [table.place(key.subject), key.quantity.value, str(key.detail), tally.born_at, tally.shown, tally.waiting]
            for key, tally in ledger.tallies.items()
        ],
        "distributions": [
            [table.place(subject), each.born_at, *_histogram(each.shown), *_histogram(each.waiting), each.remainder_seconds]
            for subject, each in ledger.distributions.items()
        ],
        "lives": [[table.place(subject), life.seen_at, life.booked_at] for subject, life in ledger.lives.items()],
        "pending": [[*_use_key(key), *_pending(each, table)] for key, each in ledger.pending.items()],
        "idle_clocks": [
            [*_use_key(key), each.last_active_timestamp_seconds, each.ever_active, each.from_start, each.seen_at]
            for key, each in ledger.idle_clocks.items()
        ],
        "gpu_indexes": [[uuid, index] for uuid, index in ledger.gpu_indexes.items()],
        "energy_joules": [[uuid, *_counter(each)] for uuid, each in ledger.energy_joules.items()],
        "ecc_errors": [[*key, *_counter(each)] for key, each in ledger.ecc_errors.items()],
        "clock_event_seconds": [[*key, *_counter(each)] for key, each in ledger.clock_event_seconds.items()],
        "rejected_readings": [[*key, count] for key, count in ledger.rejected_readings.items()],
    }
    return {"format": FORMAT, "version": VERSION, "node": node, "subjects": table.rows, **sections}


def decode(document: object, node: str) -> Ledger:
    """The ledger.

    Args:
        document: What was read.
        node: This node.

    Raises:
        RefusedStateError: foreign, newer or damaged.
    """
    found = _opened(document, node)
    subjects = Subjects(found["subjects"])
    clock = real(found["clock_seconds"])
    if found["bounds"] != list(BOUNDS_RATIO):
        raise damaged("the distributions have other buckets")
    ledger = Ledger(
        clock_seconds=clock,
        lost_sample_seconds=real(found["lost_sample_seconds"]),
        tallies=without_repetition(_read_tally(each, subjects, clock) for each in rows(found["tallies"])),
        distributions=without_repetition(_read_distribution(each, subjects, clock) for each in rows(found["distributions"])),
        lives=without_repetition(_read_life(each, subjects, clock) for each in rows(found["lives"])),
        pending=without_repetition(_read_pending(each, subjects, clock) for each in rows(found["pending"])),
        idle_clocks=without_repetition(_read_idle_clock(each, clock) for each in rows(found["idle_clocks"])),
        gpu_indexes=without_repetition(
            (DeviceUuid(text(uuid)), whole(index)) for uuid, index in (row(each, 2) for each in rows(found["gpu_indexes"]))
        ),
        energy_joules=without_repetition(
            (DeviceUuid(text(uuid)), _read_counter(counter)) for uuid, *counter in map(_row_of_6, rows(found["energy_joules"]))
        ),
        ecc_errors=without_repetition(_read_device_counters(found["ecc_errors"])),
        clock_event_seconds=without_repetition(_read_device_counters(found["clock_event_seconds"])),
        rejected_readings=without_repetition(_read_counts(found["rejected_readings"])),
    )
    _check_lives(ledger)
    return ledger


def _opened(document: object, node: str) -> Mapping[str, object]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RefusedStateError(Refusal.FOREIGN, "it is no state file of this exporter")
    version = whole(document.get("version"))
    if version > VERSION:
        raise RefusedStateError(Refusal.NEWER, f"it is of version {version}, and this exporter knows version {VERSION}")
    if version != VERSION:
        raise damaged(f"there is no version {version}")
    written_by = text(document.get("node"))
    if written_by != node:
        raise RefusedStateError(Refusal.FOREIGN, f"it is the state of the node {written_by[:253]!r}")
    if document.keys() - _HEAD != _SECTIONS:
        raise damaged("it has other sections")
    return document


def _check_lives(ledger: Ledger) -> None:
    """Of everything that is counted it has to be known when it was last there, else it could never end."""
    if not {account.subject for account in ledger.tallies} | ledger.distributions.keys() <= ledger.lives.keys():
        raise damaged("something is counted of which it is not known when it was there")


def _read_tally(document: object, subjects: Subjects, clock: float) -> tuple[Account, Tally]:
    place, quantity, detail, born_at, shown, waiting = row(document, 6)
    subject = subjects.any(place)
    counted = Account(subject, *read_line(subject, quantity, detail))
    return counted, Tally(real(born_at, clock), real(shown), real(waiting))


def _histogram(histogram: Histogram) -> tuple[list[int], float]:
    return list(histogram.counts), histogram.total


def _read_histogram(counts: object, total: object) -> Histogram:
    return Histogram(BOUNDS_RATIO, tuple(whole(count) for count in row(counts, len(BOUNDS_RATIO) + 1)), real(total))


def _read_distribution(document: object, subjects: Subjects, clock: float) -> tuple[Subject, Distribution]:
    place, born_at, shown, shown_total, waiting, waiting_total, remainder = row(document, 7)
    histograms = _read_histogram(shown, shown_total), _read_histogram(waiting, waiting_total)
    return subjects.any(place), Distribution(real(born_at, clock), *histograms, real(remainder))


def _read_life(document: object, subjects: Subjects, clock: float) -> tuple[Subject, Life]:
    place, seen_at, booked_at = row(document, 3)
    return subjects.any(place), Life(real(seen_at, clock), real(booked_at, clock))


def _use_key(key: UseKey) -> list[object]:
    of, mig = key.container, key.mig
    place = None if mig is None else [mig.gpu_instance_id, mig.compute_instance_id, mig.uuid]
    return [of.pod_uid, of.namespace, of.pod, of.container, key.device, place]


def _read_use_key(document: list[object]) -> UseKey:
    uid, namespace, pod, container, device, place = document
    mig = None
    if place is not None:
        gi, ci, uuid = row(place, 3)
        mig = MigKey(whole(gi), whole(ci), MigUuid(text(uuid)))
    key = ContainerKey(PodUid(text(uid)), text(namespace), text(pod), text(container))
    return UseKey(key, DeviceUuid(text(device)), mig)


def _pending(pending: Pending, table: SubjectTable) -> list[object]:
    amounts = [[scope, quantity.value, str(detail), amount] for (scope, quantity, detail), amount in pending.amounts.items()]
    observations = [list(observation) for observation in pending.observations]
    return [pending.since_at, table.place(pending.container), table.place(pending.owner), amounts, observations]


def _read_pending(document: object, subjects: Subjects, clock: float) -> tuple[UseKey, Pending]:
    *key, since_at, container_place, owner_place, amounts, observations = row(document, 11)
    container, owner = subjects.container(container_place), subjects.owner(owner_place)
    subject_of: Mapping[str, Subject] = {OF_CONTAINER: container, OF_OWNER: owner}
    observed = (row(each, 2) for each in rows(observations))
    return _read_use_key(key), Pending(
        real(since_at, clock),
        container,
        owner,
        without_repetition(_read_amount(each, subject_of) for each in rows(amounts)),
        tuple((real(ratio, 1.0), real(seconds)) for ratio, seconds in observed),
    )


def _read_amount(document: object, subject_of: Mapping[str, Subject]) -> tuple[tuple[str, Quantity, str], float]:
    scope, quantity, detail, amount = row(document, 4)
    subject = subject_of.get(text(scope))
    if subject is None:
        raise damaged("an amount is neither the container's nor the owner's")
    return (text(scope), *read_line(subject, quantity, detail)), real(amount)


def _read_idle_clock(document: object, clock: float) -> tuple[UseKey, IdleClock]:
    *key, last_active, ever_active, from_start, seen_at = row(document, 10)
    return _read_use_key(key), IdleClock(real(last_active), flag(ever_active), flag(from_start), real(seen_at, clock))


def _counter(counter: MonotoneCounter) -> list[float | None]:
    read = [counter.last_reading, counter.total, counter.read_timestamp_seconds]
    return [*read, counter.doubted_reading, counter.doubted_timestamp_seconds]


def _read_counter(document: list[object]) -> MonotoneCounter:
    last, total, timestamp, doubted, doubted_timestamp = document
    doubt = None if doubted is None else real(doubted)
    return MonotoneCounter(real(last), real(total), real(timestamp), doubt, real(doubted_timestamp))


def _row_of_6(document: object) -> list[object]:
    return row(document, 6)


def _read_device_counters(document: object) -> Iterator[tuple[tuple[DeviceUuid, str], MonotoneCounter]]:
    for each in rows(document):
        uuid, kind, *counter = row(each, 7)
        yield (DeviceUuid(text(uuid)), text(kind)), _read_counter(counter)


def _read_counts(document: object) -> Iterator[tuple[tuple[str, str], int]]:
    counted: Iterable[list[object]] = (row(each, 3) for each in rows(document))
    for reading, reason, count in counted:
        yield (text(reading), text(reason)), whole(count)
