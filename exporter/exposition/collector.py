"""The published value becomes metric families, made anew for each render: nothing outlives its subject. No I/O."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from exporter.exposition.collector_device import device_families, mig_families
from exporter.exposition.collector_ledger import (
    container_ledger,
    counted_in,
    device_ledger,
    mig_ledger,
    owner_ledger,
    pod_ledger,
)
from exporter.exposition.collector_node import exporter_families, node_families
from exporter.exposition.collector_workload import container_families, pod_families
from exporter.exposition.labels import labeller
from exporter.model.published import Published


def families(published: Published, extra_labels: tuple[str, ...] = ()) -> Iterator[Metric]:
    """Every family that has a sample, each once, in the order of the groups of the catalogue.

    Args:
        published: Outcome of the last cycle.
        extra_labels: Names of the configured further owner labels.
    """
    labels = labeller(published, extra_labels)
    counted = counted_in(published.ledger)
    yield from device_families(published, labels)
    yield from device_ledger(published, labels, counted)
    yield from mig_families(published, labels)
    yield from mig_ledger(published, labels, counted)
    yield from container_families(published, labels)
    yield from container_ledger(published, labels, counted)
    yield from owner_ledger(published, labels, counted)
    yield from pod_families(published, labels)
    yield from pod_ledger(published, labels)
    yield from node_families(published, labels)
    yield from exporter_families(published)
