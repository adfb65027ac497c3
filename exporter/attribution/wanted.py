"""What the second phase of a snapshot has to ask for, given what the first one named."""

from collections.abc import Iterable

from exporter.attribution.controllers import controller, is_static
from exporter.attribution.holders import find_holders, gpu_holdings
from exporter.attribution.ownership import QUEUE_ANNOTATIONS
from exporter.attribution.pods import PodIndex, index_pods, unique_pods
from exporter.attribution.processes import whose_processes
from exporter.attribution.resources import is_gpu_resource
from exporter.model.attribution import UnattributedReason
from exporter.model.device import NvmlState
from exporter.model.holding import Holdings
from exporter.model.ids import PodUid
from exporter.model.policy import OwnershipPolicy
from exporter.model.process import ProcessTable
from exporter.model.workload import Container, ContainerKind, OwnerKey, Pod, PodPhase, PodStore

REQUESTED_BY = frozenset({ContainerKind.MAIN, ContainerKind.SIDECAR})
"""Containers that run as long as the pod does. An init container's devices are never listed once it has ended."""


def pids_wanted(nvml: NvmlState | None) -> frozenset[int]:
    """PIDs to look up in /proc: those on a device now, and those that the activity samples name."""
    devices = () if nvml is None else nvml.devices
    listed = {process.pid for device in devices for process in device.processes or ()}
    return frozenset(listed | {use.pid for device in devices for use in device.process_use or ()})


def gpu_pods(
    nvml: NvmlState | None, holdings: Holdings | None, pods: PodStore | None, processes: ProcessTable | None
) -> tuple[Pod, ...]:
    """Pods that ask for, hold or use a GPU; of those that have ended only the ones that still use one."""
    index = index_pods(pods, fresh=False)
    names = gpu_resources(holdings, nvml)
    asking = {pod.uid for pod in index.live if not pod.terminal and asks_for_gpu(pod, names)}
    holding = {container.pod_uid for container in find_holders(holdings, nvml, index).containers}
    return chosen_pods(index, asking | holding | _using(nvml, index, processes))


def chosen_pods(index: PodIndex, uids: Iterable[PodUid]) -> tuple[Pod, ...]:
    """The pods with these UIDs, live or recently deleted, in a stable order."""
    wanted = set(uids)
    return unique_pods(pod for pod in index.by_cgroup_uid.values() if pod.uid in wanted)


def owners_wanted(pods: Iterable[Pod]) -> tuple[OwnerKey, ...]:
    """Controllers to look up, by the references in the pods: first of pods that run, since only those can hold a device."""
    running_first = sorted(pods, key=lambda pod: pod.phase is not PodPhase.RUNNING)
    references = ((pod, controller(pod.owners)) for pod in running_first if not is_static(pod))
    keys = (
        OwnerKey(reference.api_version, reference.kind, pod.namespace, reference.name, reference.uid)
        for pod, reference in references
        if reference is not None
    )
    return tuple(dict.fromkeys(keys))


def namespaces_wanted(pods: Iterable[Pod]) -> frozenset[str]:
    """Namespaces to look up."""
    return frozenset(pod.namespace for pod in pods)


def annotations_wanted(policy: OwnershipPolicy) -> frozenset[str]:
    """Annotation keys that ownership reads, on pods, workloads and namespaces."""
    keys = {key for field in policy.fields for key in field.keys}
    return frozenset(keys | {policy.class_annotation, *QUEUE_ANNOTATIONS})


def gpu_resources(holdings: Holdings | None, nvml: NvmlState | None) -> frozenset[str]:
    """Resources that turned out to be GPUs by the ids that were given out, whatever their names say."""
    return frozenset(holding.resource for holding, _ in gpu_holdings(holdings, nvml))


def asks_for_gpu(pod: Pod, names: frozenset[str]) -> bool:
    """True if any container has a limit of a GPU resource, init containers included."""
    return any(_requested(container, names) for container in pod.containers)


def devices_requested(pod: Pod, names: frozenset[str]) -> int:
    """Units that the pod's lasting containers ask for, over all GPU resources."""
    return sum(_requested(container, names) for container in pod.containers if container.kind in REQUESTED_BY)


def _requested(container: Container, names: frozenset[str]) -> int:
    return sum(units for resource, units in container.limits.items() if resource in names or is_gpu_resource(resource))


def _using(nvml: NvmlState | None, index: PodIndex, processes: ProcessTable | None) -> set[PodUid]:
    whose = whose_processes(pids_wanted(nvml), processes, index)
    return {owner.pod_uid for owner in whose.values() if not isinstance(owner, UnattributedReason)}
