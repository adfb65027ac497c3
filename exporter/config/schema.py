"""Every setting with its default, unit and effect. `docs/configuration.md` is generated from here."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from exporter.catalogue import RESERVED_LABELS
from exporter.config.counting import LedgerConfig, PricesConfig
from exporter.config.section import Section
from exporter.config.units import Address, Bytes, ListenAddress, Seconds
from exporter.model.policy import OwnerSource, WorkloadClass

LABEL_NAME = r"^[a-z][a-z0-9_]{0,62}$"


def _word_for_off(value: object) -> object:
    """YAML reads the bare word `off` as false."""
    return "off" if value is False else value


AutoOrOff = Annotated[Literal["auto", "off"], BeforeValidator(_word_for_off)]


class NvmlConfig(Section):
    """The NVIDIA driver's library."""

    library: str = Field("libnvidia-ml.so.1", min_length=1, description="Path or name of NVIDIA's management library.")
    deadline: Seconds = Field(
        4.0, gt=0, description="A cycle's NVML calls that take longer count as missing (`timeout`); HTTP is never held up."
    )
    gpm: AutoOrOff = Field(
        "auto",
        description="`auto`: the GPU's own counters of activity where it has them (Hopper and newer). "
        "Without them nothing tells what a MIG instance does.",
    )
    accounting: AutoOrOff = Field(
        "auto",
        description="`auto`: the driver's accounts of processes where an administrator has switched them on. "
        "The exporter never does.",
    )


class PodResourcesConfig(Section):
    """The kubelet's pod-resources API."""

    socket: str = Field(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        min_length=1,
        description="Path of the socket. Mount its folder, never the file: the kubelet makes a new one when it restarts.",
    )
    interval: Seconds = Field(10.0, gt=0, description="How often the kubelet is asked; a change of a pod asks at once.")
    deadline: Seconds = Field(5.0, gt=0, description="An answer that takes longer counts as missing (`timeout`).")
    max_message: Bytes = Field(64 << 20, gt=0, description="A larger answer is refused (`too_large`).")


class ProcfsConfig(Section):
    """The host's /proc."""

    root: str = Field("/proc", min_length=1, description="Where the host's /proc is mounted; needs `hostPID: true`.")
    deadline: Seconds = Field(2.0, gt=0, description="A cycle's reads that take longer count as missing (`timeout`).")


class KubernetesConfig(Section):
    """The Kubernetes API."""

    enabled: bool = Field(
        default=True, description="`false`: no call to the API; owners are `unknown`, allocation still comes from the kubelet."
    )
    api_server: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="URL; empty: the one of the service account or kubeconfig."
    )
    kubeconfig: str = Field(
        "", description="Path; empty: the service account of the exporter's own pod. No other place is searched."
    )
    owner_lookups: bool = Field(
        default=True, description="`false`: owners come from references and labels alone, without a GET."
    )
    watch_timeout: Seconds = Field(300.0, ge=30, description="After this time a watch is closed and opened again.")


