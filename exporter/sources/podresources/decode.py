"""Bytes of the pod-resources API become holdings. Pure; whatever the kubelet names is passed on, in a fixed order.

Topology is left alone: NUMA node 0 is an empty message, and no topology at all is common; neither says anything of who
holds a device. The kubelet lists a device once for each of its NUMA nodes, and a DRA device once for each request.
"""

from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from exporter.model.holding import ClaimedDevice, Holding, Holdings
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources import podresources_v1alpha1_pb2 as v1alpha1

HoldingFields = tuple[str, str, str, str, str]
ClaimedFields = tuple[str, str, str, str, str, str, str, str, str]
"""Fields in the order of the value. A hundred thousand tuples sort in a blink, as many dataclasses do not, and some plugins
name one device a MiB."""


def decode_list(raw: bytes) -> Holdings:
    """From a v1.ListPodResourcesResponse.

    Raises:
        DecodeError: it is none.
    """
    answer = v1.ListPodResourcesResponse.FromString(raw)
    _refuse_strange(answer)
    return Holdings(
        holdings=_sorted_holdings(answer.pod_resources),
        claimed=tuple(ClaimedDevice(*each) for each in sorted(set(_claimed(answer.pod_resources)))),
        pods=frozenset((pod.namespace, pod.name) for pod in answer.pod_resources),
    )


def decode_v1alpha1_list(raw: bytes) -> Holdings:
    """From a v1alpha1.ListPodResourcesResponse, which knows device plugins alone.

    Raises:
        DecodeError: it is none.
    """
    answer = v1alpha1.ListPodResourcesResponse.FromString(raw)
    _refuse_strange(answer)
    return Holdings(
        holdings=_sorted_holdings(answer.pod_resources),
        pods=frozenset((pod.namespace, pod.name) for pod in answer.pod_resources),
    )


def decode_allocatable(raw: bytes) -> Mapping[str, frozenset[str]]:
    """Device ids by resource, from a v1.AllocatableResourcesResponse.

    Raises:
        DecodeError: it is none.
    """
    answer = v1.AllocatableResourcesResponse.FromString(raw)
    _refuse_strange(answer)
    ids: dict[str, set[str]] = {}
    for entry in answer.devices:
        ids.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: frozenset(ids[resource]) for resource in sorted(ids)}


def _refuse_strange(answer: Message) -> None:
    """Refuses bytes that happen to parse: a field of ours in another wire type is unknown to protobuf, and no error.

    Without this, some garbage reads as a node without pods. Fields that we do not know are a newer kubelet's.
    """
    unknown = UnknownFieldSet(answer)
    for number in {unknown[index].field_number for index in range(len(unknown))}:
        if number in answer.DESCRIPTOR.fields_by_number:
            raise DecodeError(f"field {number} has another type")


def _sorted_holdings(pods: "Iterable[v1.PodResources | v1alpha1.PodResources]") -> tuple[Holding, ...]:
    return tuple(Holding(*each) for each in sorted(set(_held(pods))))


def _held(pods: "Iterable[v1.PodResources | v1alpha1.PodResources]") -> Iterator[HoldingFields]:
    for pod in pods:
        namespace, name = pod.namespace, pod.name
        for container in pod.containers:
            container_name = container.name
            for entry in container.devices:
                resource = entry.resource_name
                for device_id in entry.device_ids:
                    yield namespace, name, container_name, resource, device_id


def _claimed(pods: Iterable[v1.PodResources]) -> Iterator[ClaimedFields]:
    for pod in pods:
        for container in pod.containers:
            for claim in container.dynamic_resources:
                head = pod.namespace, pod.name, container.name, claim.claim_namespace, claim.claim_name
                for device in claim.claim_resources:
                    yield *head, device.driver_name, device.pool_name, device.device_name, device.share_id
