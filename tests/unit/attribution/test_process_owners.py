"""From a PID that NVML names to a container, or to the reason why it is nobody's."""

import pytest

from exporter.attribution.pods import index_pods
from exporter.attribution.processes import Whose, is_mps_server, whose_processes
from exporter.model.attribution import UnattributedReason
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.workload import Pod, PodPhase, PodStore
from tests.builders import C1, U1, a_pod, a_pod_store, a_process_table, a_task, container_id, pod_cgroup, pod_uid

HASH = "0123456789abcdef0123456789abcdef"
INNER = "d" * 64
POD = a_pod()
MAIN = ContainerKey(U1, "team-red", "pod-1", "main")
UNNAMED = ContainerKey(U1, "team-red", "pod-1", "")


def _whose(table: ProcessTable, store: PodStore | None, pid: int = 4001) -> Whose:
    return whose_processes([pid], table, index_pods(store, fresh=True))[pid]


def _of(cgroup: str | tuple[str, ...], *others: ProcessRecord, parent: int = 1, store: PodStore | None = None) -> Whose:
    return _whose(a_process_table(a_task(cgroup=cgroup, parent=parent), *others), store or a_pod_store(POD))


def test_container_of_a_known_pod_is_found() -> None:
    """The usual case: pod by UID, container by id."""
    assert _of(pod_cgroup()) == MAIN


def test_unknown_container_of_a_known_pod_leaves_the_name_empty() -> None:
    """A sandbox process stands in the pause container, whose id no status names: the pod is right all the same."""
    assert _of(pod_cgroup(container="e" * 64)) == UNNAMED


def test_monitor_is_the_pods_and_no_containers() -> None:
    """The monitor's scope has the container's id in its name and is not the container (PID-13)."""
    assert _of(pod_cgroup(container=None) + f"/crio-conmon-{C1}.scope") == UNNAMED
    assert _of(pod_cgroup(container=None) + f"/crio-{C1}.scope/container") == MAIN


def test_static_pod_is_found_by_the_uid_in_its_cgroup() -> None:
    """A mirror pod has another UID in the API than in its cgroup (PID-11)."""
    mirror = a_pod(number=9, namespace="kube-system", name="gpu-agent-gpu-n1", cgroup_uids=(PodUid(HASH),), container_names={})
    whose = _of(f"0::/kubepods.slice/kubepods-besteffort-pod{HASH}.slice/crio-{C1}.scope", store=a_pod_store(mirror))
    assert whose == ContainerKey(pod_uid(9), "kube-system", "gpu-agent-gpu-n1", "")


def test_static_pod_without_its_hash_is_found_by_its_container() -> None:
    """A container id that the API knows is as good as the UID."""
    assert _of(f"0::/kubepods/pod{HASH}/{C1}") == MAIN


def test_recently_deleted_pod_still_owns_its_processes() -> None:
    """A GPU process can outlive its pod's API object."""
    assert _of(pod_cgroup(), store=a_pod_store(deleted=(POD,))) == MAIN


def test_live_pod_beats_a_deleted_one_with_the_same_container() -> None:
    """What is known now is stronger than what is remembered."""
    old = a_pod(name="old", container_names={C1: "old"})
    assert _of(f"0::/k8s.io/{C1}", store=a_pod_store(POD, deleted=(old,))) == MAIN


def test_outermost_known_pod_wins_over_a_forged_child() -> None:
    """A container with a writable cgroup filesystem cannot lay its use on a neighbour."""
    victim = a_pod(number=2)
    child = f"/kubepods-pod{victim.uid.replace('-', '_')}.slice/cri-containerd-{container_id(2)}.scope"
    assert _of(pod_cgroup() + child, store=a_pod_store(POD, victim)) == MAIN


def test_outer_pod_that_is_not_known_is_not_replaced_by_the_inner_one() -> None:
    """While the watch lags a new pod is not known yet, and a child cgroup of it can be called like any other pod."""
    path = f"0::/kubepods/pod{pod_uid(7)}/{INNER}/kubelet/kubepods/pod{U1}/{C1}"
    assert _of(path) is UnattributedReason.UNRESOLVED_PID


def test_kind_node_is_never_taken_for_a_container() -> None:
    """The first 64 hex digits of the path are the node's (PID-03)."""
    slices = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{U1.replace('-', '_')}.slice"
    assert _of(f"0::/system.slice/docker-{INNER}.scope/{slices}/cri-containerd-{C1}.scope") == MAIN


