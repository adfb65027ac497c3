"""The catalogue itself: one table, complete, in Prometheus' manner."""

import re

import pytest

from exporter import catalogue
from exporter.catalogue import Family, FamilyType

FAMILIES = pytest.mark.parametrize("family", catalogue.ALL, ids=lambda family: family.name)


def test_table_holds_every_family_once() -> None:
    """Each constant is in ALL, and no name stands twice."""
    constants = [value for value in vars(catalogue).values() if isinstance(value, Family)]
    assert constants == list(catalogue.ALL)
    assert len({family.base_name for family in catalogue.ALL}) == len(catalogue.ALL)


@FAMILIES
def test_family_is_named_and_explained_in_prometheus_manner(family: Family) -> None:
    """Names, units, label names and help keep to the rules that scrapers and linters hold."""
    assert re.fullmatch(r"gpu_[a-z0-9_]+", family.name)
    assert family.name.endswith("_total") == (family.type is FamilyType.COUNTER)
    assert family.name.endswith("_info") <= (family.type is FamilyType.INFO)
    assert not family.unit or family.base_name.endswith("_" + family.unit)
    assert len(set(family.labels)) == len(family.labels) <= 20
    assert all(re.fullmatch(r"[a-z_]+", label) for label in family.labels)
    assert re.fullmatch(r"[^\n\"\\]+\.", family.help)
    assert not re.search(r"\. [A-Z]", family.help)
    assert family.absent_when
    assert set(family.values) <= set(family.labels)


@FAMILIES
def test_constant_is_named_after_its_family(family: Family) -> None:
    """A reader who knows the metric finds its constant."""
    assert getattr(catalogue, family.name.upper()) is family
