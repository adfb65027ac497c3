"""Active, idle_held, idle_empty or unknown? One verdict for each holder of a device, in this cycle, with its evidence."""

from collections.abc import Iterable
from dataclasses import replace

from exporter.model.attribution import Attribution, ContainerRow, PodRow, State
from exporter.model.ids import PodUid

ROUNDING_SECONDS = 1e-9
"""Less than this is what is left of sums, and is no time."""
IDLE = frozenset({State.IDLE_HELD, State.IDLE_EMPTY})


def judge(attribution: Attribution, active_above_ratio: float) -> Attribution:
    """Give every row that holds a device its state, and every pod its count of idle devices.

    Args:
        attribution: The join of this cycle, states still unknown.
        active_above_ratio: Utilisation, 0 to 1, above which a device counts as active.
    """
    containers = tuple(_with_state(row, active_above_ratio) for row in attribution.containers)
    pods = tuple(replace(pod, idle=_idle_devices(pod, containers)) for pod in attribution.pods)
    return replace(attribution, containers=containers, pods=pods)


def state_seconds(row: ContainerRow, elapsed_seconds: float, active_above_ratio: float) -> dict[State, float]:
    """How long a holder's device was in which state in this cycle; together the whole cycle.

    A sole user's time is told sample by sample; a sharer's figure is one for the whole cycle.

    Args:
        row: A holder, its state judged or not.
        elapsed_seconds: Length of the cycle.
        active_above_ratio: As in `judge`.
    """
    activity = row.activity
    if activity is None or activity.measured_seconds <= 0:
        return {State.UNKNOWN: elapsed_seconds}
    scale = elapsed_seconds / activity.seconds
    active = activity.active_seconds(active_above_ratio) * scale
    lost = activity.lost_seconds * scale
    seconds = {State.ACTIVE: active, State.UNKNOWN: lost}
    idle, _ = _idle_kind(row)
    seconds[idle] = seconds.get(idle, 0.0) + max(elapsed_seconds - active - lost, 0.0)
    return {state: amount for state, amount in seconds.items() if amount > ROUNDING_SECONDS}


def _with_state(row: ContainerRow, active_above_ratio: float) -> ContainerRow:
    if not row.holds:
        evidence = "Uses a device that it does not hold." if row.uses_unheld else "Who holds this device is unknown."
        return replace(row, state=State.UNKNOWN, state_evidence=evidence)
    state, evidence = _state(row, active_above_ratio)
    return replace(row, state=state, state_evidence=evidence)


def _state(row: ContainerRow, active_above_ratio: float) -> tuple[State, str]:
    if row.utilization_ratio is None:
        return State.UNKNOWN, "Its activity could not be measured."
    busy = f"{row.utilization_ratio:.0%} busy"
    if is_active(row, active_above_ratio):
        return State.ACTIVE, f"{busy}."
    state, why = _idle_kind(row)
    return state, f"{busy}, {why}."


def is_active(row: ContainerRow, active_above_ratio: float) -> bool:
    """True if it worked at any time of this cycle, be it for one sample."""
    if row.activity is not None:
        return row.activity.active_seconds(active_above_ratio) > 0
    return row.utilization_ratio is not None and row.utilization_ratio > active_above_ratio


def _idle_kind(row: ContainerRow) -> tuple[State, str]:
    """What its time is while it does not work, and why."""
    if row.processes is None:
        return State.UNKNOWN, "and its processes could not be read"
    if row.processes > 0:
        return State.IDLE_HELD, f"{_counted(row.processes)} on the device"
    if row.memory_used_bytes:
        return State.IDLE_HELD, "memory held without a process"
    return State.IDLE_EMPTY, "no process on the device"


def _counted(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _idle_devices(pod: PodRow, containers: Iterable[ContainerRow]) -> int | None:
    """Devices that the pod holds and none of its containers works on; None if that cannot be said of one of them."""
    own = [row for row in containers if _is_of(row, pod.uid, pod.namespace, pod.pod)]
    states: dict[object, set[State]] = {}
    units: set[tuple[str, str]] = set()
    for row in own:
        if row.holds:
            states.setdefault((row.device, row.mig and row.mig.key), set()).add(row.state)
            units.update((allocation.resource, allocation.device_id) for allocation in row.allocations)
    for row in own:
        place = (row.device, row.mig and row.mig.key)
        if not row.holds and place in states and row.utilization_ratio != 0:
            states[place].add(State.UNKNOWN if row.utilization_ratio is None else State.ACTIVE)
    active = [found for found in states.values() if State.ACTIVE in found]
    rest = [found for found in states.values() if State.ACTIVE not in found]
    if pod.assigned is None or len(units) < pod.assigned or any(State.UNKNOWN in found for found in rest):
        return None
    return len(states) - len(active)


def _is_of(row: ContainerRow, uid: PodUid, namespace: str, pod: str) -> bool:
    return (row.container.pod_uid, row.container.namespace, row.container.pod) == (uid, namespace, pod)
