"""Worlds for the simulated node: the case book's baseline, and the recorded kubelets."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from exporter.simulator.world import GIB, MIB, SimContainer, SimDevice, SimMig, SimPod, SimProcess, SimTask, World
from exporter.sources.podresources.podresources_pb2 import ListPodResourcesResponse

FIXTURES = Path(__file__).parent / "fixtures" / "recorded"
G0 = "GPU-0a0a0a0a-1111-4222-8333-000000000000"
G1 = "GPU-0a0a0a0a-1111-4222-8333-000000000001"
M1 = "MIG-0a0a0a0a-2222-4222-8333-000000000001"
M3 = "MIG-0a0a0a0a-2222-4222-8333-000000000003"
U1 = "11111111-2222-4333-8444-555555555501"
C1 = "c1" * 32
WHOLE = "nvidia.com/gpu"


def uid(number: int) -> str:
    """A made-up pod UID."""
    return f"11111111-2222-4333-8444-5555555555{number:02d}"


def container_id(number: int) -> str:
    """A made-up container id."""
    return f"{number:02x}" * 32


def cgroup(pod_uid: str, container: str) -> str:
    """A line of /proc/<pid>/cgroup: v2, systemd driver, containerd, burstable."""
    pod_slice = f"kubepods-burstable-pod{pod_uid.replace('-', '_')}.slice"
    return f"0::/kubepods.slice/kubepods-burstable.slice/{pod_slice}/cri-containerd-{container}.scope"


def a_sim_pod(
    number: int, name: str, *device_ids: str, namespace: str = "team-red", resource: str = WHOLE, **fields: Any
) -> SimPod:
    """A running pod whose one container `main` was given these devices."""
    limits = {resource: str(len(device_ids))} if device_ids else {}
    devices = tuple((resource, (device_id,)) for device_id in device_ids)
    container = SimContainer(name="main", id=container_id(number), limits=limits, devices=devices)
    return SimPod(**{"name": name, "namespace": namespace, "uid": uid(number), "containers": (container,), **fields})


def task_of(pid: int, number: int, **fields: Any) -> SimTask:
    """A process in the container of the pod with that number."""
    return SimTask(pid=pid, cgroup=(cgroup(uid(number), container_id(number)),), **fields)


def b0() -> World:
    """The baseline: G0 held and used by team-red/train-0, G1 free."""
    process = SimProcess(pid=4001, memory=20 * GIB, sm=40)
    train = a_sim_pod(
        1,
        "train-0",
        G0,
        labels={"pod-template-hash": "6f"},
        owners=({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-6f", "uid": "rs-1", "controller": True},),
    )
    return World(
        devices=(
            SimDevice(uuid=G0, index=0, utilization=40, power=210_000, processes=(process,)),
            SimDevice(uuid=G1, index=1, memory_used=8 * MIB),
        ),
        tasks=(task_of(4001, 1),),
        pods=(train,),
        allocatable={WHOLE: (G0, G1)},
        namespaces={"team-red": {"labels": {"team": "red"}, "annotations": {"cost-center": "4711"}}},
        node_capacity={WHOLE: "2"},
    )


@dataclass(frozen=True, slots=True)
class RecordedContainer:
    """A line of cgroups.txt that names a container, and what stands below it."""

    namespace: str
    pod: str
    container: str
    """Empty for the sandbox."""
    uid: str
    id: str
    pid: int
    lines: tuple[str, ...]


HEADER = re.compile(r"# (sandbox|container) ([^/ ]+)/(\S+) (\S+) uid=(\S+) id=(\S+) pid=(\d+)")


def recorded_containers(folder: str) -> Iterator[RecordedContainer]:
    """What a real containerd said of each sandbox and container."""
    for block in (FIXTURES / folder / "cgroups.txt").read_text().strip().split("\n\n"):
        header, *lines = block.split("\n")
        match = HEADER.match(header)
        assert match, header
        kind, namespace, pod, name, pod_uid, container, pid = match.groups()
        yield RecordedContainer(namespace, pod, "" if kind == "sandbox" else name, pod_uid, container, int(pid), tuple(lines))


def recorded_uuid(index: int) -> str:
    """The recording's GPUs."""
    return f"GPU-12345678-1234-1234-1234-12345678000{index}"


