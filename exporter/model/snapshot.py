"""All readings of one cycle, frozen: what attribution works on."""

from dataclasses import dataclass

from exporter.model.device import NvmlState
from exporter.model.holding import Holdings
from exporter.model.process import ProcessTable
from exporter.model.reading import Observed
from exporter.model.workload import NamespaceTable, NodeMeta, OwnerTable, PodStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One instant of the node, as far as each source could say."""

    node: str
    """Name of this node in Kubernetes."""
    taken_at: float
    """Monotonic seconds."""
    timestamp_seconds: float
    """Unix time of the same instant."""
    nvml: Observed[NvmlState]
    pod_resources: Observed[Holdings]
    pods: Observed[PodStore]
    node_meta: Observed[NodeMeta]
    procfs: Observed[ProcessTable]
    owners: Observed[OwnerTable]
    namespaces: Observed[NamespaceTable]
    pod_generation: int = 0
    """Which state of the pod source this is; the kubelet is asked again when it has moved on."""
