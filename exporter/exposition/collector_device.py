"""Families of physical GPUs and MIG instances. While NVML is missing there is no device row, and so no sample."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric

from exporter import catalogue
from exporter.attribution.node_identity import node_identity
from exporter.catalogue import Family
from exporter.exposition.families import Labelled, Labels, info, metric
from exporter.exposition.labels import Labeller, mig_labels
from exporter.model.attribution import DeviceRow
from exporter.model.device import Device, MigInstance
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import DeviceSubject, MonotoneCounter
from exporter.model.node import Capacity
from exporter.model.published import Published

_MEASURED: tuple[tuple[Family, Callable[[Device], float | None]], ...] = (
    (catalogue.GPU_SM_ACTIVE_RATIO, lambda device: device.sm_active_ratio),
    (catalogue.GPU_TENSOR_ACTIVE_RATIO, lambda device: device.tensor_active_ratio),
    (catalogue.GPU_MEMORY_USED_BYTES, lambda device: device.memory_used_bytes),
    (catalogue.GPU_MEMORY_RESERVED_BYTES, lambda device: device.memory_reserved_bytes),
    (catalogue.GPU_MEMORY_TOTAL_BYTES, lambda device: device.memory_total_bytes),
    (catalogue.GPU_POWER_WATTS, lambda device: device.power_watts),
    (catalogue.GPU_POWER_LIMIT_WATTS, lambda device: device.power_limit_watts),
    (catalogue.GPU_TEMPERATURE_CELSIUS, lambda device: device.temperature_celsius),
    (catalogue.GPU_ROW_REMAP_PENDING, lambda device: device.row_remap_pending),
)

_OF_GPU_INSTANCE: tuple[tuple[Family, Callable[[MigInstance], float | None]], ...] = (
    (catalogue.GPU_MIG_UTILIZATION_RATIO, lambda mig: None if mig.activity is None else mig.activity.utilization_ratio),
    (catalogue.GPU_MIG_SM_ACTIVE_RATIO, lambda mig: mig.sm_active_ratio),
    (catalogue.GPU_MIG_TENSOR_ACTIVE_RATIO, lambda mig: mig.tensor_active_ratio),
)


def device_families(published: Published, labels: Labeller) -> Iterator[Metric]:
    """One row per physical GPU, whoever holds it."""
    rows = published.attribution.devices
    yield from info(catalogue.GPU_INFO, (_identity(published, labels, row) for row in rows))
    yield from metric(catalogue.GPU_UP, _up(published, labels))
    yield from metric(catalogue.GPU_UTILIZATION_RATIO, ((labels.device(row.device), row.utilization_ratio) for row in rows))
    for family, reading in _MEASURED:
        yield from metric(family, ((labels.device(row.device), reading(row.device)) for row in rows))
    yield from metric(catalogue.GPU_ALLOCATED_RATIO, ((labels.device(row.device), row.allocated_ratio) for row in rows))
    yield from metric(
        catalogue.GPU_UNATTRIBUTED_MEMORY_BYTES,
        (
            ({**labels.device(row.device), "reason": reason.value}, amount)
            for row in rows
            for reason, amount in sorted(row.unattributed_memory_bytes.items())
        ),
    )
    yield from metric(catalogue.GPU_PRICE_PER_HOUR, _prices(published, labels))
    yield from _counters(published, labels)


def mig_families(published: Published, labels: Labeller) -> Iterator[Metric]:
    """One row per MIG instance."""
    instances = [
        ({**labels.device(row.device), **mig_labels(instance)}, row, instance)
        for row in published.attribution.devices
        for instance in row.device.mig_instances
    ]
    yield from info(catalogue.GPU_MIG_INFO, ({**each, "mig_uuid": instance.uuid} for each, _, instance in instances))
    memories = _once_per_gpu_instance(instances)
    for family, measured in _OF_GPU_INSTANCE:
        yield from metric(family, ((each, measured(mig)) for each, mig in memories))
    yield from metric(catalogue.GPU_MIG_MEMORY_USED_BYTES, ((each, mig.memory_used_bytes) for each, mig in memories))
    yield from metric(catalogue.GPU_MIG_MEMORY_TOTAL_BYTES, ((each, mig.memory_total_bytes) for each, mig in memories))
    yield from metric(catalogue.GPU_MIG_SHARE_RATIO, ((each, _share(row, mig)) for each, row, mig in instances))


def _prices(published: Published, labels: Labeller) -> Iterator[Labelled]:
    meta = published.snapshot.node_meta.value
    capacity = Capacity.UNKNOWN if meta is None else node_identity(meta).capacity
    further = {"currency": published.attribution.currency, "capacity": capacity.value}
    for row in published.attribution.devices:
        yield {**labels.device(row.device), **further}, row.price_per_hour


def _identity(published: Published, labels: Labeller, row: DeviceRow) -> Labels:
    device = row.device
    state = published.snapshot.nvml.value
    return {
        **labels.device(device),
        "model": device.model,
        "pci_bus_id": device.pci_bus_id,
        "minor": "" if device.minor_number is None else str(device.minor_number),
        "driver_version": "" if state is None else state.driver_version,
        "mig_mode": device.mig_mode.value,
        "sharing": row.sharing.value,
        "architecture": device.architecture,
    }


def _up(published: Published, labels: Labeller) -> Iterator[Labelled]:
    for row in published.attribution.devices:
        yield labels.device(row.device), int(row.device.up)
    state = published.snapshot.nvml.value
    for index, _ in () if state is None else state.unidentified_devices:
        yield {"node": labels.node, "gpu": str(index)}, 0


def _once_per_gpu_instance(instances: Iterable[tuple[Labels, DeviceRow, MigInstance]]) -> list[tuple[Labels, MigInstance]]:
    """Compute instances share what their GPU instance has: it stands there once, so that a sum means something."""
    groups: dict[tuple[DeviceUuid, int], list[tuple[Labels, MigInstance]]] = {}
    for labels, row, mig in instances:
        groups.setdefault((row.device.uuid, mig.gpu_instance_id), []).append((labels, mig))
    return [group[0] if len(group) == 1 else _shared(group) for group in groups.values()]


def _shared(group: list[tuple[Labels, MigInstance]]) -> tuple[Labels, MigInstance]:
    """Without the labels that tell the compute instances apart."""
    labels, mig = group[0]
    kept = {name: value for name, value in labels.items() if name not in {"compute_instance_id", "mig_profile"}}
    return kept, mig


def _share(row: DeviceRow, instance: MigInstance) -> float | None:
    return row.mig_share_ratios.get(instance.key)


def _counters(published: Published, labels: Labeller) -> Iterator[Metric]:
    ledger = published.ledger
    devices = _lasting(published, labels) | {
        row.device.uuid: labels.device(row.device) for row in published.attribution.devices
    }
    yield from metric(
        catalogue.GPU_ENERGY_JOULES_TOTAL,
        (
            (devices[uuid], counter.total)
            for uuid, counter in sorted(ledger.energy_joules.items(), key=_by_key)
            if uuid in devices
        ),
    )
    yield from metric(catalogue.GPU_CLOCK_EVENT_SECONDS_TOTAL, _split(devices, _totals(ledger.clock_event_seconds), "reason"))
    yield from metric(catalogue.GPU_ECC_ERRORS_TOTAL, _split(devices, _totals(ledger.ecc_errors), "type"))
    nameless = (
        ({"node": labels.node, "gpu": str(index), "reason": reason}, count)
        for (index, reason), count in sorted(ledger.unidentified_errors.items())
    )
    errors = _split(devices, ledger.device_errors, "reason")
    yield from metric(catalogue.GPU_EXPORTER_DEVICE_ERRORS_TOTAL, (*errors, *nameless))


def _lasting(published: Published, labels: Labeller) -> dict[DeviceUuid, Labels]:
    """Devices that the ledger still shows; none while NVML as a whole is missing."""
    if published.snapshot.nvml.value is None:
        return {}
    subjects = [subject for subject in published.ledger.lives if isinstance(subject, DeviceSubject)]
    return {subject.uuid: labels.subject(subject) for subject in subjects}


def _split(
    devices: Mapping[DeviceUuid, Labels], amounts: Mapping[tuple[DeviceUuid, str], float], label: str
) -> Iterator[Labelled]:
    for (uuid, value), amount in sorted(amounts.items()):
        if uuid in devices:
            yield {**devices[uuid], label: value}, amount


def _totals(counters: Mapping[tuple[DeviceUuid, str], MonotoneCounter]) -> Mapping[tuple[DeviceUuid, str], float]:
    return {key: counter.total for key, counter in counters.items()}


def _by_key(item: tuple[DeviceUuid, MonotoneCounter]) -> DeviceUuid:
    return item[0]
