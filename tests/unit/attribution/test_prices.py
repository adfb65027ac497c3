"""What a GPU costs: the first rule that fits, and nothing made up."""

import math
from dataclasses import replace
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.attribution.prices import price_of
from exporter.model.node import Capacity, NodeIdentity
from exporter.model.policy import PriceBook, PriceRule
from exporter.model.workload import NodeMeta
from tests.builders import NODE, a_device, a_policy, a_snapshot, fresh

H100 = "NVIDIA H100 80GB HBM3"
NODE_IDENTITY = NodeIdentity("", "a3-highgpu-8g", "eu-west-4", "eu-west-4a", "h100", Capacity.SPOT)


def _price(*rules: PriceRule, default: float | None = None, node: NodeIdentity | None = NODE_IDENTITY) -> float | None:
    return price_of(PriceBook(rules=rules, default_per_gpu_hour=default), H100, node)


def _rule(price: float = 1.0, **patterns: Any) -> PriceRule:
    return PriceRule(price, **patterns)


@pytest.mark.parametrize(
    ("patterns", "fits"),
    [
        ({}, True),
        ({"model": "NVIDIA H100*"}, True),
        ({"model": "NVIDIA A100*"}, False),
        ({"model": "nvidia h100*"}, False),
        ({"model": "NVIDIA H100"}, False),
        ({"model": "NVIDIA [HB]?00*"}, True),
        ({"capacity": "spot"}, True),
        ({"capacity": "on_demand"}, False),
        ({"region": "eu-*"}, True),
        ({"region": "us-*"}, False),
        ({"instance_type": "a3-*"}, True),
        ({"instance_type": "p5.*"}, False),
        ({"model": "NVIDIA H100*", "capacity": "spot", "region": "eu-*", "instance_type": "a3-*"}, True),
        ({"model": "NVIDIA H100*", "capacity": "spot", "region": "us-*", "instance_type": "a3-*"}, False),
    ],
)
def test_rule_fits_if_all_its_patterns_do(patterns: dict[str, str], fits: bool) -> None:
    """Shell patterns over the whole text, upper and lower case apart; an empty one asks nothing."""
    assert _price(_rule(1.2, **patterns)) == (1.2 if fits else None)


def test_first_rule_that_fits_wins() -> None:
    """Neither the cheapest nor the most precise one."""
    rules = (_rule(9.0, region="us-*"), _rule(2.0), _rule(1.0, model="NVIDIA H100*", capacity="spot"))
    assert _price(*rules, default=5.0) == 2.0


def test_default_stands_where_no_rule_fits() -> None:
    """Without a default there is no price, which is not a price of 0."""
    assert _price(_rule(region="us-*"), default=5.0) == 5.0
    assert _price(_rule(region="us-*")) is None
    assert _price() is None


@pytest.mark.parametrize("price", [-1.0, math.nan, math.inf, -math.inf])
def test_price_that_cannot_be_true_is_none(price: float) -> None:
    """A counter of money never falls, and never jumps to infinity."""
    assert _price(_rule(price), default=2.0) is None
    assert _price(default=price) is None


def test_price_of_nothing_is_a_price() -> None:
    """A GPU that costs nothing has a cost of 0, not none."""
    assert _price(_rule(0.0), default=2.0) == 0.0


def test_node_without_labels_fits_what_asks_nothing_of_it() -> None:
    """Capacity that no label tells is neither spot nor on demand, and has a word of its own."""
    unlabelled = replace(NODE_IDENTITY, region="", instance_type="", capacity=Capacity.UNKNOWN)
    rules = (_rule(1.0, capacity="spot"), _rule(2.0, capacity="on_demand"), _rule(3.0, region="*"), _rule(4.0, region="?*"))
    assert _price(*rules[:2], node=unlabelled) is None
    assert _price(*rules, node=unlabelled) == 3.0
    assert _price(rules[3], node=unlabelled) is None
    assert _price(_rule(5.0, capacity="unknown"), node=unlabelled) == 5.0


def test_node_that_could_not_be_read_fits_no_rule_about_nodes() -> None:
    """Not even one that any text would fit."""
    assert _price(_rule(1.0, region="*"), _rule(2.0, capacity="unknown"), _rule(3.0, model="*H100*"), node=None) == 3.0


def test_device_row_has_the_price_of_its_model_on_this_node() -> None:
    """Two models in one node cost differently, and the currency is said once."""
    labels = {"karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/region": "eu-west-4"}
    book = PriceBook("EUR", (_rule(1.2, model="NVIDIA H100*", capacity="spot", region="eu-*"),))
    devices = (a_device(), a_device(number=1, model="NVIDIA L4"))
    snapshot = a_snapshot(devices=devices, node_meta=fresh(NodeMeta(NODE, labels)))
    attribution = attribute(snapshot, a_policy(prices=book))
    assert [row.price_per_hour for row in attribution.devices] == [1.2, None]
    assert attribution.currency == "EUR"


def test_currency_is_not_said_without_a_price() -> None:
    """Nothing is in dollars where nothing has a price."""
    attribution = attribute(a_snapshot(devices=(a_device(),)), a_policy())
    assert [row.price_per_hour for row in attribution.devices] == [None]
    assert attribution.currency == ""
