"""The join, from the side of use: whose the processes, the memory and the busy time of each device are."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.attribution import Attribution, ConflictKind, ContainerRow, UnattributedReason
from exporter.model.device import Device, GpuProcess
from exporter.model.ids import ContainerId, PodUid
from exporter.model.process import ProcessRecord, ProcessTrouble
from exporter.model.snapshot import Snapshot
from exporter.model.workload import ContainerKind, NodeMeta, Pod
from tests.builders import (
    C1,
    G0,
    G1,
    GIB,
    MIB,
    NODE,
    U1,
    a_container,
    a_device,
    a_gpu_process,
    a_holding,
    a_mig,
    a_mig_device,
    a_pod,
    a_pod_store,
    a_policy,
    a_process_table,
    a_snapshot,
    a_task,
    a_use,
    b0,
    b0_devices,
    container_id,
    fresh,
    holds,
    mig_uuid,
    missing,
    pod_cgroup,
    train_0,
)

R = UnattributedReason


def _attribute(snapshot: Snapshot) -> Attribution:
    return attribute(snapshot, a_policy())


def _row(attribution: Attribution, pod: str = "train-0", container: str = "main") -> ContainerRow:
    [row] = [row for row in attribution.containers if (row.container.pod, row.container.container) == (pod, container)]
    return row


def _rest(attribution: Attribution, index: int = 0) -> Mapping[UnattributedReason, int]:
    return attribution.devices[index].unattributed_memory_bytes


def _g0(*processes: GpuProcess, used: int | None = None, **changes: Any) -> Device:
    """G0 with these processes; memory in use is their sum unless given."""
    total = sum(process.memory_used_bytes or 0 for process in processes) if used is None else used
    defaults: dict[str, Any] = {"processes": processes, "memory_used_bytes": total, "utilization_ratio": 0.4}
    return a_device(**(defaults | changes))


def _pods(count: int) -> list[Pod]:
    """Sharers s-1, s-2 ... of G0; process 400N is in the container of s-N."""
    return [a_pod(number=number, name=f"s-{number}") for number in range(1, count + 1)]


def _tasks(pods: Iterable[Pod]) -> list[ProcessRecord]:
    return [
        a_task(pid=4000 + number, cgroup=pod_cgroup(uid=pod.uid, container=container_id(number)))
        for number, pod in enumerate(pods, start=1)
    ]


def _shared(device: Device, *tasks: ProcessRecord, sharers: int = 2, **changes: Any) -> Attribution:
    """G0 divided among s-1 ... s-N by replicas."""
    pods = _pods(sharers)
    holdings = [holds(pod, f"{G0}::{number}") for number, pod in enumerate(pods)]
    parts: dict[str, Any] = {"devices": (device,), "pods": pods, "holdings": holdings, "tasks": [*_tasks(pods), *tasks]}
    return _attribute(a_snapshot(**(parts | changes)))


def _used(attribution: Attribution) -> dict[str, float | None]:
    return {
        row.container.pod: None if row.utilization_ratio is None else round(row.utilization_ratio, 4)
        for row in attribution.containers
    }


def test_baseline_use_is_the_holders() -> None:
    """A sole holder with its own process has all the memory and all the activity (B0)."""
    attribution = _attribute(b0())
    row = _row(attribution)
    assert (row.memory_used_bytes, row.utilization_ratio, row.processes) == (20 * GIB, 0.4, 1)
    assert _rest(attribution) == {}
    assert _rest(attribution, 1) == {R.NO_PROCESS: 8 * MIB}
    assert attribution.unresolved_pids == ()


def test_eight_cgroup_layouts_leave_nothing_unattributed() -> None:
    """Whatever the runtime, driver and QoS class, every process finds its pod (PID-01)."""
    pods = [a_pod(number=number, name=f"p-{number}") for number in range(1, 9)]
    pods[6] = a_pod(number=7, name="p-7", cgroup_uids=(PodUid("0123456789abcdef0123456789abcdef"),))
    uids = [pod.uid for pod in pods]
    flat = [uid.replace("-", "_") for uid in uids]
    ids = [container_id(number) for number in range(1, 9)]
    paths = [
        f"/kubepods/burstable/pod{uids[0]}/{ids[0]}",
        f"/kubepods/pod{uids[1]}/{ids[1]}",
        f"/kubepods.slice/kubepods-pod{flat[2]}.slice/cri-containerd-{ids[2]}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat[3]}.slice/cri-containerd-{ids[3]}.scope",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{flat[4]}.slice/crio-{ids[4]}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat[5]}.slice/docker-{ids[5]}.scope",
        f"/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/{ids[6]}",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{flat[7]}.slice/cri-containerd-{ids[7]}.scope",
    ]
    tasks = [a_task(pid=4001 + number, cgroup=f"0::{path}") for number, path in enumerate(paths)]
    device = _g0(*(a_gpu_process(pid=4001 + number, memory=GIB) for number in range(8)))
    attribution = _attribute(a_snapshot(devices=(device,), pods=pods, tasks=tasks))
    assert {(row.container.pod, row.container.container, row.memory_used_bytes) for row in attribution.containers} == {
        (f"p-{number}", "main", GIB) for number in range(1, 9)
    }
    assert _rest(attribution) == {}


def test_private_view_resolves_others_and_leaves_the_rest() -> None:
    """Memory of a process that may be the host's or our own is unattributed (PID-06)."""
    path = f"0::/../../kubepods-burstable-pod{U1.replace('-', '_')}.slice/cri-containerd-{C1}.scope"
    table = a_process_table(a_task(cgroup=path), a_task(pid=4002, cgroup="0::/"), private_cgroup_view=True)
    device = _g0(a_gpu_process(memory=3 * GIB), a_gpu_process(pid=4002, memory=GIB))
    attribution = _attribute(b0(devices=(device,), tasks=table))
    assert _row(attribution).memory_used_bytes == 3 * GIB
    assert _rest(attribution) == {R.UNRESOLVED_PID: GIB}
    assert [one.pid for one in attribution.unresolved_pids] == [4002]


