"""Well-known node labels become what the node is at its provider. Pure; only named keys are read, the rest is ignored."""

from collections.abc import Mapping

from exporter.model.node import Capacity, NodeIdentity
from exporter.model.workload import NodeMeta

# https://kubernetes.io/docs/reference/labels-annotations-taints/
_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_REGION = "topology.kubernetes.io/region"
_ZONE = "topology.kubernetes.io/zone"
_NODE_POOLS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node_pool",
)
_CAPACITY_KEYS = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "kubernetes.azure.com/scalesetpriority")
_SPOT_FLAGS = ("cloud.google.com/gke-spot", "cloud.google.com/gke-preemptible")
_SPOT = frozenset({"spot"})
# Karpenter's "reserved" is an on-demand capacity reservation; Azure's "regular" is its word for on-demand.
_ON_DEMAND = frozenset({"on-demand", "on_demand", "reserved", "regular"})


def node_identity(node: NodeMeta) -> NodeIdentity:
    """What the node's labels and its provider id say."""
    return NodeIdentity(
        provider_id=node.provider_id,
        instance_type=node.labels.get(_INSTANCE_TYPE, ""),
        region=node.labels.get(_REGION, ""),
        zone=node.labels.get(_ZONE, ""),
        node_pool=next((node.labels[key] for key in _NODE_POOLS if node.labels.get(key)), ""),
        capacity=_capacity(node.labels),
    )


def _capacity(labels: Mapping[str, str]) -> Capacity:
    if any(labels.get(flag) == "true" for flag in _SPOT_FLAGS):
        return Capacity.SPOT
    for key in _CAPACITY_KEYS:
        said = labels.get(key, "").lower()
        if said in _SPOT:
            return Capacity.SPOT
        if said in _ON_DEMAND:
            return Capacity.ON_DEMAND
    return Capacity.UNKNOWN
