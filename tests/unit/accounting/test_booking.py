"""What one cycle comes to: seconds, busy seconds, energy and money, of the device and of everybody on it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.accounting.booking import OF_CONTAINER, OF_OWNER, Use, device_amounts, uses
from exporter.accounting.energy import Drawn, split_energy
from exporter.model.attribution import Attribution, ContainerRow, DeviceRow, UnallocatedReason, UnattributedReason
from exporter.model.ledger import LedgerRules, Quantity
from tests.unit.accounting.rows import CYCLE_SECONDS, a_device_row, a_holder, a_user, an_attribution, spans, steady

Amounts = Mapping[tuple[Quantity, str], float]
RULES = LedgerRules()


def _device(row: DeviceRow, *containers: ContainerRow, joules: float = 0.0, currency: str = "") -> Amounts:
    split = split_energy(row, containers, Drawn(joules, 1.0))
    booked = device_amounts(row, CYCLE_SECONDS, split, currency)
    return {(account.quantity, account.detail): amount for account, amount in booked.items()}


def _uses(row: DeviceRow, *containers: ContainerRow, joules: float = 0.0) -> tuple[Use, ...]:
    attribution: Attribution = an_attribution(*containers, device=row, currency="USD")
    return tuple(uses(attribution, row, CYCLE_SECONDS, split_energy(row, containers, Drawn(joules, 1.0)), RULES))


def _held(use: Use, scope: str = OF_CONTAINER) -> dict[str, float]:
    found = {
        detail: amount for (of, line, detail), amount in use.amounts.items() if (of, line) == (scope, Quantity.HELD_SECONDS)
    }
    return {state: amount for state, amount in found.items() if amount}


def test_sole_holder_is_booked_sample_by_sample() -> None:
    """Two seconds above the threshold, two at it, one not measured: mean and threshold of the whole cycle say nothing of it."""
    activity = spans((2.0, 0.9), (2.0, 0.01), (1.0, None))
    (use,) = _uses(a_device_row(activity=activity), a_holder(activity=activity))
    assert _held(use) == {"active": 2.0, "idle_held": 2.0, "unknown": 1.0}
    assert use.amounts[OF_OWNER, Quantity.MEASURED_SECONDS, ""] == 4.0
    assert use.amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] == pytest.approx(1.82)
    assert use.observation == pytest.approx((1.82 / 4, 4.0))


def test_holder_without_a_process_is_idle_empty_between_its_samples() -> None:
    """Which idle it was is told by its processes and its memory."""
    activity = spans((4.0, 0.0), (1.0, 0.5))
    holder = a_holder(activity=activity, processes=0, memory_used_bytes=0)
    (use,) = _uses(a_device_row(activity=activity), holder)
    assert _held(use) == {"active": 1.0, "idle_empty": 4.0}


def test_holder_whose_processes_could_not_be_read_is_unknown_where_it_is_not_active() -> None:
    """Missing is never read as idle."""
    activity = spans((4.0, 0.0), (1.0, 0.5))
    (use,) = _uses(a_device_row(activity=activity), a_holder(activity=activity, processes=None))
    assert _held(use) == {"active": 1.0, "unknown": 4.0}


def test_holder_that_was_not_measured_is_unknown_and_opens_no_busy_counter() -> None:
    """Nothing measured is not 0."""
    (use,) = _uses(a_device_row(activity=None), a_holder(activity=None))
    assert _held(use) == {"unknown": CYCLE_SECONDS}
    assert use.amounts[OF_OWNER, Quantity.MEASURED_SECONDS, ""] == 0.0
    assert (OF_CONTAINER, Quantity.BUSY_SECONDS, "") not in use.amounts
    assert use.observation is None


def test_sharers_are_booked_by_share_and_by_what_each_of_them_did() -> None:
    """A quarter each: the one that worked was active, the others idle."""
    device = a_device_row(activity=steady(0.6))
    rows = [a_holder(pod=f"s-{each}", share=0.25, activity=steady(0.6 if each == 0 else 0.0)) for each in range(4)]
    booked = _uses(device, *rows)
    assert [_held(use) for use in booked] == [{"active": 1.25}, *[{"idle_held": 1.25}] * 3]
    assert sum(use.amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] for use in booked) == pytest.approx(3.0)


def test_mig_holder_is_busy_in_seconds_of_the_gpu_and_observed_in_its_own_utilisation() -> None:
    """Half of a seventh for five seconds."""
    holder = a_holder(share=1 / 7, place_ratio=1 / 7, activity=steady(0.5))
    (use,) = _uses(a_device_row(activity=steady(0.5 / 7), free=6 / 7), holder)
    assert use.amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] == pytest.approx(2.5 / 7)
    assert use.observation == (0.5, 5.0)
    assert _held(use) == {"active": pytest.approx(5 / 7)}


def test_use_without_holding_is_busy_and_never_held() -> None:
    """It goes under an owner counter of its own, so that utilisation of what is held stays true."""
    device = a_device_row(activity=steady(0.5), free=1.0)
    (use,) = _uses(device, a_user(activity=steady(0.5)))
    assert not _held(use)
    assert use.amounts[OF_OWNER, Quantity.UNHELD_BUSY_SECONDS, ""] == 2.5
    assert (OF_OWNER, Quantity.BUSY_SECONDS, "") not in use.amounts
    assert use.amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] == 2.5


def test_use_by_a_sandbox_of_the_holding_pod_is_use_of_what_it_holds() -> None:
    """Only the pod is known of a sandboxed runtime's process."""
    holder = a_holder(activity=None)
    sandbox = replace(holder, container=replace(holder.container, container=""), allocations=())
    sandbox = replace(sandbox, activity=steady(0.4), utilization_ratio=0.4)
    booked = _uses(a_device_row(activity=steady(0.4)), holder, sandbox)
    assert booked[1].amounts[OF_OWNER, Quantity.BUSY_SECONDS, ""] == 2.0