@pytest.mark.parametrize("tasks", [a_process_table(host_pid_missing=True), missing()], ids=["host_pid_missing", "missing"])
def test_without_the_hosts_processes_use_is_absent_and_allocation_stays(tasks: Any) -> None:
    """PIDs that do not resolve leave everything per container unknown, never 0 (PID-07)."""
    device = _g0(a_gpu_process(pid=250001, memory=GIB), a_gpu_process(pid=250002, memory=GIB))
    attribution = _attribute(b0(devices=(device,), tasks=tasks))
    row = _row(attribution)
    assert (row.share_ratio, row.memory_used_bytes, row.processes, row.utilization_ratio) == (1.0, None, None, None)
    assert [one.pid for one in attribution.unresolved_pids] == [250001, 250002]
    assert _rest(attribution) == {R.UNRESOLVED_PID: 2 * GIB}


@pytest.mark.parametrize("tasks", [a_process_table(host_pid_missing=True), missing()], ids=["host_pid_missing", "missing"])
def test_empty_list_without_the_hosts_processes_proves_nothing(tasks: Any) -> None:
    """Newer drivers hide what our PID namespace cannot see: an empty list is no idle GPU (PID-07)."""
    row = _row(_attribute(b0(devices=(_g0(used=20 * GIB),), tasks=tasks)))
    assert (row.memory_used_bytes, row.processes, row.utilization_ratio) == (None, None, None)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (ProcessTrouble.GONE, R.DEAD_PROCESS),
        (ProcessTrouble.MALFORMED, R.UNRESOLVED_PID),
        (ProcessTrouble.PERMISSION_DENIED, R.UNRESOLVED_PID),
    ],
)
def test_process_that_vanishes_costs_itself_only(trouble: ProcessTrouble, reason: UnattributedReason) -> None:
    """One PID without a record is counted, and the others go on (PID-09)."""
    device = _g0(a_gpu_process(memory=2 * GIB), a_gpu_process(pid=4999, memory=GIB), process_use=(a_use(),))
    attribution = _attribute(b0(devices=(device,), tasks=a_process_table(a_task(), troubles={4999: trouble})))
    row = _row(attribution)
    assert (row.memory_used_bytes, row.processes, row.utilization_ratio) == (2 * GIB, 1, 0.4)
    assert [(one.pid, one.device, one.reason) for one in attribution.unresolved_pids] == [(4999, G0, reason)]
    assert _rest(attribution) == {reason: GIB}


