"""What a GPU costs at this moment."""

import math
from fnmatch import fnmatchcase

from exporter.model.node import NodeIdentity
from exporter.model.policy import PriceBook, PriceRule


def price_of(book: PriceBook, model: str, node: NodeIdentity | None) -> float | None:
    """Price of a whole GPU by the hour: the first rule that fits, else the default; None: no price is known.

    Args:
        book: The price book.
        model: As the driver names it.
        node: None while the node's labels could not be read: then only rules that ask nothing of the node fit.
    """
    fitting = (rule.price_per_gpu_hour for rule in book.rules if _fits(rule, model, node))
    price = next(fitting, book.default_per_gpu_hour)
    return price if price is not None and math.isfinite(price) and price >= 0 else None


def _fits(rule: PriceRule, model: str, node: NodeIdentity | None) -> bool:
    of_node = (rule.capacity, rule.region, rule.instance_type)
    said = (None,) * len(of_node) if node is None else (node.capacity.value, node.region, node.instance_type)
    return _matches(rule.model, model) and all(map(_matches, of_node, said))


def _matches(pattern: str, text: str | None) -> bool:
    return not pattern or (text is not None and fnmatchcase(text, pattern))
