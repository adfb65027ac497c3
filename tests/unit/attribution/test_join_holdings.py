"""The join, from the side of holdings: which container holds which part of which device."""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.attribution import Attribution, ConflictKind, Sharing, UnresolvedReason
from exporter.model.device import DeviceTrouble, MigMode
from exporter.model.holding import Holding
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.reading import MissingReason
from exporter.model.snapshot import Snapshot
from exporter.model.workload import ContainerKind, NodeMeta, Pod, PodPhase
from tests.builders import (
    G0,
    G1,
    NODE,
    TIMESTAMP,
    a_container,
    a_device,
    a_gpu_process,
    a_holding,
    a_mig,
    a_mig_device,
    a_pod,
    a_pod_store,
    a_policy,
    a_snapshot,
    a_task,
    b0,
    b0_devices,
    container_id,
    fresh,
    gpu_uuid,
    holds,
    kept,
    mig_uuid,
    missing,
    pod_cgroup,
    some_holdings,
    train_0,
)

TWO = (a_device(), a_device(number=1))


def _attribute(snapshot: Snapshot) -> Attribution:
    return attribute(snapshot, a_policy())


def _node(*holdings: Holding, **changes: Any) -> Attribution:
    """Attribution of a node with two GPUs, on which every listed pod runs."""
    names = sorted({(holding.namespace, holding.pod) for holding in holdings})
    pods = [a_pod(number=number, namespace=namespace, name=name) for number, (namespace, name) in enumerate(names, start=1)]
    return _attribute(a_snapshot(**({"devices": TWO, "pods": pods, "holdings": holdings} | changes)))


def _held(attribution: Attribution) -> list[tuple[str, str, str | None, float | None]]:
    """(pod, device, MIG device, share) of every holder."""
    return [
        (
            row.container.pod,
            row.device,
            None if row.mig is None else row.mig.uuid,
            None if row.share_ratio is None else round(row.share_ratio, 4),
        )
        for row in attribution.containers
        if row.holds
    ]


def _allocated(attribution: Attribution) -> list[float | None]:
    return [None if row.allocated_ratio is None else round(row.allocated_ratio, 4) for row in attribution.devices]


def test_baseline_is_held_and_used_by_its_pod() -> None:
    """One pod holds all of one GPU, and the other GPU is free (B0)."""
    attribution = _attribute(b0())
    assert _held(attribution) == [("train-0", G0, None, 1.0)]
    assert _allocated(attribution) == [1.0, 0.0]
    [row] = attribution.containers
    assert (row.allocations[0].resource, row.allocations[0].device_id) == ("nvidia.com/gpu", G0)
    [pod] = attribution.pods
    assert (pod.pod, pod.requested, pod.assigned, pod.idle) == ("train-0", 1, 1, None)
    assert not attribution.conflicts
    assert not attribution.unresolved_allocations


def test_replicas_of_one_gpu_stay_one_gpu() -> None:
    """The replica's number is a detail of the allocation; the device keeps its UUID (POD-01)."""
    attribution = _node(
        a_holding(pod="infer-a", device_id=f"{G0}::3"),
        a_holding(pod="infer-b", namespace="team-blue", device_id=f"{G0}::0"),
        devices=TWO[:1],
    )
    assert sorted(_held(attribution)) == [("infer-a", G0, None, 0.25), ("infer-b", G0, None, 0.25)]
    assert [row.device.uuid for row in attribution.devices] == [G0]
    assert {row.allocations[0].device_id for row in attribution.containers} == {f"{G0}::3", f"{G0}::0"}


