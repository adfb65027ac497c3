"""What holds on every node, however broken: conservation, completeness, uniqueness, independence of order."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.attribution.join import attribute
from exporter.attribution.wanted import gpu_pods, namespaces_wanted, owners_wanted
from exporter.model.attribution import Attribution
from exporter.model.device import Device, DeviceTrouble, GpuProcess, MigMode, ProcessKind, ProcessUse
from exporter.model.holding import Holding, Holdings
from exporter.model.process import ProcessRecord, ProcessTable, ProcessTrouble
from exporter.model.reading import MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import (
    LookupFailure,
    NamespaceTable,
    NodeMeta,
    OwnerTable,
    Pod,
    PodPhase,
    PodStore,
)
from tests.builders import (
    NODE,
    a_device,
    a_mig,
    a_mig_device,
    a_namespace,
    a_pod,
    a_policy,
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


@st.composite
def gpus(draw: st.DrawFn, number: int) -> Device:
    migs = [
        a_mig(number=number * 10 + at, gi=at, ci=draw(st.integers(0, 1)), slices=draw(st.one_of(st.none(), st.integers(0, 4))))
        for at in range(draw(st.integers(0, 3)))
    ]
    base = a_mig_device(number=number, migs=migs) if draw(st.booleans()) else a_device(number=number)
    changes: dict[str, Any] = {
        "mig_mode": draw(st.sampled_from([base.mig_mode, base.mig_mode, MigMode.UNKNOWN, MigMode.DISABLED])),
        "mig_slices": draw(st.sampled_from([None, 4, 7])),
        "minor_number": draw(st.one_of(st.none(), st.integers(0, GPUS))),
        "trouble": draw(st.sampled_from([None, None, None, DeviceTrouble.LOST])),
        "utilization_ratio": draw(st.one_of(st.none(), st.just(0.0), RATIOS)),
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
        node_meta=draw(observed(labels.map(lambda found: NodeMeta(NODE, found)))),
        owners=draw(observed(st.just(owners))),
        namespaces=draw(observed(st.just(NamespaceTable({"team-red": a_namespace()})))),
    )


LENIENT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _join(snapshot: Snapshot) -> Attribution:
    return attribute(snapshot, a_policy())


def _devices(snapshot: Snapshot) -> tuple[Device, ...]:
    return () if snapshot.nvml.value is None else snapshot.nvml.value.devices


@LENIENT
@given(nodes())
def test_every_device_is_there_and_every_row_once(snapshot: Snapshot) -> None:
    """No device is lost to whoever holds it, and no row has two answers (O2, EXPO-05)."""
    attribution = _join(snapshot)
    assert {row.device.uuid for row in attribution.devices} == {device.uuid for device in _devices(snapshot)}
    keys = [(row.container, row.device, None if row.mig is None else row.mig.key) for row in attribution.containers]
    assert len(set(keys)) == len(keys)
    assert len({(pod.uid, pod.namespace, pod.pod) for pod in attribution.pods}) == len(attribution.pods)
    assert len(set(attribution.unresolved_pids)) == len(attribution.unresolved_pids)
    assert len(set(attribution.unresolved_allocations)) == len(attribution.unresolved_allocations)
    assert len(set(attribution.conflicts)) == len(attribution.conflicts)


@LENIENT
@given(nodes())
def test_shares_never_exceed_the_gpu(snapshot: Snapshot) -> None:
    """Whatever the sources claim, a GPU is given away once (O3)."""
    attribution = _join(snapshot)
    sums: dict[str, float] = defaultdict(float)
    for row in attribution.containers:
        share = 0.0 if row.share_ratio is None else row.share_ratio
        assert 0 <= share <= 1
        assert row.holds or row.share_ratio == 0
        assert not (row.holds and row.uses_unheld)
        sums[row.device] += share
    assert all(total <= 1 + 1e-9 for total in sums.values())
    for device in attribution.devices:
        assert device.allocated_ratio is None or abs(device.allocated_ratio - sums[device.device.uuid]) < 1e-9


@LENIENT
@given(nodes())
def test_parts_of_memory_never_exceed_the_whole(snapshot: Snapshot) -> None:
    """Attributed and unattributed memory fit into what the device has in use, and nothing is negative (O4, O5)."""
    attribution = _join(snapshot)
    for device in attribution.devices:
        rows = [row.memory_used_bytes for row in attribution.containers if row.device == device.device.uuid]
        parts = [size for size in (*rows, *device.unattributed_memory_bytes.values()) if size is not None]
        assert all(size >= 0 for size in parts)
        assert device.device.memory_used_bytes is None or sum(parts) <= device.device.memory_used_bytes


@LENIENT
@given(nodes())
def test_memory_is_accounted_for_whole_where_it_is_known(snapshot: Snapshot) -> None:
    """Where the list was read, the parts and the rest are all of it, but for what rounding takes."""
    attribution = _join(snapshot)
    for device in attribution.devices:
        used, processes = device.device.memory_used_bytes, device.device.processes
        if used is None or processes is None or not device.device.up:
            continue
        rows = [row.memory_used_bytes or 0 for row in attribution.containers if row.device == device.device.uuid]
        assert 0 <= used - sum(rows) - sum(device.unattributed_memory_bytes.values()) <= len(processes)


@LENIENT
@given(nodes())
def test_parts_of_activity_never_exceed_the_devices_own(snapshot: Snapshot) -> None:
    """Sharers together are never busier than their device (O4)."""
    attribution = _join(snapshot)
    for device in attribution.devices:
        parts = [row.utilization_ratio for row in attribution.containers if row.device == device.device.uuid]
        known = [part for part in parts if part is not None]
        whole = device.device.utilization_ratio
        assert not known or (whole is not None and device.device.up)
        assert whole is None or (sum(known) <= whole + 1e-9 and all(part >= 0 for part in known))


@LENIENT
@given(nodes(), st.randoms(use_true_random=False))
def test_order_of_the_sources_changes_nothing(snapshot: Snapshot, random: Any) -> None:
    """The same node in another order is the same node (SHARE-01)."""

    def shuffled(values: Any) -> Any:
        listed = list(values.items() if isinstance(values, dict) else values)
        random.shuffle(listed)
        return dict(listed) if isinstance(values, dict) else tuple(listed)

    def changed(source: Observed[Any], change: Any) -> Observed[Any]:
        return (
            source
            if source.usable is None
            else replace(source, usable=replace(source.usable, value=change(source.usable.value)))
        )

    def device(one: Device) -> Device:
        processes = None if one.processes is None else shuffled(one.processes)
        use = None if one.process_use is None else shuffled(one.process_use)
        return replace(one, processes=processes, process_use=use, mig_instances=shuffled(one.mig_instances))

    other = replace(
        snapshot,
        nvml=changed(snapshot.nvml, lambda nvml: replace(nvml, devices=shuffled(device(one) for one in nvml.devices))),
        pod_resources=changed(snapshot.pod_resources, lambda held: replace(held, holdings=shuffled(held.holdings))),
        pods=changed(
            snapshot.pods,
            lambda store: replace(store, pods=shuffled(store.pods), recently_deleted=shuffled(store.recently_deleted)),
        ),
        procfs=changed(snapshot.procfs, lambda table: replace(table, records=shuffled(table.records))),
    )
    first, second = _join(snapshot), _join(other)
    assert replace(first, devices=()) == replace(second, devices=())
    assert [_without_order(row) for row in first.devices] == [_without_order(row) for row in second.devices]


def _without_order(row: Any) -> Any:
    """The row without the device's own lists, which keep the order in which NVML gave them."""
    return replace(row, device=row.device.uuid)


