"""What holds on every node, however broken: conservation, completeness, uniqueness, independence of order."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.join import attribute
from exporter.attribution.wanted import gpu_pods, namespaces_wanted, owners_wanted
from exporter.model.attribution import Attribution
from exporter.model.device import Device, MigMode
from exporter.model.reading import Observed
from exporter.model.snapshot import Snapshot
from tests.builders import a_policy
from tests.random_nodes import LENIENT, nodes


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
        assert all(part >= 0 for part in known)
        assert not known or device.device.up
        if device.device.mig_mode is not MigMode.ENABLED:
            assert not known or (device.utilization_ratio is not None and sum(known) <= device.utilization_ratio + 1e-9)


@LENIENT
@given(nodes())
def test_what_a_device_did_is_somebodys_or_has_a_reason(snapshot: Snapshot) -> None:
    """Measured device use = what rows did, by the size of their place, + what is nobody's."""
    attribution = _join(snapshot)
    for device in attribution.devices:
        if device.utilization_ratio is None:
            assert not device.unattributed_ratios
            continue
        rows = [row for row in attribution.containers if row.device == device.device.uuid]
        attributed = sum((row.utilization_ratio or 0.0) * (row.place_ratio or 0.0) for row in rows)
        assert abs(attributed + sum(device.unattributed_ratios.values()) - device.utilization_ratio) < 1e-9
        assert all(part > 0 for part in device.unattributed_ratios.values())


@LENIENT
@given(nodes())
def test_every_part_of_a_gpu_is_held_or_free_or_unknown(snapshot: Snapshot) -> None:
    """Shares, unallocated parts and what no source can say add up to one GPU."""
    attribution = _join(snapshot)
    for device in attribution.devices:
        shares = sum(row.share_ratio or 0.0 for row in attribution.containers if row.device == device.device.uuid)
        parts = [*device.unallocated_ratios.values(), device.allocation_unknown_ratio]
        assert abs(shares + sum(parts) - 1.0) < 1e-9
        assert all(0 <= part <= 1 for part in parts)
        assert (device.allocation_unknown_ratio == 0) or device.allocated_ratio is None


@LENIENT
@given(nodes())
def test_activity_of_a_row_says_what_its_ratio_says(snapshot: Snapshot) -> None:
    """A figure and its course are one: the mean of the one is the other, and neither is there without a measurement."""
    attribution = _join(snapshot)
    for row in attribution.containers:
        assert row.activity is None or row.utilization_ratio is not None
        if row.activity is not None and row.activity.utilization_ratio is not None:
            assert row.utilization_ratio is not None
            assert abs(row.activity.utilization_ratio - row.utilization_ratio) < 1e-6


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