@pytest.mark.parametrize(
    ("device_id", "expected"),
    [
        ("nvidia1", (G1, None, 1.0)),
        ("nvidia0/gi5", (G0, mig_uuid(1), 0.1429)),
        ("nvidia0/vgpu2", (G0, None, 0.3333)),
        ("nvidia0/gi5/vgpu1", (G0, mig_uuid(1), 0.0714)),
    ],
)
def test_googles_device_names_resolve_without_a_setting(device_id: str, expected: tuple[str, str | None, float]) -> None:
    """Minor number, GPU instance and replica in all their combinations (POD-02)."""
    devices = (a_mig_device(migs=(a_mig(number=1, gi=5),)), a_device(number=1))
    attribution = _node(a_holding(device_id=device_id), devices=devices)
    assert _held(attribution) == [("train-0", *expected)]
    assert not attribution.unresolved_allocations


def test_resources_count_by_value_or_vendor_and_decoys_do_not() -> None:
    """Renamed and per-model resources are GPUs; a network device is neither a GPU nor an error (POD-04)."""
    devices = (a_mig_device(migs=(a_mig(slices=2),)), a_device(number=1), a_device(number=2))
    attribution = _node(
        a_holding(pod="a", resource="nvidia.com/gpu.shared", device_id=f"{gpu_uuid(2)}::1"),
        a_holding(pod="b", resource="nvidia.com/mig-2g.20gb", device_id=mig_uuid(1)),
        a_holding(pod="c", resource="nvidia.com/H999_PCIE", device_id=G1),
        a_holding(pod="d", resource="example.org/nic", device_id="0000:1f:00.2"),
        devices=devices,
    )
    assert [(row.container.pod, row.allocations[0].resource) for row in attribution.containers] == [
        ("a", "nvidia.com/gpu.shared"),
        ("b", "nvidia.com/mig-2g.20gb"),
        ("c", "nvidia.com/H999_PCIE"),
    ]
    assert not attribution.unresolved_allocations
    assert set(attribution.allocated) == {"nvidia.com/gpu.shared", "nvidia.com/mig-2g.20gb", "nvidia.com/H999_PCIE"}


def test_iommu_group_is_no_index() -> None:
    """A GPU in a virtual machine is an allocation of its pod, on none of the GPUs that NVML sees (POD-05)."""
    attribution = _node(a_holding(namespace="tenant-d", pod="virt-launcher-vm7", resource="nvidia.com/PGPU", device_id="1"))
    assert _held(attribution) == []
    assert _allocated(attribution) == [0.0, 0.0]
    [unresolved] = attribution.unresolved_allocations
    assert (unresolved.namespace, unresolved.resource, unresolved.reason) == (
        "tenant-d",
        "nvidia.com/PGPU",
        UnresolvedReason.PASSTHROUGH,
    )
    [pod] = attribution.pods
    assert (pod.pod, pod.assigned) == ("virt-launcher-vm7", 1)


def test_same_id_listed_twice_is_one_allocation() -> None:
    """One entry per NUMA node is the kubelet's way of listing one device (POD-07)."""
    attribution = _attribute(b0(holdings=(a_holding(), a_holding())))
    assert [len(row.allocations) for row in attribution.containers] == [1]
    assert attribution.allocated == {"nvidia.com/gpu": 1}


def test_both_spellings_of_mig_ids_find_instance_and_parent() -> None:
    """Nothing is invented for the GPU itself (POD-08)."""
    devices = (a_mig_device(migs=(a_mig(number=1, gi=1), a_mig(number=3, gi=3))),)
    attribution = _node(
        a_holding(pod="a", device_id=mig_uuid(1)), a_holding(pod="b", device_id=f"MIG-{G0}/3/0"), devices=devices
    )
    assert _held(attribution) == [("a", G0, mig_uuid(1), 0.1429), ("b", G0, mig_uuid(3), 0.1429)]
    assert [row.mig.gpu_instance_id for row in attribution.containers if row.mig] == [1, 3]


@pytest.mark.parametrize("holdings", [(), (a_holding(),), (a_holding(device_id=f"{G0}::0"),)])
def test_every_device_has_its_row_whoever_holds_it(holdings: tuple[Holding, ...]) -> None:
    """A free GPU is as present as a held one (POD-11)."""
    attribution = _node(*holdings)
    assert [row.device.uuid for row in attribution.devices] == [G0, G1]
    assert _allocated(attribution)[1] == 0.0


