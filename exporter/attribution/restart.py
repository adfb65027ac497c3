"""A kubelet that has just restarted answers with an empty list, then with partial ones, while what it gave away stays given."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.attribution.device_ids import parse_device_id
from exporter.attribution.pods import PodIndex
from exporter.attribution.processes import Whose
from exporter.attribution.resolve import Unresolved, resolve
from exporter.model.attribution import UnattributedReason
from exporter.model.device import NvmlState
from exporter.model.holding import Holding, Holdings
from exporter.model.ids import PodUid
from exporter.model.workload import Pod


def prolong(
    holdings: Holdings | None,
    listed: Mapping[Holding, float],
    nvml: NvmlState | None,
    pods: PodIndex,
    whose: Mapping[int, Whose],
) -> Holdings | None:
    """Add holdings that the kubelet named before and whose pods it does not name at all now.

    Only of a pod that runs by the API's word and whose processes are seen on the device, and only while nobody else was
    given the same id. Processes never make a holder; here they show that the list is not complete.

    Args:
        holdings: What the kubelet says now.
        listed: What it said before, not too long ago.
        nvml: The devices and the processes on them.
        pods: The pods as the API knows them.
        whose: Owner of each process.
    """
    if holdings is None:
        return None
    taken = {(holding.resource, holding.device_id) for holding in holdings.holdings}
    missing = [
        holding
        for holding in listed
        if (holding.namespace, holding.pod) not in holdings.pods and (holding.resource, holding.device_id) not in taken
    ]
    kept = [holding for holding in missing if _runs_on(holding, nvml, pods, whose)]
    return replace(holdings, holdings=tuple(sorted({*holdings.holdings, *kept}))) if kept else holdings


def _runs_on(holding: Holding, nvml: NvmlState | None, pods: PodIndex, whose: Mapping[int, Whose]) -> bool:
    pod = pods.by_name.get((holding.namespace, holding.pod))
    if pod is None or not _is_running(pod):
        return False
    resolution = resolve(parse_device_id(holding.device_id), nvml)
    devices = () if isinstance(resolution, Unresolved) else (device for device, _ in resolution)
    return any(pod.uid in _users((process.pid for process in device.processes or ()), whose) for device in devices)


def _is_running(pod: Pod) -> bool:
    return not pod.terminal and pod.deletion_timestamp_seconds is None


def _users(pids: Iterable[int], whose: Mapping[int, Whose]) -> set[PodUid]:
    owners = (whose.get(pid, UnattributedReason.UNRESOLVED_PID) for pid in pids)
    return {owner.pod_uid for owner in owners if not isinstance(owner, UnattributedReason)}
