"""Counters and histograms of the ledger, and idle clocks, read back from the metrics page."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporter.accounting.distribution import BOUNDS_RATIO
from exporter.accounting.idle import use_key
from exporter.model.attribution import Allocation, ContainerRow, DeviceRow, HoldingSource, Sharing, State
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    Distribution,
    Histogram,
    IdleClock,
    Ledger,
    MigSubject,
    OwnerLabels,
    OwnerSubject,
    Quantity,
    Subject,
    Tally,
)
from exporter.model.policy import WorkloadClass
from tests.exposition.examples import (
    NOW,
    a_busy_node,
    a_device,
    a_device_row,
    a_mig,
    a_pod,
    a_published,
    a_row,
    an_owner,
    fresh,
    uuid,
)
from tests.exposition.pages import names, of

DEVICE = DeviceSubject(0, uuid(0))
D = {"node": "gpu-n1", "gpu": "0", "uuid": uuid(0)}
OWNER = OwnerSubject("H100", "team-red", "red", "cc-1042", WorkloadClass.TRAINING)
W = {
    "node": "gpu-n1",
    "model": "H100",
    "namespace": "team-red",
    "team": "red",
    "cost_center": "cc-1042",
    "workload_class": "training",
}
PAST = NOW - 7800


def a_container(pod: str = "train-0", team: str = "red", mig: MigSubject | None = None) -> ContainerSubject:
    return ContainerSubject(DEVICE, mig, "team-red", pod, "main", OwnerLabels.of(an_owner(team)))


def tallies(amounts: Mapping[Account, float]) -> Ledger:
    """A ledger that shows these amounts, and keeps back others that may not be seen."""
    return Ledger(tallies={account: Tally(0.0, amount, waiting=7.5) for account, amount in amounts.items()})


def a_distribution(counts: Mapping[int, int], total: float) -> Distribution:
    """A histogram that shows these counts by bucket, and keeps others back."""
    shown = Histogram(BOUNDS_RATIO, tuple(counts.get(place, 0) for place in range(len(BOUNDS_RATIO) + 1)), total)
    waiting = Histogram(BOUNDS_RATIO, (9,) * (len(BOUNDS_RATIO) + 1), 99.0)
    return Distribution(0.0, shown, waiting)


def clocks(*rows: ContainerRow, **changes: Any) -> Ledger:
    """A ledger in which these rows have worked last a good while ago."""
    clock = replace(IdleClock(PAST, ever_active=True, from_start=True, seen_at=0.0), **changes)
    return Ledger(idle_clocks={use_key(row): clock for row in rows})


def values(published: Any, name: str) -> list[float]:
    return [sample.value for sample in of(published, name)]


@pytest.mark.parametrize(
    ("quantity", "detail", "name", "labels"),
    [
        (Quantity.BUSY_SECONDS, "", "gpu_busy_seconds_total", {}),
        (Quantity.PROVISIONED_SECONDS, "", "gpu_provisioned_seconds_total", {}),
        (Quantity.OBSERVED_SECONDS, "", "gpu_observed_seconds_total", {}),
        (Quantity.ALLOCATION_UNKNOWN_SECONDS, "", "gpu_allocation_unknown_seconds_total", {}),
        (Quantity.UNALLOCATED_SECONDS, "fragment", "gpu_unallocated_seconds_total", {"reason": "fragment"}),
        (Quantity.PROVISIONED_COST, "EUR", "gpu_provisioned_cost_total", {"currency": "EUR"}),
        (Quantity.UNALLOCATED_COST, "EUR", "gpu_unallocated_cost_total", {"currency": "EUR"}),
        (Quantity.ALLOCATION_UNKNOWN_COST, "EUR", "gpu_allocation_unknown_cost_total", {"currency": "EUR"}),
        (Quantity.UNATTRIBUTED_BUSY_SECONDS, "no_process", "gpu_unattributed_busy_seconds_total", {"reason": "no_process"}),
        (
            Quantity.UNATTRIBUTED_ENERGY_JOULES,
            "unallocated",
            "gpu_unattributed_energy_joules_total",
            {"reason": "unallocated"},
        ),
    ],
)
def test_device_account_is_shown_under_the_labels_of_its_device(
    quantity: Quantity, detail: str, name: str, labels: dict[str, str]
) -> None:
    """Each counter of a device is the ledger's shown amount, with the device's labels and its own, and nothing more."""
    [sample] = of(a_published(ledger=tallies({Account(DEVICE, quantity, detail): 12.5})), name)
    assert (sample.labels, sample.value) == ({**D, **labels}, 12.5)


@pytest.mark.parametrize(
    ("quantity", "detail", "name", "labels"),
    [
        (Quantity.HELD_SECONDS, "idle_held", "gpu_owner_held_seconds_total", {"state": "idle_held"}),
        (Quantity.MEASURED_SECONDS, "", "gpu_owner_measured_seconds_total", {}),
        (Quantity.BUSY_SECONDS, "", "gpu_owner_busy_seconds_total", {}),
        (Quantity.UNHELD_BUSY_SECONDS, "", "gpu_owner_unheld_busy_seconds_total", {}),
        (Quantity.ENERGY_JOULES, "", "gpu_owner_energy_joules_total", {}),
        (Quantity.COST, "EUR/active", "gpu_owner_cost_total", {"currency": "EUR", "state": "active"}),
    ],
)
def test_owner_account_is_shown_under_the_labels_of_its_owner(
    quantity: Quantity, detail: str, name: str, labels: dict[str, str]
) -> None:
    """Each counter of an owner carries the node, the model and the owner, and no pod and no device."""
    [sample] = of(a_published(ledger=tallies({Account(OWNER, quantity, detail): 12.5})), name)
    assert (sample.labels, sample.value) == ({**W, **labels}, 12.5)


@pytest.mark.parametrize(
    ("quantity", "detail", "name", "labels"),
    [
        (Quantity.HELD_SECONDS, "unknown", "gpu_container_held_seconds_total", {"state": "unknown"}),
        (Quantity.BUSY_SECONDS, "", "gpu_container_busy_seconds_total", {}),
        (Quantity.ENERGY_JOULES, "", "gpu_container_energy_joules_total", {}),
    ],
)
def test_container_that_has_ended_keeps_its_counters(
    quantity: Quantity, detail: str, name: str, labels: dict[str, str]
) -> None:
    """As long as the ledger has it, a counter stays under all its labels though no row names its container any more."""
    mig = MigSubject(DEVICE, 7, 0, "1g.10gb")
    [sample] = of(a_published(ledger=tallies({Account(a_container(mig=mig), quantity, detail): 12.5})), name)
    assert sample.value == 12.5
    assert sample.labels == {
        **D,
        **labels,
        "gpu_instance_id": "7",
        "compute_instance_id": "0",
        "mig_profile": "1g.10gb",
        "namespace": "team-red",
        "pod": "train-0",
        "container": "main",
        "workload_type": "deployment",
        "workload": "train",
        "workload_class": "training",
        "team": "red",
        "cost_center": "cc-1042",
    }


def test_same_quantity_of_different_subjects_goes_to_different_families() -> None:
    """Busy time of a GPU, an instance, a container and an owner never meets under one name."""
    subjects: tuple[Subject, ...] = (DEVICE, MigSubject(DEVICE, 7, 0, "1g.10gb"), a_container(), OWNER)
    ledger = tallies({Account(subject, Quantity.BUSY_SECONDS): float(place) for place, subject in enumerate(subjects)})
    published = a_published(ledger=ledger)
    families = [f"gpu_{part}busy_seconds_total" for part in ("", "mig_", "container_", "owner_")]
    assert [values(published, name) for name in families] == [[0.0], [1.0], [2.0], [3.0]]


def test_counter_that_was_just_born_is_shown_at_zero() -> None:
    """A counter of which everything is still kept back stands on the page at 0: that is what makes its growth visible."""
    ledger = Ledger(tallies={Account(DEVICE, Quantity.PROVISIONED_SECONDS): Tally(0.0, 0.0, waiting=25.0)})
    assert values(a_published(ledger=ledger), "gpu_provisioned_seconds_total") == [0.0]


def test_shared_gpu_instance_is_shown_once() -> None:
    """Where several compute instances share a GPU instance its figures stand once, without the labels that tell them apart."""
    first, second = a_mig(2, "1c.3g.40gb"), replace(a_mig(2, "1c.3g.40gb"), compute_instance_id=1, uuid=a_mig(9).uuid)
    device = a_device_row(a_device(mig_instances=(first, second)), Sharing.MIG, 0.0, mig_share_ratios={})
    ledger = tallies({Account(MigSubject(DEVICE, 2, None, ""), Quantity.BUSY_SECONDS): 40.0})
    published = a_published(devices=(device,), ledger=ledger)
    for name, value in (
        ("gpu_mig_busy_seconds_total", 40.0),
        ("gpu_mig_utilization_ratio", 0.25),
        ("gpu_mig_sm_active_ratio", 0.2),
        ("gpu_mig_tensor_active_ratio", 0.1),
    ):
        [sample] = of(published, name)
        assert (sample.labels, sample.value) == ({**D, "gpu_instance_id": "2"}, value)


def test_subjects_whose_labels_become_equal_are_added_up() -> None:
    """Names that differ only in what no label can hold become one counter and one histogram: their sums, nothing dropped."""
    first, second = a_container(team="a\udc80"), a_container(team="a\udc81")
    account = tallies({Account(first, Quantity.BUSY_SECONDS): 3.0, Account(second, Quantity.BUSY_SECONDS): 4.0})
    shapes: dict[Subject, Distribution] = {
        first: a_distribution({0: 5, 2: 1}, 0.05),
        second: a_distribution({2: 3, 10: 1}, 1.25),
    }
    published = a_published(ledger=replace(account, distributions=shapes))
    name = "gpu_container_utilization_distribution_ratio"
    assert values(published, "gpu_container_busy_seconds_total") == [7.0]
    buckets = {sample.labels["le"]: sample.value for sample in of(published, f"{name}_bucket")}
    assert (buckets["0.0"], buckets["0.01"], buckets["0.1"], buckets["1.0"], buckets["+Inf"]) == (5, 5, 9, 9, 10)
    assert (values(published, f"{name}_count"), values(published, f"{name}_sum")) == ([10.0], [1.3])


def test_distributions_show_what_is_shown_of_containers_and_owners() -> None:
    """Both histograms carry the labels of their subject, the documented bounds, and nothing that is kept back."""
    shapes: dict[Subject, Distribution] = {a_container(): a_distribution({3: 2}, 0.3), OWNER: a_distribution({3: 6}, 0.9)}
    published = a_published(ledger=Ledger(distributions=shapes))
    for part, count, labels in (("container", 2.0, {**D, "pod": "train-0", "team": "red"}), ("owner", 6.0, W)):
        buckets = of(published, f"gpu_{part}_utilization_distribution_ratio_bucket")
        assert labels.items() <= buckets[0].labels.items()
        assert [sample.labels["le"] for sample in buckets] == [*(str(bound) for bound in BOUNDS_RATIO), "+Inf"]
        assert values(published, f"gpu_{part}_utilization_distribution_ratio_count") == [count]


def test_missing_driver_ends_all_counters_but_the_owners() -> None:
    """While NVML as a whole is missing series of devices and containers end; what owners owe stays, unchanged."""
    busy = a_busy_node()
    blind = a_published(devices=None, ledger=busy.ledger)
    counted = {name for name in names(blind) if name.startswith("gpu_") and not name.startswith("gpu_exporter_")}
    assert counted == {name for name in names(busy) if name.startswith("gpu_owner_")}
    for name in counted:
        assert of(blind, name) == of(busy, name)


def test_lost_samples_are_counted_from_the_start() -> None:
    """Time whose samples were lost is a counter of the exporter itself, there before any was lost."""
    assert values(a_published(), "gpu_exporter_lost_sample_seconds_total") == [0.0]
    assert values(a_published(ledger=Ledger(lost_sample_seconds=4.5)), "gpu_exporter_lost_sample_seconds_total") == [4.5]


def test_price_stands_with_its_currency_and_the_node_s_capacity() -> None:
    """The price of the moment says in which money, and how the node was bought; a GPU without one has no sample."""
    devices = (
        a_device_row(a_device(0), Sharing.NONE, 1.0, price_per_hour=3.5),
        a_device_row(a_device(1), Sharing.NONE, 1.0),
    )
    meta = a_busy_node().snapshot.node_meta.value
    assert meta is not None
    [sample] = of(a_published(devices=devices, currency="EUR", node_meta=fresh(meta)), "gpu_price_per_hour")
    assert (sample.labels, sample.value) == ({**D, "currency": "EUR", "capacity": "spot"}, 3.5)
    [sample] = of(a_published(devices=devices, currency="EUR"), "gpu_price_per_hour")
    assert sample.labels["capacity"] == "unknown"


def test_device_utilization_is_the_row_s() -> None:
    """The gauge is what attribution says of the whole cycle, not what the driver says of its last period."""
    row = DeviceRow(a_device(utilization_ratio=0.9), Sharing.NONE, 1.0, utilization_ratio=0.25)
    assert values(a_published(devices=(row,)), "gpu_utilization_ratio") == [0.25]


def test_idle_holder_shows_since_when() -> None:
    """A holder that was measured shows when it last worked and that it has worked."""
    row = a_row(utilization_ratio=0.0, state=State.IDLE_HELD)
    published = a_published(containers=(row,), ledger=clocks(row))
    assert values(published, "gpu_container_last_active_timestamp_seconds") == [PAST]
    assert values(published, "gpu_container_ever_active") == [1.0]


def test_holder_whose_processes_are_unknown_still_shows_since_when() -> None:
    """Which kind of idleness it is can be unknown while it is certain that nothing runs."""
    row = a_row(utilization_ratio=0.0, processes=None, state=State.UNKNOWN)
    assert values(a_published(containers=(row,), ledger=clocks(row)), "gpu_container_last_active_timestamp_seconds") == [PAST]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(a_row(utilization_ratio=None, state=State.UNKNOWN), id="not measured"),
        pytest.param(a_row(allocations=(), uses_unheld=True), id="holds nothing"),
    ],
)
def test_unmeasured_or_mere_user_shows_no_last_activity(row: ContainerRow) -> None:
    """Nobody looks idle who could not be measured, and nobody is blamed for a device that he does not hold."""
    published = a_published(containers=(row,), ledger=clocks(row))
    assert "gpu_container_last_active_timestamp_seconds" not in names(published)


def test_container_that_was_not_watched_from_its_start_is_never_called_unused() -> None:
    """Whether it was ever active is absent unless it was watched from its start; since when it is idle is not."""
    row = a_row(utilization_ratio=0.0, state=State.IDLE_EMPTY)
    published = a_published(containers=(row,), ledger=clocks(row, ever_active=False, from_start=False))
    assert "gpu_container_ever_active" not in names(published)
    assert values(published, "gpu_container_last_active_timestamp_seconds") == [PAST]
    published = a_published(containers=(row,), ledger=clocks(row, ever_active=False))
    assert values(published, "gpu_container_ever_active") == [0.0]


def test_of_two_pods_of_one_name_the_later_activity_counts() -> None:
    """A pod and its successor share their labels: the latest moment wins, and active is who was active ever."""
    first = a_row(utilization_ratio=0.0, state=State.IDLE_HELD)
    second = replace(first, container=ContainerKey(PodUid("uid-2"), "team-red", "train-0", "main"))
    earlier, later = clocks(first, ever_active=False), clocks(second, last_active_timestamp_seconds=NOW)
    ledger = Ledger(idle_clocks={**earlier.idle_clocks, **later.idle_clocks})
    for rows in ((first, second), (second, first)):
        published = a_published(containers=rows, ledger=ledger)
        assert values(published, "gpu_container_last_active_timestamp_seconds") == [NOW]
        assert values(published, "gpu_container_ever_active") == [1.0]


POD = "gpu_pod_last_active_timestamp_seconds"
IDLE = a_row(0, utilization_ratio=0.0, state=State.IDLE_HELD)
BLIND = a_row(1, utilization_ratio=None, state=State.UNKNOWN)
BUSY = a_row(1, utilization_ratio=0.9, state=State.ACTIVE)
DEVICES = tuple(a_device_row(a_device(index), Sharing.NONE, 1.0) for index in range(2))


def of_two(*rows: ContainerRow, assigned: int | None = 2) -> list[float]:
    """Moments of a pod that holds these."""
    earlier, later = clocks(IDLE), clocks(BUSY, last_active_timestamp_seconds=NOW - 60)
    ledger = Ledger(idle_clocks={**earlier.idle_clocks, **later.idle_clocks})
    return values(a_published(devices=DEVICES, containers=rows, pods=(a_pod(assigned=assigned),), ledger=ledger), POD)


def test_pod_was_last_active_where_it_was_last_active() -> None:
    """Of all devices that a pod holds the latest moment counts."""
    assert of_two(IDLE, replace(BUSY, utilization_ratio=0.0, state=State.IDLE_HELD)) == [NOW - 60]


def test_pod_with_an_unmeasured_device_is_not_called_idle() -> None:
    """While one device is unknown nobody can say when the pod last worked, unless it works on another one now."""
    assert of_two(IDLE, BLIND) == []
    assert of_two(replace(IDLE, utilization_ratio=0.5, state=State.ACTIVE), BLIND) == [PAST]


def test_pod_with_a_device_that_was_never_looked_at_is_not_called_idle() -> None:
    """A device without a clock is as unknown as one that could not be measured."""
    new = a_row(1, utilization_ratio=0.0, state=State.IDLE_EMPTY, container=replace(IDLE.container, container="side"))
    assert of_two(IDLE, new) == []


@pytest.mark.parametrize("assigned", [3, None])
def test_pod_that_may_hold_more_is_not_called_idle(assigned: int | None) -> None:
    """While something that it was given could not be laid on a device, or nobody can say what it was given, it may work."""
    second = replace(BUSY, utilization_ratio=0.0, state=State.IDLE_HELD)
    assert of_two(IDLE, second, assigned=assigned) == []
    assert of_two(IDLE, BUSY, assigned=assigned) == [NOW - 60]


def test_pod_that_holds_nothing_shows_no_last_activity() -> None:
    """A pod that waits, or that uses what it does not hold, is no idle holder."""
    assert of_two(assigned=0) == []
    assert of_two(replace(IDLE, allocations=()), assigned=0) == []


def test_replicas_of_one_gpu_are_as_many_units_as_were_given() -> None:
    """Two replicas of one GPU are two units on one row: the pod holds all that it was given."""
    replicas = tuple(Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, f"{uuid(0)}::{part}") for part in range(2))
    assert of_two(replace(IDLE, allocations=replicas)) == [PAST]