def test_static_pods_memory_is_its_mirrors() -> None:
    """The hash in the cgroup leads to the pod that the API shows (PID-11)."""
    uid = "0123456789abcdef0123456789abcdef"
    agent = a_pod(number=9, namespace="kube-system", name="gpu-agent-gpu-n1", cgroup_uids=(PodUid(uid),), is_mirror=True)
    attribution = _attribute(
        b0(pods=(agent,), holdings=(), tasks=(a_task(cgroup=f"0::/kubepods/besteffort/pod{uid}/crio-{C1}"),))
    )
    row = _row(attribution, "gpu-agent-gpu-n1", "")
    assert (row.memory_used_bytes, row.owner.workload_type) == (20 * GIB, "staticpod")
    assert _rest(attribution) == {}


def test_sandbox_outside_the_pod_leaves_the_allocation_and_no_invented_use() -> None:
    """A hypervisor in an overhead cgroup is in no pod; who holds the GPU is known all the same (PID-12)."""
    task = a_task(name="qemu-system-x86", cgroup=f"0::/kata_overhead/{'f' * 64}")
    attribution = _attribute(b0(pods=(a_pod(name="vm-0"),), holdings=(a_holding(pod="vm-0"),), tasks=(task,)))
    row = _row(attribution, "vm-0")
    assert (row.share_ratio, row.memory_used_bytes, row.processes, row.utilization_ratio) == (1.0, None, None, None)
    assert _rest(attribution) == {R.NOT_IN_POD: 20 * GIB}


def test_monitor_has_a_row_of_its_pod_without_a_container() -> None:
    """The helper's use is the pod's, and no container of that name appears (PID-13)."""
    pod = pod_cgroup(container=None)
    tasks = (a_task(cgroup=f"{pod}/crio-conmon-{C1}.scope"), a_task(pid=4002, cgroup=f"{pod}/crio-{C1}.scope/container"))
    device = _g0(a_gpu_process(memory=MIB), a_gpu_process(pid=4002, memory=GIB))
    attribution = _attribute(b0(devices=(device,), tasks=tasks))
    assert {(row.container.container, row.memory_used_bytes, row.holds) for row in attribution.containers} == {
        ("main", GIB, True),
        ("", MIB, False),
    }


def test_sandboxed_pod_is_not_idle_because_its_process_has_another_name() -> None:
    """Where only the pod of a process is known, its containers without one are unknown and not empty."""
    device = _g0(a_gpu_process(memory=GIB), process_use=(a_use(),))
    attribution = _attribute(
        b0(devices=(device,), tasks=(a_task(cgroup=pod_cgroup(container="e" * 64), name="runsc-sandbox"),))
    )
    main, sandbox = _row(attribution), _row(attribution, container="")
    assert (main.processes, main.memory_used_bytes, main.utilization_ratio) == (None, None, None)
    assert (sandbox.processes, sandbox.memory_used_bytes, sandbox.utilization_ratio) == (1, GIB, 0.4)


def test_process_on_two_lists_counts_once() -> None:
    """Compute and graphics lists name the same process; its memory is not added up (PID-14)."""
    listed = (
        a_gpu_process(memory=6 * GIB, kinds="compute"),
        a_gpu_process(memory=6 * GIB, kinds="graphics"),
        a_gpu_process(pid=4002, memory=GIB, kinds="graphics"),
    )
    attribution = _attribute(b0(devices=(_g0(*listed, used=7 * GIB),), tasks=(a_task(), a_task(pid=4002))))
    row = _row(attribution)
    assert (row.memory_used_bytes, row.processes) == (7 * GIB, 2)
    assert _rest(attribution) == {}