def test_container_without_a_pod_in_its_path_is_found_by_its_id() -> None:
    """The runtime's own cgroup names no pod, and neither does a neighbour in our own pod."""
    assert _of(f"0::/k8s.io/{C1}") == MAIN
    assert _of(f"0::/../cri-containerd-{C1}.scope") == MAIN


def test_process_below_an_inner_engine_is_found_by_its_ancestors() -> None:
    """A docker in a container starts its own at the root of the hierarchy (Coder's envbox)."""
    others = (a_task(pid=4000, parent=3000, cgroup="0::/system.slice"), a_task(pid=3000))
    assert _of(f"0::/docker/{INNER}", *others, parent=4000) == MAIN


@pytest.mark.parametrize(("distance", "expected"), [(1, MAIN), (32, MAIN), (33, UnattributedReason.HOST_PROCESS)])
def test_ancestors_are_climbed_so_far_and_no_further(distance: int, expected: Whose) -> None:
    """A chain of parents is followed for 32 steps."""
    pids = range(100, 100 + distance)
    chain = [a_task(pid=pid, parent=pid - 1, cgroup="0::/") for pid in pids[1:]]
    assert _of("0::/", a_task(pid=100), *chain, parent=pids[-1]) == expected


def test_parents_in_a_circle_and_pid_1_are_no_evidence() -> None:
    """A loop ends, and everybody descends from PID 1."""
    assert _of("0::/", a_task(pid=4000, parent=4001, cgroup="0::/"), parent=4000) is UnattributedReason.HOST_PROCESS
    assert _of("0::/", a_task(pid=1), parent=1) is UnattributedReason.HOST_PROCESS


@pytest.mark.parametrize("cgroup", ["0::/system.slice/ollama.service", "0::/user.slice/session-1.scope", "0::/"])
def test_host_process_is_the_hosts(cgroup: str) -> None:
    """Neither a pod nor a container anywhere: a process of the host."""
    assert _of(cgroup) is UnattributedReason.HOST_PROCESS


@pytest.mark.parametrize(
    "cgroup", [f"0::/kata_overhead/{INNER}", f"0::/docker/{INNER}", f"0::/machine.slice/libpod-{INNER}.scope/container"]
)
def test_container_of_no_pod_is_not_in_a_pod(cgroup: str) -> None:
    """A sandbox's overhead, and containers that Kubernetes did not start (PID-12)."""
    assert _of(cgroup) is UnattributedReason.NOT_IN_POD


def test_pod_that_the_api_does_not_know_is_unresolved() -> None:
    """A UID that no pod of this node has stays unresolved, whoever its ancestors are."""
    assert _of(pod_cgroup(uid=pod_uid(8), container=INNER), a_task(pid=4000), parent=4000) is UnattributedReason.UNRESOLVED_PID


def test_ambiguous_hierarchies_are_unresolved() -> None:
    """Hierarchies that name different pods are no evidence for either."""
    lines = (f"4:memory:/kubepods/pod{U1}/{C1}", f"8:pids:/kubepods/pod{pod_uid(2)}/{container_id(2)}")
    assert _of(lines, store=a_pod_store(POD, a_pod(number=2))) is UnattributedReason.UNRESOLVED_PID


@pytest.mark.parametrize("cgroup", ["0::/", "0::/../../../../..", "0::/../../system.slice/ollama.service"])
def test_private_view_cannot_tell_the_host_from_ourselves(cgroup: str) -> None:
    """From a private cgroup namespace a short path may be the host's, or our own (PID-06)."""
    table = a_process_table(a_task(cgroup=cgroup), private_cgroup_view=True)
    assert _whose(table, a_pod_store(POD)) is UnattributedReason.UNRESOLVED_PID


def test_private_view_still_finds_every_other_pod() -> None:
    """A relative path still holds the UID (PID-06)."""
    path = f"0::/../../kubepods-burstable-pod{U1.replace('-', '_')}.slice/cri-containerd-{C1}.scope"
    assert _whose(a_process_table(a_task(cgroup=path), private_cgroup_view=True), a_pod_store(POD)) == MAIN


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (ProcessTrouble.GONE, UnattributedReason.DEAD_PROCESS),
        (ProcessTrouble.PERMISSION_DENIED, UnattributedReason.UNRESOLVED_PID),
        (ProcessTrouble.MALFORMED, UnattributedReason.UNRESOLVED_PID),
    ],
)
def test_process_that_cannot_be_read_has_its_own_reason(trouble: ProcessTrouble, reason: UnattributedReason) -> None:
    """Gone is another finding than refused (PID-09)."""
    assert _whose(a_process_table(troubles={4001: trouble}), a_pod_store(POD)) is reason
    assert _whose(a_process_table(troubles={4001: trouble}), None) is reason


