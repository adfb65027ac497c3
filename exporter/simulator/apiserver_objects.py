"""The simulated world as the documents of the Kubernetes API. Shapes follow those recorded from a real API server (1.36)."""

from collections.abc import Iterator, Mapping
from typing import Any

from exporter.simulator.world import SimContainer, SimPod, World

Document = dict[str, Any]

_STATUS_KEYS = {"main": "containerStatuses", "ephemeral": "ephemeralContainerStatuses"}
_SPEC_KEYS = {"main": "containers", "ephemeral": "ephemeralContainers"}
_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 429: "TooManyRequests"}


def status_document(code: int, message: str) -> Document:
    """What the API server answers in place of the object asked for."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, "InternalError"),
        "code": code,
    }


def metadata_only(document: Mapping[str, Any]) -> Document:
    """The document as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


def pod_documents(world: World) -> dict[str, Document]:
    """Pods by UID, as items of a list have them: without kind and apiVersion."""
    if world.pod_list is not None:
        return {item["metadata"]["uid"]: item for item in world.pod_list["items"] or ()}
    return {pod.uid: pod_document(pod, world.node) for pod in world.pods if pod.in_api}


def pod_document(pod: SimPod, node: str) -> Document:
    """One pod; empty fields are left out, as the real one leaves them out."""
    metadata: Document = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": pod.start_time or "2026-11-30T08:00:00Z",
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
        "ownerReferences": [dict(owner) for owner in pod.owners],
    }
    spec: Document = {"nodeName": node, "restartPolicy": "Always", "priorityClassName": pod.priority_class}
    status: Document = {"phase": pod.phase, "startTime": pod.start_time}
    for container in pod.containers:
        spec.setdefault(_SPEC_KEYS.get(container.kind, "initContainers"), []).append(_container(container))
        key = _STATUS_KEYS.get(container.kind, "initContainerStatuses")
        status.setdefault(key, []).append(_container_status(container, pod))
    return {"metadata": _filled(metadata), "spec": _filled(spec), "status": _filled(status)}


def _filled(fields: Document) -> Document:
    return {key: value for key, value in fields.items() if value}


def _container(container: SimContainer) -> Document:
    limits = dict(container.limits)
    document: Document = {"name": container.name, "image": "registry.example/image:1", "resources": {}}
    if limits:
        document["resources"] = {"limits": limits, "requests": limits}
    if container.kind == "sidecar":
        document["restartPolicy"] = "Always"
    return document


def _container_status(container: SimContainer, pod: SimPod) -> Document:
    document: Document = {"name": container.name, "ready": False, "restartCount": 0, "lastState": {}, "image": "image:1"}
    if not container.id:
        return document | {"state": {"waiting": {"reason": "ContainerCreating"}}, "imageID": ""}
    written = f"containerd://{container.id}"
    if pod.phase in {"Succeeded", "Failed"} or container.kind == "init":
        state: Document = {"terminated": {"exitCode": 0, "containerID": written}}
    else:
        state = {"running": {"startedAt": pod.start_time}}
    return document | {"ready": "running" in state, "state": state, "containerID": written}


def single_objects(world: World) -> dict[str, Document]:
    """Everything that can be read by its own path."""
    found: dict[str, Document] = {f"/api/v1/nodes/{world.node}": _node(world)}
    for name, metadata in world.namespaces.items():
        found[f"/api/v1/namespaces/{name}"] = {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "uid": f"namespace-{name}", **metadata},
            "status": {"phase": "Active"},
        }
    for document in pod_documents(world).values():
        place = f"/api/v1/namespaces/{document['metadata']['namespace']}/pods/{document['metadata']['name']}"
        found[place] = {"kind": "Pod", "apiVersion": "v1", **document}
    for thing in world.objects:
        # A body may be the whole object or its metadata alone.
        found[thing.path] = dict(thing.body) if "metadata" in thing.body else {"metadata": dict(thing.body)}
    return found


def _node(world: World) -> Document:
    spec: Document = {"providerID": world.node_provider_id}
    if world.node_unschedulable:
        spec["unschedulable"] = True
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": world.node,
            "uid": f"node-{world.node}",
            "labels": dict(world.node_labels),
            "creationTimestamp": world.node_created,
        },
        "spec": spec,
        "status": {"capacity": {"cpu": "128", "memory": "2113372516Ki", "pods": "110", **world.node_capacity}},
    }


def discovery_documents(world: World) -> dict[str, Document]:
    """APIResourceList by path, derived from the objects there are; subresources stand beside their resources."""
    lists: dict[str, dict[str, Document]] = {}
    for path, document in single_objects(world).items():
        kind = document.get("kind")
        base, _, rest = path.partition("/namespaces/")
        parts = rest.split("/")
        namespaced = len(parts) > 1
        if not namespaced:
            base, plural = path.rsplit("/", 2)[:2]
        else:
            plural = parts[1]
        if kind:
            lists.setdefault(base, {}).update({entry["name"]: entry for entry in _entries(plural, kind, namespaced=namespaced)})
    return {
        base: {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": base.removeprefix("/apis/").removeprefix("/api/"),
            "resources": list(entries.values()),
        }
        for base, entries in lists.items()
    }


def _entries(plural: str, kind: str, *, namespaced: bool) -> Iterator[Document]:
    yield {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ["get", "list", "watch"],
    }
    yield {"name": f"{plural}/status", "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]}
