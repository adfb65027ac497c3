"""Codes become words for the page for people. Every closed enum has a word for each of its values."""

from collections.abc import Mapping

from exporter.model.attribution import ConflictKind, Sharing, State, UnattributedReason, UnresolvedReason
from exporter.model.device import DeviceTrouble
from exporter.model.policy import OwnerSource, WorkloadClass
from exporter.model.reading import MissingReason

STATES: Mapping[str, str] = {
    State.ACTIVE: "active",
    State.IDLE_HELD: "idle, holds memory",
    State.IDLE_EMPTY: "idle, no process",
    State.UNKNOWN: "unknown",
}

SHARING: Mapping[str, str] = {
    Sharing.NONE: "not shared",
    Sharing.TIME_SLICING: "time-slicing",
    Sharing.MPS: "MPS",
    Sharing.MIG: "MIG",
    Sharing.UNKNOWN: "sharing unknown",
}

CLASSES: Mapping[str, str] = {
    WorkloadClass.TRAINING: "training",
    WorkloadClass.BATCH_INFERENCE: "batch inference",
    WorkloadClass.SERVING: "serving",
    WorkloadClass.NOTEBOOK: "notebook",
    WorkloadClass.EVALUATION: "evaluation",
    WorkloadClass.OTHER: "other",
}

TROUBLES: Mapping[str, str] = {
    DeviceTrouble.LOST: "The driver has lost it: often a hardware or PCIe fault.",
    DeviceTrouble.RESET_REQUIRED: "It needs a reset.",
    DeviceTrouble.TIMEOUT: "A call to the driver does not return.",
    DeviceTrouble.NO_PERMISSION: "The driver refuses access to it.",
    DeviceTrouble.UNKNOWN: "The driver answers with an error.",
}

UNATTRIBUTED: Mapping[str, str] = {
    UnattributedReason.HOST_PROCESS: "a process of the host, in no pod",
    UnattributedReason.NO_PROCESS: "no process accounts for it",
    UnattributedReason.DEAD_PROCESS: "a process that is gone",
    UnattributedReason.UNRESOLVED_PID: "a process whose pod could not be told",
    UnattributedReason.NOT_IN_POD: "a container that belongs to no pod",
    UnattributedReason.MPS_SERVER: "the MPS server, for clients that the driver does not tell apart",
    UnattributedReason.NOT_MEASURED: "not measured",
    UnattributedReason.UNALLOCATED: "while nobody held it",
}

UNRESOLVED: Mapping[str, str] = {
    UnresolvedReason.UNKNOWN_DEVICE: "the driver does not know this device",
    UnresolvedReason.UNKNOWN_FORMAT: "the id is in no known form",
    UnresolvedReason.PASSTHROUGH: "given to a virtual machine, out of the driver's sight",
    UnresolvedReason.NVML_MISSING: "the driver did not answer",
    UnresolvedReason.CLAIM_UNRESOLVED: "its resource slice is not known",
}

CONFLICTS: Mapping[str, str] = {
    ConflictKind.TWO_HOLDERS: "two exclusive holders",
    ConflictKind.SOURCE_DISAGREEMENT: "sources disagree",
    ConflictKind.ALLOCATED_HERE_RUNNING_THERE: "holds one device, runs on another",
}

OWNER_SOURCES: Mapping[str, str] = {
    OwnerSource.POD_LABEL: "pod label",
    OwnerSource.POD_ANNOTATION: "pod annotation",
    OwnerSource.WORKLOAD_LABEL: "workload label",
    OwnerSource.WORKLOAD_ANNOTATION: "workload annotation",
    OwnerSource.NAMESPACE_LABEL: "namespace label",
    OwnerSource.NAMESPACE_ANNOTATION: "namespace annotation",
    OwnerSource.QUEUE: "queue",
}

REASONS: Mapping[str, str] = {
    MissingReason.STARTING: "It has not answered yet.",
    MissingReason.DISABLED: "It is switched off in the configuration.",
    MissingReason.SOCKET_MISSING: "There is no socket at the configured path: is it mounted into the pod?",
    MissingReason.CONNECTION_REFUSED: "The connection was refused or closed: is the other side restarting?",
    MissingReason.UNREACHABLE: "It could not be reached: no route, no name, or no matching certificate.",
    MissingReason.PERMISSION_DENIED: "Access was denied: check the pod's user, mounts and security context.",
    MissingReason.UNAUTHORIZED: "The token was not accepted.",
    MissingReason.FORBIDDEN: "The service account lacks a role.",
    MissingReason.NOT_FOUND: "The object or the API does not exist there.",
    MissingReason.UNIMPLEMENTED: "The other side does not know this call: an older version, or a feature that is off.",
    MissingReason.TIMEOUT: "It did not answer in time.",
    MissingReason.RATE_LIMITED: "It answers that there are too many requests.",
    MissingReason.TOO_LARGE: "Its answer is larger than the limit.",
    MissingReason.MALFORMED: "Its answer could not be understood.",
    MissingReason.SERVER_ERROR: "It answers with an error of its own.",
    MissingReason.NO_CONFIGURATION: "Neither a service account nor a kubeconfig was found.",
    MissingReason.LIBRARY_MISSING: "The NVIDIA library was not found in the container.",
    MissingReason.DRIVER_NOT_LOADED: "The NVIDIA kernel module is not loaded.",
    MissingReason.VERSION_MISMATCH: "Library and kernel module have different versions: a new container is needed.",
    MissingReason.DRIVER_ERROR: "The driver answers with an error.",
    MissingReason.HOST_PID_MISSING: "The host's processes are not visible: hostPID is not set.",
    MissingReason.PRIVATE_CGROUP_VIEW: "The host's cgroup paths are not visible: processes of the host cannot be told apart.",
    MissingReason.RELEASED: "The driver was let go on request.",
    MissingReason.FOLDER_MISSING: "The folder of the state file is not there: is it mounted into the pod?",
    MissingReason.NOT_A_FILE: "At the path of the state file is no regular file.",
    MissingReason.READ_FAILED: "The state file could not be read: counting began at 0, and the file is kept aside.",
    MissingReason.WRITE_FAILED: "The state file cannot be written.",
    MissingReason.DISK_FULL: "There is no space for the state file.",
    MissingReason.REFUSED_FOREIGN: "The state file is another node's: counting began at 0, and the file is kept aside.",
    MissingReason.REFUSED_NEWER: "The state file is of a newer version: counting began at 0, and the file is kept aside.",
    MissingReason.REFUSED_DAMAGED: "The state file is damaged: counting began at 0, and the file is kept aside.",
}

LOSSES: Mapping[str, str] = {
    "nvml": "No GPU can be seen: there are no figures until it answers, and none are made up.",
    "pod_resources": "Nobody can say which container was given which GPU: allocation is unknown, which is not free.",
    "procfs": "Processes on GPUs cannot be traced to pods: use of shared GPUs stays unattributed.",
    "processes": "The driver's process lists are missing: memory and processes of containers are unknown.",
    "pods": "Pods are known by name only: workloads, teams and cost centres are unknown.",
    "owners": "Workloads may be named after the object just above the pod; teams read from workloads are unknown.",
    "namespaces": "Teams and cost centres that stand on namespaces are unknown.",
    "node_meta": "Instance type, region and capacity of this node are unknown.",
    "resource_slices": "GPUs given out by resource claims cannot be resolved.",
    "dcgm": "The local dcgm-exporter's figures are missing.",
    "prices": "Costs are not counted.",
    "state_file": "A restart begins counting at 0.",
}
"""By source: what is lost while it is missing."""
