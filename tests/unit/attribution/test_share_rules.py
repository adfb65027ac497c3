"""The part of each GPU that a holder has."""

from collections.abc import Iterable
from fractions import Fraction

import pytest

from exporter.attribution.holders import Held, find_holders
from exporter.attribution.pods import PodIndex
from exporter.attribution.replicas import advertised_replicas, count_replicas, recollect
from exporter.attribution.shares import Shares, divide
from exporter.model.attribution import ConflictKind, Recollection
from exporter.model.device import Device, NvmlState
from exporter.model.holding import Holding
from tests.builders import G0, a_device, a_holding, a_mig, a_mig_device, mig_uuid, some_holdings


def _held(devices: Iterable[Device], *holdings: Holding) -> tuple[Held, ...]:
    return find_holders(some_holdings(*holdings), NvmlState("575", tuple(devices)), PodIndex()).held


def _shares(
    devices: Iterable[Device],
    *holdings: Holding,
    allocatable: dict[str, list[str]] | None = None,
    labels: dict[str, str] | None = None,
    before: Recollection | None = None,
) -> Shares:
    nvml = NvmlState("575", tuple(devices))
    held = _held(devices, *holdings)
    advertised = advertised_replicas(some_holdings(*holdings, allocatable=allocatable), nvml)
    known = recollect(held, advertised, before or Recollection())
    return divide(held, count_replicas(held, known, labels or {}))


def _by_pod(shares: Shares) -> dict[str, Fraction]:
    totals: dict[str, Fraction] = {}
    for (container, _), share in shares.by_holder.items():
        totals[container.pod] = totals.get(container.pod, Fraction(0)) + share
    return totals


def test_whole_gpu_is_one() -> None:
    """A holder of a whole GPU has all of it."""
    assert _by_pod(_shares([a_device()], a_holding())) == {"train-0": 1}


def test_mig_instance_is_its_slices_over_the_gpus() -> None:
    """A 3g instance of a GPU with seven slices is 3/7, one compute instance of it 1/7."""
    device = a_mig_device(migs=(a_mig(number=1, slices=3), a_mig(number=2, slices=1, profile="1c.3g.40gb")))
    shares = _shares([device], a_holding(device_id=mig_uuid(1), pod="a"), a_holding(device_id=mig_uuid(2), pod="b"))
    assert _by_pod(shares) == {"a": Fraction(3, 7), "b": Fraction(1, 7)}
    assert shares.by_gpu == {G0: Fraction(4, 7)}


@pytest.mark.parametrize(("profile", "expected"), [("2g.20gb", 2), ("1c.3g.40gb", 1), ("1g.5gb+me", 1), ("7g.80gb", 7)])
def test_mig_instance_without_attributes_goes_by_its_profile(profile: str, expected: int) -> None:
    """The profile tells the slices where the driver does not."""
    device = a_mig_device(migs=(a_mig(slices=None, profile=profile),))
    assert _by_pod(_shares([device], a_holding(device_id=mig_uuid(1)))) == {"train-0": Fraction(expected, 7)}


@pytest.mark.parametrize(("slices", "mig_slices"), [(None, 7), (1, None), (0, 7), (None, None)])
def test_mig_instance_of_unknown_size_has_no_share_and_says_so(slices: int | None, mig_slices: int | None) -> None:
    """An unknown size is never a guessed one."""
    device = a_mig_device(migs=(a_mig(slices=slices, profile=""),), mig_slices=mig_slices)
    shares = _shares([device], a_holding(device_id=mig_uuid(1)))
    assert _by_pod(shares) == {"train-0": 0}
    assert {uuid for uuid, _ in shares.unknown} == {G0}


def test_replicas_are_counted_over_what_is_advertised() -> None:
    """Two of eight advertised replicas are a quarter, also where higher numbers are not held."""
    allocatable = {"nvidia.com/gpu": [f"{G0}::{number}" for number in range(8)]}
    holdings = [a_holding(device_id=f"{G0}::0"), a_holding(device_id=f"{G0}::3")]
    assert _by_pod(_shares([a_device()], *holdings, allocatable=allocatable)) == {"train-0": Fraction(1, 4)}


