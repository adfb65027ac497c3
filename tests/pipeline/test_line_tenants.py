"""Tenants who write what they like, end to end: nobody else's number changes, and what they use stays visible."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.simulator.world import GIB, SimContainer, SimDevice, SimObject, SimPod, SimProcess, SimTask, World
from tests.line import a_line
from tests.page import Page
from tests.worlds import G0, G1, WHOLE, a_sim_pod, b0, cgroup, container_id, task_of, uid

JOB_PATH = "/apis/kubeflow.org/v1/namespaces/team-red/pytorchjobs/llm"
JOB = SimObject(
    path=JOB_PATH,
    body={
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "llm",
            "namespace": "team-red",
            "uid": "pj-1",
            "labels": {"team": "red-llm", "cost-center": "4712"},
        },
    },
)


def _reference(**changes: Any) -> dict[str, Any]:
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "llm", "uid": "pj-1", "controller": True, **changes}


def _owner(page: Page, pod: str) -> tuple[str, str, str]:
    (row,) = page.series("gpu_pod_owner_info", pod=pod)
    return row.labels["team"], row.labels["cost_center"], row.labels["workload"]


def _claimants(**changes: Any) -> tuple[SimPod, ...]:
    """Pods of another tenant that hold nothing and claim the victim's controller."""
    return tuple(
        a_sim_pod(
            30 + number,
            f"evil-{number}",
            namespace="evil",
            phase="Pending",
            owners=(_reference(**{"name": f"nope{number}", **changes}),),
            containers=(SimContainer(limits={WHOLE: "1"}),),
        )
        for number in range(8)
    )


def _world(*pods: SimPod, **fields: Any) -> World:
    victim = a_sim_pod(1, "llm-worker-0", G0, owners=(_reference(),))
    namespaces = {"team-red": {"labels": {"team": "red"}}, "evil": {"labels": {"team": "evil"}}}
    return replace(b0(), pods=(*pods, victim), objects=(JOB,), namespaces=namespaces, **fields)


async def test_false_reference_to_a_uid_takes_no_owner_from_the_victim(tmp_path: Path) -> None:
    """Twenty pods that name the UID beside a name that is not there would turn the answer for it into a 404."""
    async with a_line(tmp_path, _world(*_claimants())) as line:
        pages = [await line.cycle() for _ in range(3)]
    for page in pages:
        assert _owner(page, "llm-worker-0") == ("red-llm", "4712", "llm")


@pytest.mark.parametrize(
    "reference",
    [
        _reference(),
        _reference(name="zzz"),
        _reference(kind="Job", apiVersion="batch/v1"),
        {"apiVersion": "v1", "kind": "Namespace", "name": "team-red", "uid": "ns-1", "controller": True},
        {"apiVersion": "v1", "kind": "Secret", "name": "tok", "uid": "s-1", "controller": True},
    ],
)
async def test_reference_to_a_foreign_controller_charges_nobody_else(tmp_path: Path, reference: dict[str, Any]) -> None:
    """An owner is in the pod's own namespace, of the kind and name that the reference says, and no Secret is ever read."""
    evil = a_sim_pod(2, "evil", G1, namespace="evil", owners=(reference,))
    async with a_line(tmp_path, _world(evil)) as line:
        await line.cycle()
        page = await line.cycle()
        asked = [request.path for request in line.node.api.requests]
    team, cost_center, _ = _owner(page, "evil")
    assert (team, cost_center) == ("evil", "unowned")
    assert _owner(page, "llm-worker-0")[0] == "red-llm"
    assert not [path for path in asked if "secrets" in path]


@pytest.mark.parametrize("start", ["2020-01-01T00:00:00Z", ""])
async def test_claim_to_a_static_pods_hash_takes_none_of_its_use(tmp_path: Path, start: str) -> None:
    """The victim of a written annotation must not read as idle."""
    digest = "0123456789abcdef0123456789abcdef"
    marks = {"kubernetes.io/config.hash": digest, "kubernetes.io/config.mirror": digest}
    static = a_sim_pod(1, "agent", G0, annotations=marks)
    evil = a_sim_pod(2, "aa", namespace="evil", annotations={"kubernetes.io/config.hash": digest}, start_time=start)
    path = f"0::/kubepods.slice/kubepods-pod{digest}.slice/cri-containerd-{container_id(1)}.scope"
    async with a_line(tmp_path, replace(b0(), pods=(evil, static), tasks=(SimTask(pid=4001, cgroup=(path,)),))) as line:
        page = await line.cycle()
    assert page.values("gpu_container_memory_used_bytes", "pod") == {"agent": 20 * GIB}
    assert page.value("gpu_container_utilization_ratio", pod="agent") == pytest.approx(0.4)


