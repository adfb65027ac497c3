"""Since when holders have not worked: what of the ledger's idle clocks can be said in this cycle."""

from collections.abc import Mapping

from exporter.accounting.idle import use_key
from exporter.model.attribution import ContainerRow, PodRow, State
from exporter.model.ledger import IdleClock, Ledger
from exporter.model.published import Published

PodName = tuple[str, str, str]
"""UID, namespace and name: of pods that only the kubelet names the UID is empty."""


def clock_of(ledger: Ledger, row: ContainerRow) -> IdleClock | None:
    """The clock of a holder; None for a row that holds nothing."""
    return ledger.idle_clocks.get(use_key(row)) if row.holds else None


def last_active(ledger: Ledger, row: ContainerRow) -> float | None:
    """Unix time; None for a row that holds nothing, and while its activity cannot be measured.

    Where only the kind of idleness is unknown (its processes cannot be read) it is known not to work, and since when.
    """
    clock = clock_of(ledger, row)
    return None if clock is None or row.utilization_ratio is None else clock.last_active_timestamp_seconds


def ever_active(ledger: Ledger, row: ContainerRow) -> bool | None:
    """As the family says it: None for a row that holds nothing, and unless it was watched from its start."""
    clock = clock_of(ledger, row)
    return None if clock is None or not clock.from_start else clock.ever_active


def seen_active(ledger: Ledger, row: ContainerRow) -> bool | None:
    """For people: True if it was ever seen active, from whenever it was watched; False only if watched from its start."""
    clock = clock_of(ledger, row)
    return True if clock is not None and clock.ever_active else ever_active(ledger, row)


def last_active_of_pods(published: Published) -> Mapping[PodName, float | None]:
    """Unix time for each pod: the latest of its devices; None while one of them is unknown, unless it works on another."""
    held: dict[PodName, list[ContainerRow]] = {}
    for row in published.attribution.containers:
        if row.holds:
            held.setdefault((row.container.pod_uid, row.container.namespace, row.container.pod), []).append(row)
    return {name_of(pod): _latest(published.ledger, pod, held.get(name_of(pod), [])) for pod in published.attribution.pods}


def name_of(pod: PodRow) -> PodName:
    """What its containers call it."""
    return pod.uid, pod.namespace, pod.pod


def _latest(ledger: Ledger, pod: PodRow, rows: list[ContainerRow]) -> float | None:
    moments = [last_active(ledger, row) for row in rows]
    known = [moment for moment in moments if moment is not None]
    works = any(row.state is State.ACTIVE for row in rows)
    complete = len(known) == len(moments) and _all_resolved(pod, rows)
    return max(known) if known and (works or complete) else None


def _all_resolved(pod: PodRow, rows: list[ContainerRow]) -> bool:
    """False if it holds something that could not be laid on a device: it may work there."""
    units = {(allocation.resource, allocation.device_id) for row in rows for allocation in row.allocations}
    return pod.assigned is not None and len(units) >= pod.assigned
