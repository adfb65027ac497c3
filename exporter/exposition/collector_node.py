"""Families of the node and of the exporter itself."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.metrics_core import Metric

from exporter import catalogue
from exporter.attribution.node_identity import node_identity
from exporter.exposition.families import histogram, info, metric
from exporter.exposition.labels import Labeller
from exporter.model.published import Build, Published


def node_families(published: Published, labels: Labeller) -> Iterator[Metric]:
    """What the node is, and how many devices it can give and gave."""
    node = {"node": labels.node}
    meta = published.snapshot.node_meta.value
    if meta is not None:
        identity = {name: str(value) for name, value in asdict(node_identity(meta)).items()}
        yield from info(catalogue.GPU_NODE_INFO, [{**node, **identity}])
        yield from metric(catalogue.GPU_NODE_CREATED_TIMESTAMP_SECONDS, [(node, meta.created_timestamp_seconds)])
    for family, units in (
        (catalogue.GPU_NODE_ALLOCATABLE_DEVICES, published.attribution.allocatable),
        (catalogue.GPU_NODE_ALLOCATED_DEVICES, published.attribution.allocated),
    ):
        yield from metric(family, (({**node, "resource": name}, count) for name, count in sorted(units.items())))


def build_families(build: Build) -> Iterator[Metric]:
    """What is running: known before the first cycle."""
    labels = {
        "version": build.version,
        "commit": build.commit,
        "python": build.python,
        "simulated": "true" if build.simulated else "false",
    }
    return info(catalogue.GPU_EXPORTER_BUILD_INFO, [labels])


def exporter_families(published: Published) -> Iterator[Metric]:
    """How the exporter fares: sources, what it could not resolve, its own cycles."""
    yield from build_families(published.build)
    yield from _sources(published)
    yield from _unresolved(published)
    ledger = published.ledger
    yield from metric(
        catalogue.GPU_EXPORTER_REJECTED_READINGS_TOTAL,
        (
            ({"reading": reading, "reason": reason}, count)
            for (reading, reason), count in sorted(ledger.rejected_readings.items())
        ),
    )
    yield from metric(catalogue.GPU_EXPORTER_LOST_SAMPLE_SECONDS_TOTAL, [({}, ledger.lost_sample_seconds)])
    if ledger.cycle_duration is not None:
        yield from histogram(catalogue.GPU_EXPORTER_CYCLE_DURATION_SECONDS, [({}, ledger.cycle_duration)])
    yield from metric(catalogue.GPU_EXPORTER_LAST_CYCLE_TIMESTAMP_SECONDS, [({}, published.snapshot.timestamp_seconds)])


def _sources(published: Published) -> Iterator[Metric]:
    health = sorted(published.sources.items())
    ledger = published.ledger
    yield from metric(catalogue.GPU_EXPORTER_SOURCE_UP, (({"source": name}, int(each.up)) for name, each in health))
    yield from info(
        catalogue.GPU_EXPORTER_SOURCE_MISSING,
        ({"source": name, "reason": each.reason} for name, each in health if each.reason),
    )
    yield from metric(
        catalogue.GPU_EXPORTER_SOURCE_LAST_SUCCESS_TIMESTAMP_SECONDS,
        (({"source": name}, moment) for name, moment in sorted(ledger.source_last_success_timestamp_seconds.items())),
    )
    yield from histogram(
        catalogue.GPU_EXPORTER_SOURCE_DURATION_SECONDS,
        (({"source": name}, ledger.source_durations[name]) for name in sorted(ledger.source_durations)),
    )
    yield from metric(
        catalogue.GPU_EXPORTER_SOURCE_ERRORS_TOTAL,
        (({"source": name, "reason": reason}, count) for (name, reason), count in sorted(ledger.source_errors.items())),
    )


def _unresolved(published: Published) -> Iterator[Metric]:
    attribution = published.attribution
    devices = Counter(each.reason.value for each in attribution.unresolved_allocations)
    pids = Counter(reason for _, reason in {(each.pid, each.reason.value) for each in attribution.unresolved_pids})
    conflicts = Counter(each.kind.value for each in attribution.conflicts)
    yield from metric(
        catalogue.GPU_EXPORTER_UNRESOLVED_DEVICES, (({"reason": reason}, count) for reason, count in sorted(devices.items()))
    )
    yield from metric(
        catalogue.GPU_EXPORTER_UNRESOLVED_PIDS, (({"reason": reason}, count) for reason, count in sorted(pids.items()))
    )
    yield from info(
        catalogue.GPU_EXPORTER_UNRESOLVED_ALLOCATION_INFO,
        (
            {
                "namespace": each.namespace,
                "pod": each.pod,
                "container": each.container,
                "resource": each.resource,
                "device_id": each.device_id,
                "reason": each.reason.value,
            }
            for each in attribution.unresolved_allocations
        ),
    )
    yield from metric(catalogue.GPU_EXPORTER_CONFLICTS, (({"kind": kind}, count) for kind, count in sorted(conflicts.items())))
