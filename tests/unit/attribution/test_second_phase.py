"""What the second phase of a snapshot asks for."""

from exporter.attribution.wanted import annotations_wanted, gpu_pods, namespaces_wanted, owners_wanted, pids_wanted
from exporter.model.device import NvmlState
from exporter.model.policy import OwnerField
from exporter.model.workload import ContainerKind, OwnerKey, PodPhase
from tests.builders import (
    G1,
    a_container,
    a_device,
    a_gpu_process,
    a_pod,
    a_pod_store,
    a_policy,
    a_process_table,
    a_task,
    a_use,
    an_owner,
    b0,
    container_id,
    holds,
    pod_cgroup,
    some_holdings,
    train_0,
)

PLAIN = (a_container(gpus=0),)


def test_pids_of_lists_and_samples_are_wanted() -> None:
    """Every PID that NVML names is looked up, from all devices; a device that does not answer names none."""
    devices = (
        a_device(processes=(a_gpu_process(pid=1), a_gpu_process(pid=2)), process_use=(a_use(pid=3),)),
        a_device(number=1, processes=(a_gpu_process(pid=2),), process_use=None),
        a_device(number=2, processes=None),
    )
    assert pids_wanted(NvmlState("575", devices)) == {1, 2, 3}
    assert pids_wanted(None) == frozenset()


def test_pods_that_ask_hold_or_use_are_wanted_and_no_others() -> None:
    """Each of the three is reason enough; the rest of the node costs no look-up."""
    asking = a_pod(number=1, name="asking")
    holding = a_pod(number=2, name="holding", containers=PLAIN)
    using = a_pod(number=3, name="using", containers=PLAIN)
    leaving = a_pod(number=4, name="leaving", containers=PLAIN)
    warming = a_pod(number=5, name="warming", containers=(a_container(kind=ContainerKind.INIT),))
    plain = a_pod(number=6, name="plain", containers=PLAIN)
    done = a_pod(number=7, name="done", phase=PodPhase.FAILED)
    device = a_device(processes=(a_gpu_process(pid=3), a_gpu_process(pid=4)))
    tasks = [a_task(pid=pod, cgroup=pod_cgroup(uid=a_pod(number=pod).uid, container=container_id(pod))) for pod in (3, 4)]
    found = gpu_pods(
        NvmlState("575", (device, a_device(number=1))),
        some_holdings(holds(holding, G1), holds(done, G1)),
        a_pod_store(plain, done, warming, using, holding, asking, deleted=(leaving,)),
        a_process_table(*tasks),
    )
    assert [pod.name for pod in found] == ["asking", "holding", "leaving", "using", "warming"]


def test_process_that_is_called_like_the_mps_server_is_looked_up_like_any_other() -> None:
    """Anybody can take the name; whether it serves others is decided device by device (SHARE-04)."""
    device = a_device(processes=(a_gpu_process(pid=7000),))
    table = a_process_table(a_task(pid=7000, name="nvidia-cuda-mps"))
    pod = a_pod(containers=PLAIN)
    assert gpu_pods(NvmlState("575", (device,)), None, a_pod_store(pod), table) == (pod,)


def test_nothing_known_wants_nothing() -> None:
    """With every source missing there is nobody to ask about."""
    assert gpu_pods(None, None, None, None) == ()


def test_static_pod_is_found_once_under_all_its_uids() -> None:
    """A pod with several UIDs is one pod."""
    snapshot = b0(pods=(train_0(cgroup_uids=("0" * 32,)),))
    found = gpu_pods(snapshot.nvml.value, snapshot.pod_resources.value, snapshot.pods.value, snapshot.procfs.value)
    assert [pod.name for pod in found] == ["train-0"]


def test_controllers_are_looked_up_by_uid_in_the_pods_namespace() -> None:
    """One key a controller, however many pods it has; bare and static pods have none."""
    pods = [
        train_0(),
        train_0(number=2, name="train-1"),
        a_pod(number=3),
        a_pod(number=4, owners=(an_owner(kind="Node"),)),
        a_pod(number=5, is_mirror=True, owners=(an_owner(),)),
        a_pod(number=6, owners=(an_owner(controller=False),)),
    ]
    assert owners_wanted(pods) == (OwnerKey("apps/v1", "ReplicaSet", "team-red", "train-6f", "rs-1"),)
    assert owners_wanted(()) == ()


def test_namespaces_are_those_of_the_pods() -> None:
    """Each namespace once."""
    assert namespaces_wanted([a_pod(), a_pod(number=2), a_pod(number=3, namespace="team-blue")]) == {"team-red", "team-blue"}


def test_annotations_are_those_that_ownership_reads() -> None:
    """Nothing else of a pod's annotations has to be kept."""
    policy = a_policy(extra=(OwnerField("project", ("example.org/project",)),), class_annotation="x/class")
    assert annotations_wanted(policy) == {
        "team",
        "finops.org/team",
        "squad",
        "cost-center",
        "finops.org/cost-center",
        "example.org/project",
        "x/class",
        "volcano.sh/queue-name",
    }