@pytest.mark.parametrize(
    ("processes", "tasks", "reason"),
    [
        ((), a_process_table(), R.NO_PROCESS),
        ((a_gpu_process(pid=5999, memory=30 * GIB),), a_process_table(troubles={5999: ProcessTrouble.GONE}), R.DEAD_PROCESS),
        ((a_gpu_process(pid=7, memory=30 * GIB),), a_process_table(a_task(pid=7, cgroup="0::/ollama.service")), R.HOST_PROCESS),
    ],
)
def test_memory_in_use_without_a_pod_has_its_reason(processes: Any, tasks: Any, reason: UnattributedReason) -> None:
    """Leaked memory is neither free nor its last pod's (PID-15)."""
    g1 = a_device(number=1, memory_used_bytes=30 * GIB, processes=processes)
    attribution = _attribute(a_snapshot(devices=(g1,), tasks=tasks))
    assert _rest(attribution) == {reason: 30 * GIB}
    assert attribution.containers == ()
    assert attribution.devices[0].allocated_ratio == 0.0


def test_memory_that_the_driver_cannot_tell_is_absent_and_in_the_rest() -> None:
    """The process counts, its memory does not, and the device's figure is accounted for (NVML-01)."""
    device = _g0(a_gpu_process(memory=None), used=20 * GIB)
    attribution = _attribute(b0(devices=(device,)))
    row = _row(attribution)
    assert (row.memory_used_bytes, row.processes, row.utilization_ratio) == (None, 1, 0.4)
    assert _rest(attribution) == {R.NOT_MEASURED: 20 * GIB}


def test_one_untold_process_makes_its_containers_sum_unknown_and_no_other() -> None:
    """A sum without one of its parts is no sum; a neighbour's figure stands."""
    device = _g0(
        a_gpu_process(pid=4001, memory=None),
        a_gpu_process(pid=4001 + 10, memory=GIB),
        a_gpu_process(pid=4002, memory=2 * GIB),
        used=10 * GIB,
    )
    attribution = _shared(device, a_task(pid=4011, cgroup=pod_cgroup()))
    assert _row(attribution, "s-1").memory_used_bytes is None
    assert _row(attribution, "s-2").memory_used_bytes == 2 * GIB
    assert _rest(attribution) == {R.NOT_MEASURED: 8 * GIB}


def test_processes_that_sum_to_more_than_the_device_are_scaled_down() -> None:
    """Figures of two moments are made to fit: parts never exceed the whole."""
    device = _g0(a_gpu_process(memory=6 * GIB), a_gpu_process(pid=4002, memory=2 * GIB), used=4 * GIB)
    attribution = _shared(device)
    assert [row.memory_used_bytes for row in attribution.containers] == [3 * GIB, GIB]
    assert _rest(attribution) == {}


def test_device_without_a_memory_figure_still_has_its_processes() -> None:
    """Integrated GPUs tell the memory of processes and none of their own."""
    device = _g0(a_gpu_process(memory=6 * GIB), a_gpu_process(pid=9, memory=GIB), memory_used_bytes=None)
    attribution = _attribute(b0(devices=(device,), tasks=(a_task(), a_task(pid=9, cgroup="0::/sshd.service"))))
    assert _row(attribution).memory_used_bytes == 6 * GIB
    assert _rest(attribution) == {R.HOST_PROCESS: GIB}


def test_unreadable_process_list_is_absent_and_never_zero() -> None:
    """A failed list makes count and memory unknown for everybody on the device (NVML-17)."""
    attribution = _attribute(b0(devices=(_g0(used=20 * GIB, processes=None),)))
    row = _row(attribution)
    assert (row.memory_used_bytes, row.processes) == (None, None)
    assert _rest(attribution) == {R.NOT_MEASURED: 20 * GIB}


def test_holder_without_a_process_has_an_explicit_zero() -> None:
    """An empty list that could be read says that nobody is there."""
    row = _row(_attribute(b0(devices=(_g0(utilization_ratio=0.0),))))
    assert (row.memory_used_bytes, row.processes, row.utilization_ratio) == (0, 0, 0.0)


def test_process_without_an_instance_belongs_to_the_whole_gpu() -> None:
    """No instance is no MIG label (NVML-15)."""
    assert _row(_attribute(b0())).mig is None