def test_process_that_was_not_looked_up_is_unresolved() -> None:
    """Neither a record nor a trouble, and no cgroup line, say nothing."""
    assert _whose(a_process_table(), a_pod_store(POD)) is UnattributedReason.UNRESOLVED_PID
    assert _of(()) is UnattributedReason.UNRESOLVED_PID


def test_foreign_proc_says_nothing() -> None:
    """PIDs of another namespace may stand in our /proc for somebody else (PID-07)."""
    table = a_process_table(a_task(), a_task(pid=7, name="nvidia-cuda-mps"), host_pid_missing=True)
    assert _whose(table, a_pod_store(POD)) is UnattributedReason.UNRESOLVED_PID
    assert not is_mps_server(7, table)
    assert whose_processes([1, 2], None, index_pods(a_pod_store(POD), fresh=True)) == dict.fromkeys(
        [1, 2], UnattributedReason.UNRESOLVED_PID
    )


def test_without_pods_nobody_can_be_told_apart() -> None:
    """While the pods source has no usable answer every process is unresolved."""
    for cgroup in (pod_cgroup(), "0::/system.slice/ollama.service", f"0::/docker/{INNER}"):
        assert _whose(a_process_table(a_task(cgroup=cgroup)), None) is UnattributedReason.UNRESOLVED_PID


def test_mps_server_is_known_by_its_cut_name() -> None:
    """The kernel cuts the name to 15 bytes (SHARE-04)."""
    table = a_process_table(a_task(pid=7000, name="nvidia-cuda-mps"), a_task(pid=7001))
    assert (is_mps_server(7000, table), is_mps_server(7001, table), is_mps_server(7002, table)) == (True, False, False)


@pytest.mark.parametrize(
    "other", [a_pod(number=1, name="db-0", phase=PodPhase.FAILED), a_pod(number=1, name="db-0", start_timestamp_seconds=1.0)]
)
def test_name_belongs_to_the_pod_that_lives(other: Pod) -> None:
    """A pod recreated under its name is found, not its predecessor; of two alike the younger one."""
    living = a_pod(number=2, name="db-0", start_timestamp_seconds=9.0)
    for pods in ((other, living), (living, other)):
        assert index_pods(a_pod_store(*pods), fresh=True).by_name["team-red", "db-0"] == living


def test_annotation_that_claims_another_pods_uid_takes_nothing_from_it() -> None:
    """Anybody can write kubernetes.io/config.hash: a pod's own UID beats every claim to it."""
    thief = a_pod(number=8, name="thief", cgroup_uids=(PodUid(U1.replace("-", "")), U1), container_names={})
    for pods in ((POD, thief), (thief, POD)):
        assert _of(pod_cgroup(), store=a_pod_store(*pods)) == MAIN


def test_claim_to_a_static_pods_hash_loses_to_the_static_pod() -> None:
    """A mirror pod beats any other pod with its hash, whichever is older and whatever the order."""
    mirror = a_pod(
        number=9, name="static", cgroup_uids=(PodUid(HASH),), container_names={}, is_mirror=True, start_timestamp_seconds=9.0
    )
    thief = a_pod(number=8, name="thief", cgroup_uids=(PodUid(HASH),), container_names={}, start_timestamp_seconds=1.0)
    path = f"0::/kubepods.slice/kubepods-pod{HASH}.slice/cri-containerd-{INNER}.scope"
    for pods in ((mirror, thief), (thief, mirror)):
        assert _of(path, store=a_pod_store(*pods)) == ContainerKey(mirror.uid, mirror.namespace, "static", "")


def test_two_equal_claims_are_nobodys() -> None:
    """Two mirrors of one hash cannot both be right: unresolved, and never a measured 0 for either."""
    twins = [
        a_pod(number=number, name=f"static-{number}", cgroup_uids=(PodUid(HASH),), container_names={}, is_mirror=True)
        for number in (8, 9)
    ]
    path = f"0::/kubepods.slice/kubepods-pod{HASH}.slice/cri-containerd-{INNER}.scope"
    assert _of(path, store=a_pod_store(*twins)) is UnattributedReason.UNRESOLVED_PID