def test_id_that_nvml_does_not_know_is_unresolved_and_changes_nothing_else() -> None:
    """A device that is gone leaves the others unallocated (POD-12)."""
    attribution = _node(a_holding(pod="old-0", device_id="GPU-deadbeef-0000-4000-8000-00000000ffff"))
    assert _allocated(attribution) == [0.0, 0.0]
    [unresolved] = attribution.unresolved_allocations
    assert (unresolved.pod, unresolved.container, unresolved.reason) == ("old-0", "main", UnresolvedReason.UNKNOWN_DEVICE)
    assert unresolved.device_id == "GPU-deadbeef-0000-4000-8000-00000000ffff"


def test_running_gpu_pod_without_devices_shows_a_gap() -> None:
    """Requested 1, assigned 0, and nothing is claimed for it (POD-13)."""
    attribution = _attribute(b0(holdings=(), devices=TWO, tasks=()))
    [pod] = attribution.pods
    assert (pod.pod, pod.requested, pod.assigned) == ("train-0", 1, 0)
    assert attribution.containers == ()
    assert _allocated(attribution) == [0.0, 0.0]


def test_requests_are_those_of_lasting_containers() -> None:
    """An init container's device is never listed once it has ended, so it leaves no gap."""
    containers = (
        a_container(gpus=2),
        a_container(name="side", kind=ContainerKind.SIDECAR),
        a_container(name="warm", kind=ContainerKind.INIT, gpus=8),
        a_container(name="plain", gpus=0, limits={"nvidia.com/gpumem": 3000, "example.org/nic": 1}),
    )
    attribution = _attribute(a_snapshot(devices=TWO, pods=(a_pod(containers=containers),)))
    assert [pod.requested for pod in attribution.pods] == [3]


def test_request_of_a_renamed_resource_counts_once_its_ids_are_known() -> None:
    """What one pod was given tells what another one asks for."""
    asking = a_pod(number=2, containers=(a_container(gpus=0, limits={"example.org/accelerator": 2}),))
    holding = a_holding(pod="pod-1", resource="example.org/accelerator")
    attribution = _attribute(a_snapshot(devices=TWO, pods=(a_pod(), asking), holdings=(holding,)))
    assert [(pod.pod, pod.requested, pod.assigned) for pod in attribution.pods] == [("pod-1", 1, 1), ("pod-2", 2, 0)]


def test_pod_that_has_nothing_to_do_with_a_gpu_has_no_row() -> None:
    """Other pods of the node are none of our business; nor are finished ones that asked for a GPU."""
    plain = a_pod(containers=(a_container(gpus=0),))
    done = a_pod(number=2, phase=PodPhase.SUCCEEDED)
    assert _attribute(a_snapshot(devices=TWO, pods=(plain, done))).pods == ()


FOUR = tuple(a_holding(pod=f"s-{number}", device_id=f"{G0}::{number}") for number in range(4))


def test_sharers_have_a_quarter_each_in_any_order() -> None:
    """No writer is last: the answer's order changes nothing (SHARE-01)."""
    pods = [a_pod(number=number + 1, name=f"s-{number}") for number in range(4)]
    processes = [a_gpu_process(pid=5000 + number, memory=(number + 1) << 30) for number in range(4)]
    tasks = [
        a_task(pid=5000 + number, cgroup=pod_cgroup(uid=pod.uid, container=container_id(number + 1)))
        for number, pod in enumerate(pods)
    ]
    results = []
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 2):
        device = a_device(memory_used_bytes=10 << 30, processes=tuple(processes[at] for at in order))
        snapshot = a_snapshot(
            devices=(device,),
            holdings=[FOUR[at] for at in order],
            pods=[pods[at] for at in order],
            tasks=[tasks[at] for at in reversed(order)],
        )
        results.append(_attribute(snapshot))
    first = results[0]
    assert [row.share_ratio for row in first.containers] == [0.25] * 4
    assert [row.memory_used_bytes for row in first.containers] == [1 << 30, 2 << 30, 3 << 30, 4 << 30]
    parts = [
        (one.containers, one.pods, one.conflicts, [row.unattributed_memory_bytes for row in one.devices]) for one in results
    ]
    assert all(part == parts[0] for part in parts)


