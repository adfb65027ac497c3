"""Bytes of the pod-resources API, recorded and made by hand, become holdings."""

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from exporter.model.holding import ClaimedDevice, Holding, Holdings
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources.decode import decode_allocatable, decode_list, decode_v1alpha1_list

RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "recorded"
G0 = "GPU-0a0a0a0a-1111-4222-8333-000000000000"
G1 = "GPU-0a0a0a0a-1111-4222-8333-000000000001"


def _recorded(folder: str) -> Holdings:
    return decode_list((RECORDED / folder / "List.raw.pb").read_bytes())


def _field(number: int, payload: bytes | str) -> bytes:
    """A length-delimited field below 128 bytes, made without the generated classes."""
    content = payload.encode() if isinstance(payload, str) else payload
    return bytes([number << 3 | 2, len(content)]) + content


def _list_of(*devices: bytes) -> bytes:
    container = _field(1, "main") + b"".join(_field(2, device) for device in devices)
    return _large_field(1, _field(1, "train-0") + _field(2, "team-red") + _large_field(3, container))


def _large_field(number: int, payload: bytes) -> bytes:
    low, high = len(payload) & 0x7F, len(payload) >> 7
    return bytes([number << 3 | 2, low | 0x80, high]) + payload


def _held(device_id: str) -> Holding:
    return Holding("team-red", "train-0", "main", "nvidia.com/gpu", device_id)


@pytest.mark.parametrize(
    ("folder", "pods", "holdings", "claimed"),
    [
        ("api-mixed", 9, 8, 0),
        ("api-dra", 14, 8, 6),
        ("api-timeslice-nvidia.com-gpu", 3, 4, 0),
        ("api-migsingle-nvidia.com-gpu", 2, 3, 0),
        ("api-mirror-pod", 1, 1, 0),
        ("api-mixed-useactivepods-false", 10, 8, 0),
        ("standalone-systemd-driver", 12, 11, 0),
    ],
)
def test_recorded_list_is_decoded_whole(folder: str, pods: int, holdings: int, claimed: int) -> None:
    """A real kubelet's answer loses no pod, no device and no claim."""
    answer = _recorded(folder)
    assert (len(answer.pods), len(answer.holdings), len(answer.claimed)) == (pods, holdings, claimed)


def test_recorded_mixed_node_names_every_holder() -> None:
    """Whole, shared and MIG devices are named by container; a plain init container's device is not, and its pod is."""
    answer = _recorded("api-mixed")
    gpu, mig = "GPU-12345678-1234-1234-1234-12345678000", "MIG-5f4a2b1c-0000-5aaa-9bbb-00000000000"
    assert answer.holdings == (
        Holding("team-a", "init-both", "main", "nvidia.com/mig-1g.10gb", f"{mig}2"),
        Holding("team-a", "mig-0", "main", "nvidia.com/mig-1g.10gb", f"{mig}0"),
        Holding("team-a", "whole-gpu-7cd7d7dd59-9bw82", "main", "nvidia.com/gpu", f"{gpu}0"),
        Holding("team-b", "init-sidecar", "gpuside", "nvidia.com/gpu.shared", f"{gpu}4::2"),
        Holding("team-b", "multi", "migger", "nvidia.com/mig-1g.10gb", f"{mig}1"),
        Holding("team-b", "multi", "trainer", "nvidia.com/gpu", f"{gpu}1"),
        Holding("team-b", "shared-7d9bd958f5-bldpp", "main", "nvidia.com/gpu.shared", f"{gpu}4::0"),
        Holding("team-b", "shared-7d9bd958f5-qbptq", "main", "nvidia.com/gpu.shared", f"{gpu}4::1"),
    )
    assert {("default", "plain"), ("team-a", "init-gpu")} <= answer.pods


def test_recorded_claims_name_their_devices() -> None:
    """A DRA device is named by claim, driver, pool and device, once for each container that shares the claim."""
    shared = [each for each in _recorded("api-dra").claimed if each.claim == "shared-gpu"]
    assert shared == [
        ClaimedDevice("team-a", f"dra-share-{n}", "main", "team-a", "shared-gpu", "gpu.nvidia.com", "tbnode", "gpu-0")
        for n in (1, 2)
    ]


def test_two_replicas_of_one_gpu_are_two_holdings() -> None:
    """A pod that holds two replicas of one GPU holds both (POD-01)."""
    held = [each.device_id for each in _recorded("api-timeslice-nvidia.com-gpu").holdings if each.pod == "ts-two"]
    assert held == [f"GPU-12345678-1234-1234-1234-123456780000::{n}" for n in (2, 3)]


def test_recorded_allocatable_is_decoded_whole() -> None:
    """Allocatable ids stand by resource, replicas and all."""
    allocatable = decode_allocatable((RECORDED / "api-mixed" / "GetAllocatableResources.pb").read_bytes())
    assert {resource: len(ids) for resource, ids in allocatable.items()} == {
        "nvidia.com/gpu": 5,
        "nvidia.com/gpu.shared": 8,
        "nvidia.com/mig-1g.10gb": 4,
    }


def test_no_device_plugin_means_nothing_allocatable() -> None:
    """An empty answer is an answer: nothing can be given out, which is not the same as not knowing."""
    assert decode_allocatable(b"") == {}