def test_device_is_booked_with_what_is_free_and_what_is_unknown() -> None:
    """Provisioned time has a place for every part."""
    row = a_device_row(
        activity=spans((4.0, 0.5), (1.0, None)),
        unknown=0.25,
        unallocated_ratios={UnallocatedReason.FRAGMENT: 0.25, UnallocatedReason.CORDONED: 0.25},
        unattributed_ratios={UnattributedReason.HOST_PROCESS: 0.5},
    )
    booked = _device(row, a_holder(share=0.25, activity=steady(0.0)))
    assert booked[Quantity.PROVISIONED_SECONDS, ""] == 5.0
    assert booked[Quantity.OBSERVED_SECONDS, ""] == 4.0
    assert booked[Quantity.BUSY_SECONDS, ""] == 2.0
    assert booked[Quantity.ALLOCATION_UNKNOWN_SECONDS, ""] == 1.25
    assert booked[Quantity.UNALLOCATED_SECONDS, "fragment"] == booked[Quantity.UNALLOCATED_SECONDS, "cordoned"] == 1.25
    assert booked[Quantity.UNALLOCATED_SECONDS, "free"] == 0.0
    assert booked[Quantity.UNATTRIBUTED_BUSY_SECONDS, "host_process"] == 2.0


def test_device_that_does_not_answer_is_provisioned_and_not_observed() -> None:
    """The bill goes on; what it did is unknown, not nothing."""
    booked = _device(a_device_row(activity=None))
    assert booked[Quantity.PROVISIONED_SECONDS, ""] == 5.0
    assert booked[Quantity.OBSERVED_SECONDS, ""] == 0.0
    assert (Quantity.BUSY_SECONDS, "") not in booked


def test_a_read_that_covers_a_little_more_than_the_cycle_is_scaled_to_the_cycle() -> None:
    """The ring is read a moment before or after the beat: held time and busy time have the same length all the same."""
    activity = spans((5.05, 1.0))
    (use,) = _uses(a_device_row(activity=activity), a_holder(activity=activity))
    assert _held(use) == {"active": pytest.approx(5.0)}
    assert use.amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] == pytest.approx(5.0)


