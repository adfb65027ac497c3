"""Families of the ledger: its counters under the labels by which it keeps them, and its idle clocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import Metric

from exporter import catalogue
from exporter.catalogue import Family
from exporter.exposition.families import Labelled, Labels, histogram, latest, metric, summed, summed_histograms
from exporter.exposition.idle_clocks import ever_active, last_active, last_active_of_pods, name_of
from exporter.exposition.labels import Labeller
from exporter.model.ledger import Account, ContainerSubject, DeviceSubject, Ledger, MigSubject, OwnerSubject, Quantity, Subject
from exporter.model.published import Published

Kind = type[DeviceSubject] | type[MigSubject] | type[ContainerSubject] | type[OwnerSubject]
Counted = Mapping[tuple[type, Quantity], Sequence[tuple[Account, float]]]
"""What is shown of each counter, by the kind of its subject and by what is counted."""
Table = Mapping[Quantity, tuple[Family, tuple[str, ...]]]
"""Under which family a quantity is shown, and the labels that its detail stands for."""

_DEVICE: Table = {
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
_MIG: Table = {
    Quantity.BUSY_SECONDS: (catalogue.GPU_MIG_BUSY_SECONDS_TOTAL, ()),
}
_CONTAINER: Table = {
    Quantity.HELD_SECONDS: (catalogue.GPU_CONTAINER_HELD_SECONDS_TOTAL, ("state",)),
    Quantity.BUSY_SECONDS: (catalogue.GPU_CONTAINER_BUSY_SECONDS_TOTAL, ()),
    Quantity.ENERGY_JOULES: (catalogue.GPU_CONTAINER_ENERGY_JOULES_TOTAL, ()),
}
_OWNER: Table = {
    Quantity.HELD_SECONDS: (catalogue.GPU_OWNER_HELD_SECONDS_TOTAL, ("state",)),
    Quantity.MEASURED_SECONDS: (catalogue.GPU_OWNER_MEASURED_SECONDS_TOTAL, ()),
    Quantity.BUSY_SECONDS: (catalogue.GPU_OWNER_BUSY_SECONDS_TOTAL, ()),
    Quantity.UNHELD_BUSY_SECONDS: (catalogue.GPU_OWNER_UNHELD_BUSY_SECONDS_TOTAL, ()),
    Quantity.ENERGY_JOULES: (catalogue.GPU_OWNER_ENERGY_JOULES_TOTAL, ()),
    Quantity.COST: (catalogue.GPU_OWNER_COST_TOTAL, ("currency", "state")),
}


def counted_in(ledger: Ledger) -> Counted:
    """Every counter by what it counts of what: sorted once for a render, not searched once for each family."""
    found: dict[tuple[type, Quantity], list[tuple[Account, float]]] = {}
    for account, tally in ledger.tallies.items():
        found.setdefault((type(account.subject), account.quantity), []).append((account, tally.shown))
    return found


def device_ledger(published: Published, labels: Labeller, counted: Counted) -> Iterator[Metric]:
    """Counters of physical GPUs; they end while NVML as a whole is missing."""
    if published.snapshot.nvml.value is not None:
        yield from _counters(counted, labels, DeviceSubject, _DEVICE)


def mig_ledger(published: Published, labels: Labeller, counted: Counted) -> Iterator[Metric]:
    """Counters of GPU instances."""
    if published.snapshot.nvml.value is not None:
        yield from _counters(counted, labels, MigSubject, _MIG)


def container_ledger(published: Published, labels: Labeller, counted: Counted) -> Iterator[Metric]:
    """Counters of containers, of those included that ended a while ago; and idle clocks of those that are there."""
    if published.snapshot.nvml.value is None:
        return
    ledger = published.ledger
    yield from _counters(counted, labels, ContainerSubject, _CONTAINER)
    yield from _distributions(ledger, labels, ContainerSubject, catalogue.GPU_CONTAINER_UTILIZATION_DISTRIBUTION_RATIO)
    rows = [(labels.container(row), row) for row in published.attribution.containers if row.holds]
    yield from metric(
        catalogue.GPU_CONTAINER_LAST_ACTIVE_TIMESTAMP_SECONDS,
        latest((each, last_active(ledger, row)) for each, row in rows),
    )
    yield from metric(catalogue.GPU_CONTAINER_EVER_ACTIVE, latest((each, ever_active(ledger, row)) for each, row in rows))


def owner_ledger(published: Published, labels: Labeller, counted: Counted) -> Iterator[Metric]:
    """Counters of owners: they outlive pods, devices and a driver that is away."""
    yield from _counters(counted, labels, OwnerSubject, _OWNER)
    yield from _distributions(published.ledger, labels, OwnerSubject, catalogue.GPU_OWNER_UTILIZATION_DISTRIBUTION_RATIO)


def pod_ledger(published: Published, labels: Labeller) -> Iterator[Metric]:
    """When each pod last worked on any of its devices."""
    moments = last_active_of_pods(published)
    yield from metric(
        catalogue.GPU_POD_LAST_ACTIVE_TIMESTAMP_SECONDS,
        ((labels.pod(pod), moments[name_of(pod)]) for pod in published.attribution.pods),
    )


def _counters(counted: Counted, labels: Labeller, kind: Kind, table: Table) -> Iterator[Metric]:
    of_subject = _remembering(labels)
    for quantity, (family, names) in table.items():
        samples = (
            ({**of_subject(account.subject), **_details(names, account.detail)}, amount)
            for account, amount in counted.get((kind, quantity), ())
        )
        yield from metric(family, _in_order(summed(samples)))


def _details(names: tuple[str, ...], detail: str) -> Labels:
    return dict(zip(names, detail.split("/"), strict=True)) if names else {}


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
