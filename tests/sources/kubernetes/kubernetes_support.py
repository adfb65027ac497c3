"""What the tests of the Kubernetes source share: a clock, a patient condition, worlds and their parts."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.model.workload import OwnerKey, Pod, PodStore
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import SimObject, SimPod, World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.pods import Pods

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kubernetes"
NODE = "gpu-n1"
PATIENCE_SECONDS = 10.0

T = TypeVar("T")


class Clock:
    """Stands still until it is moved on."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Monotonic seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition on real sockets."""
    ends_at = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < ends_at, f"not within {PATIENCE_SECONDS} s: {what}"
        await asyncio.sleep(0.01)


def fresh(reading: Reading[T]) -> T:
    """The value of a reading that has to be fresh."""
    assert isinstance(reading, Fresh), reading
    return reading.value


def reason(reading: Reading[Any]) -> MissingReason | None:
    """Why a reading is missing; None if it is not."""
    return reading.reason if isinstance(reading, Missing) else None


@contextlib.asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[Connection]:
    """A connection that is closed in the end."""
    connection = Connection(api_server=url, **{"request_timeout_seconds": 5.0, **settings})
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def reflecting(connection: Connection, **settings: Any) -> AsyncIterator[Pods]:
    """Pods with their task running, impatient."""
    defaults: dict[str, Any] = {
        "node": NODE,
        "annotation_keys": frozenset({"note"}),
        "watch_timeout_seconds": 300.0,
        "first_retry_seconds": 0.05,
        "longest_retry_seconds": 0.2,
    }
    pods = Pods(connection, **{**defaults, **settings})
    task = asyncio.create_task(pods.run())
    try:
        yield pods
        assert not task.done(), "the task ended by itself"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def names(pods: Pods) -> set[str]:
    """Names of the pods known now; empty while there is no answer."""
    reading = pods.read()
    return {pod.name for pod in reading.value.pods.values()} if isinstance(reading, Fresh) else set()


def store(pods: Pods) -> PodStore:
    """What is known now."""
    return fresh(pods.read())


def pod_named(pods: Pods, name: str) -> Pod:
    """The pod of that name."""
    return next(pod for pod in store(pods).pods.values() if pod.name == name)


def a_world(*pods: SimPod, **fields: Any) -> World:
    """A world of these pods."""
    return World(node=NODE, pods=pods, **fields)


def a_pod(name: str, **fields: Any) -> SimPod:
    """A pod whose UID follows from its name."""
    return SimPod(**{"name": name, "uid": f"uid-{name}", **fields})


def a_document(**fields: Any) -> dict[str, Any]:
    """A minimal Pod object; `metadata`, `spec` and `status` are laid over it."""
    metadata = {"name": "p", "namespace": "team-red", "uid": "u1", **fields.pop("metadata", {})}
    return {"metadata": metadata, "spec": fields.pop("spec", {}), "status": fields.pop("status", {}), **fields}


def recorded(name: str) -> dict[str, Any]:
    """A recorded answer."""
    answer: dict[str, Any] = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    return answer


def an_owner(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """An entry of ownerReferences; the UID follows from kind and name."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": f"{kind}-{name}".lower(),
        "controller": True,
        **fields,
    }


def a_key(api_version: str, kind: str, name: str, **fields: str) -> OwnerKey:
    """What is asked for to reach that owner."""
    found = {"namespace": "team-red", "uid": f"{kind}-{name}".lower(), **fields}
    return OwnerKey(api_version=api_version, kind=kind, name=name, namespace=found["namespace"], uid=found["uid"])


def an_object(
    owner: Mapping[str, Any], plural: str, above: Mapping[str, Any] | None = None, *, namespaced: bool = True, **metadata: Any
) -> SimObject:
    """The object that an entry of ownerReferences refers to."""
    version = owner["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"{base}/namespaces/team-red/{plural}" if namespaced else f"{base}/{plural}"
    body = {
        "apiVersion": version,
        "kind": owner["kind"],
        "metadata": {
            "name": owner["name"],
            "uid": owner["uid"],
            **({"namespace": "team-red"} if namespaced else {}),
            **({"ownerReferences": [above]} if above else {}),
            **metadata,
        },
    }
    return SimObject(path=f"{place}/{owner['name']}", body=body)


def asked(api: ApiServer, start: str) -> list[str]:
    """Paths asked for that start so."""
    return [request.path for request in api.requests if request.path.startswith(start)]
