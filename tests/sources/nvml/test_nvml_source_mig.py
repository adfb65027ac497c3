"""MIG devices: found anew in each cycle, named as the driver names them."""

from dataclasses import replace

import pytest

from exporter.model.device import Device, GpuProcess, MigMode, ProcessKind
from exporter.model.reading import Fresh
from exporter.simulator.world import GIB, NvmlFault, SimDevice, SimMig, SimProcess
from exporter.sources.nvml.mig import profile_of, slices_of
from tests.sources.nvml.conftest import Node, read_device, read_devices

NAME = "NVIDIA A100-SXM4-80GB"
M1 = SimMig(uuid="MIG-1", gi=1, profile="3g.40gb", compute_slices=3, gpu_slices=3, memory_total=40 * GIB)
M2 = SimMig(uuid="MIG-2", gi=2, profile="3g.40gb", compute_slices=3, gpu_slices=3, memory_total=40 * GIB, slot=3)
ONES = tuple(SimMig(uuid=f"MIG-{number}", gi=number + 4, memory_total=10 * GIB) for number in range(3, 7))
G0 = SimDevice(uuid="GPU-0", index=0, name=NAME, architecture=7, mig_mode=1, migs=(M1, M2))
G1 = SimDevice(uuid="GPU-1", index=1, utilization=50)
LISTS = [f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")]


def uuids(device: Device) -> list[str]:
    """Of its MIG devices, in the driver's order."""
    return [one.uuid for one in device.mig_instances]


async def test_instances_are_complete_with_free_slots_between_them(node: Node) -> None:
    """Each MIG device has its ids, its profile and its memory; a free slot ends nothing."""
    busy = SimProcess(pid=4001, memory=6 * GIB, gi=2, ci=0)
    node.show(replace(G0, processes=(busy,)), G1)
    device = await read_device(node.open())
    assert (device.mig_mode, device.mig_slices) == (MigMode.ENABLED, 7)
    assert [
        (one.uuid, one.gpu_instance_id, one.compute_instance_id, one.profile, one.compute_slices)
        for one in device.mig_instances
    ] == [("MIG-1", 1, 0, "3g.40gb", 3), ("MIG-2", 2, 0, "3g.40gb", 3)]
    assert [(one.memory_used_bytes, one.memory_total_bytes) for one in device.mig_instances] == [
        (0, 40 * GIB),
        (6 * GIB, 40 * GIB),
    ]
    assert device.failed_calls == ()


async def test_gpu_in_mig_mode_has_no_utilisation_and_no_failure(node: Node) -> None:
    """What the driver cannot say in MIG mode is None, not 0 and no error, and memory goes on (NVML-04)."""
    node.show(replace(G0, utilization=33), G1)
    source = node.open()
    for _ in range(3):
        device = await read_device(source)
        assert (device.utilization_ratio, device.process_use, device.failed_calls) == (None, None, ())
        assert device.memory_total_bytes == 80 * GIB
        assert device.processes == ()
        assert len(device.mig_instances) == 2


async def test_layout_that_changes_is_followed_in_each_cycle(node: Node) -> None:
    """The instances are those of now, the GPU stays the same one, and without MIG it has its utilisation back (LIFE-07)."""
    source = node.open()
    layouts = [
        replace(G0),
        replace(G0, migs=ONES),
        replace(G0, mig_mode=0, migs=(), utilization=70),
        replace(G0, utilization=70),
    ]
    seen = []
    for layout in layouts:
        node.show(layout, G1)
        device = await read_device(source)
        assert (device.uuid, device.index, device.model, device.up) == ("GPU-0", 0, NAME, True)
        assert device.failed_calls == ()
        seen.append((uuids(device), device.mig_mode, device.utilization_ratio, device.process_use))
    assert seen == [
        (["MIG-1", "MIG-2"], MigMode.ENABLED, None, None),
        (["MIG-3", "MIG-4", "MIG-5", "MIG-6"], MigMode.ENABLED, None, None),
        ([], MigMode.DISABLED, 0.7, ()),
        (["MIG-1", "MIG-2"], MigMode.ENABLED, None, None),
    ]


async def test_instance_ids_that_are_used_again_are_another_instance(node: Node) -> None:
    """After a repartition the same GI and CI bear another UUID (LIFE-07)."""
    source = node.open()
    node.show(G0, G1)
    await read_devices(source)
    node.show(replace(G0, migs=(replace(M1, uuid="MIG-9", profile="1g.10gb", compute_slices=1),)), G1)
    assert [(one.uuid, one.gpu_instance_id, one.profile) for one in (await read_device(source)).mig_instances] == [
        ("MIG-9", 1, "1g.10gb")
    ]


@pytest.mark.parametrize("reverse", [False, True])
async def test_each_gpu_has_its_own_mode(node: Node, reverse: bool) -> None:
    """One GPU with instances, one without MIG, one in MIG mode with none: each is what it is, in any order (LIFE-08)."""
    devices = [replace(G0, migs=(M1,)), replace(G1, mig_mode=0), SimDevice(uuid="GPU-2", index=2, mig_mode=1)]
    if reverse:
        devices = [replace(device, index=2 - place) for place, device in enumerate(devices)]
    node.show(*devices)
    found = {device.uuid: device for device in await read_devices(node.open())}
    assert {uuid: (one.mig_mode, one.mig_slices, uuids(one), one.utilization_ratio) for uuid, one in found.items()} == {
        "GPU-0": (MigMode.ENABLED, 7, ["MIG-1"], None),
        "GPU-1": (MigMode.DISABLED, None, [], 0.5),
        "GPU-2": (MigMode.ENABLED, 7, [], None),
    }


async def test_gpu_that_knows_no_mig_is_unsupported_and_complete(node: Node) -> None:
    """A GPU without MIG is no failure."""
    node.show(replace(G1, index=0, mig_mode=None))
    device = await read_device(node.open())
    assert (device.mig_mode, device.mig_slices, device.mig_instances, device.utilization_ratio) == (
        MigMode.UNSUPPORTED,
        None,
        (),
        0.5,
    )
    assert device.failed_calls == ()


async def test_smaller_gpu_has_its_own_number_of_slices(node: Node) -> None:
    """An A30 has four compute slices, which is read and not assumed."""
    node.show(SimDevice(uuid="GPU-0", index=0, mig_mode=1, max_mig_devices=4))
    assert (await read_device(node.open())).mig_slices == 4


async def test_profile_is_what_the_name_says_and_empty_without_one(node: Node) -> None:
    """Never derived from sizes; an instance without attributes and profile keeps its ids (NVML-18)."""
    big = SimMig(uuid="MIG-1", gi=0, profile="7g.80gb", compute_slices=7, gpu_slices=8, memory_total=81069 << 20)
    bare = SimMig(uuid="MIG-2", gi=3, profile="", memory_total=10 * GIB)
    node.show(replace(G0, migs=(big, bare)), G1)
    device = await read_device(node.open())
    assert [(one.uuid, one.gpu_instance_id, one.profile, one.compute_slices) for one in device.mig_instances] == [
        ("MIG-1", 0, "7g.80gb", 7),
        ("MIG-2", 3, "", None),
    ]
    assert device.failed_calls == (("nvmlDeviceGetAttributes_v2", "not_found"),)


@pytest.mark.parametrize("placeholder", ["<null>", "null", "unknown", "1g", "1g.5gb MIG <null>"])
async def test_placeholder_in_place_of_a_profile_is_no_profile(node: Node, placeholder: str) -> None:
    """What is in no profile's form does not reach a label (NVML-18)."""
    node.show(replace(G0, migs=(replace(M1, profile=placeholder),)))
    assert (await read_device(node.open())).mig_instances[0].profile == ""


@pytest.mark.parametrize("code", [3, 4, 6, 999])
async def test_attributes_that_fail_leave_the_slices_of_the_profile(node: Node, code: int) -> None:
    """The profile itself tells how many compute slices it has."""
    shared = SimMig(uuid="MIG-1", gi=1, ci=1, profile="1c.3g.40gb", compute_slices=1, gpu_slices=3)
    node.show(replace(G0, migs=(shared, M2)), faults=(NvmlFault(symbol="nvmlDeviceGetAttributes_v2", code=code),))
    device = await read_device(node.open())
    assert [one.compute_slices for one in device.mig_instances] == [1, 3]


async def test_attributes_that_are_not_supported_are_asked_again_after_a_new_start_only(node: Node) -> None:
    """What an instance does not know is remembered of that instance until the driver starts anew (NVML-05)."""
    source = node.open()
    odd = replace(M1, compute_slices=2)
    seen = []
    for faults in (
        (NvmlFault(symbol="nvmlDeviceGetAttributes_v2", code=3),),
        (),
        (NvmlFault(symbol="nvmlDeviceGetCount_v2", code=9),),
        (),
    ):
        node.show(replace(G0, migs=(odd,)), faults=faults)
        reading = await source.read()
        if isinstance(reading, Fresh):
            seen.append(reading.value.devices[0].mig_instances[0].compute_slices)
        node.clock.seconds += 1.0
    assert seen == [3, 3, 2]


@pytest.mark.parametrize("slices", [0, 0xFFFFFFFF])
async def test_impossible_number_of_slices_is_dropped(node: Node, slices: int) -> None:
    """A number of slices that cannot be gives way to the profile's own."""
    node.show(replace(G0, migs=(replace(M1, compute_slices=slices),)))
    device = await read_device(node.open())
    assert device.mig_instances[0].compute_slices == 3
    assert [one.reading for one in device.rejected] == ["mig_slices"]


@pytest.mark.parametrize("code", [3, 4, 999])
async def test_instance_memory_that_fails_costs_itself_only(node: Node, code: int) -> None:
    """Instances stay with all but their memory (NVML-05)."""
    memory = tuple(NvmlFault(symbol=f"nvmlDeviceGetMemoryInfo{version}", device=0, code=code) for version in ("_v2", ""))
    node.show(G0, G1, faults=memory)
    device = await read_device(node.open())
    assert [(one.uuid, one.profile, one.memory_used_bytes, one.memory_total_bytes) for one in device.mig_instances] == [
        ("MIG-1", "3g.40gb", None, None),
        ("MIG-2", "3g.40gb", None, None),
    ]


@pytest.mark.parametrize("symbol", ["nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"])
async def test_instance_that_does_not_say_who_it_is_is_left_out(node: Node, symbol: str) -> None:
    """An instance without its ids cannot be joined to anything; its GPU stays, with a note."""
    node.show(G0, G1, faults=(NvmlFault(symbol=symbol, code=999),))
    device = await read_device(node.open())
    assert device.up
    assert device.mig_instances == ()
    assert device.failed_calls == ((symbol, "unknown"), (symbol, "unknown"))


@pytest.mark.parametrize("code", [2, 6])
async def test_instance_handles_that_are_not_there_are_free_slots(node: Node, code: int) -> None:
    """NOT_FOUND and INVALID_ARGUMENT at a slot are no failure (LIFE-07)."""
    node.show(G0, G1, faults=(NvmlFault(symbol="nvmlDeviceGetMigDeviceHandleByIndex", code=code),))
    device = await read_device(node.open())
    assert (device.mig_instances, device.failed_calls, device.mig_mode) == ((), (), MigMode.ENABLED)


@pytest.mark.parametrize("code", [4, 999])
async def test_mode_that_cannot_be_read_is_the_last_one(node: Node, code: int) -> None:
    """The mode is a setting that does not change under a running driver: one failed call does not unmake the instances."""
    source = node.open()
    node.show(G0, G1)
    await read_devices(source)
    node.show(G0, G1, faults=(NvmlFault(symbol="nvmlDeviceGetMigMode", device=0, code=code),))
    device = await read_device(source)
    assert (device.mig_mode, uuids(device)) == (MigMode.ENABLED, ["MIG-1", "MIG-2"])
    assert [call for call, _ in device.failed_calls] == ["nvmlDeviceGetMigMode"]


async def test_mode_that_was_never_told_is_unknown(node: Node) -> None:
    """Nothing is assumed of the mode."""
    node.show(G1, faults=(NvmlFault(symbol="nvmlDeviceGetMigMode", code=999),))
    assert (await read_device(node.open())).mig_mode is MigMode.UNKNOWN


@pytest.mark.parametrize("code", [3, 4, 999])
async def test_number_of_slots_that_fails_still_finds_the_instances(node: Node, code: int) -> None:
    """Only the number of slices is unknown then (NVML-05)."""
    node.show(G0, G1, faults=(NvmlFault(symbol="nvmlDeviceGetMaxMigDeviceCount", code=code),))
    device = await read_device(node.open())
    assert (device.mig_slices, uuids(device)) == (None, ["MIG-1", "MIG-2"])


async def test_processes_of_a_mig_gpu_bear_their_instance(node: Node) -> None:
    """The GPU's own list names the instance of each process."""
    in_first = SimProcess(pid=4001, memory=2 * GIB, gi=1, ci=0)
    in_second = SimProcess(pid=4002, memory=GIB, gi=2, ci=0, lists=frozenset({"compute", "mps"}))
    node.show(replace(G0, processes=(in_second, in_first)), G1)
    assert (await read_device(node.open())).processes == (
        GpuProcess(4001, frozenset({ProcessKind.COMPUTE}), 2 * GIB, 1, 0),
        GpuProcess(4002, frozenset({ProcessKind.COMPUTE, ProcessKind.MPS}), GIB, 2, 0),
    )


@pytest.mark.parametrize(("profile", "slices"), [("1g.10gb", 1), ("1c.3g.40gb", 1), ("2c.4g.40gb", 2), ("1g.12gb+me", 1)])
def test_profile_of_a_name_is_read_with_its_slices(profile: str, slices: int) -> None:
    """Compute instances and media extensions are part of the profile (NVML-18)."""
    assert profile_of(f"{NAME} MIG {profile}") == profile
    assert slices_of(profile) == slices


@pytest.mark.parametrize("name", ["", NAME, f"{NAME} MIG ", "MIG 1g.10gb", f"{NAME} MIG 1g.10gb extra"])
def test_name_without_a_profile_has_none(name: str) -> None:
    """Nothing is made up (NVML-18)."""
    assert profile_of(name) == ""
    assert slices_of("") is None