def test_label_counts_the_replicas_where_the_plugin_is_down() -> None:
    """An empty list of allocatable devices falls back to the node's label, of the resource without its suffix."""
    shares = _shares(
        [a_device()],
        a_holding(device_id=f"{G0}::1", resource="nvidia.com/gpu.shared"),
        allocatable={},
        labels={"nvidia.com/gpu.replicas": "10"},
    )
    assert _by_pod(shares) == {"train-0": Fraction(1, 10)}


def test_last_good_count_stands_while_the_plugin_is_down() -> None:
    """What was advertised before beats the node's label and the numbers held: a restart of the plugin changes no share."""
    before = Recollection(advertised={(G0, None): 10}, highest={(G0, None): 2})
    shares = _shares(
        [a_device()],
        a_holding(device_id=f"{G0}::1"),
        allocatable={},
        labels={"nvidia.com/gpu.replicas": "8"},
        before=before,
    )
    assert _by_pod(shares) == {"train-0": Fraction(1, 10)}


def test_new_count_replaces_the_last_good_one() -> None:
    """A plugin that now advertises four replicas means four."""
    before = Recollection(advertised={(G0, None): 10})
    allocatable = {"nvidia.com/gpu": [f"{G0}::{number}" for number in range(4)]}
    assert _by_pod(_shares([a_device()], a_holding(device_id=f"{G0}::1"), allocatable=allocatable, before=before)) == {
        "train-0": Fraction(1, 4)
    }


def test_place_that_is_given_out_undivided_now_forgets_its_replicas() -> None:
    """Sharing was switched off: the next holder has all of it."""
    nvml = NvmlState("575", (a_device(),))
    advertised = advertised_replicas(some_holdings(allocatable={"nvidia.com/gpu": [G0]}), nvml)
    before = Recollection(advertised={(G0, None): 10}, highest={(G0, None): 7})
    assert recollect((), advertised, before) == Recollection()


def test_highest_number_ever_seen_counts_where_nothing_else_does() -> None:
    """A neighbour with a higher number that has gone was there: 1/8, not 1/3."""
    before = Recollection(highest={(G0, None): 8})
    assert _by_pod(_shares([a_device()], a_holding(device_id=f"{G0}::2"), before=before)) == {"train-0": Fraction(1, 8)}


@pytest.mark.parametrize("label", ["", "1", "0", "-4", "many", "²", "9" * 5000])
def test_highest_number_counts_the_replicas_where_nothing_else_does(label: str) -> None:
    """Without a usable label the replicas seen are all that is known."""
    labels = {"nvidia.com/gpu.replicas": label}
    shares = _shares(
        [a_device()], a_holding(device_id=f"{G0}::1", pod="a"), a_holding(device_id=f"{G0}::3", pod="b"), labels=labels
    )
    assert _by_pod(shares) == {"a": Fraction(1, 4), "b": Fraction(1, 4)}


def test_replica_of_a_mig_instance_is_a_part_of_the_part() -> None:
    """One of four replicas of 2/7 is 1/14."""
    device = a_mig_device(migs=(a_mig(slices=2),))
    allocatable = {"nvidia.com/mig-2g.20gb": [f"{mig_uuid(1)}::{number}" for number in range(4)]}
    shares = _shares([device], a_holding(device_id=f"{mig_uuid(1)}::2"), allocatable=allocatable)
    assert _by_pod(shares) == {"train-0": Fraction(1, 14)}


def test_two_exclusive_holders_split_evenly_and_raise_a_conflict() -> None:
    """Nobody is picked in silence; the order of the list does not matter (SHARE-14)."""
    holdings = [a_holding(pod="a"), a_holding(pod="b")]
    shares = _shares([a_device()], *holdings)
    assert _by_pod(shares) == {"a": Fraction(1, 2), "b": Fraction(1, 2)}
    [conflict] = shares.conflicts
    assert (conflict.kind, conflict.subject) == (ConflictKind.TWO_HOLDERS, G0)
    assert conflict.detail.index("team-red/a") < conflict.detail.index("team-red/b")
    assert _shares([a_device()], *holdings[::-1]) == shares


