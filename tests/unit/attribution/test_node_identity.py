"""Well-known node labels of the big providers become the key to the bill."""

import pytest

from exporter.attribution.node_identity import node_identity
from exporter.model.node import Capacity
from exporter.model.workload import NodeMeta


@pytest.mark.parametrize(
    ("labels", "capacity"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, Capacity.SPOT),
        ({"karpenter.sh/capacity-type": "on-demand"}, Capacity.ON_DEMAND),
        ({"karpenter.sh/capacity-type": "reserved"}, Capacity.ON_DEMAND),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, Capacity.SPOT),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, Capacity.ON_DEMAND),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, Capacity.UNKNOWN),
        ({"cloud.google.com/gke-spot": "true"}, Capacity.SPOT),
        ({"cloud.google.com/gke-preemptible": "true"}, Capacity.SPOT),
        ({"cloud.google.com/gke-spot": "false"}, Capacity.UNKNOWN),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, Capacity.SPOT),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, Capacity.ON_DEMAND),
        ({}, Capacity.UNKNOWN),
        ({"karpenter.sh/capacity-type": "new-thing"}, Capacity.UNKNOWN),
    ],
)
def test_capacity_is_read_and_never_guessed(labels: dict[str, str], capacity: Capacity) -> None:
    """Spot and on-demand are said by a label; what no label says is unknown."""
    assert node_identity(NodeMeta("n", labels)).capacity is capacity


@pytest.mark.parametrize(
    "key",
    [
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "karpenter.sh/nodepool",
        "node_pool",
    ],
)
def test_node_pool_is_found_under_each_providers_key(key: str) -> None:
    """Each provider's word for a node pool is read."""
    assert node_identity(NodeMeta("n", {key: "h100"})).node_pool == "h100"


def test_other_labels_are_ignored() -> None:
    """A hundred labels, ever-changing ones among them, change nothing (EXPO-08)."""
    noise = {f"feature.node.kubernetes.io/x{number}": "1" for number in range(120)} | {"nvidia.com/gfd.timestamp": "1796025600"}
    wanted = {
        "node.kubernetes.io/instance-type": "a3",
        "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/zone": "z",
    }
    assert node_identity(NodeMeta("n", wanted | noise)) == node_identity(NodeMeta("n", wanted))
    assert node_identity(NodeMeta("n", wanted)).instance_type == "a3"
