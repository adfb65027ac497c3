"""A scraped page, parsed strictly, and what must hold of every page whatever the node is like."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

Labels = Mapping[str, str]

RATIOS_AT_MOST_ONE = (
    "gpu_utilization_ratio",
    "gpu_container_utilization_ratio",
    "gpu_container_allocation_ratio",
    "gpu_allocated_ratio",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of the page."""

    name: str
    labels: Labels
    value: float


class Page:
    """All samples of one scrape."""

    def __init__(self, text: str, *, openmetrics: bool = False) -> None:
        self.text = text
        families = openmetrics_families(text) if openmetrics else text_families(text)  # type: ignore[no-untyped-call]
        self.samples = [
            Sample(sample.name, dict(sample.labels), sample.value) for family in families for sample in family.samples
        ]

    def series(self, name: str, **labels: str) -> list[Sample]:
        """Samples of that name that carry these labels."""
        return [
            sample
            for sample in self.samples
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample's value; None if there is none.

        Raises:
            AssertionError: more than one sample carries these labels.
        """
        found = self.series(name, **labels)
        assert len(found) <= 1, found
        return found[0].value if found else None

    def values(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Value by one label, summed over the others."""
        sums: Counter[str] = Counter()
        for sample in self.series(name, **labels):
            sums[sample.labels.get(label, "")] += sample.value  # type: ignore[assignment]
        return dict(sums)

    def label_sets(self, prefix: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """(name, labels) of all samples whose name begins so."""
        return {(s.name, tuple(sorted(s.labels.items()))) for s in self.samples if s.name.startswith(prefix)}


def assert_sound(page: Page, device_uuids: set[str] | None = None) -> None:
    """O1 to O5 of the case book: nothing repeated, all devices there, parts within their wholes, no sentinel anywhere."""
    keys = Counter((sample.name, tuple(sorted(sample.labels.items()))) for sample in page.samples)
    assert not [key for key, count in keys.items() if count > 1]
    if device_uuids is not None:
        assert {sample.labels["uuid"] for sample in page.series("gpu_info")} == device_uuids
    checks = (_out_of_range, _parts_above_their_whole, _busier_than_their_device, _counted_above_the_whole, _crooked)
    for problem in (problem for check in checks for problem in check(page)):
        raise AssertionError(problem)


def _out_of_range(page: Page) -> Iterator[str]:
    for sample in page.samples:
        if not math.isfinite(sample.value) and sample.labels.get("le") != "+Inf":
            yield f"{sample} is no number"
        if sample.name in RATIOS_AT_MOST_ONE and not -1e-9 <= sample.value <= 1 + 1e-9:
            yield f"{sample} is no ratio"
        if sample.name.endswith("memory_used_bytes") and sample.value > 1 << 44:
            yield f"{sample} is no memory"
        if len(sample.labels) > 20:
            yield f"{sample} has too many labels"


def _parts_above_their_whole(page: Page) -> Iterator[str]:
    for uuid, share in page.values("gpu_container_allocation_ratio", "uuid").items():
        if share > 1 + 1e-9:
            yield f"{share} of {uuid} is held"
    used = page.values("gpu_memory_used_bytes", "uuid")
    parts = Counter(page.values("gpu_container_memory_used_bytes", "uuid"))
    parts.update(page.values("gpu_unattributed_memory_bytes", "uuid"))
    for uuid, memory in parts.items():
        if uuid in used and memory > used[uuid] + 0.5:
            yield f"{memory} of {used[uuid]} bytes are given away on {uuid}"


def _busier_than_their_device(page: Page) -> Iterator[str]:
    """Of GPUs without MIG: a MIG instance's containers are busy in parts of the instance."""
    busy = page.values("gpu_utilization_ratio", "uuid")
    of_whole_gpus: Counter[str] = Counter()
    for sample in page.series("gpu_container_utilization_ratio"):
        if "gpu_instance_id" not in sample.labels:
            of_whole_gpus[sample.labels["uuid"]] += sample.value  # type: ignore[assignment]
    for uuid, ratio in of_whole_gpus.items():
        if uuid in busy and ratio > busy[uuid] + 1e-9:
            yield f"{ratio} of {busy[uuid]} busy is given away on {uuid}"


WHOLES = {
    "gpu_provisioned_seconds_total": (
        "gpu_unallocated_seconds_total",
        "gpu_allocation_unknown_seconds_total",
        "gpu_container_held_seconds_total",
    ),
    "gpu_busy_seconds_total": ("gpu_unattributed_busy_seconds_total", "gpu_container_busy_seconds_total"),
    "gpu_energy_joules_total": ("gpu_unattributed_energy_joules_total", "gpu_container_energy_joules_total"),
}
"""Counters of a device, and those whose sum is never more: what the hold after a birth keeps back is all that is missing."""


def _counted_above_the_whole(page: Page) -> Iterator[str]:
    for name, parts in WHOLES.items():
        whole = page.values(name, "uuid")
        counted: Counter[str] = Counter()
        for part in parts:
            counted.update(page.values(part, "uuid"))
        for uuid, amount in counted.items():
            if amount > whole.get(uuid, 0.0) * (1 + 1e-9) + 1e-6:
                yield f"{amount} of {whole.get(uuid)} {name} is given away on {uuid}"
    for sample in page.samples:
        if sample.name.endswith("_total") and sample.value < 0:
            yield f"{sample} is negative"


def _crooked(page: Page) -> Iterator[str]:
    """Histograms whose buckets fall, or that do not end in their count."""
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = {}
    for sample in page.samples:
        if sample.name.endswith("_bucket"):
            key = (sample.name.removesuffix("_bucket"), tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le")))
            series.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
    counts = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in page.samples if s.name.endswith("_count")}
    for (name, labels), buckets in series.items():
        values = [count for _, count in sorted(buckets)]
        if values != sorted(values) or values[-1] != counts.get((f"{name}_count", labels)):
            yield f"{name} {labels} is no histogram: {buckets}"