def test_empty_list_means_no_pods() -> None:
    """A kubelet that has just started says OK and names nobody."""
    assert decode_list(b"") == Holdings()


def test_order_of_the_answer_does_not_matter() -> None:
    """The kubelet's order is random, and ours is not."""
    answer = v1.ListPodResourcesResponse.FromString((RECORDED / "api-dra" / "List.raw.pb").read_bytes())
    turned = v1.ListPodResourcesResponse(pod_resources=list(reversed(answer.pod_resources)))
    assert turned.pod_resources[0] != answer.pod_resources[0]
    assert decode_list(turned.SerializeToString()) == _recorded("api-dra")


@pytest.mark.parametrize(
    "topology",
    [b"", _field(3, b""), _field(3, _field(1, b"")), _field(3, _field(1, b"") + _field(1, b"\x08\x01"))],
    ids=["no topology", "topology without nodes", "node 0 as an empty message", "nodes 0 and 1"],
)
def test_topology_drops_no_device(topology: bytes) -> None:
    """NUMA node 0 arrives as an empty message, and topology may be absent: the device is held all the same (POD-07)."""
    raw = _list_of(_field(1, "nvidia.com/gpu") + _field(2, G0) + topology)
    assert decode_list(raw).holdings == (_held(G0),)


def test_device_listed_for_each_numa_node_is_held_once() -> None:
    """A device with two NUMA nodes comes twice and is one device."""
    entry = _field(1, "nvidia.com/gpu") + _field(2, G1)
    raw = _list_of(entry + _field(3, _field(1, b"")), entry + _field(3, _field(1, b"\x08\x01")), entry)
    assert decode_list(raw).holdings == (_held(G1),)


def test_ids_are_passed_on_as_they_are() -> None:
    """Empty, odd and foreign ids are not ours to judge."""
    ids = ("", "1", " x\t\n\0", "GPU-\N{GREEK SMALL LETTER MU}", "all")
    raw = _list_of(_field(1, "nvidia.com/gpu") + b"".join(_field(2, each) for each in ids))
    assert {each.device_id for each in decode_list(raw).holdings} == set(ids)


def test_pod_without_a_name_is_passed_on() -> None:
    """Empty names cost nobody else anything."""
    raw = _field(1, b"") + _list_of(_field(1, "nvidia.com/gpu") + _field(2, G0))
    answer = decode_list(raw)
    assert answer.holdings == (_held(G0),)
    assert answer.pods == {("", ""), ("team-red", "train-0")}


def test_fields_of_a_newer_kubelet_are_skipped() -> None:
    """What is added to the API later, at any level, hides nothing."""
    entry = _field(1, "nvidia.com/gpu") + _field(2, G0) + _field(15, "new")
    raw = _list_of(entry) + _field(15, "new")
    assert decode_list(raw).holdings == (_held(G0),)


def test_claim_of_an_older_kubelet_has_no_device() -> None:
    """Kubelets before 1.31 name a claim's class and no driver: nothing is made up."""
    claim = _field(1, "gpu.example.com") + _field(2, "claim-a") + _field(3, "team-red") + _field(4, _field(1, _field(1, "x=y")))
    container = _field(1, "main") + _field(5, claim)
    raw = _large_field(1, _field(1, "train-0") + _field(2, "team-red") + _large_field(3, container))
    assert decode_list(raw).claimed == (ClaimedDevice("team-red", "train-0", "main", "team-red", "claim-a", "", "", ""),)


def test_shares_of_one_device_stay_apart() -> None:
    """Two shares of one DRA device are two, and the same one named twice is one."""
    answer = v1.ListPodResourcesResponse()
    claim = (
        answer.pod_resources.add(name="train-0", namespace="team-red")
        .containers.add(name="main")
        .dynamic_resources.add(claim_name="claim-a", claim_namespace="team-red")
    )
    for share in ("s1", "s2", "s1"):
        claim.claim_resources.add(driver_name="gpu.nvidia.com", pool_name="n1", device_name="gpu-0", share_id=share)
    assert [each.share_id for each in decode_list(answer.SerializeToString()).claimed] == ["s1", "s2"]


def test_v1alpha1_answer_is_read_like_v1() -> None:
    """The old API names the same holders, and no claims (RPC-05 A)."""
    raw = (RECORDED / "api-dra" / "List.raw.pb").read_bytes()
    assert decode_v1alpha1_list(raw).holdings == decode_list(raw).holdings
    assert decode_v1alpha1_list(raw).pods == decode_list(raw).pods
    assert not decode_v1alpha1_list(raw).claimed


@pytest.mark.parametrize("decode", [decode_list, decode_v1alpha1_list, decode_allocatable])
@pytest.mark.parametrize(
    "raw",
    [b"\xff" * 16, b"<html>no</html>", b"\x0a\x05ab", b"\x08\x01", _field(1, _field(1, b"\xc3\x28"))],
    ids=["endless tag", "text", "cut off", "known field of another type", "no UTF-8"],
)
def test_garbage_is_refused(decode: Callable[[bytes], object], raw: bytes) -> None:
    """Bytes that are no answer are never read as a node without pods (EXPO-06)."""
    with pytest.raises(DecodeError):
        decode(raw)
