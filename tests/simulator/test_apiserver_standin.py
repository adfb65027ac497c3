"""The API-server stand-in answers as the real one does, as far as the exporter asks."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from exporter.simulator.apiserver import ApiServer
from exporter.simulator.apiserver_objects import pod_document
from exporter.simulator.world import ApiFault, SimContainer, SimObject, SimPod, World

RECORDED = Path(__file__).parents[1] / "fixtures" / "kubernetes"
POD = SimPod(name="train-0", uid="u1", namespace="team-red", labels={"team": "red"})
WORLD = World(node="gpu-n1", pods=(POD,))
HERE = {"fieldSelector": "spec.nodeName=gpu-n1"}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    ready = ApiServer(bookmark_seconds=0.2)
    await ready.start()
    ready.show(WORLD)
    yield ready
    await ready.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


async def got(client: aiohttp.ClientSession, path: str, status: int = 200, **options: Any) -> dict[str, Any]:
    async with client.get(path, **options) as response:
        assert response.status == status
        document: dict[str, Any] = await response.json()
        return document


async def next_event(response: aiohttp.ClientResponse) -> tuple[str, dict[str, Any]]:
    event = json.loads(await asyncio.wait_for(response.content.readline(), 5.0))
    return event["type"], event["object"]


def shape(value: object, path: str = "") -> set[str]:
    """Paths of all keys, lists seen through."""
    if isinstance(value, dict):
        return {f"{path}/{key}" for key in value}.union(*(shape(child, f"{path}/{key}") for key, child in value.items()), set())
    if isinstance(value, list):
        return set().union(*(shape(child, path) for child in value)) if value else set()
    return set()


def test_pod_document_has_only_fields_that_a_real_one_has() -> None:
    """Every key of a made-up pod stands at the same place in a recorded one."""
    real = set[str]()
    for name in ("pods-mixed.json", "pods-mirror.json"):
        for item in json.loads((RECORDED / name).read_text(encoding="utf-8"))["items"]:
            real |= shape(item)
    made = SimPod(
        name="p",
        uid="u",
        annotations={"kubernetes.io/config.hash": "h"},
        owners=({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n", "controller": True},),
        labels={"app": "x"},
        containers=(
            SimContainer(id="c" * 64, limits={"nvidia.com/gpu": "1"}),
            SimContainer(name="warm", kind="init", id="d" * 64),
            SimContainer(name="side", kind="sidecar", id="e" * 64),
        ),
    )
    assert shape(pod_document(made, "n")) - real == set()


def test_containers_stand_where_the_real_api_has_them() -> None:
    """Sidecars among the init containers with restartPolicy Always, ephemeral ones in lists of their own, ids with a scheme."""
    kinds = ("main", "init", "sidecar", "ephemeral")
    containers = tuple(SimContainer(name=kind, kind=kind, id=kind[0] * 64) for kind in kinds)
    document = pod_document(replace(POD, containers=containers), "gpu-n1")
    assert [entry["name"] for entry in document["spec"]["initContainers"]] == ["init", "sidecar"]
    assert document["spec"]["initContainers"][1]["restartPolicy"] == "Always"
    assert [entry["name"] for entry in document["spec"]["ephemeralContainers"]] == ["ephemeral"]
    assert document["status"]["containerStatuses"][0]["containerID"] == "containerd://" + "m" * 64
    assert len(document["status"]["initContainerStatuses"]) == 2
    assert len(document["status"]["ephemeralContainerStatuses"]) == 1


async def test_list_honours_the_node_selector(client: aiohttp.ClientSession) -> None:
    """Pods of this node, none of another, and a selector that the real server does not know is refused."""
    here = await got(client, "/api/v1/pods", params=HERE)
    assert (here["kind"], [item["metadata"]["name"] for item in here["items"]]) == ("PodList", ["train-0"])
    assert int(here["metadata"]["resourceVersion"]) > 0
    assert (await got(client, "/api/v1/pods", params={"fieldSelector": "spec.nodeName=other"}))["items"] == []
    assert (await got(client, "/api/v1/pods", 400, params={"fieldSelector": "spec.color=red"}))["code"] == 400


async def test_pod_outside_the_api_is_not_shown(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Some pods only the kubelet knows."""
    server.show(replace(WORLD, pods=(replace(POD, in_api=False),)))
    assert (await got(client, "/api/v1/pods", params=HERE))["items"] == []


