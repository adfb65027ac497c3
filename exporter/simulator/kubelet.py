"""The kubelet's pod-resources socket: a real gRPC server that answers from the world, or with recorded bytes."""

import asyncio
import random
import socket as sockets
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import grpc

from exporter.simulator.world import KubeletFault, SimContainer, SimPod, World
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources import podresources_v1alpha1_pb2 as v1alpha1

_V1: Final = v1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name
_V1ALPHA1: Final = v1alpha1.DESCRIPTOR.services_by_name["PodResourcesLister"].full_name

GARBAGE: Final = b"\xff" * 16
"""No message: its first tag never ends."""

_LISTED_KINDS: Final = frozenset({"main", "sidecar"})
_TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

Answer = Callable[[bytes, "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]


class KubeletSocket(grpc.GenericRpcHandler):
    """Serves List and GetAllocatableResources on a unix socket.

    Args:
        socket: where it listens; the folder is made.
        has_v1: version 1 is there (kubelet 1.20 and newer).
        has_v1alpha1: the older version is there as well.
        has_allocatable: version 1 has GetAllocatableResources (1.21 and newer).
    """

    def __init__(self, socket: Path, *, has_v1: bool = True, has_v1alpha1: bool = True, has_allocatable: bool = True) -> None:
        self._socket = socket
        self._world = World()
        self._server: grpc.aio.Server | None = None
        self.calls: Counter[str] = Counter()
        """Calls so far by full method name, refused and unknown ones included."""
        self._answers: dict[str, tuple[str, Answer]] = {}
        if has_v1:
            self._answers[f"/{_V1}/List"] = ("List", self._list)
        if has_v1 and has_allocatable:
            self._answers[f"/{_V1}/GetAllocatableResources"] = ("GetAllocatableResources", self._allocatable)
        if has_v1alpha1:
            self._answers[f"/{_V1ALPHA1}/List"] = ("List", self._list_v1alpha1)

    def show(self, world: World) -> None:
        """From the next call on."""
        self._world = world

    async def start(self) -> None:
        """Listens; a socket file that is in the way is removed, as the kubelet does."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
        server.add_generic_rpc_handlers((self,))
        server.add_insecure_port(f"unix:{quote(str(self._socket))}")
        await server.start()
        self._server = server

    async def stop(self, *, unlink: bool = True) -> None:
        """Drops all connections. Without `unlink` a dead socket file stays, as after a kubelet's end."""
        server, self._server = self._server, None
        if server is None:
            return
        await server.stop(0)
        self._socket.unlink(missing_ok=True)
        if not unlink:
            with sockets.socket(sockets.AF_UNIX) as dead:
                dead.bind(str(self._socket))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        """The method's handler, without (de)serialisers: bytes are served as they are. None: UNIMPLEMENTED."""
        method = handler_call_details.method
        self.calls[method] += 1
        if method not in self._answers:
            return None
        name, answer = self._answers[method]

        async def serve(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
            for fault in self._world.kubelet_faults:
                if fault.method in {"*", name} and await _fail(fault, context):
                    return GARBAGE
            return await answer(request, context)

        return grpc.unary_unary_rpc_method_handler(serve)

    async def _list(self, _request: bytes, _context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        if self._world.list_response is not None:
            return self._world.list_response
        return _list_answer(self._world).SerializeToString()

    async def _list_v1alpha1(self, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        answer = v1alpha1.ListPodResourcesResponse.FromString(await self._list(request, context))
        answer.DiscardUnknownFields()
        return answer.SerializeToString()

    async def _allocatable(self, _request: bytes, _context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        if self._world.allocatable_response is not None:
            return self._world.allocatable_response
        answer = v1.AllocatableResourcesResponse()
        for resource, ids in self._world.allocatable.items():
            for device_id in ids:
                answer.devices.append(_entry(resource, (device_id,), topology=True))
        return answer.SerializeToString()


async def _fail(fault: KubeletFault, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bool:
    """Does what the fault says; True if garbage is to be served."""
    await asyncio.sleep(fault.delay_seconds)
    if fault.code is not None:
        await context.abort(grpc.StatusCode[fault.code], fault.message)
    return fault.garbage


def _list_answer(world: World) -> v1.ListPodResourcesResponse:
    pods = [pod for pod in world.pods if pod.in_kubelet and (world.kubelet_lists_terminal or pod.phase not in _TERMINAL_PHASES)]
    # The kubelet walks a map: no two answers have the same order.
    random.shuffle(pods)
    answer = v1.ListPodResourcesResponse()
    for pod in pods:
        listed = answer.pod_resources.add(name=pod.name, namespace=pod.namespace)
        listed.containers.extend(_container(pod, each) for each in pod.containers if each.kind in _LISTED_KINDS)
    return answer


def _container(pod: SimPod, container: SimContainer) -> v1.ContainerResources:
    listed = v1.ContainerResources(name=container.name)
    listed.devices.extend(_entry(resource, ids, topology=container.topology) for resource, ids in container.devices)
    claims: dict[str, v1.DynamicResource] = {}
    for name, driver, pool, device in container.claims:
        claim = claims.setdefault(name, v1.DynamicResource(claim_name=name, claim_namespace=pod.namespace))
        claim.claim_resources.add(
            driver_name=driver,
            pool_name=pool,
            device_name=device,
            cdi_devices=[v1.CDIDevice(name=f"k8s.{driver}/claim={device}")],
        )
    listed.dynamic_resources.extend(claims.values())
    return listed


def _entry(resource: str, ids: tuple[str, ...], *, topology: bool) -> v1.ContainerDevices:
    nodes = v1.TopologyInfo(nodes=[v1.NUMANode(ID=0)]) if topology else None
    return v1.ContainerDevices(resource_name=resource, device_ids=ids, topology=nodes)
