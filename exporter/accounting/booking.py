"""What one cycle comes to: GPU-seconds, busy seconds, energy and money of each device, and of each container on it.

For every device: provisioned = unallocated + allocation unknown + held; and what it was busy = what containers were on it +
what was nobody's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exporter.accounting.activity import state_seconds
from exporter.accounting.energy import EnergySplit
from exporter.accounting.idle import use_key
from exporter.model.activity import Activity
from exporter.model.attribution import Attribution, ContainerRow, DeviceRow, Ownership, State, UnallocatedReason
from exporter.model.device import MigInstance
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import (
    Account,
    ContainerSubject,
    DeviceSubject,
    LedgerRules,
    MigSubject,
    OwnerLabels,
    OwnerSubject,
    Quantity,
    UseKey,
)

SECONDS_PER_HOUR = 3600.0
OF_CONTAINER, OF_OWNER = "container", "owner"

Amounts = dict[Account, float]
"""What is booked on each account; 0 opens it."""
UseAmounts = dict[tuple[str, Quantity, str], float]
"""By (container or owner, quantity, detail)."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one container did and held on one device in one cycle."""

    key: UseKey
    container: ContainerSubject
    owner: OwnerSubject
    complete: bool
    """False while its owner is still being looked up."""
    amounts: Mapping[tuple[str, Quantity, str], float] = field(default_factory=dict)
    observation: tuple[float, float] | None = None
    """(mean utilisation, measured seconds) of a holder."""


def device_amounts(row: DeviceRow, elapsed_seconds: float, energy: EnergySplit, currency: str) -> Amounts:
    """Everything that is booked under a device's own labels.

    Args:
        row: The device.
        elapsed_seconds: Length of the cycle that was watched; 0: there was none, and accounts are only opened.
        energy: Whose its energy was.
        currency: Of its price.
    """
    subject = device_subject(row)
    unallocated = {reason: ratio * elapsed_seconds for reason, ratio in row.unallocated_ratios.items()}
    unknown = row.allocation_unknown_ratio * elapsed_seconds
    amounts = {
        Account(subject, Quantity.PROVISIONED_SECONDS): elapsed_seconds,
        Account(subject, Quantity.OBSERVED_SECONDS): _scaled(row.activity, elapsed_seconds, _measured(row.activity)),
    }
    # There from the start, also at 0: a sum over one of these that has no series yet would make every equation empty.
    amounts[Account(subject, Quantity.ALLOCATION_UNKNOWN_SECONDS)] = unknown
    amounts[Account(subject, Quantity.UNALLOCATED_SECONDS, UnallocatedReason.FREE)] = 0.0
    for reason, seconds in unallocated.items():
        amounts[Account(subject, Quantity.UNALLOCATED_SECONDS, reason)] = seconds
    if row.price_per_hour is not None:
        amounts |= _costs(
            subject, row.price_per_hour / SECONDS_PER_HOUR, currency, elapsed_seconds, sum(unallocated.values()), unknown
        )
    if row.utilization_ratio is not None:
        amounts[Account(subject, Quantity.BUSY_SECONDS)] = _scaled(row.activity, elapsed_seconds, _busy(row.activity))
    if row.activity is not None:
        measured = _scaled(row.activity, elapsed_seconds, row.activity.measured_seconds)
        for why, ratio in row.unattributed_ratios.items():
            amounts[Account(subject, Quantity.UNATTRIBUTED_BUSY_SECONDS, why)] = ratio * measured
    for why, joules in energy.unattributed.items():
        amounts[Account(subject, Quantity.UNATTRIBUTED_ENERGY_JOULES, why)] = joules
    return amounts


def mig_amounts(row: DeviceRow, elapsed_seconds: float) -> Amounts:
    """Busy seconds of each GPU instance, in its own seconds."""
    device = device_subject(row)
    groups: dict[int, list[MigInstance]] = {}
    for instance in row.device.mig_instances:
        groups.setdefault(instance.gpu_instance_id, []).append(instance)
    return {
        Account(_gpu_instance(device, group), Quantity.BUSY_SECONDS): _scaled(
            group[0].activity, elapsed_seconds, group[0].activity.busy_seconds
        )
        for group in groups.values()
        if group[0].activity is not None
    }


def uses(
    attribution: Attribution,
    device: DeviceRow,
    elapsed_seconds: float,
    energy: EnergySplit,
    rules: LedgerRules,
) -> Iterator[Use]:
    """Everybody on one device, in the order of its rows."""
    rows = rows_on(attribution, device.device.uuid)
    for place, row in enumerate(rows):
        of_a_holder = row.holds or any(other.holds and _same_pod(other, row) for other in rows)
        amounts = _use_amounts(row, elapsed_seconds, rules, held_by_pod=of_a_holder)
        if device.device.energy_joules is not None:
            joules = energy.by_row.get(place, 0.0)
            amounts[OF_CONTAINER, Quantity.ENERGY_JOULES, ""] = joules
            amounts[OF_OWNER, Quantity.ENERGY_JOULES, ""] = joules if of_a_holder else 0.0
        if row.holds and device.price_per_hour is not None:
            amounts |= _use_costs(amounts, device.price_per_hour / SECONDS_PER_HOUR, attribution.currency)
        yield Use(
            key=use_key(row),
            container=container_subject(device, row),
            owner=_owner_subject(device, row),
            complete=row.owner.complete,
            amounts=amounts,
            observation=_observation(row, elapsed_seconds),
        )


