"""What every page is held to: each check of `tests.page` can fail."""

import pytest

from exporter.model.published import Published
from tests.exposition.examples import a_busy_node
from tests.exposition.pages import page
from tests.page import Page, assert_sound

D = 'gpu="0",uuid="GPU-a"'
WHOLES = f"""\
# TYPE gpu_provisioned_seconds_total counter
gpu_provisioned_seconds_total{{{D}}} 100
# TYPE gpu_busy_seconds_total counter
gpu_busy_seconds_total{{{D}}} 50
# TYPE gpu_energy_joules_total counter
gpu_energy_joules_total{{{D}}} 1000
"""
PARTS = (
    ("gpu_unallocated_seconds_total", 'reason="free"', 30.0),
    ("gpu_allocation_unknown_seconds_total", "", 10.0),
    ("gpu_container_held_seconds_total", 'pod="a",state="active"', 40.0),
    ("gpu_container_held_seconds_total", 'pod="a",state="unknown"', 20.0),
    ("gpu_unattributed_busy_seconds_total", 'reason="no_process"', 20.0),
    ("gpu_container_busy_seconds_total", 'pod="a"', 30.0),
    ("gpu_unattributed_energy_joules_total", 'reason="unallocated"', 300.0),
    ("gpu_container_energy_joules_total", 'pod="a"', 700.0),
)


def text(more: int | None = None, by: float = 0.0) -> str:
    """A page whose parts are exactly their wholes, one of them changed."""
    lines = [
        f"{name}{{{D},{labels}}} {amount + (by if place == more else 0.0)!r}"
        for place, (name, labels, amount) in enumerate(PARTS)
    ]
    return WHOLES + "\n".join(lines).replace(",}", "}") + "\n"


def a_histogram(*counts: int, count: int) -> str:
    bounds = ("0.1", "1.0", "+Inf")
    buckets = [f'gpu_x_ratio_bucket{{le="{bound}"}} {value}' for bound, value in zip(bounds, counts, strict=True)]
    return "\n".join(("# TYPE gpu_x_ratio histogram", *buckets, f"gpu_x_ratio_count {count}", "gpu_x_ratio_sum 1.5", ""))


@pytest.mark.parametrize("published", [a_busy_node(), None])
def test_pages_of_the_examples_are_sound(published: Published | None) -> None:
    """What is shown of a node, and of one that is starting, holds to everything that a page alone can show."""
    assert_sound(Page(page(published).decode()))


def test_parts_may_be_all_of_their_whole() -> None:
    """Parts that are together exactly the whole are sound, and so are parts of which some are still kept back."""
    assert_sound(Page(text()))
    assert_sound(Page(text(more=2, by=-15.0)))


@pytest.mark.parametrize("place", range(len(PARTS)), ids=[name for name, _, _ in PARTS])
def test_part_above_its_whole_is_found(place: int) -> None:
    """Whichever part grows by more than a rounding error, the page is refused."""
    with pytest.raises(AssertionError, match="is given away"):
        assert_sound(Page(text(more=place, by=0.001)))


def test_negative_counter_is_found() -> None:
    """A counter below 0 was never counted."""
    with pytest.raises(AssertionError, match="is negative"):
        assert_sound(Page(text(more=4, by=-20.5)))


@pytest.mark.parametrize("amount", ["NaN", "+Inf"])
def test_counter_that_is_no_number_is_found(amount: str) -> None:
    """A counter is finite."""
    with pytest.raises(AssertionError, match="is no number"):
        assert_sound(Page(WHOLES.replace(" 1000", f" {amount}")))


def test_histogram_is_held_to_rise_to_its_count() -> None:
    """Buckets never fall, and the last one is the count."""
    assert_sound(Page(a_histogram(1, 3, 3, count=3)))
    for crooked in (a_histogram(3, 1, 3, count=3), a_histogram(1, 3, 3, count=4)):
        with pytest.raises(AssertionError, match="is no histogram"):
            assert_sound(Page(crooked))