def test_mig_use_is_the_instances_and_activity_is_unknown() -> None:
    """Memory follows the instance that the driver names; without a figure nobody is called idle (NVML-04)."""
    device = a_mig_device(
        migs=(a_mig(number=1), a_mig(number=2)),
        memory_used_bytes=5 * GIB,
        processes=(
            a_gpu_process(pid=4001, memory=GIB, gi=1, ci=0),
            a_gpu_process(pid=4002, memory=3 * GIB, gi=2, ci=0),
        ),
    )
    pods = _pods(2)
    holdings = [holds(pod, mig_uuid(number)) for number, pod in enumerate(pods, start=1)]
    attribution = _attribute(a_snapshot(devices=(device,), pods=pods, holdings=holdings, tasks=_tasks(pods)))
    assert [(row.mig.uuid if row.mig else None, row.memory_used_bytes, row.processes) for row in attribution.containers] == [
        (mig_uuid(1), GIB, 1),
        (mig_uuid(2), 3 * GIB, 1),
    ]
    assert set(_used(attribution).values()) == {None}
    assert _rest(attribution) == {R.NO_PROCESS: GIB}


@pytest.mark.parametrize(
    ("process", "held", "expected"),
    [
        (a_gpu_process(memory=GIB), [1], mig_uuid(1)),
        (a_gpu_process(memory=GIB), [1, 2], None),
        (a_gpu_process(memory=GIB, gi=2), [1], mig_uuid(2)),
        (a_gpu_process(memory=GIB, gi=9, ci=0), [1], None),
        (a_gpu_process(memory=GIB, gi=3), [4], mig_uuid(4)),
        (a_gpu_process(memory=GIB, gi=3), [3, 4], None),
        (a_gpu_process(memory=GIB, gi=3, ci=1), [3], mig_uuid(4)),
        (a_gpu_process(memory=GIB), [], None),
    ],
)
def test_mig_process_without_a_clear_instance(process: GpuProcess, held: list[int], expected: str | None) -> None:
    """What the driver leaves open is settled by what the container holds, and otherwise left open."""
    migs = (a_mig(number=1), a_mig(number=2), a_mig(number=3, gi=3, ci=0), a_mig(number=4, gi=3, ci=1))
    device = a_mig_device(migs=migs, memory_used_bytes=GIB, processes=(process,))
    pod = train_0()
    attribution = _attribute(b0(devices=(device,), pods=(pod,), holdings=[holds(pod, mig_uuid(number)) for number in held]))
    used = [None if row.mig is None else row.mig.uuid for row in attribution.containers if row.processes]
    assert used == [expected]


def test_use_of_a_device_that_is_not_held_has_a_row() -> None:
    """Whoever got at a GPU without asking for it is seen (NVIDIA_VISIBLE_DEVICES=all)."""
    attribution = _attribute(b0(holdings=()))
    row = _row(attribution)
    assert (row.holds, row.share_ratio, row.memory_used_bytes, row.processes) == (False, 0.0, 20 * GIB, 1)
    assert attribution.devices[0].allocated_ratio == 0.0
    assert [pod.assigned for pod in attribution.pods] == [0]


def test_init_container_that_the_kubelet_does_not_list_has_its_own_row() -> None:
    """A model download on the GPU is its own, also where a sibling holds the device."""
    pod = train_0(
        containers=(a_container(), a_container(name="warm", kind=ContainerKind.INIT)),
        container_names={C1: "main", container_id(2): "warm"},
    )
    task = a_task(cgroup=pod_cgroup(container=container_id(2)))
    for holdings, rows in (((), {("warm", False)}), ((a_holding(),), {("main", True), ("warm", False)})):
        attribution = _attribute(b0(pods=(pod,), holdings=holdings, tasks=(task,)))
        assert {(row.container.container, row.holds) for row in attribution.containers} == rows
        assert _row(attribution, container="warm").memory_used_bytes == 20 * GIB


def test_deleted_pod_still_uses_without_holding() -> None:
    """A process that outlives its pod's object is still that pod's."""
    attribution = _attribute(b0(pods=a_pod_store(deleted=(train_0(),)), holdings=()))
    assert (_row(attribution).memory_used_bytes, _row(attribution).owner.workload) == (20 * GIB, "train")
    assert [pod.pod for pod in attribution.pods] == ["train-0"]


def test_sole_holder_among_its_own_has_all_of_the_activity() -> None:
    """One holder and nobody else: the device's own figure, whatever the driver samples (MIG aside)."""
    for use in (None, (), (a_use(sm=0.9),)):
        assert _used(_attribute(b0(devices=(_g0(a_gpu_process(), process_use=use),)))) == {"train-0": 0.4}


