"""What of each GPU nobody holds, and why; what nobody can say of; together with the shares, one GPU."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.attribution import Attribution, UnallocatedReason
from exporter.model.device import Device, DeviceTrouble
from exporter.model.holding import Holding, Holdings
from exporter.model.reading import Observed
from exporter.model.workload import NodeMeta
from tests.builders import (
    G0,
    G1,
    NODE,
    a_device,
    a_holding,
    a_mig,
    a_mig_device,
    a_pod,
    a_policy,
    a_snapshot,
    fresh,
    kept,
    mig_uuid,
    missing,
    some_holdings,
)

U = UnallocatedReason
TWO = (a_device(), a_device(number=1))
SEVENTH = pytest.approx(1 / 7)
CORDONED = fresh(NodeMeta(NODE, unschedulable=True))
GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
Listed = Mapping[str, Iterable[str]]


def _node(
    *holdings: Holding, devices: Iterable[Device] = TWO, allocatable: Listed | None = None, **changes: Any
) -> Attribution:
    """A node on which every listed pod runs."""
    names = sorted({holding.pod for holding in holdings})
    pods = [a_pod(number=number, name=name) for number, name in enumerate(names, start=1)]
    listed = some_holdings(*holdings, allocatable=allocatable)
    parts: dict[str, Any] = {"devices": tuple(devices), "holdings": listed, "pods": pods}
    return attribute(a_snapshot(**(parts | changes)), a_policy())


def _parts(attribution: Attribution) -> list[dict[str, float]]:
    """What is unallocated of each GPU, by reason; `unknown` for what nobody can say of."""
    found = []
    for row in attribution.devices:
        parts = {str(reason): part for reason, part in row.unallocated_ratios.items()}
        found.append(parts | ({"unknown": row.allocation_unknown_ratio} if row.allocation_unknown_ratio else {}))
    return found


def _replicas(*numbers: int, of: str = G0) -> list[Holding]:
    return [a_holding(pod=f"s-{number}", device_id=f"{of}::{number}") for number in numbers]


def _ids(count: int, of: str = G0) -> list[str]:
    return [f"{of}::{number}" for number in range(count)]


def test_gpu_that_nobody_holds_is_free() -> None:
    """A held one has nothing left."""
    assert _parts(_node(a_holding())) == [{}, {U.FREE: 1.0}]


def test_four_sharers_and_a_free_gpu_are_two_gpus() -> None:
    """Sum of what is held and of what is not is the number of GPUs (SHARE-12)."""
    attribution = _node(*_replicas(0, 1, 2, 3), allocatable={GPU: _ids(4) + _ids(4, of=G1)})
    held = sum(row.share_ratio or 0.0 for row in attribution.containers)
    assert _parts(attribution) == [{}, {U.FREE: 1.0}]
    assert held + sum(sum(parts.values()) for parts in _parts(attribution)) == 2


def test_slices_that_are_in_no_instance_are_a_fragment() -> None:
    """Two of two instances are held, and five sevenths of the GPU lie idle all the same (SHARE-13)."""
    device = a_mig_device(migs=(a_mig(number=1), a_mig(number=2)))
    attribution = _node(a_holding(pod="a", device_id=mig_uuid(1)), a_holding(pod="b", device_id=mig_uuid(2)), devices=(device,))
    [row] = attribution.devices
    assert row.unallocated_ratios == {U.FRAGMENT: pytest.approx(5 / 7)}
    assert sum(one.share_ratio or 0.0 for one in attribution.containers) + row.unallocated_ratios[U.FRAGMENT] == 1


def test_instance_that_nobody_holds_is_free() -> None:
    """It can be given out; what was never cut cannot."""
    device = a_mig_device(migs=(a_mig(number=1), a_mig(number=2, slices=3)))
    attribution = _node(a_holding(device_id=mig_uuid(1)), devices=(device,))
    assert _parts(attribution) == [{U.FREE: pytest.approx(3 / 7), U.FRAGMENT: pytest.approx(3 / 7)}]


def test_gpu_in_mig_mode_without_instances_is_a_fragment() -> None:
    """There is nothing on it that could be given out."""
    assert _parts(_node(devices=(a_mig_device(),))) == [{U.FRAGMENT: 1.0}]


@pytest.mark.parametrize("mig_slices", [None, 7])
def test_gpu_with_an_instance_of_unknown_size_is_not_called_unusable(mig_slices: int | None) -> None:
    """Nobody can say then that the slices are in no instance."""
    device = a_mig_device(mig_slices=mig_slices, migs=(a_mig(slices=None, profile=""),))
    assert _parts(_node(devices=(device,))) == [{U.FREE: 1.0}]


def test_unsold_replica_beside_a_sold_one_is_a_fragment() -> None:
    """Nobody who wants a GPU of its own can have this one; without any holder it is free."""
    allocatable = {GPU: _ids(4) + _ids(4, of=G1)}
    assert _parts(_node(*_replicas(0), allocatable=allocatable)) == [{U.FRAGMENT: 0.75}, {U.FREE: 1.0}]


def test_unsold_replica_of_an_instance_is_a_fragment_of_it() -> None:
    """The next instance is as free as before."""
    device = a_mig_device(migs=(a_mig(number=1), a_mig(number=2)), mig_slices=2)
    allocatable = {SLICE: _ids(2, of=mig_uuid(1)) + _ids(2, of=mig_uuid(2))}
    attribution = _node(*_replicas(0, of=mig_uuid(1)), devices=(device,), allocatable=allocatable)
    assert _parts(attribution) == [{U.FRAGMENT: 0.25, U.FREE: 0.5}]


def test_gpu_that_the_kubelet_does_not_give_out_is_unhealthy() -> None:
    """Its device plugin withdrew it while the next one is on offer."""
    assert _parts(_node(allocatable={GPU: [G1]})) == [{U.UNHEALTHY: 1.0}, {U.FREE: 1.0}]


def test_instance_that_the_kubelet_does_not_give_out_is_unhealthy() -> None:
    """The parent of an instance is never on offer, and is not unhealthy for that."""
    device = a_mig_device(migs=(a_mig(number=1), a_mig(number=2)), mig_slices=2)
    assert _parts(_node(devices=(device,), allocatable={SLICE: [mig_uuid(1)]})) == [{U.FREE: 0.5, U.UNHEALTHY: 0.5}]


def test_each_kind_of_gpu_is_on_offer_for_itself() -> None:
    """Instances on offer say nothing of whole GPUs, nor the other way round."""
    devices = (a_mig_device(migs=(a_mig(number=1, slices=7),)), a_device(number=1))
    assert _parts(_node(devices=devices, allocatable={SLICE: [mig_uuid(1)]})) == [{U.FREE: 1.0}, {U.FREE: 1.0}]
    assert _parts(_node(devices=devices, allocatable={GPU: [G1]})) == [{U.FREE: 1.0}, {U.FREE: 1.0}]


@pytest.mark.parametrize("allocatable", [None, {}, {GPU: []}, {"nvidia.com/gpu.shared": []}, {"rdma/hca": ["mlx5_0"]}])
def test_without_a_list_of_gpus_nothing_is_unhealthy(allocatable: Listed | None) -> None:
    """A device plugin that is down, or a kubelet too old to say, condemns no GPU."""
    assert _parts(_node(allocatable=allocatable)) == [{U.FREE: 1.0}] * 2


@pytest.mark.parametrize("node_meta", [fresh(NodeMeta(NODE)), CORDONED])
def test_gpu_that_does_not_answer_is_unhealthy(node_meta: Observed[NodeMeta]) -> None:
    """The strongest reason wins; what is held on it is still held."""
    devices = (a_device(trouble=DeviceTrouble.LOST), a_mig_device(number=1, trouble=DeviceTrouble.LOST))
    assert _parts(_node(devices=devices, node_meta=node_meta)) == [{U.UNHEALTHY: 1.0}] * 2
    assert _parts(_node(a_holding(), devices=devices, node_meta=node_meta)) == [{}, {U.UNHEALTHY: 1.0}]


def test_cordoned_node_has_nothing_free_and_no_fragment() -> None:
    """Nothing new comes here, whatever its form."""
    devices = (a_device(), a_device(number=1), a_mig_device(number=2, migs=(a_mig(number=1),)))
    attribution = _node(*_replicas(0), devices=devices, allocatable={GPU: [*_ids(2), *_ids(2, of=G1)]}, node_meta=CORDONED)
    assert _parts(attribution) == [{U.CORDONED: 0.5}, {U.CORDONED: 1.0}, {U.CORDONED: pytest.approx(1.0)}]


def test_withdrawn_gpu_on_a_cordoned_node_is_unhealthy() -> None:
    """To uncordon the node would not bring it back."""
    assert _parts(_node(allocatable={GPU: [G1]}, node_meta=CORDONED)) == [{U.UNHEALTHY: 1.0}, {U.CORDONED: 1.0}]


def test_withdrawn_gpu_beside_its_last_holder_is_unhealthy() -> None:
    """Its unsold replicas cannot be sold any more."""
    four = fresh(NodeMeta(NODE, {"nvidia.com/gpu.replicas": "4"}))
    attribution = _node(*_replicas(0), allocatable={GPU: _ids(4, of=G1)}, node_meta=four)
    assert _parts(attribution) == [{U.UNHEALTHY: 0.75}, {U.FREE: 1.0}]


def test_without_the_kubelet_all_of_it_is_unknown() -> None:
    """No answer is not an empty answer; a reason would claim that nobody holds it."""
    assert _parts(_node(holdings=missing())) == [{"unknown": 1.0}] * 2
    assert _parts(_node(holdings=missing(), node_meta=CORDONED)) == [{"unknown": 1.0}] * 2


def test_kept_answer_still_tells_what_is_free() -> None:
    """A kubelet that restarts makes no GPU unknown for a while."""
    answer: Holdings = some_holdings(a_holding(pod="a"))
    assert _parts(_node(holdings=kept(answer), pods=[a_pod(name="a")])) == [{}, {U.FREE: 1.0}]


def test_instance_of_unknown_size_leaves_all_but_the_certain_unknown() -> None:
    """What others hold for certain is held; how much the rest is nobody can say."""
    device = a_mig_device(migs=(a_mig(number=1), a_mig(number=2, slices=None, profile="")))
    holdings = (a_holding(pod="a", device_id=mig_uuid(1)), a_holding(pod="b", device_id=mig_uuid(2)))
    attribution = _node(*holdings, devices=(device,))
    assert [row.share_ratio for row in attribution.containers] == [SEVENTH, None]
    assert _parts(attribution) == [{"unknown": pytest.approx(6 / 7)}]


def test_gpu_that_may_be_held_is_unknown() -> None:
    """An allocation that we could not lay anywhere may be on the GPU that did not tell its instances."""
    lost = a_mig_device(trouble=DeviceTrouble.LOST, processes=None)
    attribution = _node(a_holding(device_id=mig_uuid(9)), devices=(lost, a_device(number=1)))
    assert _parts(attribution) == [{"unknown": 1.0}, {U.FREE: 1.0}]


def test_gpu_that_is_given_away_twice_has_nothing_left() -> None:
    """Two halves are one whole."""
    assert _parts(_node(a_holding(pod="a"), a_holding(pod="b")))[0] == {}


@pytest.mark.parametrize("count", range(1, 8))
def test_sevenths_add_up_exactly(count: int) -> None:
    """No rounding makes a sliver of a GPU out of nothing."""
    device = a_mig_device(migs=[a_mig(number=number) for number in range(1, 8)])
    holdings = [a_holding(pod=f"m-{number}", device_id=mig_uuid(number)) for number in range(1, count + 1)]
    attribution = _node(*holdings, devices=(device,))
    free = {} if count == 7 else {U.FREE: pytest.approx(1 - count / 7)}
    assert _parts(attribution) == [free]
    shares = sum(row.share_ratio or 0.0 for row in attribution.containers)
    assert shares + sum(_parts(attribution)[0].values()) == pytest.approx(1.0, abs=1e-12)