def test_shares_and_what_is_free_sum_to_the_devices() -> None:
    """Four quarters and one free GPU are two GPUs (SHARE-12)."""
    attribution = _node(*FOUR)
    free = sum(1 - row.allocated_ratio for row in attribution.devices if row.allocated_ratio is not None)
    assert sum(row.share_ratio or 0.0 for row in attribution.containers) + free == 2


def test_two_slices_of_seven_are_two_sevenths() -> None:
    """What was not partitioned is not allocated (SHARE-13)."""
    devices = (a_mig_device(migs=(a_mig(number=1), a_mig(number=2))),)
    attribution = _node(a_holding(pod="a", device_id=mig_uuid(1)), a_holding(pod="b", device_id=mig_uuid(2)), devices=devices)
    assert _allocated(attribution) == [0.2857]
    assert [round(share, 4) for share in attribution.devices[0].mig_share_ratios.values()] == [0.1429, 0.1429]


def test_two_exclusive_holders_are_a_conflict_with_both_names() -> None:
    """The GPU is split, and somebody is told (SHARE-14)."""
    for holdings in ((a_holding(pod="a"), a_holding(pod="b")), (a_holding(pod="b"), a_holding(pod="a"))):
        attribution = _node(*holdings)
        assert _held(attribution) == [("a", G0, None, 0.5), ("b", G0, None, 0.5)]
        [conflict] = attribution.conflicts
        assert conflict.kind is ConflictKind.TWO_HOLDERS
        assert "team-red/a" in conflict.detail
        assert "team-red/b" in conflict.detail


def _jobs(*pods: Pod, holdings: Iterable[Holding], **changes: Any) -> Attribution:
    return _attribute(a_snapshot(**({"devices": TWO, "pods": pods, "holdings": tuple(holdings)} | changes)))


OLD, NEW = a_pod(number=1, name="old-job"), a_pod(number=2, name="new-job")


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_finished_pod_holds_nothing_whatever_the_kubelet_lists(phase: PodPhase) -> None:
    """Kubelets before 1.34 go on listing pods that have ended (STALE-01)."""
    done = a_pod(number=1, name="old-job", phase=phase)
    attribution = _jobs(done, NEW, holdings=(holds(OLD, G0), holds(NEW, G0)))
    assert _held(attribution) == [("new-job", G0, None, 1.0)]
    assert attribution.conflicts == ()
    assert attribution.allocated == {"nvidia.com/gpu": 1}
    alone = _jobs(done, holdings=(holds(OLD, G0),))
    assert (_held(alone), _allocated(alone), alone.pods) == ([], [0.0, 0.0], ())


def test_pod_that_the_api_does_not_know_holds_nothing_and_is_a_disagreement() -> None:
    """Two sources contradict each other: nobody holds by our word, and what looks free is not free by it (STALE-01)."""
    attribution = _jobs(NEW, holdings=(holds(OLD, G0), holds(NEW, G0), holds(OLD, G1)))
    assert _held(attribution) == [("new-job", G0, None, 1.0)]
    assert _allocated(attribution) == [1.0, None]
    [conflict] = attribution.conflicts
    assert (conflict.kind, conflict.subject) == (ConflictKind.SOURCE_DISAGREEMENT, "team-red/old-job")


def test_deleted_pod_holds_nothing() -> None:
    """Deleted by force it may run on: while the kubelet lists it, its GPU is not free by our word."""
    attribution = _jobs(holdings=(holds(OLD, G0),), pods=a_pod_store(deleted=(OLD,)))
    assert (_held(attribution), _allocated(attribution)) == ([], [None, 0.0])
    assert [conflict.kind for conflict in attribution.conflicts] == [ConflictKind.SOURCE_DISAGREEMENT]