@pytest.mark.parametrize("cgroup", ["0::/ollama.service", f"0::/docker/{'f' * 64}", pod_cgroup(uid="0" * 32, container=None)])
def test_foreign_process_ends_the_sole_holders_claim(cgroup: str) -> None:
    """With somebody else on the device only the driver's samples tell."""
    processes = (a_gpu_process(memory=GIB), a_gpu_process(pid=9, memory=GIB))
    tasks = (a_task(), a_task(pid=9, cgroup=cgroup))
    sampled = _g0(*processes, process_use=(a_use(sm=0.1), a_use(pid=9, sm=0.3)))
    assert _used(_attribute(b0(devices=(sampled,), tasks=tasks))) == {"train-0": 0.1}
    assert _used(_attribute(b0(devices=(_g0(*processes, process_use=None),), tasks=tasks))) == {"train-0": None}


def test_sharers_activity_is_what_the_driver_sampled() -> None:
    """No sharer gets the whole; one without samples did nothing."""
    device = _g0(utilization_ratio=0.8, process_use=(a_use(pid=4001, sm=0.5), a_use(pid=4002, sm=0.2), a_use(pid=4003, sm=0.1)))
    assert _used(_shared(device, sharers=4)) == {"s-1": 0.5, "s-2": 0.2, "s-3": 0.1, "s-4": 0.0}


def test_samples_above_the_devices_figure_are_scaled_to_it() -> None:
    """70 and 60 on a device at 90 are 48.46 and 41.54 (SHARE-08)."""
    device = _g0(utilization_ratio=0.9, process_use=(a_use(pid=4001, sm=0.7), a_use(pid=4002, sm=0.6)))
    assert _used(_shared(device)) == {"s-1": 0.4846, "s-2": 0.4154}


def test_scaling_counts_those_who_are_nobodys_too() -> None:
    """A host process has its part of the device's figure, and the pods do not get it."""
    device = _g0(utilization_ratio=0.9, process_use=(a_use(pid=4001, sm=0.6), a_use(pid=9, sm=0.6)))
    used = _used(_shared(device, a_task(pid=9, cgroup="0::/ollama.service")))
    assert used == {"s-1": 0.45, "s-2": 0.0}


def test_device_that_did_nothing_was_used_by_nobody() -> None:
    """At 0 there is nothing to share out, whether or not anybody samples."""
    device = _g0(a_gpu_process(pid=4001, memory=GIB), utilization_ratio=0.0, process_use=None)
    assert _used(_shared(device)) == {"s-1": 0.0, "s-2": 0.0}


@pytest.mark.parametrize("changes", [{"utilization_ratio": None}, {"process_use": None}])
def test_sharers_activity_is_unknown_where_the_driver_cannot_tell(changes: dict[str, Any]) -> None:
    """Neither the device's figure nor the samples can be made up."""
    assert _used(_shared(_g0(**changes))) == {"s-1": None, "s-2": None}


@pytest.mark.parametrize("trouble", [ProcessTrouble.GONE, ProcessTrouble.PERMISSION_DENIED])
def test_activity_of_a_process_that_nobody_knows_leaves_the_quiet_ones_unknown(trouble: ProcessTrouble) -> None:
    """A process that ended before it was looked up may be anybody's: nobody is called idle for it."""
    device = _g0(process_use=(a_use(pid=4001, sm=0.1), a_use(pid=4999, sm=0.3)))
    pods = _pods(2)
    table = a_process_table(*_tasks(pods), troubles={4999: trouble})
    assert _used(_shared(device, tasks=table)) == {"s-1": 0.1, "s-2": None}


def test_unresolved_process_leaves_the_count_of_those_without_one_unknown() -> None:
    """It may be any holder's that seems to have none; one that has some keeps its own."""
    device = _g0(a_gpu_process(pid=4001, memory=GIB), a_gpu_process(pid=4999, memory=GIB))
    attribution = _shared(device, tasks=a_process_table(*_tasks(_pods(2)), troubles={4999: ProcessTrouble.PERMISSION_DENIED}))
    assert [(row.processes, row.memory_used_bytes) for row in attribution.containers] == [(1, GIB), (None, None)]


