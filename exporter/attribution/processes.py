"""Whose process is it? From a PID on a device to a container, or the reason why it is nobody's."""

from collections.abc import Iterable

from exporter.attribution.cgroup import CgroupPlace, parse_cgroup
from exporter.attribution.pods import PodIndex, container_key
from exporter.model.attribution import UnattributedReason
from exporter.model.ids import ContainerId, ContainerKey
from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.workload import Pod

MAX_ANCESTORS = 32
MPS_SERVER_NAME = "nvidia-cuda-mps"
"""``nvidia-cuda-mps-server`` as ``comm`` has it, cut to 15 bytes."""

Whose = ContainerKey | UnattributedReason


def processes_known(table: ProcessTable | None) -> bool:
    """True if this /proc can say something about the PIDs that NVML names, and about their absence."""
    return table is not None and not table.host_pid_missing


def whose_processes(pids: Iterable[int], table: ProcessTable | None, pods: PodIndex) -> dict[int, Whose]:
    """Lay every PID on a container, or say why that cannot be done."""
    if table is None or table.host_pid_missing:
        return dict.fromkeys(pids, UnattributedReason.UNRESOLVED_PID)
    return {pid: _whose(pid, table, pods) for pid in pids}


def is_mps_server(pid: int, table: ProcessTable | None) -> bool:
    """True for the process that holds a GPU on behalf of MPS clients, wherever it runs.

    A workload can take on this name. It hides nothing on a device that its container holds (see `usage`), and elsewhere
    its use stays visible under its own reason.
    """
    record = None if table is None or table.host_pid_missing else table.records.get(pid)
    return record is not None and record.name.startswith(MPS_SERVER_NAME)


def _whose(pid: int, table: ProcessTable, pods: PodIndex) -> Whose:
    record = table.records.get(pid)
    if record is None:
        gone = table.troubles.get(pid) is ProcessTrouble.GONE
        return UnattributedReason.DEAD_PROCESS if gone else UnattributedReason.UNRESOLVED_PID
    if not pods.known:
        return UnattributedReason.UNRESOLVED_PID
    own = parse_cgroup(record.cgroup_lines)
    if own.pods:
        return _in_place(own, pods) or UnattributedReason.UNRESOLVED_PID
    return _in_place(own, pods) or _by_ancestors(record, table, pods) or _nobody(record, own, table)


def _in_place(place: CgroupPlace, pods: PodIndex) -> ContainerKey | None:
    """The outermost pod of the path; without one in the path, the pod of its container.

    Never one further in, also while the outermost is not known: a container can make child cgroups called like any pod.
    """
    if place.ambiguous:
        return None
    if place.pods:
        outermost = place.pods[0]
        pod = pods.in_cgroup(outermost)
        return None if pod is None else _container_of(pod, outermost.container_id)
    pod = pods.by_container.get(place.container_id) if place.container_id else None
    return None if pod is None else _container_of(pod, place.container_id)


def _container_of(pod: Pod, container_id: ContainerId | None) -> ContainerKey:
    return container_key(pod, pod.container_names.get(container_id, "") if container_id else "")


def _by_ancestors(record: ProcessRecord, table: ProcessTable, pods: PodIndex) -> ContainerKey | None:
    """The nearest ancestor in a pod: a container engine inside a container starts its own at the root of the hierarchy."""
    for _ in range(MAX_ANCESTORS):
        parent = table.records.get(record.parent_pid) if record.parent_pid > 1 else None
        if parent is None:
            return None
        found = _in_place(parse_cgroup(parent.cgroup_lines), pods)
        if found is not None:
            return found
        record = parent
    return None


def _nobody(record: ProcessRecord, own: CgroupPlace, table: ProcessTable) -> UnattributedReason:
    if own.container_id:
        return UnattributedReason.NOT_IN_POD
    if own.relative or table.private_cgroup_view or not record.cgroup_lines:
        return UnattributedReason.UNRESOLVED_PID
    return UnattributedReason.HOST_PROCESS