def test_money_follows_the_seconds_at_the_price_of_the_moment() -> None:
    """3.60 an hour is a tenth of a cent a second."""
    activity = spans((3.0, 0.9), (2.0, 0.0))
    row = a_device_row(activity=activity, free=0.5, price_per_hour=3.6)
    holder = a_holder(share=0.5, activity=activity)
    booked = _device(row, holder, currency="USD")
    assert booked[Quantity.PROVISIONED_COST, "USD"] == pytest.approx(0.005)
    assert booked[Quantity.UNALLOCATED_COST, "USD"] == pytest.approx(0.0025)
    assert booked[Quantity.ALLOCATION_UNKNOWN_COST, "USD"] == 0.0
    (use,) = _uses(row, holder)
    cost = {detail: amount for (_, line, detail), amount in use.amounts.items() if line is Quantity.COST}
    assert cost == {
        "USD/active": pytest.approx(0.0015),
        "USD/idle_held": pytest.approx(0.001),
        "USD/idle_empty": 0.0,
        "USD/unknown": 0.0,
    }


def test_without_a_price_nothing_is_booked_in_money() -> None:
    """No price is not a price of 0."""
    row = a_device_row(activity=steady(0.5))
    assert not [line for line, _ in _device(row) if line.endswith("cost")]
    assert not [line for _, line, _ in _uses(row, a_holder(activity=steady(0.5)))[0].amounts if line is Quantity.COST]


@pytest.mark.parametrize(
    ("ratios", "unattributed", "expected", "rest"),
    [
        pytest.param((0.6, 0.2), {}, (75.0, 25.0), {}, id="by-busy-time"),
        pytest.param((0.0, 0.0), {}, (50.0, 50.0), {}, id="nobody-busy-by-share"),
        pytest.param((None, 0.0), {}, (50.0, 50.0), {}, id="not-measured-by-share"),
        pytest.param((0.6, 0.0), {"host_process": 0.2}, (75.0, 0.0), {"host_process": 25.0}, id="nobodys-part"),
    ],
)
def test_energy_of_a_shared_device_is_split(
    ratios: tuple[float | None, float | None],
    unattributed: dict[str, float],
    expected: tuple[float, float],
    rest: dict[str, float],
) -> None:
    """By busy time among all users, by share where that cannot be said."""
    total = sum(ratio or 0.0 for ratio in ratios) + sum(unattributed.values())
    device = a_device_row(
        activity=steady(total), unattributed_ratios={UnattributedReason(reason): part for reason, part in unattributed.items()}
    )
    rows = [
        a_holder(pod=f"s-{place}", share=0.5, activity=None if ratio is None else steady(ratio))
        for place, ratio in enumerate(ratios)
    ]
    split = split_energy(device, rows, Drawn(100.0, 1.0))
    assert tuple(split.by_row.get(place, 0.0) for place in range(2)) == pytest.approx(expected)
    assert dict(split.unattributed) == pytest.approx({UnattributedReason(reason): part for reason, part in rest.items()})


def test_energy_of_the_part_that_nobody_holds_is_unallocated() -> None:
    """Three of seven slices are held: four sevenths of the watts are nobody's, whoever was busy."""
    rows = [a_holder(pod=f"m-{each}", share=1 / 7, place_ratio=1 / 7, activity=steady(each / 2)) for each in range(3)]
    device = a_device_row(activity=steady(1.5 / 7), free=4 / 7)
    split = split_energy(device, rows, Drawn(350.0, 1.0))
    assert split.unattributed == {UnattributedReason.UNALLOCATED: pytest.approx(200.0)}
    assert dict(split.by_row) == {1: pytest.approx(50.0), 2: pytest.approx(100.0)}


def test_energy_from_before_the_cycle_is_not_measured() -> None:
    """The driver was away for nine cycles: one tenth of the energy was drawn while somebody watched."""
    split = split_energy(a_device_row(activity=steady(1.0)), [a_holder(activity=steady(1.0))], Drawn(1000.0, 0.1))
    assert dict(split.by_row) == {0: pytest.approx(100.0)}
    assert split.unattributed == {UnattributedReason.NOT_MEASURED: pytest.approx(900.0)}


def test_energy_of_unknown_allocation_is_nobodys() -> None:
    """What no source can say is not billed to anybody."""
    split = split_energy(a_device_row(activity=steady(1.0), unknown=1.0), [], Drawn(100.0, 1.0))
    assert split.unattributed == {UnattributedReason.NOT_MEASURED: 100.0}