def test_unknown_network_devices_are_no_disagreement() -> None:
    """Only GPUs are worth a contradiction."""
    attribution = _jobs(holdings=(a_holding(resource="example.org/nic", device_id="0000:1f:00.2"),))
    assert attribution.conflicts == ()


@pytest.mark.parametrize(
    "pods",
    [missing(), missing(MissingReason.FORBIDDEN), kept(a_pod_store()), fresh(a_pod_store(malformed=1))],
    ids=["missing", "forbidden", "kept", "incomplete"],
)
def test_list_alone_decides_where_the_api_cannot_contradict(pods: Any) -> None:
    """Without a complete answer about pods the holding stands, and its owner is unknown."""
    attribution = _jobs(holdings=(holds(OLD, G0),), pods=pods)
    [row] = attribution.containers
    assert row.container == ContainerKey(PodUid(""), "team-red", "old-job", "main")
    assert (row.share_ratio, row.owner.workload, row.owner.team) == (1.0, "unknown", "unknown")
    [pod] = attribution.pods
    assert (pod.uid, pod.pod, pod.requested, pod.assigned) == ("", "old-job", None, 1)
    assert attribution.conflicts == ()


@pytest.mark.parametrize(
    ("reason", "complete"),
    [
        (MissingReason.FORBIDDEN, True),
        (MissingReason.DISABLED, True),
        (MissingReason.TIMEOUT, False),
        (MissingReason.STARTING, False),
    ],
)
def test_owner_of_an_unknown_pod_is_final_only_if_the_answer_is(reason: MissingReason, complete: bool) -> None:
    """Usage waits for metadata that may come, and not for metadata that will not."""
    [row] = _jobs(holdings=(holds(OLD, G0),), pods=missing(reason)).containers
    assert row.owner.complete is complete


def test_kept_pods_still_own_and_still_end() -> None:
    """Metadata that is a little old is better than none."""
    done = a_pod(number=1, name="old-job", phase=PodPhase.SUCCEEDED)
    attribution = _jobs(holdings=(holds(OLD, G0), holds(NEW, G0)), pods=kept(a_pod_store(done, NEW)))
    assert _held(attribution) == [("new-job", G0, None, 1.0)]
    assert attribution.containers[0].owner.team == "red"


def test_without_the_kubelet_allocation_is_unknown_and_never_free() -> None:
    """No answer is not an empty answer."""
    attribution = _attribute(b0(holdings=missing()))
    assert _allocated(attribution) == [None, None]
    assert [row.sharing for row in attribution.devices] == [Sharing.UNKNOWN, Sharing.UNKNOWN]
    assert [(pod.requested, pod.assigned) for pod in attribution.pods] == [(1, None)]
    assert [row.holds for row in attribution.containers] == [False]
    assert (attribution.allocatable, attribution.allocated) == ({}, {})


def test_kept_holdings_are_used() -> None:
    """A kubelet that restarts takes nothing away for a while."""
    assert _held(_attribute(b0(holdings=kept(some_holdings(a_holding()))))) == [("train-0", G0, None, 1.0)]


def test_without_nvml_every_allocation_is_unresolved() -> None:
    """There is no device to lay it on; what the pod holds is still counted."""
    attribution = _attribute(b0(devices=missing(MissingReason.DRIVER_NOT_LOADED)))
    assert (attribution.devices, attribution.containers) == ((), ())
    assert [one.reason for one in attribution.unresolved_allocations] == [UnresolvedReason.NVML_MISSING]
    assert [(pod.requested, pod.assigned) for pod in attribution.pods] == [(1, 1)]


