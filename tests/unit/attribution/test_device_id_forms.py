"""Device ids in the forms of all device plugins, and the devices that they lead to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.device_ids import (
    AllGpus,
    ByMinor,
    GpuById,
    GpuPart,
    MigById,
    MigByPlace,
    ParsedDeviceId,
    Passthrough,
    Tegra,
    Unknown,
    parse_device_id,
)
from exporter.attribution.resolve import Unresolved, resolve
from exporter.attribution.resources import counts_as_gpu, is_gpu_resource
from exporter.model.attribution import UnresolvedReason
from exporter.model.device import Device, DeviceTrouble, MigMode, NvmlState
from tests.builders import G0, G1, a_device, a_mig, a_mig_device, gpu_uuid, mig_uuid

X = "0a0a0a0a-1111-4222-8333-000000000000"

FORMS: dict[str, ParsedDeviceId] = {
    f"GPU-{X}": GpuById(X),
    f"GPU-{X.upper()}": GpuById(X),
    f"gpu-{X}": GpuById(X),
    f"GPU-{X}::0": GpuById(X, 0),
    f"GPU-{X}::17": GpuById(X, 17),
    f"GPU-{X}-3": GpuById(X, 3),
    f"GPU-{X}-_-12": GpuById(X, 12),
    f"GPU-{X}-memory-20000": GpuPart(X),
    f"GPU-{X}-core-5": GpuPart(X),
    f"MIG-{X}": MigById(X),
    f"MIG-{X}::2": MigById(X, 2),
    f"MIG-GPU-{X}/3/0": MigByPlace(X, 3, 0),
    f"MIG-GPU-{X}/13/1::4": MigByPlace(X, 13, 1, 4),
    "nvidia1": ByMinor(1),
    "nvidia0/gi5": ByMinor(0, 5),
    "nvidia0/vgpu2": ByMinor(0, None, 2),
    "nvidia0/gi5/vgpu1": ByMinor(0, 5, 1),
    "all": AllGpus(),
    "tegra": Tegra(),
    "0000:65:00.0": Passthrough("00000000:65:00.0"),
    "00000001:3B:00.0": Passthrough("00000001:3b:00.0"),
    "65:00.0": Passthrough("00000000:65:00.0"),
    X: Passthrough(),
    "1": Passthrough(),
    "": Unknown(),
    "GPU-": Unknown(),
    f"GPU-{X}0": Unknown(),
    f"GPU-{X}::": Unknown(),
    f"GPU-{X}::x": Unknown(),
    f"GPU-{X}/3/0": Unknown(),
    f"MIG-GPU-{X}/3": Unknown(),
    "nvidiactl": Unknown(),
    "nvidia0/gi": Unknown(),
    "nvidia-0": Unknown(),
    "smarter-device": Unknown(),
    f" GPU-{X}": Unknown(),
    f"GPU-{X}\n": Unknown(),
}


@pytest.mark.parametrize(("text", "expected"), FORMS.items(), ids=lambda value: repr(value) if isinstance(value, str) else None)
def test_id_is_recognised_by_its_form(text: str, expected: ParsedDeviceId) -> None:
    """Each plugin's form is told apart, and nothing else is taken for one of them (POD-01, POD-02, POD-05, POD-08)."""
    assert parse_device_id(text) == expected


@given(st.text(max_size=80))
def test_any_text_is_an_id_or_unknown(text: str) -> None:
    """No text raises, and without devices nothing resolves."""
    assert isinstance(resolve(parse_device_id(text), None), Unresolved)


NODE = (
    a_mig_device(number=0, migs=(a_mig(number=1, gi=5), a_mig(number=2, gi=3), a_mig(number=3, gi=3, ci=1))),
    a_device(number=1, minor_number=4),
)


def _places(text: str, devices: tuple[Device, ...] = NODE) -> list[tuple[str, str | None]]:
    found = resolve(parse_device_id(text), NvmlState("575", devices))
    assert not isinstance(found, Unresolved), found
    return [(device.uuid, None if mig is None else mig.uuid) for device, mig in found]


def _why(text: str, nvml: NvmlState | None) -> Unresolved:
    found = resolve(parse_device_id(text), nvml)
    assert isinstance(found, Unresolved)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (G1, [(G1, None)]),
        (G1.upper(), [(G1, None)]),
        (f"{G1}::3", [(G1, None)]),
        (f"{G1}-memory-7", [(G1, None)]),
        (G0, [(G0, None)]),
        (mig_uuid(1), [(G0, mig_uuid(1))]),
        (f"{mig_uuid(2)}::1", [(G0, mig_uuid(2))]),
        (f"MIG-{G0}/3/1", [(G0, mig_uuid(3))]),
        ("nvidia4", [(G1, None)]),
        ("nvidia0", [(G0, None)]),
        ("nvidia0/gi5", [(G0, mig_uuid(1))]),
        ("nvidia0/gi5/vgpu1", [(G0, mig_uuid(1))]),
        ("nvidia0/gi3", [(G0, mig_uuid(2)), (G0, mig_uuid(3))]),
        ("all", [(G0, None), (G1, None)]),
        ("0000:11:00.0", [(G1, None)]),
    ],
)
def test_id_leads_to_its_device(text: str, expected: list[tuple[str, str | None]]) -> None:
    """Minor numbers are not indexes, a GPU instance stands for its compute instances, and a GPU in MIG mode stays whole."""
    assert _places(text) == expected


