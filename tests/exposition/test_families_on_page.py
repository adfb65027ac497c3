"""What stands on the metrics page, read back by strict parsers."""

import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from exporter import catalogue
from exporter.catalogue import FamilyType
from exporter.exposition.rendering import Format
from exporter.model.attribution import Allocation, DeviceRow, HoldingSource, Sharing, State
from exporter.model.device import DeviceTrouble
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.ledger import Histogram, Ledger
from exporter.model.published import SourceHealth
from tests.exposition.examples import (
    GIB,
    a_busy_node,
    a_device,
    a_device_row,
    a_ledger,
    a_mig,
    a_pod,
    a_published,
    a_row,
    an_owner,
    ledger_of,
    uuid,
)
from tests.exposition.pages import names, of, page, samples

FORMS = (Format.TEXT, Format.OPENMETRICS)
SUFFIXES = ("_bucket", "_count", "_sum")


@pytest.mark.parametrize("form", FORMS)
def test_full_page_is_strictly_valid_in_both_formats(form: Format) -> None:
    """Both formats parse strictly and no family, series or label name stands twice (EXPO-05, EXPO-10)."""
    assert len(samples(page(a_busy_node(), form), form)) > 150


def test_both_formats_hold_the_same_samples() -> None:
    """OpenMetrics and text differ in spelling only."""
    text, openmetrics = (
        {
            (each.name, tuple(sorted(each.labels.items())), each.value)
            for each in samples(page(a_busy_node(), form), form)
            if not each.name.startswith("process_")
        }
        for form in FORMS
    )
    assert text == openmetrics


