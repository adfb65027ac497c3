"""What the configuration decides about owners: values that the pure rooms take, free of any file format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique


@unique
class OwnerSource(StrEnum):
    """Where a team or cost centre may be read from, in the words of ``ownership.precedence`` and of ``*_source`` labels."""

    POD_LABEL = "pod_label"
    POD_ANNOTATION = "pod_annotation"
    WORKLOAD_LABEL = "workload_label"
    WORKLOAD_ANNOTATION = "workload_annotation"
    NAMESPACE_LABEL = "namespace_label"
    NAMESPACE_ANNOTATION = "namespace_annotation"
    QUEUE = "queue"


@unique
class WorkloadClass(StrEnum):
    """What kind of use it is; decides which idle policy applies."""

    TRAINING = "training"
    BATCH_INFERENCE = "batch_inference"
    SERVING = "serving"
    NOTEBOOK = "notebook"
    EVALUATION = "evaluation"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class OwnerField:
    """One owner label and where its value comes from."""

    name: str
    """Label on the metrics: ``team``, ``cost_center``, or the name of an extra label."""
    keys: tuple[str, ...]
    """Label and annotation keys, first that has a value wins."""
    lower: bool = False
    """Fold the value to lower case."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Value as written -> value as published."""


@dataclass(frozen=True, slots=True)
class ClassRule:
    """The first rule of which one condition holds names the class."""

    workload_class: WorkloadClass
    workload_types: frozenset[str] = frozenset()
    """Holds if the workload's type is one of these."""
    label_exists: frozenset[str] = frozenset()
    """Holds if the pod or its workload has one of these labels."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """A price and what it is for. Each pattern is a shell pattern (``*``, ``?``); an empty one fits everything."""

    price_per_gpu_hour: float
    model: str = ""
    capacity: str = ""
    region: str = ""
    instance_type: str = ""


@dataclass(frozen=True, slots=True)
class PriceBook:
    """What a GPU costs by the hour: the first rule that fits."""

    currency: str = "USD"
    rules: tuple[PriceRule, ...] = ()
    default_per_gpu_hour: float | None = None
    """Where no rule fits; None: no price, and so no cost."""


@dataclass(frozen=True, slots=True)
class OwnershipPolicy:
    """Everything `attribution.ownership` needs to know."""

    team: OwnerField
    cost_center: OwnerField
    extra: tuple[OwnerField, ...] = ()
    precedence: tuple[OwnerSource, ...] = tuple(OwnerSource)
    unowned: str = "unowned"
    """Value when metadata was read and names nobody."""
    unknown: str = "unknown"
    """Value when metadata could not be read."""
    max_length: int = 128
    """Longer values are cut."""
    classes: tuple[ClassRule, ...] = ()
    class_annotation: str = "gpu-ownership/class"
    prices: PriceBook = field(default_factory=PriceBook)

    @property
    def fields(self) -> tuple[OwnerField, ...]:
        """All owner labels in the order in which they are published."""
        return (self.team, self.cost_center, *self.extra)
