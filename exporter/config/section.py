"""What all groups of settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=False, coerce_numbers_to_str=True
    )
