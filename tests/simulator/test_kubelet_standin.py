"""The simulated kubelet answers as a real one does: what it lists, what it leaves out, and how it fails."""

import socket as sockets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from exporter.simulator.kubelet import GARBAGE, KubeletSocket
from exporter.simulator.world import KubeletFault, SimContainer, SimPod, World
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources import podresources_v1alpha1_pb2 as v1alpha1

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
OLD_LIST = "/v1alpha1.PodResourcesLister/List"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pod-resources" / "kubelet.sock"


@pytest.fixture
async def kubelet(path: Path) -> AsyncIterator[KubeletSocket]:
    """A kubelet without pods."""
    kubelet = KubeletSocket(path)
    await kubelet.start()
    yield kubelet
    await kubelet.stop()


async def _call(path: Path, method: str = LIST, deadline_seconds: float = 10.0) -> bytes:
    options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
        ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return await ask(b"", timeout=deadline_seconds)


async def _listed(path: Path) -> list[v1.PodResources]:
    return list(v1.ListPodResourcesResponse.FromString(await _call(path)).pod_resources)


async def _status(path: Path, method: str = LIST, deadline_seconds: float = 10.0) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await _call(path, method, deadline_seconds)
    return raised.value.code()


def _connect_error(path: Path) -> type[OSError]:
    with sockets.socket(sockets.AF_UNIX) as client, pytest.raises((FileNotFoundError, ConnectionRefusedError)) as raised:
        client.connect(str(path))
    return type(raised.value)


def _pod(name: str = "p", *containers: SimContainer, phase: str = "Running", in_kubelet: bool = True) -> SimPod:
    return SimPod(name=name, uid=name, phase=phase, in_kubelet=in_kubelet, containers=containers or (SimContainer(),))


async def test_list_names_devices_by_container(kubelet: KubeletSocket, path: Path) -> None:
    """Each pair of resource and ids is an entry, on NUMA node 0 as an empty message or without topology."""
    first = SimContainer(name="a", devices=(("nvidia.com/gpu", ("g0",)), ("nvidia.com/gpu", ("g1",))))
    kubelet.show(World(pods=(_pod("p", first, SimContainer(name="b", devices=(("x/y", ("1", "2")),), topology=False)),)))
    (pod,) = await _listed(path)
    assert (pod.name, pod.namespace) == ("p", "default")
    assert [[(entry.resource_name, [*entry.device_ids]) for entry in each.devices] for each in pod.containers] == [
        [("nvidia.com/gpu", ["g0"]), ("nvidia.com/gpu", ["g1"])],
        [("x/y", ["1", "2"])],
    ]
    assert [entry.HasField("topology") for each in pod.containers for entry in each.devices] == [True, True, False]
    assert pod.containers[0].devices[0].topology.SerializeToString() == b"\x0a\x00"


async def test_list_names_claims(kubelet: KubeletSocket, path: Path) -> None:
    """DRA devices stand under their claim, in the pod's namespace, and under no device."""
    claims = (
        ("claim-a", "gpu.nvidia.com", "n1", "gpu-0"),
        ("claim-a", "gpu.nvidia.com", "n1", "gpu-1"),
        ("claim-b", "d", "p", "x"),
    )
    kubelet.show(World(pods=(_pod("p", SimContainer(claims=claims)),)))
    ((container,),) = [pod.containers for pod in await _listed(path)]
    assert not container.devices
    assert [
        (claim.claim_namespace, claim.claim_name, device.driver_name, device.pool_name, device.device_name)
        for claim in container.dynamic_resources
        for device in claim.claim_resources
    ] == [("default", *claim) for claim in claims]


async def test_init_and_ephemeral_containers_are_never_listed(kubelet: KubeletSocket, path: Path) -> None:
    """Sidecars are listed; the pod of an init container is, without it."""
    kinds = ("init", "sidecar", "main", "ephemeral")
    kubelet.show(World(pods=(_pod("p", *(SimContainer(name=kind, kind=kind) for kind in kinds)),)))
    (pod,) = await _listed(path)
    assert {each.name for each in pod.containers} == {"sidecar", "main"}


async def test_pods_that_have_ended_or_are_elsewhere_are_not_listed(kubelet: KubeletSocket, path: Path) -> None:
    """Terminal pods are listed by older kubelets alone, and pods that the kubelet does not have never are."""
    pods = (_pod("run"), _pod("pend", phase="Pending"), _pod("done", phase="Succeeded"), _pod("bad", phase="Failed"))
    world = World(pods=(*pods, _pod("api", in_kubelet=False)))
    kubelet.show(world)
    assert {pod.name for pod in await _listed(path)} == {"run", "pend"}
    kubelet.show(replace(world, kubelet_lists_terminal=True))
    assert {pod.name for pod in await _listed(path)} == {"run", "pend", "done", "bad"}


