"""The configuration as the pure rooms take it: no file format, no pydantic."""

from exporter.config.counting import PricesConfig
from exporter.config.schema import Config, OwnerFieldConfig
from exporter.model.ledger import LedgerRules
from exporter.model.policy import ClassRule, OwnerField, OwnershipPolicy, PriceBook, PriceRule


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
        prices=_prices(config.prices),
    )


def ledger_rules(config: Config) -> LedgerRules:
    """What `accounting` needs to know."""
    return LedgerRules(
        active_above_ratio=config.activity.active_above,
        birth_hold_seconds=config.ledger.birth_hold,
        ended_retention_seconds=config.ledger.ended_retention,
        owner_retention_seconds=config.ledger.owner_retention,
        container_distribution=config.ledger.container_distribution,
    )


def _prices(prices: PricesConfig) -> PriceBook:
    return PriceBook(
        currency=prices.currency,
        rules=tuple(
            PriceRule(rule.price, rule.model, rule.capacity, rule.region, rule.instance_type) for rule in prices.per_gpu_hour
        ),
        default_per_gpu_hour=prices.default,
    )


def _field(name: str, field: OwnerFieldConfig) -> OwnerField:
    spellings = {spelling: published for published, found in field.aliases.items() for spelling in found}
    return OwnerField(name, field.keys, lower=field.normalize == "lower", aliases=spellings)