def recorded_mig(number: int) -> str:
    """The recording's MIG devices, all of them on GPU 6."""
    return f"MIG-5f4a2b1c-0000-5aaa-9bbb-00000000000{number}"


MIG_GPU = 6
UNHELD_GPU = 7


def recorded_world(folder: str) -> World:
    """A node with the recorded List and cgroups, GPUs that match, and one GPU process for each live container.

    A container that was given devices runs on all of them; one that was given none runs on GPU 7, which nobody holds.
    """
    held = dict(_held(folder))
    live = [found for found in recorded_containers(folder) if found.container and found.pid]
    processes: dict[str, list[SimProcess]] = {}
    for found in live:
        for device, gi in held.get((found.namespace, found.pod, found.container), [(recorded_uuid(UNHELD_GPU), None)]):
            processes.setdefault(device, []).append(
                SimProcess(pid=found.pid, memory=GIB, gi=gi, ci=None if gi is None else 0, sm=None if gi is not None else 7)
            )
    pod_list, pods = _recorded_pods(folder)
    return World(
        node="tbnode",
        devices=tuple(_recorded_device(index, tuple(processes.get(recorded_uuid(index), ()))) for index in range(8)),
        tasks=tuple(SimTask(pid=found.pid, cgroup=found.lines) for found in live),
        pods=pods,
        pod_list=pod_list,
        list_response=(FIXTURES / folder / "List.raw.pb").read_bytes(),
        allocatable_response=(FIXTURES / folder / "GetAllocatableResources.pb").read_bytes(),
    )


def _held(folder: str) -> Iterator[tuple[tuple[str, str, str], list[tuple[str, int | None]]]]:
    listed = ListPodResourcesResponse.FromString((FIXTURES / folder / "List.raw.pb").read_bytes())
    for pod in listed.pod_resources:
        for container in pod.containers:
            ids = [device_id for entry in container.devices for device_id in entry.device_ids]
            if ids:
                places = sorted({_place(device_id) for device_id in ids}, key=str)
                yield (pod.namespace, pod.name, container.name), places


def _place(device_id: str) -> tuple[str, int | None]:
    bare = device_id.partition("::")[0]
    return (recorded_uuid(MIG_GPU), 7 + int(bare[-1])) if bare.startswith("MIG-") else (bare, None)


def _recorded_device(index: int, processes: tuple[SimProcess, ...]) -> SimDevice:
    device = SimDevice(uuid=recorded_uuid(index), index=index, utilization=min(100, 7 * len(processes)), processes=processes)
    if index != MIG_GPU:
        return device
    migs = tuple(SimMig(uuid=recorded_mig(number), gi=7 + number) for number in range(4))
    return replace(device, mig_mode=1, utilization=None, migs=migs)


def _recorded_pods(folder: str) -> tuple[Mapping[str, Any] | None, tuple[SimPod, ...]]:
    """The recorded pod list; where there is none, pods built from the sandboxes."""
    path = FIXTURES / folder / "apiserver-pods.json"
    if path.exists():
        return json.loads(path.read_text()), ()
    containers: dict[str, list[RecordedContainer]] = {}
    for found in recorded_containers(folder):
        containers.setdefault(found.uid, []).append(found)
    return None, tuple(
        SimPod(
            namespace=found[0].namespace,
            name=found[0].pod,
            uid=pod_uid,
            phase="Running" if any(one.pid for one in found) else "Succeeded",
            containers=tuple(SimContainer(name=one.container, id=one.id) for one in found if one.container),
        )
        for pod_uid, found in containers.items()
    )