async def test_order_of_pods_is_random(kubelet: KubeletSocket, path: Path) -> None:
    """Of sixty pods no two of five answers have the same order."""
    kubelet.show(World(pods=tuple(_pod(f"p{n}") for n in range(60))))
    orders = {tuple(pod.name for pod in await _listed(path)) for _ in range(5)}
    assert len(orders) == 5
    assert len({frozenset(order) for order in orders}) == 1


async def test_allocatable_has_an_entry_for_each_device(kubelet: KubeletSocket, path: Path) -> None:
    """Resource names come again for each device."""
    kubelet.show(World(allocatable={"nvidia.com/gpu": ("g0", "g1"), "x/y": ("1",)}))
    answer = v1.AllocatableResourcesResponse.FromString(await _call(path, ALLOCATABLE))
    assert [(entry.resource_name, [*entry.device_ids]) for entry in answer.devices] == [
        ("nvidia.com/gpu", ["g0"]),
        ("nvidia.com/gpu", ["g1"]),
        ("x/y", ["1"]),
    ]


async def test_recorded_bytes_are_served_as_they_are(kubelet: KubeletSocket, path: Path) -> None:
    """Bytes that no protobuf library would write reach the client unchanged."""
    kubelet.show(World(list_response=b"\x0a\x03abc\xff", allocatable_response=b""))
    assert await _call(path) == b"\x0a\x03abc\xff"
    assert await _call(path, ALLOCATABLE) == b""


async def test_older_version_has_no_claims(kubelet: KubeletSocket, path: Path) -> None:
    """v1alpha1 names device plugins' devices, and nothing that came later."""
    devices = (("nvidia.com/gpu", ("g0",)),)
    kubelet.show(World(pods=(_pod("p", SimContainer(devices=devices, claims=(("c", "d", "p", "x"),))),)))
    raw = await _call(path, OLD_LIST)
    (pod,) = v1alpha1.ListPodResourcesResponse.FromString(raw).pod_resources
    assert pod.containers[0].devices[0].device_ids == ["g0"]
    (newer,) = v1.ListPodResourcesResponse.FromString(raw).pod_resources
    assert not newer.containers[0].dynamic_resources


@pytest.mark.parametrize(
    ("versions", "known"),
    [
        ({}, {LIST, ALLOCATABLE, OLD_LIST}),
        ({"has_v1": False}, {OLD_LIST}),
        ({"has_allocatable": False}, {LIST, OLD_LIST}),
        ({"has_v1alpha1": False}, {LIST, ALLOCATABLE}),
        ({"has_v1": False, "has_v1alpha1": False}, set[str]()),
    ],
)
async def test_kubelet_of_any_age_knows_its_methods_alone(versions: dict[str, bool], known: set[str], path: Path) -> None:
    """What a kubelet does not have is UNIMPLEMENTED, and counted among the calls."""
    kubelet = KubeletSocket(path, **versions)
    await kubelet.start()
    for method in (LIST, ALLOCATABLE, OLD_LIST):
        if method in known:
            assert await _call(path, method) == b""
        else:
            assert await _status(path, method) is grpc.StatusCode.UNIMPLEMENTED
    await kubelet.stop()
    assert kubelet.calls == {LIST: 1, ALLOCATABLE: 1, OLD_LIST: 1}


async def test_faults_strike_their_method(kubelet: KubeletSocket, path: Path) -> None:
    """A fault without a method strikes all, one with a method only that one; a code, a delay and garbage are served."""
    kubelet.show(World(kubelet_faults=(KubeletFault(code="RESOURCE_EXHAUSTED", message="rejected by rate limit"),)))
    assert await _status(path) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await _status(path, ALLOCATABLE) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await _status(path, OLD_LIST) is grpc.StatusCode.RESOURCE_EXHAUSTED
    kubelet.show(World(kubelet_faults=(KubeletFault(method="List", garbage=True),)))
    assert await _call(path) == GARBAGE
    assert await _call(path, ALLOCATABLE) == b""
    kubelet.show(World(kubelet_faults=(KubeletFault(method="GetAllocatableResources", delay_seconds=60),)))
    assert await _status(path, ALLOCATABLE, deadline_seconds=0.2) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await _call(path) == b""


async def test_socket_goes_and_comes_with_the_kubelet(kubelet: KubeletSocket, path: Path) -> None:
    """Stopped, the file is gone or refuses; started again, over whatever lies there, it answers."""
    assert await _call(path) == b""
    await kubelet.stop()
    assert _connect_error(path) is FileNotFoundError
    await kubelet.start()
    await kubelet.stop(unlink=False)
    assert _connect_error(path) is ConnectionRefusedError
    await kubelet.start()
    assert await _call(path) == b""
    await kubelet.stop()
    await kubelet.stop()
