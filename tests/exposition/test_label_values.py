"""Label values come from strangers: any text survives the page, and none can break it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.exposition.labels import refuse_unusable
from exporter.exposition.rendering import Format
from exporter.model.attribution import DeviceRow, Sharing
from exporter.model.ids import ContainerKey, PodUid
from tests.exposition.examples import a_device, a_published, a_row, an_owner
from tests.exposition.pages import of, page, samples

HOSTILE = (
    'a "b" \\c \n d',
    "ends with a backslash\\",
    "\\n is not a newline",
    "tab\tand\rreturn",
    "NUL \x00 inside",
    'x"} 1\ngpu_up{node="evil"} 0\n# EOF',
    "\u2028\u2029\x85\x0b\x0c",
    "日本語 \U0001f600",
    "{}=,~",
    "x" * 512,
)


def published_with(value: str) -> Any:
    owner = an_owner(team=value, cost_center=value, workload=value)
    row = a_row(owner=owner, container=ContainerKey(PodUid("u"), "ns", value, value))
    return a_published(devices=(DeviceRow(a_device(model=value), Sharing.NONE, 1.0),), containers=(row,))


@pytest.mark.parametrize("form", [Format.TEXT, Format.OPENMETRICS])
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_value_survives_a_round_trip(value: str, form: Format) -> None:
    """Quotes, backslashes, newlines and control characters are escaped and come back unchanged (EXPO-03)."""
    published = published_with(value)
    assert of(published, "gpu_info", form)[0].labels["model"] == value
    labels = of(published, "gpu_container_allocation_ratio", form)[0].labels
    assert [labels[name] for name in ("pod", "container", "team", "cost_center", "workload")] == [value] * 5


@given(value=st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_survives_a_round_trip(value: str) -> None:
    """Whatever text a label has, a strict parser reads the same text (EXPO-03)."""
    for form in (Format.TEXT, Format.OPENMETRICS):
        assert of(published_with(value), "gpu_info", form)[0].labels["model"] == value


@pytest.mark.parametrize("form", [Format.TEXT, Format.OPENMETRICS])
def test_lone_surrogates_are_replaced(form: Format) -> None:
    """Text with no place in UTF-8 becomes U+FFFD instead of breaking the page (EXPO-03)."""
    labels = of(published_with("a\udcffb"), "gpu_info", form)[0].labels
    assert labels["model"] == "a\ufffdb"


def test_values_that_become_equal_do_not_repeat_a_series() -> None:
    """Two names that differ in lone surrogates only become one series (EXPO-05)."""
    rows = tuple(a_row(container=ContainerKey(PodUid("u"), "ns", name, "main")) for name in ("p\udcf1", "p\udcf2"))
    assert [each.value for each in of(a_published(containers=rows), "gpu_container_processes")] == [2]


def test_empty_value_is_an_absent_label() -> None:
    """What Prometheus takes for absent is not written, so it cannot hide a repeated series."""
    row = a_row(container=ContainerKey(PodUid("u"), "ns", "p", ""))
    assert "container" not in of(a_published(containers=(row,)), "gpu_container_processes")[0].labels
    assert all("" not in sample.labels.values() for sample in samples(page(a_published(containers=(row,)))))


@pytest.mark.parametrize("names", [("team",), ("le",), ("a-b",), ("__name__",), ("1st",), ("",), ("a", "a"), ("é",)])
def test_unusable_extra_label_is_refused(names: tuple[str, ...]) -> None:
    """A name that would break a line or replace a label of the contract is refused at the start (EXPO-01)."""
    with pytest.raises(ValueError, match="extra labels"):
        refuse_unusable(names)


def test_usable_extra_labels_are_taken() -> None:
    """Distinct valid names are no error."""
    refuse_unusable(("project", "app_example_com_name"))


def test_very_long_value_is_cut() -> None:
    """Names of strangers must not decide how large the page is."""
    long_name = ContainerKey(PodUid("u"), "team-red", "x" * 1_000_000, "main")
    [row] = of(a_published(containers=(replace(a_row(), container=long_name),)), "gpu_container_processes")
    assert row.labels["pod"] == "x" * 512