def test_lost_device_stays_allocated_and_is_not_measured() -> None:
    """A pod goes on blocking a GPU that fell off the bus (LIFE-01)."""
    lost = a_device(
        trouble=DeviceTrouble.LOST, utilization_ratio=None, memory_used_bytes=None, processes=None, process_use=None
    )
    attribution = _attribute(b0(devices=(lost, b0_devices()[1])))
    assert _held(attribution) == [("train-0", G0, None, 1.0)]
    assert _allocated(attribution) == [1.0, 0.0]
    [row] = attribution.containers
    assert (row.utilization_ratio, row.memory_used_bytes, row.processes) == (None, None, None)
    assert attribution.devices[0].unattributed_memory_bytes == {}


def test_device_that_may_be_held_is_not_free() -> None:
    """A MIG device that we could not find may be on the GPU that did not answer; the other GPU is free."""
    lost = a_mig_device(trouble=DeviceTrouble.LOST, processes=None)
    attribution = _node(a_holding(device_id=mig_uuid(1)), devices=(lost, a_device(number=1)))
    assert _allocated(attribution) == [None, 0.0]
    assert [one.reason for one in attribution.unresolved_allocations] == [UnresolvedReason.NVML_MISSING]


def test_instance_of_unknown_size_makes_the_sum_unknown() -> None:
    """The holder is known, how much it holds is not."""
    device = a_mig_device(migs=(a_mig(slices=None, profile=""),))
    attribution = _node(a_holding(device_id=mig_uuid(1)), devices=(device,))
    assert _held(attribution) == [("train-0", G0, mig_uuid(1), None)]
    assert _allocated(attribution) == [None]
    assert attribution.devices[0].mig_share_ratios == {}


def test_mixed_node_keeps_each_gpu_in_its_own_mode() -> None:
    """MIG on one GPU says nothing of the next, and a GPU in MIG mode without instances is not whole (LIFE-08)."""
    devices = [a_mig_device(migs=(a_mig(),)), a_device(number=1), a_mig_device(number=2)]
    for order in (devices, devices[::-1]):
        attribution = _node(a_holding(pod="a", device_id=mig_uuid(1)), a_holding(pod="b", device_id=G1), devices=order)
        assert _held(attribution) == [("a", G0, mig_uuid(1), 0.1429), ("b", G1, None, 1.0)]
        assert [row.sharing for row in attribution.devices] == [Sharing.MIG, Sharing.NONE, Sharing.MIG]
        assert [len(row.mig_share_ratios) for row in attribution.devices] == [1, 0, 0]


def _sharing(
    *holdings: Holding,
    label: str = "",
    allocatable: dict[str, list[str]] | None = None,
    kinds: str = "",
    mode: MigMode = MigMode.DISABLED,
) -> Sharing:
    processes = (a_gpu_process(kinds=kinds),) if kinds else ()
    labels = {"nvidia.com/gpu.sharing-strategy": label} if label else {}
    attribution = _node(
        devices=(a_device(processes=processes, mig_mode=mode),),
        holdings=some_holdings(*holdings, allocatable=allocatable),
        pods=(a_pod(name="train-0"),),
        node_meta=fresh(NodeMeta(NODE, labels)),
    )
    return attribution.devices[0].sharing


REPLICAS = {"nvidia.com/gpu": [f"{G0}::0", f"{G0}::1"]}
REPLICA = a_holding(device_id=f"{G0}::0")


def test_sharing_is_told_by_ids_label_and_processes() -> None:
    """Ids say that a GPU is divided, the label says how, and MPS clients give MPS away where no label does."""
    assert _sharing() is Sharing.NONE
    assert _sharing(a_holding()) is Sharing.NONE
    assert _sharing(a_holding(), label="mps") is Sharing.NONE
    assert _sharing(REPLICA) is Sharing.UNKNOWN
    assert _sharing(allocatable=REPLICAS) is Sharing.UNKNOWN
    assert _sharing(REPLICA, label="time-slicing") is Sharing.TIME_SLICING
    assert _sharing(allocatable=REPLICAS, label="mps") is Sharing.MPS
    assert _sharing(REPLICA, kinds="compute mps") is Sharing.MPS
    assert _sharing(REPLICA, label="none") is Sharing.UNKNOWN
    assert _sharing(label="time-slicing") is Sharing.TIME_SLICING
    assert _sharing(label="time-slicing", allocatable={"nvidia.com/gpu": [G0]}) is Sharing.NONE
    assert _sharing(REPLICA, label="mps", mode=MigMode.ENABLED) is Sharing.MIG