class OwnerFieldConfig(Section):
    """Where an owner label comes from."""

    keys: tuple[str, ...] = Field(min_length=1, description="Label and annotation keys; the first that has a value wins.")
    normalize: Literal["none", "lower"] = Field("none", description="`lower` folds the value to lower case.")
    aliases: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Published value: the spellings that are folded into it."
    )

    @field_validator("aliases")
    @classmethod
    def _one_meaning(cls, aliases: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        spellings = [spelling for listed in aliases.values() for spelling in listed]
        twice = sorted({spelling for spelling in spellings if spellings.count(spelling) > 1})
        if twice:
            raise ValueError(f"{twice[0]!r} is folded into two values")
        return aliases


class TeamConfig(OwnerFieldConfig):
    """Who answers."""

    keys: tuple[str, ...] = Field(
        ("team", "finops.org/team", "app.kubernetes.io/team", "squad"),
        min_length=1,
        description="Label and annotation keys; the first that has a value wins.",
    )


class CostCenterConfig(OwnerFieldConfig):
    """Who pays."""

    keys: tuple[str, ...] = Field(
        ("cost-center", "cost_center", "costcenter", "costCenter", "finops.org/cost-center"),
        min_length=1,
        description="Label and annotation keys; the first that has a value wins.",
    )


class ExtraLabelConfig(OwnerFieldConfig):
    """A further owner label."""

    name: str = Field(pattern=LABEL_NAME, description="Name of the label on the metrics.")

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_LABELS:
            raise ValueError(f"{name!r} is already a label of these metrics")
        return name


def _without_repetition(labels: tuple[ExtraLabelConfig, ...]) -> tuple[ExtraLabelConfig, ...]:
    names = [label.name for label in labels]
    if len(set(names)) != len(names):
        raise ValueError("a label name stands here twice")
    return labels


class OwnershipConfig(Section):
    """Who answers for a pod and who pays for it."""

    team: TeamConfig = TeamConfig()
    cost_center: CostCenterConfig = CostCenterConfig()
    extra_labels: Annotated[tuple[ExtraLabelConfig, ...], AfterValidator(_without_repetition)] = Field(
        (), max_length=8, description="Further owner labels, each `{name, keys, normalize, aliases}`."
    )
    precedence: tuple[OwnerSource, ...] = Field(
        tuple(OwnerSource),
        min_length=1,
        description="Where to look first. With `namespace_label` first nobody can move a bill by relabelling a pod.",
    )
    unowned: str = Field("unowned", min_length=1, description="Value when metadata was read and names nobody.")
    unknown: str = Field("unknown", min_length=1, description="Value when metadata could not be read.")
    max_length: int = Field(128, ge=16, le=512, description="Longer values are cut to this many characters.")

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if self.unowned == self.unknown:
            raise ValueError("unowned and unknown have to differ: the one is an answer, the other is none")
        return self


class ActivityConfig(Section):
    """What counts as work."""

    active_above: float = Field(0.01, ge=0, lt=1, description="Utilisation ratio above which a device counts as active.")


class ClassConditionConfig(Section):
    """One of them must hold."""

    workload_type: tuple[str, ...] = Field((), description="The workload's type is one of these.")
    label_exists: tuple[str, ...] = Field((), description="The pod or its workload has one of these labels.")

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.workload_type and not self.label_exists:
            raise ValueError("a condition is wanted: workload_type or label_exists")
        return self


class ClassRuleConfig(Section):
    """A rule that names the class of a workload."""

    workload_class: WorkloadClass = Field(alias="class", description="The class.")
    when: ClassConditionConfig = Field(description="Conditions, one of which must hold.")


def _rule(name: WorkloadClass, types: tuple[str, ...], labels: tuple[str, ...] = ()) -> ClassRuleConfig:
    return ClassRuleConfig.model_validate({"class": name, "when": {"workload_type": types, "label_exists": labels}})


DEFAULT_CLASSES = (
    _rule(
        WorkloadClass.NOTEBOOK,
        ("notebook", "workspace"),
        ("notebook-name", "hub.jupyter.org/username", "com.coder.workspace.name"),
    ),
    _rule(WorkloadClass.SERVING, ("inferenceservice", "llminferenceservice", "rayservice", "dynamographdeployment")),
    _rule(WorkloadClass.TRAINING, ("pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob", "trainjob")),
    _rule(WorkloadClass.BATCH_INFERENCE, ("cronjob",)),
)


class Config(Section):
    """The whole configuration."""

    node_name: str = Field(
        "", description="Name of this node in Kubernetes; empty: `$NODE_NAME`, else the host's name, with a warning."
    )
    interval: Seconds = Field(
        5.0, ge=0.1, le=9, description="Length of a cycle; at most 9s, because NVML keeps 10 s of samples."
    )
    max_age: Seconds = Field(
        60.0,
        gt=0,
        description="The last good holdings and metadata are used no longer than this. Measured values are never used again.",
    )
    listen: ListenAddress = Field(Address("", 9836), description="Address and port of the HTTP server.")
    nvml: NvmlConfig = NvmlConfig()
    pod_resources: PodResourcesConfig = PodResourcesConfig()
    procfs: ProcfsConfig = ProcfsConfig()
    kubernetes: KubernetesConfig = KubernetesConfig()
    ownership: OwnershipConfig = OwnershipConfig()
    activity: ActivityConfig = ActivityConfig()
    ledger: LedgerConfig = LedgerConfig()
    prices: PricesConfig = PricesConfig()
    classes: tuple[ClassRuleConfig, ...] = Field(
        DEFAULT_CLASSES, description="First match wins; the annotation `gpu-ownership/class` overrides. No match: `other`."
    )