def test_tegra_leads_to_the_one_gpu() -> None:
    """The integrated GPU needs no UUID."""
    assert _places("tegra", (a_device(number=3),)) == [(gpu_uuid(3), None)]


@pytest.mark.parametrize(
    "text",
    ["GPU-deadbeef-0000-4000-8000-00000000ffff", mig_uuid(9), f"MIG-{G0}/4/0", "nvidia1", "nvidia0/gi1", "nvidia4/gi0"],
)
def test_id_that_nvml_does_not_know_is_unknown_for_certain(text: str) -> None:
    """A device that a healthy NVML does not list is gone; it cannot be on any other device (POD-12)."""
    assert _why(text, NvmlState("575", NODE)) == Unresolved(UnresolvedReason.UNKNOWN_DEVICE)


@pytest.mark.parametrize("text", [G0, mig_uuid(1), "nvidia0", "all", "tegra"])
def test_id_without_nvml_waits_for_nvml(text: str) -> None:
    """While NVML is missing nothing is said about the device."""
    assert _why(text, None).reason is UnresolvedReason.NVML_MISSING


@pytest.mark.parametrize("text", ["1", "0", "0000:65:00.0", X])
@pytest.mark.parametrize("nvml", [None, NvmlState("575", NODE)])
def test_device_given_to_a_virtual_machine_is_passthrough(text: str, nvml: NvmlState | None) -> None:
    """An IOMMU group is no index, and an address that NVML does not see is no device of ours (POD-05)."""
    assert _why(text, nvml) == Unresolved(UnresolvedReason.PASSTHROUGH)


def test_unknown_id_beside_a_device_without_a_name_stays_open() -> None:
    """A device that never told its UUID may be the one that the kubelet names."""
    nvml = NvmlState("575", NODE, unidentified_devices=((2, DeviceTrouble.LOST),))
    assert _why("GPU-deadbeef-0000-4000-8000-00000000ffff", nvml).reason is UnresolvedReason.NVML_MISSING


def test_unknown_instance_may_be_on_a_device_whose_layout_was_not_read() -> None:
    """A MIG device of a GPU that does not answer is not gone."""
    lost = a_mig_device(number=2, trouble=DeviceTrouble.LOST)
    why = _why(mig_uuid(9), NvmlState("575", (*NODE, lost)))
    assert why == Unresolved(UnresolvedReason.NVML_MISSING, frozenset({gpu_uuid(2)}))


def test_unknown_minor_may_be_a_device_without_a_minor() -> None:
    """A device whose minor number was not read may be the one that is meant."""
    why = _why("nvidia9", NvmlState("575", (a_device(minor_number=None),)))
    assert why == Unresolved(UnresolvedReason.NVML_MISSING, frozenset({G0}))


def test_layout_of_a_gpu_without_mig_is_certain() -> None:
    """A failed call on a GPU that is not in MIG mode leaves no doubt about MIG devices."""
    device = a_device(mig_mode=MigMode.DISABLED, failed_calls=(("nvmlDeviceGetTemperature", "unknown"),))
    assert _why(mig_uuid(9), NvmlState("575", (device,))).reason is UnresolvedReason.UNKNOWN_DEVICE


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/pgpu",
        "nvidia.com/PGPU",
        "nvidia.com/vgpu",
        "nvidia.com/H999_PCIE",
        "nvidia.com/GP102GL_Tesla_P40",
        "nvidia.com/GRID_T4-1Q",
        "nvidia.com/big-gpu",
        "volcano.sh/vgpu-number",
    ],
)
def test_resource_name_says_gpu(name: str) -> None:
    """Renamed and per-model resources of the vendor count (POD-04)."""
    assert is_gpu_resource(name)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/hostdev",
        "nvidia.com/rdma_shared_device_a",
        "nvidia.com/sriov_rdma_vf",
        "nvidia.com/mlnxnics",
        "nvidia.com/ib0",
        "nvidia.com/roce",
        "nvidia.com/bf3-dpu",
        "nvidia.com/cx7_vf",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
        "volcano.sh/vgpu-memory",
        "example.org/nic",
        "example.org/gpu",
        "nvidia.com.example.org/gpu",
        "",
    ],
)
def test_resource_name_does_not_say_gpu(name: str) -> None:
    """Network devices and amounts of memory are not GPUs (POD-04)."""
    assert not is_gpu_resource(name)


@pytest.mark.parametrize(
    ("resource", "device_id", "expected"),
    [
        ("example.org/renamed", G1, True),
        ("example.org/renamed", mig_uuid(1), True),
        ("example.org/renamed", "nvidia4", True),
        ("example.org/renamed", "0000:11:00.0", True),
        ("example.org/nic", "0000:1f:00.2", False),
        ("example.org/kvm", "all", False),
        ("example.org/slots", "1", False),
        ("example.org/thing", "x", False),
        ("nvidia.com/gpu", "x", True),
        ("nvidia.com/gpu", "all", True),
        ("nvidia.com/hostdev", "0000:1f:00.2", False),
        ("volcano.sh/vgpu-memory", f"{G1}-memory-1", False),
        ("nvidia.com/gpu", f"{G1}-core-1", False),
    ],
)
def test_holding_counts_by_its_value_or_by_its_name(resource: str, device_id: str, expected: bool) -> None:
    """An id of a known GPU counts whatever the resource is called; a word or a number only under a GPU's name (POD-04)."""
    assert counts_as_gpu(resource, parse_device_id(device_id), NvmlState("575", NODE)) is expected