def test_without_pods_a_shared_device_is_used_by_nobody_in_particular() -> None:
    """Holders stand by the kubelet's word; whose the processes are cannot be said."""
    device = _g0(a_gpu_process(pid=4001, memory=GIB), process_use=(a_use(pid=4001, sm=0.4),))
    attribution = _shared(device, pods=missing())
    assert [(row.share_ratio, row.processes, row.utilization_ratio) for row in attribution.containers] == [
        (0.5, None, None)
    ] * 2
    assert _rest(attribution) == {R.UNRESOLVED_PID: GIB}


SERVER = a_task(pid=7000, name="nvidia-cuda-mps", cgroup=pod_cgroup(uid=a_pod(number=9).uid, container=container_id(9)))


def _mps(device: Device, **changes: Any) -> Attribution:
    daemon = a_pod(number=9, namespace="gpu-system", name="mps-daemon", containers=(a_container(gpus=0),))
    pods = _pods(2)
    return _shared(device, pods=[*pods, daemon], tasks=[*_tasks(pods), SERVER], **changes)


@pytest.mark.parametrize("utilization", [0.4, 0.0])
def test_mps_server_alone_hides_its_clients(utilization: float) -> None:
    """Memory that the server holds is nobody's, the daemon's team is not billed, and nobody is idle for it (SHARE-04)."""
    device = _g0(a_gpu_process(pid=7000, memory=30 * GIB), utilization_ratio=utilization, process_use=(a_use(pid=7000),))
    attribution = _mps(device)
    assert {row.container.namespace for row in attribution.containers} == {"team-red"}
    assert [(row.share_ratio, row.processes, row.memory_used_bytes) for row in attribution.containers] == [
        (0.5, None, None)
    ] * 2
    assert _used(attribution) == dict.fromkeys(("s-1", "s-2"), 0.0 if utilization == 0 else None)
    assert _rest(attribution) == {R.MPS_SERVER: 30 * GIB}
    assert attribution.unresolved_pids == ()
    assert "mps-daemon" not in {pod.pod for pod in attribution.pods}


def test_mps_clients_have_their_memory_and_no_activity() -> None:
    """The driver tells clients' memory apart, and their activity it does not (SHARE-04)."""
    device = _g0(
        a_gpu_process(pid=7000, memory=GIB),
        a_gpu_process(pid=4001, memory=12 * GIB, kinds="compute mps"),
        a_gpu_process(pid=4002, memory=17 * GIB, kinds="compute mps"),
        process_use=(a_use(pid=4001), a_use(pid=4002)),
    )
    attribution = _mps(device)
    assert {row.container.pod: row.memory_used_bytes for row in attribution.containers} == {"s-1": 12 * GIB, "s-2": 17 * GIB}
    assert _used(attribution) == {"s-1": None, "s-2": None}
    assert _rest(attribution) == {R.MPS_SERVER: GIB}


def test_mps_holder_without_a_client_among_clients_has_an_explicit_zero() -> None:
    """Where the driver lists clients, a holder without one has none."""
    device = _g0(a_gpu_process(pid=7000, memory=GIB), a_gpu_process(pid=4001, memory=GIB, kinds="compute mps"))
    assert {row.container.pod: row.processes for row in _mps(device).containers} == {"s-1": 1, "s-2": 0}


def test_mps_between_exclusive_holders_is_known_by_its_clients() -> None:
    """A user's own MPS needs no replicas."""
    device = _g0(a_gpu_process(pid=4001, memory=GIB, kinds="compute mps"), process_use=(a_use(pid=4001),))
    assert _used(_shared(device, holdings=[holds(pod, G0) for pod in _pods(2)])) == {"s-1": None, "s-2": None}


@pytest.mark.parametrize("how", ["client", "label"])
def test_mps_is_known_by_its_clients_or_by_the_nodes_label(how: str) -> None:
    """Either is enough to distrust the samples of each process."""
    kinds = "compute mps" if how == "client" else "compute"
    labels = {"nvidia.com/gpu.sharing-strategy": "mps"} if how == "label" else {}
    device = _g0(a_gpu_process(pid=4001, memory=GIB, kinds=kinds), process_use=(a_use(pid=4001),))
    assert _used(_shared(device, node_meta=fresh(NodeMeta(NODE, labels)))) == {"s-1": None, "s-2": None}