@pytest.mark.parametrize(("load", "expected"), [(40, 0.4), (0, 0.0)])
async def test_process_called_like_the_mps_server_hides_nothing_on_a_gpu_that_is_held_whole(
    tmp_path: Path, load: int, expected: float
) -> None:
    """A name is no proof: its use is its own pod's, and the holder does not pay for it."""
    processes = (SimProcess(pid=4001, memory=GIB, sm=load or None), SimProcess(pid=6666, memory=GIB, sm=50))
    device = SimDevice(uuid=G0, index=0, utilization=50 + load, processes=processes)
    evil = a_sim_pod(2, "evil", namespace="evil")
    tasks = (task_of(4001, 1), task_of(6666, 2, comm="nvidia-cuda-mps"))
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(*b0().pods, evil), tasks=tasks)) as line:
        page = await line.cycle()
    assert page.value("gpu_container_utilization_ratio", pod="train-0") == pytest.approx(expected)
    assert page.value("gpu_container_utilization_ratio", pod="evil") == pytest.approx(0.5)
    assert page.series("gpu_container_unallocated_use", pod="evil")


async def test_forged_cgroup_fools_nobody_while_the_outer_pod_is_not_known(tmp_path: Path) -> None:
    """The watch can lag behind a new pod; its child cgroups must not pass for another's meanwhile."""
    unknown = cgroup(uid(77), "ee" * 32)
    forged = unknown + cgroup(uid(1), container_id(1)).removeprefix("0::")
    processes = (SimProcess(pid=4001, memory=20 * GIB, sm=40), SimProcess(pid=6666, memory=3 * GIB, sm=50))
    device = SimDevice(uuid=G0, index=0, utilization=90, processes=processes)
    tasks = (task_of(4001, 1), SimTask(pid=6666, cgroup=(forged,)))
    async with a_line(tmp_path, replace(b0(), devices=(device,), tasks=tasks)) as line:
        page = await line.cycle()
    assert page.value("gpu_container_memory_used_bytes", pod="train-0") == 20 * GIB
    assert page.value("gpu_container_utilization_ratio", pod="train-0") == pytest.approx(0.4)
    assert page.values("gpu_exporter_unresolved_pids", "reason") == {"unresolved_pid": 1}


async def test_huge_owner_name_is_cut(tmp_path: Path) -> None:
    """Kubernetes does not limit the name in a reference; the page has to."""
    evil = a_sim_pod(2, "evil", G1, namespace="evil", owners=(_reference(name="n" * 1_000_000, kind="K" * 1_000_000, uid="x"),))
    async with a_line(tmp_path, _world(evil)) as line:
        page = await line.cycle()
    assert len(page.text) < 200_000
    (row,) = page.series("gpu_pod_owner_info", pod="evil")
    assert (row.labels["workload"], row.labels["workload_type"]) == ("n" * 128, "k" * 128)


async def test_pod_one_of_whose_containers_works_on_its_gpu_is_not_idle(tmp_path: Path) -> None:
    """`main` holds the GPU and `worker` of the same pod runs on it: the pod is at work."""
    main, worker = a_sim_pod(1, "p", G1).containers[0], SimContainer(name="worker", id=container_id(9))
    pod = replace(a_sim_pod(1, "p", G1), containers=(main, worker))
    device = SimDevice(uuid=G1, index=0, utilization=50, processes=(SimProcess(pid=4001, memory=GIB, sm=50),))
    task = SimTask(pid=4001, cgroup=(cgroup(uid(1), container_id(9)),))
    async with a_line(tmp_path, replace(b0(), devices=(device,), pods=(pod,), tasks=(task,))) as line:
        page = await line.cycle()
    assert page.value("gpu_pod_devices_idle", pod="p") == 0


async def test_wrong_node_name_makes_no_gpu_free(tmp_path: Path) -> None:
    """The API knows no node of our name: its empty list of pods says nothing about this node."""
    async with a_line(tmp_path, b0(), node_name="some-host") as line:
        page = await line.cycle()
    assert page.value("gpu_allocated_ratio", uuid=G0) == 1
    assert page.value("gpu_container_allocation_ratio", pod="train-0", team="unknown") == 1
    assert page.value("gpu_exporter_source_missing", source="node", reason="not_found") == 1