async def test_recorded_list_is_served_as_it_is(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Down to the last managed field, with its own resourceVersion."""
    recorded = json.loads((RECORDED / "pods-mixed.json").read_text(encoding="utf-8"))
    server.show(replace(WORLD, pod_list=recorded))
    assert await got(client, "/api/v1/pods", params=HERE) == recorded


async def test_watch_tells_the_differences_between_worlds(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """ADDED, MODIFIED and DELETED with growing versions, bookmarks in silence, and an end when the time is over."""
    version = (await got(client, "/api/v1/pods", params=HERE))["metadata"]["resourceVersion"]
    query = {**HERE, "watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
    async with client.get("/api/v1/pods", params=query) as response:
        other = SimPod(name="other", uid="u2")
        for world in (
            replace(WORLD, pods=(POD, other)),
            replace(WORLD, pods=(replace(POD, labels={"team": "blue"}), other)),
            replace(WORLD, pods=(other,)),
        ):
            server.show(world)
        events = [await next_event(response) for _ in range(4)]
        assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
        assert events[1][1]["metadata"]["labels"] == {"team": "blue"}
        assert events[0][1]["kind"] == "Pod"
        versions = [int(document["metadata"]["resourceVersion"]) for _, document in events]
        assert versions[:3] == sorted(set(versions[:3]))
        assert versions[3] == versions[2]
        assert await asyncio.wait_for(response.content.read(), 5.0) is not None
    assert server.open_watches == 0


async def test_watch_resumes_from_an_older_version(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """What happened since then comes first."""
    version = (await got(client, "/api/v1/pods", params=HERE))["metadata"]["resourceVersion"]
    server.show(replace(WORLD, pods=()))
    query = {**HERE, "watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
    async with client.get("/api/v1/pods", params=query) as response:
        assert (await next_event(response))[0] == "DELETED"


async def test_watch_of_another_node_gets_bookmarks_only(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Events go to the watchers of their node."""
    query = {"fieldSelector": "spec.nodeName=other", "watch": "1", "resourceVersion": "100", "timeoutSeconds": "1"}
    async with client.get("/api/v1/pods", params=query) as response:
        server.show(replace(WORLD, pods=()))
        lines = (await asyncio.wait_for(response.content.read(), 5.0)).splitlines()
    assert {json.loads(line)["type"] for line in lines} == {"BOOKMARK"}


async def test_expired_history_ends_open_watches_and_refuses_old_versions(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    """Both forms of 410: in the stream, and as a status; a new list's version is good again."""
    version = (await got(client, "/api/v1/pods", params=HERE))["metadata"]["resourceVersion"]
    query = {**HERE, "watch": "1", "resourceVersion": version}
    async with client.get("/api/v1/pods", params=query) as response:
        server.expire_watches()
        kind, document = await next_event(response)
        assert (kind, document["code"], document["reason"]) == ("ERROR", 410, "Expired")
        assert await asyncio.wait_for(response.content.read(), 5.0) == b""
    assert (await got(client, "/api/v1/pods", 410, params=query))["code"] == 410
    version = (await got(client, "/api/v1/pods", params=HERE))["metadata"]["resourceVersion"]
    async with client.get("/api/v1/pods", params={**query, "resourceVersion": version, "timeoutSeconds": "1"}) as response:
        assert response.status == 200


async def test_single_objects_come_whole_or_as_metadata(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Nodes, namespaces, pods and owners by their paths; PartialObjectMetadata for who asks for it."""
    job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j", "uid": "j1"}, "spec": {"parallelism": 1}}
    path = "/apis/batch/v1/namespaces/team-red/jobs/j"
    server.show(replace(WORLD, namespaces={"team-red": {"labels": {"team": "red"}}}, objects=(SimObject(path=path, body=job),)))
    assert await got(client, path) == job
    partial = await got(client, path, headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
    assert partial == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": job["metadata"]}
    assert (await got(client, "/api/v1/nodes/gpu-n1"))["kind"] == "Node"
    assert (await got(client, "/api/v1/namespaces/team-red"))["metadata"]["labels"] == {"team": "red"}
    assert (await got(client, "/api/v1/namespaces/team-red/pods/train-0"))["kind"] == "Pod"
    assert (await got(client, "/api/v1/namespaces/nowhere", 404))["reason"] == "NotFound"


async def test_discovery_lists_the_kinds_that_there_are(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Namespaced and cluster-scoped kinds with their subresources; a group without objects is not found."""
    objects = (
        SimObject(
            path="/apis/ray.io/v1/namespaces/a/rayjobs/r", body={"kind": "RayJob", "metadata": {"name": "r", "uid": "r"}}
        ),
        SimObject(path="/apis/ray.io/v1/raypools/p", body={"kind": "RayPool", "metadata": {"name": "p", "uid": "p"}}),
    )
    server.show(replace(WORLD, objects=objects))
    listed = await got(client, "/apis/ray.io/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "ray.io/v1")
    assert {(entry["name"], entry["kind"], entry["namespaced"]) for entry in listed["resources"]} == {
        ("rayjobs", "RayJob", True),
        ("rayjobs/status", "RayJob", True),
        ("raypools", "RayPool", False),
        ("raypools/status", "RayPool", False),
    }
    assert {"pods", "nodes"} <= {entry["name"] for entry in (await got(client, "/api/v1"))["resources"]}
    await got(client, "/apis/other.io/v1", 404)


async def test_faults_answer_by_path_prefix(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """A status, a delay, or both; other paths are unharmed."""
    server.show(
        replace(
            WORLD, api_faults=(ApiFault(path="/api/v1/nodes", status=403), ApiFault(path="/api/v1/pods", delay_seconds=0.1))
        )
    )
    assert (await got(client, "/api/v1/nodes/gpu-n1", 403))["reason"] == "Forbidden"
    before = asyncio.get_running_loop().time()
    await got(client, "/api/v1/pods", params=HERE)
    assert asyncio.get_running_loop().time() - before >= 0.1


async def test_token_is_asked_for_if_there_is_one(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Without it, or with another one, 401."""
    server.token = "right"
    await got(client, "/api/v1/nodes/gpu-n1", 401)
    await got(client, "/api/v1/nodes/gpu-n1", 401, headers={"Authorization": "Bearer wrong"})
    await got(client, "/api/v1/nodes/gpu-n1", headers={"Authorization": "bearer right"})


async def test_requests_are_logged_with_their_query(server: ApiServer, client: aiohttp.ClientSession) -> None:
    """Tests count calls by this log."""
    await got(client, "/api/v1/pods", params=HERE, headers={"User-Agent": "me"})
    (request,) = server.requests
    assert (request.method, request.path, request.query, request.user_agent) == ("GET", "/api/v1/pods", HERE, "me")
    assert (request.is_list, request.is_watch) == (True, False)


async def test_stopped_server_cuts_its_watches_and_starts_again_on_its_port(
    server: ApiServer, client: aiohttp.ClientSession
) -> None:
    """As an API server that is restarted under its clients."""
    url = server.url
    async with client.get("/api/v1/pods", params={**HERE, "watch": "1", "resourceVersion": "100"}) as response:
        await next_event(response)
        await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(response.content.read(), 5.0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await got(client, "/api/v1/nodes/gpu-n1")
    assert await server.start(int(url.rpartition(":")[2])) == url
    assert (await got(client, "/api/v1/nodes/gpu-n1"))["kind"] == "Node"
