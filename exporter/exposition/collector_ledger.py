"""Families of the ledger: its counters under the labels by which it keeps them, and its idle clocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from exporter import catalogue
from exporter.catalogue import Family
from exporter.exposition.families import Labelled, Labels, histogram, latest, metric, summed, summed_histograms
from exporter.exposition.labels import Labeller
from exporter.model.attribution import ContainerRow, PodRow, State
from exporter.model.ledger import (
    ContainerSubject,
    DeviceSubject,
    IdleClock,
    Ledger,
    MigSubject,
    OwnerSubject,
    Quantity,
    Subject,
    UseKey,
)
from exporter.model.published import Published

Kind = type[DeviceSubject] | type[MigSubject] | type[ContainerSubject] | type[OwnerSubject]

_DEVICE: Mapping[Quantity, tuple[Family, tuple[str, ...]]] = {
    Quantity.BUSY_SECONDS: (catalogue.GPU_BUSY_SECONDS_TOTAL, ()),
    Quantity.PROVISIONED_SECONDS: (catalogue.GPU_PROVISIONED_SECONDS_TOTAL, ()),
    Quantity.UNALLOCATED_SECONDS: (catalogue.GPU_UNALLOCATED_SECONDS_TOTAL, ("reason",)),
    Quantity.ALLOCATION_UNKNOWN_SECONDS: (catalogue.GPU_ALLOCATION_UNKNOWN_SECONDS_TOTAL, ()),
    Quantity.PROVISIONED_COST: (catalogue.GPU_PROVISIONED_COST_TOTAL, ("currency",)),
    Quantity.UNALLOCATED_COST: (catalogue.GPU_UNALLOCATED_COST_TOTAL, ("currency",)),
    Quantity.ALLOCATION_UNKNOWN_COST: (catalogue.GPU_ALLOCATION_UNKNOWN_COST_TOTAL, ("currency",)),
    Quantity.OBSERVED_SECONDS: (catalogue.GPU_OBSERVED_SECONDS_TOTAL, ()),
    Quantity.UNATTRIBUTED_BUSY_SECONDS: (catalogue.GPU_UNATTRIBUTED_BUSY_SECONDS_TOTAL, ("reason",)),
    Quantity.UNATTRIBUTED_ENERGY_JOULES: (catalogue.GPU_UNATTRIBUTED_ENERGY_JOULES_TOTAL, ("reason",)),
}
_MIG: Mapping[Quantity, tuple[Family, tuple[str, ...]]] = {
    Quantity.BUSY_SECONDS: (catalogue.GPU_MIG_BUSY_SECONDS_TOTAL, ()),
}
_CONTAINER: Mapping[Quantity, tuple[Family, tuple[str, ...]]] = {
    Quantity.HELD_SECONDS: (catalogue.GPU_CONTAINER_HELD_SECONDS_TOTAL, ("state",)),
    Quantity.BUSY_SECONDS: (catalogue.GPU_CONTAINER_BUSY_SECONDS_TOTAL, ()),
    Quantity.ENERGY_JOULES: (catalogue.GPU_CONTAINER_ENERGY_JOULES_TOTAL, ()),
}
_OWNER: Mapping[Quantity, tuple[Family, tuple[str, ...]]] = {
    Quantity.HELD_SECONDS: (catalogue.GPU_OWNER_HELD_SECONDS_TOTAL, ("state",)),
    Quantity.MEASURED_SECONDS: (catalogue.GPU_OWNER_MEASURED_SECONDS_TOTAL, ()),
    Quantity.BUSY_SECONDS: (catalogue.GPU_OWNER_BUSY_SECONDS_TOTAL, ()),
    Quantity.UNHELD_BUSY_SECONDS: (catalogue.GPU_OWNER_UNHELD_BUSY_SECONDS_TOTAL, ()),
    Quantity.ENERGY_JOULES: (catalogue.GPU_OWNER_ENERGY_JOULES_TOTAL, ()),
    Quantity.COST: (catalogue.GPU_OWNER_COST_TOTAL, ("currency", "state")),
}


def device_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """Counters of physical GPUs; they end while NVML as a whole is missing."""
    if published.snapshot.nvml.value is not None:
        yield from _counters(published.ledger, labels, DeviceSubject, _DEVICE)


def mig_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """Counters of GPU instances."""
    if published.snapshot.nvml.value is not None:
        yield from _counters(published.ledger, labels, MigSubject, _MIG)


def container_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """Counters of containers, of those included that ended a while ago; and idle clocks of those that are there."""
    if published.snapshot.nvml.value is None:
        return
    yield from _counters(published.ledger, labels, ContainerSubject, _CONTAINER)
    yield from _distributions(
        published.ledger, labels, ContainerSubject, catalogue.GPU_CONTAINER_UTILIZATION_DISTRIBUTION_RATIO
    )
    clocks = [(labels.container(row), row, clock) for row, clock in clocks_of(published)]
    yield from metric(
        catalogue.GPU_CONTAINER_LAST_ACTIVE_TIMESTAMP_SECONDS,
        latest((each, last_active(row, clock)) for each, row, clock in clocks),
    )
    yield from metric(
        catalogue.GPU_CONTAINER_EVER_ACTIVE,
        latest((each, float(clock.ever_active) if clock.from_start else None) for each, _, clock in clocks),
    )


def owner_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """Counters of owners: they outlive pods, devices and a driver that is away."""
    yield from _counters(published.ledger, labels, OwnerSubject, _OWNER)
    yield from _distributions(published.ledger, labels, OwnerSubject, catalogue.GPU_OWNER_UTILIZATION_DISTRIBUTION_RATIO)


def pod_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """When each pod last worked on any of its devices."""
    by_pod: dict[tuple[str, str, str], list[tuple[ContainerRow, IdleClock]]] = {}
    for row, clock in clocks_of(published):
        by_pod.setdefault((row.container.pod_uid, row.container.namespace, row.container.pod), []).append((row, clock))
    yield from metric(
        catalogue.GPU_POD_LAST_ACTIVE_TIMESTAMP_SECONDS,
        ((labels.pod(pod), _last_active_of(by_pod, pod)) for pod in published.attribution.pods),
    )


def clocks_of(published: Published) -> Iterator[tuple[ContainerRow, IdleClock]]:
    """Each holder with its idle clock."""
    clocks = published.ledger.idle_clocks
    for row in published.attribution.containers:
        clock = clocks.get(UseKey(row.container, row.device, None if row.mig is None else row.mig.key))
        if row.holds and clock is not None:
            yield row, clock


def last_active(row: ContainerRow, clock: IdleClock) -> float | None:
    """Unix time; None while its activity cannot be measured."""
    return None if row.utilization_ratio is None else clock.last_active_timestamp_seconds


def _last_active_of(by_pod: Mapping[tuple[str, str, str], list[tuple[ContainerRow, IdleClock]]], pod: PodRow) -> float | None:
    """The latest of its devices; nobody can say while one of them is unknown, unless it works on another."""
    found = by_pod.get((pod.uid, pod.namespace, pod.pod), [])
    known = [moment for row, clock in found if (moment := last_active(row, clock)) is not None]
    active = any(row.state is State.ACTIVE for row, _ in found)
    return max(known) if known and (active or len(known) == len(found)) else None


def _counters(
    ledger: Ledger, labels: Labeller, kind: Kind, table: Mapping[Quantity, tuple[Family, tuple[str, ...]]]
) -> Iterator[Metric]:
    found: dict[Quantity, list[Labelled]] = {quantity: [] for quantity in table}
    of_subject = _remembering(labels)
    for account, tally in ledger.tallies.items():
        if isinstance(account.subject, kind) and account.quantity in table:
            _, names = table[account.quantity]
            details = account.detail.split("/") if names else ()
            further = dict(zip(names, details, strict=True))
            found[account.quantity].append(({**of_subject(account.subject), **further}, tally.shown))
    for quantity, (family, _) in table.items():
        yield from metric(family, _in_order(summed(found[quantity])))


def _distributions(ledger: Ledger, labels: Labeller, kind: Kind, family: Family) -> Iterator[Metric]:
    found = (
        (labels.subject(subject), distribution.shown)
        for subject, distribution in ledger.distributions.items()
        if isinstance(subject, kind)
    )
    yield from histogram(family, sorted(summed_histograms(found), key=lambda each: sorted(each[0].items())))


def _in_order(samples: Iterable[Labelled]) -> list[Labelled]:
    return sorted(samples, key=lambda sample: sorted(sample[0].items()))


def _remembering(labels: Labeller) -> Callable[[Subject], Labels]:
    """Labels are made once for each subject of a render, not once for each of its counters."""
    made: dict[Subject, Labels] = {}

    def of_subject(subject: Subject) -> Labels:
        if subject not in made:
            made[subject] = labels.subject(subject)
        return made[subject]

    return of_subject
