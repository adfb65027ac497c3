"""The configuration of owners as the pure rooms take it: no file format, no pydantic."""

from exporter.config.schema import Config, OwnerFieldConfig
from exporter.model.policy import ClassRule, OwnerField, OwnershipPolicy


def ownership_policy(config: Config) -> OwnershipPolicy:
    """What `attribution` needs to know about owners and classes."""
    ownership = config.ownership
    return OwnershipPolicy(
        team=_field("team", ownership.team),
        cost_center=_field("cost_center", ownership.cost_center),
        extra=tuple(_field(label.name, label) for label in ownership.extra_labels),
        precedence=ownership.precedence,
        unowned=ownership.unowned,
        unknown=ownership.unknown,
        max_length=ownership.max_length,
        classes=tuple(
            ClassRule(rule.workload_class, frozenset(rule.when.workload_type), frozenset(rule.when.label_exists))
            for rule in config.classes
        ),
    )


def _field(name: str, field: OwnerFieldConfig) -> OwnerField:
    spellings = {spelling: published for published, found in field.aliases.items() for spelling in found}
    return OwnerField(name, field.keys, lower=field.normalize == "lower", aliases=spellings)
