"""Identities. A key that joins two sources carries its identity in time: never a bare index, name or PID."""

from dataclasses import dataclass
from typing import NewType

DeviceUuid = NewType("DeviceUuid", str)
"""UUID of a physical GPU as NVML prints it: ``GPU-`` and five groups of hex digits."""

MigUuid = NewType("MigUuid", str)
"""UUID of a MIG device: ``MIG-<uuid>``, or ``MIG-GPU-<uuid>/<gi>/<ci>`` on drivers before R470."""

PodUid = NewType("PodUid", str)
"""UID of a pod: ``8-4-4-4-12`` hex digits; of a static pod in cgroup paths: 32 hex digits (its configuration's hash)."""

ContainerId = NewType("ContainerId", str)
"""64 hex digits, without the runtime's scheme."""


@dataclass(frozen=True, slots=True, order=True)
class ProcessKey:
    """A process in time: PIDs are reused, (PID, start) is not."""

    pid: int
    start_ticks: int
    """Start after boot in clock ticks; field 22 of ``/proc/<pid>/stat``."""


@dataclass(frozen=True, slots=True, order=True)
class MigKey:
    """A MIG device on its physical GPU; the ids are reused after a change of the layout, so the UUID is part of it."""

    gpu_instance_id: int
    compute_instance_id: int
    uuid: MigUuid


@dataclass(frozen=True, slots=True, order=True)
class ContainerKey:
    """A container of one pod in time. ``container`` is empty where the pod is known and its container is not."""

    pod_uid: PodUid
    namespace: str
    pod: str
    container: str
