"""Families of containers and pods: what they hold, what they use, who answers for them."""

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from exporter import catalogue
from exporter.catalogue import Family
from exporter.exposition.families import Labels, info, metric, summed
from exporter.exposition.labels import Labeller
from exporter.model.attribution import ContainerRow, PodRow
from exporter.model.published import Published

_USED: tuple[tuple[Family, Callable[[ContainerRow], float | None]], ...] = (
    (catalogue.GPU_CONTAINER_UTILIZATION_RATIO, lambda row: row.utilization_ratio),
    (catalogue.GPU_CONTAINER_MEMORY_USED_BYTES, lambda row: row.memory_used_bytes),
    (catalogue.GPU_CONTAINER_PROCESSES, lambda row: row.processes),
)
_COUNTED: tuple[tuple[Family, Callable[[PodRow], float | None]], ...] = (
    (catalogue.GPU_POD_DEVICES_REQUESTED, lambda row: row.requested),
    (catalogue.GPU_POD_DEVICES_ASSIGNED, lambda row: row.assigned),
    (catalogue.GPU_POD_DEVICES_IDLE, lambda row: row.idle),
    (catalogue.GPU_POD_START_TIMESTAMP_SECONDS, lambda row: row.start_timestamp_seconds),
)


def container_families(published: Published, labels: Labeller) -> Iterator[Metric]:
    """One row per container and device: allocations of holders, use of whoever uses."""
    rows = [(labels.container(row), row) for row in published.attribution.containers]
    holders = [(each, row) for each, row in rows if row.holds]
    yield from metric(catalogue.GPU_CONTAINER_ALLOCATION_RATIO, summed((each, row.share_ratio) for each, row in holders))
    yield from info(catalogue.GPU_CONTAINER_ALLOCATION_INFO, _allocations(holders))
    for family, reading in _USED:
        yield from metric(family, summed((each, reading(row)) for each, row in rows))
    yield from info(catalogue.GPU_CONTAINER_UNALLOCATED_USE, (each for each, row in rows if row.uses_unheld))


def pod_families(published: Published, labels: Labeller) -> Iterator[Metric]:
    """One row per pod that asks for, holds or uses a GPU."""
    rows = [(labels.pod(row), row) for row in published.attribution.pods]
    yield from info(catalogue.GPU_POD_OWNER_INFO, ({**each, **_evidence(row)} for each, row in rows))
    for family, reading in _COUNTED:
        yield from metric(family, ((each, reading(row)) for each, row in rows))


def _allocations(holders: list[tuple[Labels, ContainerRow]]) -> Iterator[Labels]:
    for labels, row in holders:
        for allocation in row.allocations:
            yield {
                **labels,
                "resource": allocation.resource,
                "source": allocation.source.value,
                "device_id": allocation.device_id,
                "mig_uuid": "" if row.mig is None else row.mig.uuid,
            }


def _evidence(row: PodRow) -> Labels:
    return {
        "team_source": row.owner.team_source,
        "cost_center_source": row.owner.cost_center_source,
        "queue": row.owner.queue,
        "priority_class": row.priority_class,
    }
