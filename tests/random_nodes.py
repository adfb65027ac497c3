"""Random nodes for hypothesis: devices, holders, processes and metadata in every combination, sensible or not."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from exporter.model.activity import Activity, Span
from exporter.model.device import Device, DeviceTrouble, GpuProcess, MigMode, ProcessKind, ProcessUse
from exporter.model.holding import Holding, Holdings
from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.reading import MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import LookupFailure, NamespaceTable, NodeMeta, OwnerTable, Pod, PodPhase, PodStore
from tests.builders import (
    NODE,
    a_device,
    a_mig,
    a_mig_device,
    a_namespace,
    a_pod,
    a_snapshot,
    a_task,
    an_object,
    an_owner,
    container_id,
    fresh,
    gpu_uuid,
    kept,
    mig_uuid,
    missing,
    pod_cgroup,
    pod_uid,
)

GPUS, PODS = 3, 4
PIDS = st.integers(1, 12)
SIZES = st.one_of(st.none(), st.integers(0, 1 << 37))
RATIOS = st.floats(0, 1, allow_subnormal=False)


@st.composite
def gpu_processes(draw: st.DrawFn) -> GpuProcess:
    kinds = draw(st.frozensets(st.sampled_from(ProcessKind), min_size=1))
    instance = st.one_of(st.none(), st.integers(0, 4))
    return GpuProcess(draw(PIDS), kinds, draw(SIZES), draw(instance), draw(st.one_of(st.none(), st.integers(0, 1))))


def activities() -> st.SearchStrategy[Activity | None]:
    """A cycle in pieces, some of them lost; or nothing measured."""
    ratios = st.one_of(st.none(), st.just(0.0), st.just(0.01), RATIOS)
    spans = st.lists(st.builds(Span, st.floats(0.01, 3.0), ratios), min_size=1, max_size=5)
    return st.one_of(st.none(), spans.map(lambda found: Activity(tuple(found))))


@st.composite
def gpus(draw: st.DrawFn, number: int) -> Device:
    migs = [
        a_mig(number=number * 10 + at, gi=at, ci=draw(st.integers(0, 1)), slices=draw(st.one_of(st.none(), st.integers(0, 4))))
        for at in range(draw(st.integers(0, 3)))
    ]
    migs = [replace(mig, activity=draw(activities())) for mig in migs]
    activity = draw(activities())
    base = a_mig_device(number=number, migs=migs) if draw(st.booleans()) else a_device(number=number)
    changes: dict[str, Any] = {
        "mig_mode": draw(st.sampled_from([base.mig_mode, base.mig_mode, MigMode.UNKNOWN, MigMode.DISABLED])),
        "mig_slices": draw(st.sampled_from([None, 4, 7])),
        "minor_number": draw(st.one_of(st.none(), st.integers(0, GPUS))),
        "trouble": draw(st.sampled_from([None, None, None, DeviceTrouble.LOST])),
        "activity": activity,
        "utilization_ratio": draw(RATIOS)
        if activity is None and draw(st.booleans())
        else activity and activity.utilization_ratio,
        "energy_joules": draw(st.one_of(st.none(), st.floats(0, 1e6))),
        "memory_used_bytes": draw(SIZES),
        "processes": draw(st.one_of(st.none(), st.lists(gpu_processes(), max_size=6).map(tuple))),
        "process_use": draw(st.one_of(st.none(), st.lists(st.builds(ProcessUse, PIDS, RATIOS), max_size=6).map(tuple))),
    }
    return replace(base, **changes)


DEVICE_IDS = st.one_of(
    st.sampled_from([gpu_uuid(number) for number in range(GPUS + 1)]),
    st.builds("{}::{}".format, st.sampled_from([gpu_uuid(number) for number in range(GPUS)]), st.integers(0, 5)),
    st.sampled_from([mig_uuid(number) for number in (0, 1, 2, 10, 11, 12, 99)]),
    st.builds("{}::{}".format, st.sampled_from([mig_uuid(0), mig_uuid(11)]), st.integers(0, 3)),
    st.sampled_from([f"MIG-{gpu_uuid(0)}/1/0", "nvidia0", "nvidia1/gi1", "nvidia2/vgpu1", "all", "1", "0000:10:00.0", "x"]),
)
RESOURCES = st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "example.org/renamed", "nvidia.com/hostdev"])
HOLDINGS = st.builds(
    Holding,
    st.just("team-red"),
    st.integers(0, PODS).map("pod-{}".format),
    st.sampled_from(["main", "side"]),
    RESOURCES,
    DEVICE_IDS,
)


@st.composite
def pods(draw: st.DrawFn) -> PodStore:
    def a_random_pod(number: int) -> Pod:
        phase = draw(st.sampled_from([PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.PENDING, PodPhase.SUCCEEDED]))
        owner = an_owner(
            uid=draw(st.sampled_from(["rs-1", "gone", "late"])), kind=draw(st.sampled_from(["ReplicaSet", "Job", ""]))
        )
        owners = (owner,) if draw(st.booleans()) else ()
        return a_pod(
            number=number, phase=phase, owners=owners, labels=draw(st.dictionaries(st.just("team"), st.text(max_size=5)))
        )

    numbers = draw(st.lists(st.integers(0, PODS), unique=True))
    known = [a_random_pod(number) for number in numbers]
    deleted = draw(st.integers(0, len(known)))
    return PodStore(
        {pod.uid: pod for pod in known[deleted:]}, {pod.uid: pod for pod in known[:deleted]}, draw(st.sampled_from([0, 0, 1]))
    )


@st.composite
def tasks(draw: st.DrawFn) -> ProcessTable:
    paths = st.one_of(
        st.builds(
            lambda pod, container: pod_cgroup(uid=pod_uid(pod), container=container_id(container)),
            st.integers(0, PODS),
            st.integers(0, PODS),
        ),
        st.sampled_from(
            ["0::/", "0::/../..", "0::/system.slice/sshd.service", f"0::/docker/{container_id(1)}", f"0::/x/{'f' * 64}"]
        ),
    )
    records: dict[int, ProcessRecord] = {}
    for pid in draw(st.lists(PIDS, unique=True)):
        name = draw(st.sampled_from(["python3", "python3", "nvidia-cuda-mps"]))
        records[pid] = a_task(
            pid=pid, cgroup=tuple(draw(st.lists(paths, max_size=2))), parent=draw(st.integers(0, 12)), name=name
        )
    troubles = draw(st.dictionaries(PIDS, st.sampled_from(ProcessTrouble), max_size=4))
    return ProcessTable(records, troubles, draw(st.booleans()), draw(st.sampled_from([False, False, False, True])))


def observed(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Observed[Any]]:
    reasons = st.sampled_from([MissingReason.TIMEOUT, MissingReason.FORBIDDEN, MissingReason.DISABLED])
    return st.one_of(values.map(fresh), values.map(fresh), values.map(fresh), values.map(kept), reasons.map(missing))


@st.composite
def nodes(draw: st.DrawFn) -> Snapshot:
    """A node in one cycle, as broken as it can be."""
    devices = [draw(gpus(number)) for number in range(draw(st.integers(0, GPUS)))]
    allocatable = st.one_of(st.none(), st.dictionaries(RESOURCES, st.frozensets(DEVICE_IDS, max_size=8), max_size=2))
    listed = st.builds(
        lambda held, given: Holdings(tuple(held), allocatable=given), st.lists(HOLDINGS, max_size=10), allocatable
    )
    labels = st.dictionaries(
        st.sampled_from(["nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"]),
        st.sampled_from(["2", "mps", "time-slicing"]),
    )
    owners = OwnerTable(
        {"rs-1": an_object(owners=(an_owner(uid="late"),)), "gone": LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    )
    snapshot = a_snapshot(
        devices=devices, holdings=draw(observed(listed)), pods=draw(observed(pods())), tasks=draw(observed(tasks()))
    )
    return replace(
        snapshot,
        node_meta=draw(observed(st.builds(NodeMeta, st.just(NODE), labels, unschedulable=st.booleans()))),
        owners=draw(observed(st.just(owners))),
        namespaces=draw(observed(st.just(NamespaceTable({"team-red": a_namespace()})))),
    )


LENIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