def test_full_page_passes_promtool_without_a_warning() -> None:
    """Prometheus' own linter has nothing to say about the page."""
    result = subprocess.run(["promtool", "check", "metrics"], input=page(a_busy_node()), capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_full_page_shows_every_family_of_the_catalogue_and_no_other() -> None:
    """The names on the page are those of the documented list, and process_* (EXPO-12)."""
    histograms = {family.name for family in catalogue.ALL if family.type is FamilyType.HISTOGRAM}
    plain = {family.name for family in catalogue.ALL} - histograms
    expected = plain | {name + suffix for name in histograms for suffix in SUFFIXES}
    found = names(a_busy_node())
    assert {name for name in found if not name.startswith("process_")} == expected
    assert "process_resident_memory_bytes" in found


def test_every_sample_has_documented_labels_only() -> None:
    """No sample has a label that its family does not name, and none has more than 20 (EXPO-08)."""
    families = {family.name: family for family in catalogue.ALL}
    for sample in samples(page(a_busy_node())):
        stem = next(
            (sample.name.removesuffix(end) for end in SUFFIXES if sample.name.removesuffix(end) in families), sample.name
        )
        if stem in families:
            assert set(sample.labels) - {"le"} <= set(families[stem].labels)
            assert len(sample.labels) <= 20


def test_closed_labels_keep_to_their_values() -> None:
    """A label with a closed set of values never has another one."""
    families = {family.name: family for family in catalogue.ALL}
    checked = 0
    for sample in samples(page(a_busy_node())):
        for label, values in families[sample.name].values.items() if sample.name in families else ():
            if label in sample.labels:
                assert sample.labels[label] in values
                checked += 1
    assert checked > 50


def test_device_series_keep_their_labels_when_pods_come_and_go() -> None:
    """Device families carry no word of who holds the device (STALE-03)."""
    device_names = {family.name for family in catalogue.ALL if family.group is catalogue.Group.DEVICE}

    def series(*, held: bool) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        rows = (a_row(),) if held else ()
        published = a_published(devices=(DeviceRow(a_device(), Sharing.NONE, float(held)),), containers=rows, ledger=a_ledger())
        return {
            (each.name, tuple(sorted(each.labels.items()))) for each in samples(page(published)) if each.name in device_names
        }

    assert series(held=True) == series(held=False)


def test_lost_device_stays_with_up_zero_and_no_measurement() -> None:
    """A device that does not answer keeps its identity and its error counter, and loses its figures."""
    published = a_busy_node()
    lost = {each.name for each in samples(page(published)) if each.labels.get("gpu") == "7" and "namespace" not in each.labels}
    counters = {name for name in lost if name.endswith("_total")}
    assert lost - counters == {"gpu_info", "gpu_up", "gpu_allocated_ratio"}
    assert counters >= {"gpu_energy_joules_total", "gpu_exporter_device_errors_total", "gpu_provisioned_seconds_total"}
    assert [each.value for each in of(published, "gpu_up") if each.labels["gpu"] == "7"] == [0]


def test_device_that_never_told_its_uuid_is_counted_as_down() -> None:
    """A GPU that the driver counts and cannot name shows as gpu_up 0 without a uuid."""
    published = a_published(unidentified=((3, DeviceTrouble.LOST),))
    assert [(each.labels, each.value) for each in of(published, "gpu_up") if "uuid" not in each.labels] == [
        ({"node": "gpu-n1", "gpu": "3"}, 0)
    ]


def test_missing_driver_ends_all_device_series() -> None:
    """While NVML is missing no device family has a sample, counters included, and the reason shows."""
    published = a_published(
        devices=None, ledger=a_ledger(), sources={"nvml": SourceHealth(up=False, reason="driver_not_loaded")}
    )
    groups = {catalogue.Group.DEVICE, catalogue.Group.MIG}
    assert not names(published) & {family.name for family in catalogue.ALL if family.group in groups}
    assert of(published, "gpu_exporter_source_missing")[0].labels == {"source": "nvml", "reason": "driver_not_loaded"}
    assert of(published, "gpu_exporter_source_up")[0].value == 0


def test_starting_page_has_the_build_and_never_is_empty() -> None:
    """Before the first cycle the page says what is running and nothing that was not measured."""
    found = {sample.name for sample in samples(page(None)) if not sample.name.startswith("process_")}
    assert found == {"gpu_exporter_build_info"}


def test_holder_and_mere_user_show_in_different_families() -> None:
    """Allocation families name holders only, unallocated use those that hold nothing; use is shown for both."""
    published = a_published(containers=(a_row(), a_row(pod="debug", allocations=(), uses_unheld=True, share_ratio=0.0)))
    assert [each.labels["pod"] for each in of(published, "gpu_container_allocation_ratio")] == ["train-0"]
    assert [each.labels["pod"] for each in of(published, "gpu_container_allocation_info")] == ["train-0"]
    assert [each.labels["pod"] for each in of(published, "gpu_container_unallocated_use")] == ["debug"]
    assert {each.labels["pod"] for each in of(published, "gpu_container_memory_used_bytes")} == {"train-0", "debug"}


def test_replicas_of_one_device_show_as_one_share_and_several_ids() -> None:
    """Each distinct allocation is one info sample, a repeated one is not repeated (EXPO-05)."""
    replicas = [Allocation("nvidia.com/gpu", HoldingSource.POD_RESOURCES, f"{uuid(0)}::{number}") for number in (0, 1, 1)]
    published = a_published(containers=(a_row(allocations=tuple(replicas), share_ratio=0.5),))
    assert [each.value for each in of(published, "gpu_container_allocation_ratio")] == [0.5]
    assert [each.labels["device_id"][-3:] for each in of(published, "gpu_container_allocation_info")] == ["::0", "::1"]


def test_two_pods_of_one_name_are_added_up() -> None:
    """A pod and its successor of the same name become one series whose value is their sum, never two series (EXPO-05)."""
    successor = replace(a_row(), container=ContainerKey(PodUid("uid-2"), "team-red", "train-0", "main"), memory_used_bytes=GIB)
    published = a_published(containers=(a_row(), successor), pods=(a_pod(), a_pod(uid=PodUid("uid-2"))))
    assert [each.value for each in of(published, "gpu_container_memory_used_bytes")] == [21 * GIB]
    assert [each.value for each in of(published, "gpu_container_allocation_ratio")] == [2.0]
    assert len(of(published, "gpu_pod_owner_info")) == 2


def test_sum_with_an_unknown_part_is_unknown() -> None:
    """If one of two equally named containers could not be measured their sum is absent, not the other's value."""
    successor = replace(a_row(), container=ContainerKey(PodUid("uid-2"), "team-red", "train-0", "main"), memory_used_bytes=None)
    assert of(a_published(containers=(successor, a_row())), "gpu_container_memory_used_bytes") == []


def test_mig_labels_stand_on_mig_rows_only() -> None:
    """A label that does not apply is absent, and both kinds of rows share one family."""
    instance = a_mig(7)
    published = a_published(containers=(a_row(), a_row(pod="mig", mig=instance, share_ratio=1 / 7)))
    plain, on_mig = of(published, "gpu_container_allocation_ratio")
    assert not {"gpu_instance_id", "compute_instance_id", "mig_profile"} & set(plain.labels)
    assert (on_mig.labels["gpu_instance_id"], on_mig.labels["compute_instance_id"]) == ("7", "0")
    assert on_mig.labels["mig_profile"] == "1g.10gb"
    assert on_mig.labels["uuid"] == uuid(0)


def test_holder_without_processes_shows_an_explicit_zero() -> None:
    """Zero processes, zero memory and zero utilisation that were measured are published as 0."""
    row = a_row(processes=0, memory_used_bytes=0, utilization_ratio=0.0, state=State.IDLE_EMPTY)
    published = a_published(containers=(row,))
    for name in ("gpu_container_processes", "gpu_container_memory_used_bytes", "gpu_container_utilization_ratio"):
        assert [each.value for each in of(published, name)] == [0]


def test_extra_owner_labels_stand_on_owned_families() -> None:
    """Configured extra labels are on container and pod families, and on no other."""
    owner = an_owner(extra=(("project", "apollo"), ("not_configured", "x")))
    rows = (a_row(owner=owner, state=State.ACTIVE), a_row(pod="guest", owner=owner, allocations=()))
    devices = (a_device_row(a_device(), Sharing.NONE, 1.0),)
    ledger = ledger_of(devices, rows, a_ledger())
    published = a_published(devices=devices, containers=rows, pods=(a_pod(owner=owner),), ledger=ledger)
    named = {each.name for each in samples(page(published, extra_labels=("project",))) if "project" in each.labels}
    with_project = {re.sub("_ratio_(bucket|count|sum)$", "_ratio", name) for name in named}
    owned = {family.name for family in catalogue.ALL if family.owned}
    assert not [each for each in samples(page(published, extra_labels=("project",))) if "not_configured" in each.labels]
    assert with_project == owned - {"gpu_container_unallocated_use"}
    assert of(published, "gpu_pod_owner_info", extra_labels=("project",))[0].labels["project"] == "apollo"


def test_extra_label_never_replaces_a_label_of_the_contract() -> None:
    """An owner label that is named like a label of the contract does not change it (EXPO-01)."""
    published = a_published(containers=(a_row(owner=an_owner(extra=(("pod", "evil"), ("team", "evil")))),))
    labels = of(published, "gpu_container_allocation_ratio", extra_labels=("pod", "team"))[0].labels
    assert (labels["pod"], labels["team"]) == ("train-0", "red")


def test_histograms_are_cumulative_and_complete() -> None:
    """Buckets grow to +Inf, which equals the count; the sum is the ledger's."""
    published = a_published(ledger=Ledger(cycle_duration=Histogram((0.1, 1.0), (2, 3, 1), 4.5)))
    buckets = of(published, "gpu_exporter_cycle_duration_seconds_bucket")
    assert [(each.labels["le"], each.value) for each in buckets] == [("0.1", 2), ("1.0", 5), ("+Inf", 6)]
    assert [each.value for each in of(published, "gpu_exporter_cycle_duration_seconds_count")] == [6]
    assert [each.value for each in of(published, "gpu_exporter_cycle_duration_seconds_sum")] == [4.5]


def test_process_on_two_devices_is_one_unresolved_pid() -> None:
    """Unresolved processes are counted, not their devices."""
    assert [(each.labels, each.value) for each in of(a_busy_node(), "gpu_exporter_unresolved_pids")] == [
        ({"reason": "not_in_pod"}, 1)
    ]


def test_kept_source_is_down_and_names_its_reason() -> None:
    """A source whose last good answer is still used shows as not answering, with the reason (RPC-10)."""
    published = a_published(sources={"pod_resources": SourceHealth(up=False, reason="timeout", kept_since_seconds=12.0)})
    assert of(published, "gpu_exporter_source_up")[0].value == 0
    assert of(published, "gpu_exporter_source_missing")[0].labels["reason"] == "timeout"


def test_node_identity_comes_from_the_node_object() -> None:
    """The key to the bill carries provider, type, place, pool and capacity; the creation time is a series."""
    labels = of(a_busy_node(), "gpu_node_info")[0].labels
    assert labels == {
        "node": "gpu-n1",
        "provider_id": "aws:///eu-west-1b/i-0abc",
        "instance_type": "p5.48xlarge",
        "region": "eu-west-1",
        "zone": "eu-west-1b",
        "node_pool": "h100",
        "capacity": "spot",
    }


@pytest.mark.parametrize("changes", [{"compute_slices": None}, {"profile": ""}])
def test_mig_instance_of_unknown_size_has_no_share(changes: dict[str, Any]) -> None:
    """What the driver does not tell of an instance is absent, and the instance itself is not."""
    instance = a_mig(7, **changes)
    published = a_published(devices=(DeviceRow(a_device(mig_instances=(instance,)), Sharing.MIG, 0.0),))
    assert of(published, "gpu_mig_share_ratio") == []
    assert len(of(published, "gpu_mig_info")) == 1
    assert ("mig_profile" in of(published, "gpu_mig_info")[0].labels) == bool(instance.profile)