def test_three_exclusive_holders_have_a_third_each() -> None:
    """Even parts are exact: three thirds are one."""
    shares = _shares([a_device()], *(a_holding(pod=pod) for pod in "abc"))
    assert _by_pod(shares) == dict.fromkeys("abc", Fraction(1, 3))
    assert shares.by_gpu == {G0: 1}


def test_exclusive_holder_beside_a_replica_is_a_conflict() -> None:
    """A whole GPU and a quarter of it are scaled down to one."""
    allocatable = {"nvidia.com/gpu": [f"{G0}::{number}" for number in range(4)]}
    shares = _shares([a_device()], a_holding(pod="a"), a_holding(pod="b", device_id=f"{G0}::1"), allocatable=allocatable)
    assert _by_pod(shares) == {"a": Fraction(4, 5), "b": Fraction(1, 5)}
    assert len(shares.conflicts) == 1


def test_holder_of_the_gpu_beside_a_holder_of_its_instance_is_one_conflict() -> None:
    """Parts of different kinds are scaled together, and told once for the GPU."""
    device = a_mig_device(migs=(a_mig(slices=3),))
    shares = _shares([device], a_holding(pod="a"), a_holding(pod="b", device_id=mig_uuid(1)))
    assert _by_pod(shares) == {"a": Fraction(7, 10), "b": Fraction(3, 10)}
    assert [conflict.subject for conflict in shares.conflicts] == [G0]


def test_more_replicas_held_than_advertised_fit_into_one() -> None:
    """A list of allocatable devices that is too short does not give away more than there is."""
    allocatable = {"nvidia.com/gpu": [f"{G0}::0", f"{G0}::1"]}
    holdings = [a_holding(pod=str(number), device_id=f"{G0}::{number}") for number in range(4)]
    shares = _shares([a_device()], *holdings, allocatable=allocatable)
    assert _by_pod(shares) == {str(number): Fraction(1, 4) for number in range(4)}
    assert len(shares.conflicts) == 1


def test_one_container_with_the_gpu_twice_holds_it_once() -> None:
    """The same GPU under two resource names, and more replicas than there are, is the whole and no conflict."""
    shares = _shares([a_device()], a_holding(), a_holding(resource="nvidia.com/other"))
    assert _by_pod(shares) == {"train-0": 1}
    assert not shares.conflicts


def test_units_of_memory_and_cores_hold_nothing_of_their_own() -> None:
    """A scheduler's thousands of memory units do not count beside the one replica that they belong to."""
    holdings = [a_holding(device_id=f"{G0}-memory-{number}", resource="volcano.sh/vgpu-memory") for number in range(50)]
    replica = a_holding(device_id=f"{G0}-3", resource="volcano.sh/vgpu-number")
    allocatable = {"volcano.sh/vgpu-number": [f"{G0}-{number}" for number in range(10)]}
    assert _by_pod(_shares([a_device()], replica, *holdings, allocatable=allocatable)) == {"train-0": Fraction(1, 10)}
    assert len(_held([a_device()], replica, *holdings)) == 1


def test_replica_that_two_pods_were_given_is_split_between_them() -> None:
    """Two pods with the same replica of four hold an eighth each, and that is a conflict."""
    allocatable = {"nvidia.com/gpu": [f"{G0}::{number}" for number in range(4)]}
    same = f"{G0}::0"
    shares = _shares(
        [a_device()],
        a_holding(pod="a", device_id=same),
        a_holding(pod="b", device_id=same),
        a_holding(pod="c", device_id=f"{G0}::1"),
        allocatable=allocatable,
    )
    assert _by_pod(shares) == {"a": Fraction(1, 8), "b": Fraction(1, 8), "c": Fraction(1, 4)}
    [conflict] = shares.conflicts
    assert "team-red/a" in conflict.detail
    assert "team-red/c" not in conflict.detail
