"""Settings of what is counted: the ledger and its prices."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from exporter.config.section import Section
from exporter.config.units import Seconds


class LedgerConfig(Section):
    """What is counted, and how long it is shown."""

    birth_hold: Seconds = Field(
        30.0,
        ge=0,
        le=3600,
        description="A new counter stands at 0 for this long, so that Prometheus sees it grow: two scrape intervals or more.",
    )
    ended_retention: Seconds = Field(
        300.0, ge=0, le=86_400, description="Counters of something that has ended stay for this long, unchanged."
    )
    owner_retention: Seconds = Field(
        86_400.0, ge=0, le=31_536_000, description="An owner's counters stay for this long after they last grew."
    )
    container_distribution: bool = Field(
        default=True, description="`false`: no histogram of utilisation for each container; owners keep theirs."
    )
    state_file: str = Field(
        "",
        pattern=r"^(/[^\x00]*[^\x00/])?$",
        description="Absolute path of a file of this node; with it counters, idle clocks and GPU indexes survive a restart. "
        "Empty: counting begins at 0 with the process.",
    )

    @model_validator(mode="after")
    def _owners_outlast_their_containers(self) -> Self:
        if self.owner_retention < self.ended_retention:
            raise ValueError("owner_retention has to be at least as long as ended_retention")
        return self


def _null_of_a_variable(value: object) -> object:
    """A variable or flag that is empty, or says null, means no price."""
    return None if value == "" else value


Price = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class PriceConfig(Section):
    """A price, and which GPUs it is for; what is left empty fits all of them."""

    model: str = Field("", description="Pattern of the GPU's model, as `NVIDIA H100*`.")
    capacity: Literal["", "on_demand", "spot", "unknown"] = Field("", description="How the node was bought.")
    region: str = Field("", description="Pattern of the node's region, as `eu-*`.")
    instance_type: str = Field("", description="Pattern of the node's instance type.")
    price: Price = Field(description="Money for one whole GPU for one hour.")


class PricesConfig(Section):
    """What a GPU costs."""

    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="ISO 4217 code of all prices.")
    per_gpu_hour: tuple[PriceConfig, ...] = Field(
        (),
        max_length=1000,
        description="Price of a whole GPU for an hour, each `{model, capacity, region, instance_type, price}`; the first that "
        "fits. Patterns take `*` and `?`; what is left out fits all; capacity is on_demand, spot or unknown.",
    )
    default: Annotated[Price | None, BeforeValidator(_null_of_a_variable)] = Field(
        None, description="Price where none of these fits; `null`: no price is known, and no cost is counted."
    )