@LENIENT
@given(nodes())
def test_everybody_who_holds_or_uses_has_a_pod_row(snapshot: Snapshot) -> None:
    """A container row's pod is among the pods, and what the second phase asks for covers it."""
    attribution = _join(snapshot)
    pods_of_rows = {(row.container.pod_uid, row.container.namespace, row.container.pod) for row in attribution.containers}
    assert pods_of_rows <= {(pod.uid, pod.namespace, pod.pod) for pod in attribution.pods}
    found = gpu_pods(snapshot.nvml.value, snapshot.pod_resources.value, snapshot.pods.value, snapshot.procfs.value)
    assert {pod.uid for pod in found} == {pod.uid for pod in attribution.pods if pod.uid}
    assert namespaces_wanted(found) == {pod.namespace for pod in found}
    assert {key.uid for key in owners_wanted(found)} <= {reference.uid for pod in found for reference in pod.owners}


@LENIENT
@given(nodes())
def test_no_label_is_empty_and_unknown_use_is_never_idle(snapshot: Snapshot) -> None:
    """Every owner has a workload and a team, and a row without a readable list has no count (O5)."""
    attribution = _join(snapshot)
    for row in attribution.containers:
        assert row.owner.workload
        assert row.owner.workload_type
        assert row.owner.team
    unread = {device.uuid for device in _devices(snapshot) if device.processes is None or not device.up}
    assert all(
        row.processes is None and row.memory_used_bytes is None for row in attribution.containers if row.device in unread
    )
