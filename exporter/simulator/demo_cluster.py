"""The demo's cluster, which does not change: pods, their owners, namespaces, and the processes' places in cgroups."""

import hashlib
from collections.abc import Mapping
from typing import Any

from exporter.simulator.world import SimContainer, SimObject, SimPod, SimTask

WHOLE = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
REPLICAS = 4


def uuid(kind: str, name: str) -> str:
    """A UUID that is the same in every run."""
    digits = hashlib.sha256(f"{kind}/{name}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def gpu_of(index: int) -> str:
    """UUID of the GPU with this index."""
    return f"GPU-{uuid('gpu', str(index))}"


def mig_of(gi: int) -> str:
    """UUID of the MIG device in this GPU instance."""
    return f"MIG-{uuid('mig', str(gi))}"


def container_id(pod: str) -> str:
    """Id of the pod's only container."""
    return hashlib.sha256(pod.encode()).hexdigest()


def _owner(api_version: str, kind: str, name: str) -> Mapping[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uuid(kind, name), "controller": True}


def _pod(
    namespace: str,
    name: str,
    resource: str,
    device_ids: tuple[str, ...],
    labels: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
) -> SimPod:
    container = SimContainer(
        id=container_id(name),
        limits={resource: str(len(device_ids))},
        devices=tuple((resource, (device_id,)) for device_id in device_ids),
    )
    return SimPod(
        namespace=namespace,
        name=name,
        uid=uuid("pod", name),
        labels=labels or {},
        owners=(owner,) if owner else (),
        containers=(container,),
    )


PODS = (
    _pod(
        "research",
        "llm-pretrain-worker-0",
        WHOLE,
        (gpu_of(0), gpu_of(1)),
        {
            "team": "foundation",
            "training.kubeflow.org/job-name": "llm-pretrain",
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
        },
        _owner("kubeflow.org/v1", "PyTorchJob", "llm-pretrain"),
    ),
    _pod(
        "research",
        "vision-notebook-0",
        WHOLE,
        (gpu_of(2),),
        {"team": "vision", "notebook-name": "vision-notebook"},
        _owner("apps/v1", "StatefulSet", "vision-notebook"),
    ),
    _pod(
        "search",
        "chat-api-7d9bd958f5-x2x8k",
        SHARED,
        (f"{gpu_of(3)}::0",),
        {"app": "chat-api", "pod-template-hash": "7d9bd958f5"},
        _owner("apps/v1", "ReplicaSet", "chat-api-7d9bd958f5"),
    ),
    _pod(
        "ads",
        "embed-api-5c6f7d8b9c-q8wzn",
        SHARED,
        (f"{gpu_of(3)}::1",),
        {"app": "embed-api", "pod-template-hash": "5c6f7d8b9c"},
        _owner("apps/v1", "ReplicaSet", "embed-api-5c6f7d8b9c"),
    ),
    _pod(
        "research",
        "safety-eval-8s4tq",
        "nvidia.com/mig-2g.20gb",
        (mig_of(3),),
        {"team": "safety", "cost-center": "4720", "job-name": "safety-eval"},
        _owner("batch/v1", "Job", "safety-eval"),
    ),
    _pod(
        "ads",
        "nightly-embed-29012345-7v6kd",
        "nvidia.com/mig-1g.10gb",
        (mig_of(9),),
        {"job-name": "nightly-embed-29012345"},
        _owner("batch/v1", "Job", "nightly-embed-29012345"),
    ),
    _pod("sandbox", "try-something", WHOLE, (gpu_of(5),)),
)

NAMESPACES: Mapping[str, Mapping[str, Any]] = {
    "research": {"labels": {"cost-center": "4711"}},
    "search": {"labels": {"team": "search", "cost-center": "4802"}},
    "ads": {"labels": {"team": "ads"}, "annotations": {"finops.org/cost-center": "CC 4903/R&D"}},
    "sandbox": {},
}

NODE_LABELS = {
    "node.kubernetes.io/instance-type": "gpu.8x-h100",
    "topology.kubernetes.io/region": "eu-sim-1",
    "topology.kubernetes.io/zone": "eu-sim-1a",
    "karpenter.sh/capacity-type": "on-demand",
    "karpenter.sh/nodepool": "h100",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}

ALLOCATABLE: Mapping[str, tuple[str, ...]] = {
    WHOLE: tuple(gpu_of(index) for index in (0, 1, 2, 5, 6, 7)),
    SHARED: tuple(f"{gpu_of(3)}::{replica}" for replica in range(REPLICAS)),
    "nvidia.com/mig-2g.20gb": (mig_of(3),),
    "nvidia.com/mig-1g.10gb": (mig_of(9), mig_of(10)),
}


def _object(path: str, owner: Mapping[str, Any], namespace: str, above: Mapping[str, Any] | None = None) -> SimObject:
    metadata = {"name": owner["name"], "namespace": namespace, "uid": owner["uid"]}
    if above:
        metadata["ownerReferences"] = [above]
    return SimObject(path=path, body={"apiVersion": owner["apiVersion"], "kind": owner["kind"], "metadata": metadata})


def _replica_set(namespace: str, name: str, deployment: str) -> tuple[SimObject, ...]:
    above = _owner("apps/v1", "Deployment", deployment)
    base = f"/apis/apps/v1/namespaces/{namespace}"
    return (
        _object(f"{base}/replicasets/{name}", _owner("apps/v1", "ReplicaSet", name), namespace, above),
        _object(f"{base}/deployments/{deployment}", above, namespace),
    )


_NOTEBOOK = _owner("kubeflow.org/v1", "Notebook", "vision-notebook")
_NIGHTLY = _owner("batch/v1", "CronJob", "nightly-embed")
OBJECTS = (
    *_replica_set("search", "chat-api-7d9bd958f5", "chat-api"),
    *_replica_set("ads", "embed-api-5c6f7d8b9c", "embed-api"),
    _object(
        "/apis/batch/v1/namespaces/ads/jobs/nightly-embed-29012345",
        _owner("batch/v1", "Job", "nightly-embed-29012345"),
        "ads",
        _NIGHTLY,
    ),
    _object("/apis/batch/v1/namespaces/ads/cronjobs/nightly-embed", _NIGHTLY, "ads"),
    _object("/apis/batch/v1/namespaces/research/jobs/safety-eval", _owner("batch/v1", "Job", "safety-eval"), "research"),
    _object(
        "/apis/apps/v1/namespaces/research/statefulsets/vision-notebook",
        _owner("apps/v1", "StatefulSet", "vision-notebook"),
        "research",
        _NOTEBOOK,
    ),
    _object("/apis/kubeflow.org/v1/namespaces/research/notebooks/vision-notebook", _NOTEBOOK, "research"),
    _object(
        "/apis/kubeflow.org/v1/namespaces/research/pytorchjobs/llm-pretrain",
        _owner("kubeflow.org/v1", "PyTorchJob", "llm-pretrain"),
        "research",
    ),
)

_PIDS = {
    "llm-pretrain-worker-0": (41000, 41001),
    "vision-notebook-0": (42000,),
    "chat-api-7d9bd958f5-x2x8k": (43000,),
    "embed-api-5c6f7d8b9c-q8wzn": (43100,),
    "safety-eval-8s4tq": (44000,),
    "nightly-embed-29012345-7v6kd": (44100,),
    "try-something": (45000,),
}


def tasks() -> tuple[SimTask, ...]:
    """The GPU processes as /proc shows them; the last one is the host's own."""
    in_pods = tuple(
        SimTask(pid=pid, cgroup=(_cgroup(name),), start_ticks=90_000 + pid) for name, pids in _PIDS.items() for pid in pids
    )
    return (*in_pods, SimTask(pid=47000, cgroup=("0::/system.slice/ollama.service",), comm="ollama", start_ticks=88_000))


def _cgroup(pod: str) -> str:
    uid = uuid("pod", pod).replace("-", "_")
    pod_slice = f"kubepods-burstable-pod{uid}.slice"
    return f"0::/kubepods.slice/kubepods-burstable.slice/{pod_slice}/cri-containerd-{container_id(pod)}.scope"
