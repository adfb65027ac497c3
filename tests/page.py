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
    for problem in (*_out_of_range(page), *_parts_above_their_whole(page)):
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
    busy = page.values("gpu_utilization_ratio", "uuid")
    for uuid, ratio in page.values("gpu_container_utilization_ratio", "uuid").items():
        if uuid in busy and ratio > busy[uuid] + 1e-9:
            yield f"{ratio} of {busy[uuid]} busy is given away on {uuid}"