def rows_on(attribution: Attribution, uuid: DeviceUuid) -> tuple[ContainerRow, ...]:
    """The containers on a device."""
    return tuple(row for row in attribution.containers if row.device == uuid)


def device_subject(row: DeviceRow) -> DeviceSubject:
    """Labels of a device."""
    return DeviceSubject(row.device.index, row.device.uuid)


def _use_amounts(row: ContainerRow, elapsed_seconds: float, rules: LedgerRules, *, held_by_pod: bool) -> UseAmounts:
    amounts: UseAmounts = {}
    if row.holds:
        share = row.share_ratio or 0.0
        states = state_seconds(row, elapsed_seconds, rules.active_above_ratio)
        for state in State:
            for scope in (OF_CONTAINER, OF_OWNER):
                amounts[scope, Quantity.HELD_SECONDS, state] = share * states.get(state, 0.0)
        measured = _scaled(row.activity, elapsed_seconds, _measured(row.activity))
        amounts[OF_OWNER, Quantity.MEASURED_SECONDS, ""] = share * measured
    if row.utilization_ratio is not None and row.place_ratio is not None:
        busy = _scaled(row.activity, elapsed_seconds, _busy(row.activity)) * row.place_ratio
        amounts[OF_CONTAINER, Quantity.BUSY_SECONDS, ""] = busy
        amounts[OF_OWNER, Quantity.BUSY_SECONDS if held_by_pod else Quantity.UNHELD_BUSY_SECONDS, ""] = busy
    return amounts


def _use_costs(amounts: UseAmounts, price_per_second: float, currency: str) -> UseAmounts:
    return {
        (OF_OWNER, Quantity.COST, f"{currency}/{state}"): amounts[OF_OWNER, Quantity.HELD_SECONDS, state] * price_per_second
        for state in State
    }


def _costs(
    subject: DeviceSubject, price_per_second: float, currency: str, elapsed: float, unallocated: float, unknown: float
) -> Amounts:
    return {
        Account(subject, Quantity.PROVISIONED_COST, currency): elapsed * price_per_second,
        Account(subject, Quantity.UNALLOCATED_COST, currency): unallocated * price_per_second,
        Account(subject, Quantity.ALLOCATION_UNKNOWN_COST, currency): unknown * price_per_second,
    }


def _observation(row: ContainerRow, elapsed_seconds: float) -> tuple[float, float] | None:
    """In the first cycle, which has a figure and no length yet, it opens the distribution."""
    if not row.holds or row.utilization_ratio is None:
        return None
    return row.utilization_ratio, _scaled(row.activity, elapsed_seconds, _measured(row.activity))


def _measured(activity: Activity | None) -> float:
    return 0.0 if activity is None else activity.measured_seconds


def _busy(activity: Activity | None) -> float:
    return 0.0 if activity is None else activity.busy_seconds


def _scaled(activity: Activity | None, elapsed_seconds: float, seconds: float) -> float:
    """Seconds of an activity as seconds of the cycle: the two are read a moment apart."""
    if activity is None or activity.seconds <= 0:
        return 0.0
    return seconds * elapsed_seconds / activity.seconds


def _same_pod(one: ContainerRow, other: ContainerRow) -> bool:
    return (one.container.pod_uid, one.container.namespace, one.container.pod) == (
        other.container.pod_uid,
        other.container.namespace,
        other.container.pod,
    )


def _gpu_instance(device: DeviceSubject, group: list[MigInstance]) -> MigSubject:
    instance = group[0]
    if len(group) > 1:
        return MigSubject(device, instance.gpu_instance_id, None, "")
    return MigSubject(device, instance.gpu_instance_id, instance.compute_instance_id, instance.profile)


def container_subject(device: DeviceRow, row: ContainerRow) -> ContainerSubject:
    """Labels of a container on a device."""
    subject = device_subject(device)
    mig = None
    if row.mig is not None:
        mig = MigSubject(subject, row.mig.gpu_instance_id, row.mig.compute_instance_id, row.mig.profile)
    container = row.container
    return ContainerSubject(subject, mig, container.namespace, container.pod, container.container, OwnerLabels.of(row.owner))


def _owner_subject(device: DeviceRow, row: ContainerRow) -> OwnerSubject:
    owner: Ownership = row.owner
    return OwnerSubject(
        model=device.device.model,
        namespace=row.container.namespace,
        team=owner.team,
        cost_center=owner.cost_center,
        workload_class=owner.workload_class,
        extra=owner.extra,
    )