def test_sole_holder_under_mps_has_all_of_the_activity() -> None:
    """With one holder there is nothing to tell apart."""
    device = _g0(a_gpu_process(pid=7000, memory=GIB), a_gpu_process(pid=4001, memory=GIB, kinds="compute mps"))
    assert _used(_shared(device, SERVER, sharers=1)) == {"s-1": 0.4}


def test_workload_cannot_hide_behind_the_servers_name_on_its_own_device() -> None:
    """A server in the container that holds the device is that container's."""
    attribution = _attribute(b0(tasks=(a_task(name="nvidia-cuda-mps"),)))
    assert (_row(attribution).memory_used_bytes, _row(attribution).utilization_ratio) == (20 * GIB, 0.4)
    assert _rest(attribution) == {}


def test_container_that_runs_elsewhere_only_is_a_conflict() -> None:
    """Allocated here, running there: somebody's index is wrong."""
    g0, g1 = a_device(), a_device(number=1, memory_used_bytes=GIB, processes=(a_gpu_process(memory=GIB),))
    attribution = _attribute(b0(devices=(g0, g1)))
    [conflict] = attribution.conflicts
    assert (conflict.kind, conflict.subject) == (ConflictKind.ALLOCATED_HERE_RUNNING_THERE, "team-red/train-0")
    assert G0 in conflict.detail
    assert G1 in conflict.detail
    assert [(row.device, row.holds, row.processes) for row in attribution.containers] == [(G0, True, 0), (G1, False, 1)]


def test_container_that_also_runs_where_it_holds_is_no_conflict() -> None:
    """Peer access and contexts on further devices are common."""
    g1 = a_device(number=1, memory_used_bytes=GIB, processes=(a_gpu_process(memory=GIB),))
    assert _attribute(b0(devices=(b0_devices()[0], g1))).conflicts == ()


def test_holder_of_one_instance_that_runs_on_another_is_a_conflict() -> None:
    """Two instances of one GPU are two devices; a process whose instance is not told is where it should be."""
    for gi, held, expected in ((2, [1], 1), (1, [1], 0), (None, [1], 0), (None, [1, 3], 0), (2, [1, 3], 1)):
        device = a_mig_device(
            migs=[a_mig(number=number) for number in (1, 2, 3)],
            processes=(a_gpu_process(memory=GIB, gi=gi, ci=None if gi is None else 0),),
        )
        holdings = [a_holding(device_id=mig_uuid(number)) for number in held]
        attribution = _attribute(b0(devices=(device,), holdings=holdings))
        assert len(attribution.conflicts) == expected


def test_process_with_two_contexts_counts_once_on_each_device() -> None:
    """One process on two GPUs is one process on each."""
    devices = [a_device(number=number, memory_used_bytes=GIB, processes=(a_gpu_process(memory=GIB),)) for number in range(2)]
    attribution = _attribute(b0(devices=devices, holdings=(a_holding(), a_holding(device_id=G1))))
    assert [(row.device, row.processes, row.memory_used_bytes) for row in attribution.containers] == [
        (G0, 1, GIB),
        (G1, 1, GIB),
    ]


def test_sampled_process_that_is_on_no_list_is_its_containers_use() -> None:
    """A process that ran and ended in between is known by the samples only."""
    device = _g0(a_gpu_process(pid=4001, memory=GIB), process_use=(a_use(pid=4001, sm=0.1), a_use(pid=4003, sm=0.2)))
    other = a_pod(number=3, name="visitor")
    visitor = a_task(pid=4003, cgroup=pod_cgroup(uid=other.uid, container=ContainerId(container_id(3))))
    attribution = _shared(
        device, visitor, pods=[*_pods(2), other], holdings=[holds(pod, f"{G0}::{at}") for at, pod in enumerate(_pods(2))]
    )
    assert _used(attribution) == {"s-1": 0.1, "s-2": 0.0, "visitor": 0.2}
    assert _row(attribution, "visitor").processes == 0
