"""How each source did: up, degraded, missing with a kept answer, missing for good."""

from dataclasses import replace

from exporter.accounting.health import source_health
from exporter.model.device import Device, NvmlState
from exporter.model.ids import DeviceUuid
from exporter.model.process import ProcessTable
from exporter.model.reading import Fresh, Missing, MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import NamespaceTable, PodStore

OFF = Missing(MissingReason.DISABLED, 0.0)
QUIET = Snapshot(
    node="n",
    taken_at=100.0,
    timestamp_seconds=1.0,
    nvml=Observed(None, OFF),
    pod_resources=Observed(None, OFF),
    pods=Observed(None, OFF),
    node_meta=Observed(None, OFF),
    procfs=Observed(None, OFF),
    owners=Observed(None, OFF),
    namespaces=Observed(None, OFF),
)


def test_source_that_is_switched_off_is_not_listed() -> None:
    """Off by choice is no fault; the process lists are NVML's, which cannot be switched off."""
    assert set(source_health(QUIET)) == {"processes"}


def test_missing_source_shows_its_reason_and_the_age_of_what_is_kept() -> None:
    """A kept answer is still a missing source."""
    failed = Missing(MissingReason.FORBIDDEN, 99.0, "pods")
    health = source_health(replace(QUIET, pods=Observed(Fresh(PodStore({}), 70.0), failed)))
    assert not health["pods"].up
    assert health["pods"].reason == "forbidden"
    assert health["pods"].kept_since_seconds == 30.0


def test_private_cgroup_view_is_up_with_a_hint() -> None:
    """Pods other than our own still resolve, so the source is up, and the operator is told (PID-06)."""
    table = ProcessTable({}, {}, private_cgroup_view=True)
    health = source_health(replace(QUIET, procfs=Observed(Fresh(table, 100.0), None)))
    assert health["procfs"].up
    assert health["procfs"].reason == "private_cgroup_view"


def test_foreign_pid_namespace_is_down() -> None:
    """Without the host's PIDs nothing can be said of processes (PID-07)."""
    table = ProcessTable({}, {}, host_pid_missing=True)
    health = source_health(replace(QUIET, procfs=Observed(Fresh(table, 100.0), None)))
    assert not health["procfs"].up
    assert health["procfs"].reason == "host_pid_missing"


def test_one_unreadable_process_list_takes_the_processes_source_down_and_nvml_not() -> None:
    """A failed list is no empty list, and no failure of everything (NVML-17)."""
    devices = (
        Device(uuid=DeviceUuid("GPU-0"), index=0, processes=None),
        Device(uuid=DeviceUuid("GPU-1"), index=1, processes=()),
    )
    health = source_health(replace(QUIET, nvml=Observed(Fresh(NvmlState("575", devices), 100.0), None)))
    assert health["nvml"].up
    assert not health["processes"].up
    assert "GPU 0" in health["processes"].detail


def test_refused_namespace_look_ups_show_as_forbidden() -> None:
    """A missing role is seen, not swallowed (OWN-09)."""
    table = NamespaceTable({}, trouble=MissingReason.FORBIDDEN)
    health = source_health(replace(QUIET, namespaces=Observed(Fresh(table, 100.0), None)))
    assert not health["namespaces"].up
    assert health["namespaces"].reason == "forbidden"