@pytest.mark.parametrize(("label", "expected"), [("", Sharing.UNKNOWN), ("mps", Sharing.MPS), ("none", Sharing.NONE)])
def test_sharing_without_the_kubelet_is_what_the_label_says(label: str, expected: Sharing) -> None:
    """Nothing is assumed of a node whose holdings are not known."""
    labels = {"nvidia.com/gpu.sharing-strategy": label} if label else {}
    attribution = _attribute(a_snapshot(devices=TWO, holdings=missing(), node_meta=fresh(NodeMeta(NODE, labels))))
    assert {row.sharing for row in attribution.devices} == {expected}


def test_units_are_counted_by_gpu_resource() -> None:
    """What can be given out and what is given out, in the plugin's own units; other resources are left out."""
    listed = some_holdings(
        a_holding(device_id=f"{G0}::0", resource="nvidia.com/gpu.shared"),
        a_holding(device_id=f"{G0}::1", resource="nvidia.com/gpu.shared"),
        a_holding(device_id="gone", resource="nvidia.com/gpu"),
        a_holding(device_id="0000:1f:00.2", resource="example.org/nic"),
        allocatable={
            "nvidia.com/gpu.shared": [f"{G0}::{number}" for number in range(4)],
            "nvidia.com/mig-1g.10gb": [mig_uuid(1)],
            "example.org/nic": ["0000:1f:00.2"],
        },
    )
    attribution = _attribute(b0(holdings=listed))
    assert attribution.allocatable == {"nvidia.com/gpu.shared": 4, "nvidia.com/mig-1g.10gb": 1}
    assert attribution.allocated == {"nvidia.com/gpu.shared": 2, "nvidia.com/mig-1g.10gb": 0, "nvidia.com/gpu": 1}


def test_units_assigned_to_a_pod_are_counted_as_its_limits_count_them() -> None:
    """Two replicas of one GPU are two units; an id that leads nowhere is one too, and one that is listed twice is one."""
    holdings = (
        a_holding(device_id=f"{G0}::0"),
        a_holding(device_id=f"{G0}::1"),
        a_holding(device_id=G1),
        a_holding(device_id="x"),
        a_holding(device_id="x"),
    )
    assert [pod.assigned for pod in _attribute(b0(holdings=holdings)).pods] == [4]


def test_row_says_when_its_container_started() -> None:
    """A restarted container is younger than its pod; the pod's start stands where the container's is not known."""
    pods = [
        a_pod(number=1, name="a", container_starts={"main": TIMESTAMP - 60, "side": TIMESTAMP - 50}),
        a_pod(number=2, name="b", container_starts={"side": TIMESTAMP - 50}),
        a_pod(number=3, name="c", start_timestamp_seconds=None),
    ]
    holdings = [holds(pod, f"{G0}::{number}") for number, pod in enumerate(pods)]
    attribution = _node(*holdings, pods=pods)
    assert {row.container.pod: row.started_timestamp_seconds for row in attribution.containers} == {
        "a": TIMESTAMP - 60,
        "b": TIMESTAMP - 3600,
        "c": None,
    }


def test_pod_row_carries_what_other_rows_do_not() -> None:
    """UID, priority class and start time are the pod's."""
    [row] = _attribute(b0(pods=(train_0(priority_class="high", start_timestamp_seconds=5.0),))).pods
    assert (row.uid, row.priority_class, row.start_timestamp_seconds) == (train_0().uid, "high", 5.0)
