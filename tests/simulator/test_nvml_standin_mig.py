"""What the simulated driver tells of MIG devices, read through the unmodified binding."""

from typing import Any

import pynvml
import pytest

from exporter.simulator.world import GIB, MIB, SimDevice, SimMig, SimProcess
from tests.simulator.conftest import Driver, error_of

SMALL = SimMig(uuid="MIG-small", gi=7, ci=0)
BIG = SimMig(
    uuid="MIG-big",
    gi=1,
    ci=2,
    profile="3g.40gb",
    compute_slices=3,
    gpu_slices=4,
    memory_total=40 * GIB,
    memory_used=GIB,
    slot=3,
)


def partitioned(*migs: SimMig, **others: Any) -> SimDevice:
    return SimDevice(uuid="GPU-0", index=0, mig_mode=1, migs=migs, **others)


def handle_of(uuid: str) -> Any:
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def test_slots_with_holes_are_told_apart(nvml: Driver) -> None:
    """An empty slot is NOT_FOUND and a taken one may follow it; the maximum is not the number that there is."""
    nvml.show(partitioned(SMALL, BIG, max_mig_devices=5))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 5
    found = {slot: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot) for slot in (0, 3)}
    assert {slot: pynvml.nvmlDeviceGetUUID(handle) for slot, handle in found.items()} == {0: "MIG-small", 3: "MIG-big"}
    for slot in (1, 2, 4):
        assert error_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, slot) == pynvml.NVML_ERROR_NOT_FOUND
    assert error_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 5) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_mig_device_tells_its_instance_and_attributes(nvml: Driver) -> None:
    """Instance ids, name with profile, slices and memory are those of the MIG device, not of its GPU."""
    nvml.show(partitioned(SMALL, BIG))
    big = handle_of("MIG-big")
    assert pynvml.nvmlDeviceGetGpuInstanceId(big) == 1
    assert pynvml.nvmlDeviceGetComputeInstanceId(big) == 2
    assert pynvml.nvmlDeviceGetName(big) == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    attributes = pynvml.nvmlDeviceGetAttributes(big)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (4, 3)
    assert attributes.memorySizeMB == 40 * GIB // MIB
    memory = pynvml.nvmlDeviceGetMemoryInfo(big, version=pynvml.nvmlMemory_v2)
    assert (memory.total, memory.used, memory.reserved, memory.free) == (40 * GIB, GIB, 0, 39 * GIB)


def test_mig_device_leads_back_to_its_gpu(nvml: Driver) -> None:
    """The parent of a MIG handle is the GPU's own handle, and only the one says that it is MIG."""
    nvml.show(partitioned(SMALL))
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle_of("MIG-small"))
    assert pynvml.nvmlDeviceGetUUID(parent) == "GPU-0"
    assert pynvml.nvmlDeviceIsMigDeviceHandle(handle_of("MIG-small")).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0
    assert error_of(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, parent) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_older_form_of_a_mig_uuid_is_understood(nvml: Driver) -> None:
    """MIG-<uuid of the GPU>/<gi>/<ci> finds the same device, and nothing where there is none."""
    nvml.show(partitioned(SMALL, BIG))
    assert pynvml.nvmlDeviceGetUUID(handle_of("MIG-GPU-0/1/2")) == "MIG-big"
    assert error_of(handle_of, "MIG-GPU-0/1/3") == pynvml.NVML_ERROR_NOT_FOUND


def test_mig_device_without_a_profile_has_no_attributes(nvml: Driver) -> None:
    """Its name is the GPU's own."""
    nvml.show(partitioned(SimMig(uuid="MIG-plain", gi=1, profile="")))
    plain = handle_of("MIG-plain")
    assert pynvml.nvmlDeviceGetName(plain) == "NVIDIA H100 80GB HBM3"
    assert error_of(pynvml.nvmlDeviceGetAttributes, plain) == pynvml.NVML_ERROR_NOT_FOUND


def test_mig_mode_leaves_no_utilisation(nvml: Driver) -> None:
    """Utilisation, its samples and its split by process are not supported, on the GPU and on its MIG devices."""
    nvml.show(partitioned(SMALL, processes=(SimProcess(pid=1, gi=7, ci=0, sm=50),)))
    for handle in (pynvml.nvmlDeviceGetHandleByIndex(0), handle_of("MIG-small")):
        assert error_of(pynvml.nvmlDeviceGetUtilizationRates, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetProcessUtilization, handle, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetProcessesUtilizationInfo, handle, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED
        assert error_of(pynvml.nvmlDeviceGetSamples, handle, 1, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_physical_measurements_are_the_gpus_alone(nvml: Driver) -> None:
    """Power is told by the GPU in MIG mode too, not by its MIG devices; remapped rows by neither while there are any."""
    nvml.show(partitioned(SMALL, power=123))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 123
    assert error_of(pynvml.nvmlDeviceGetPowerUsage, handle_of("MIG-small")) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert error_of(pynvml.nvmlDeviceGetRemappedRows, gpu) == pynvml.NVML_ERROR_NOT_SUPPORTED
    nvml.show(partitioned())
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 0, 0, 0)


@pytest.mark.parametrize("mig_mode", [0, None])
def test_without_mig_mode_there_are_no_mig_devices(nvml: Driver, mig_mode: int | None) -> None:
    """MIG devices in the state are not shown while the mode is off or unknown to the GPU."""
    nvml.show(SimDevice(uuid="GPU-0", index=0, mig_mode=mig_mode, migs=(SMALL,)))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
    assert error_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert error_of(handle_of, "MIG-small") == pynvml.NVML_ERROR_NOT_FOUND


def test_handle_of_a_destroyed_instance_is_invalid(nvml: Driver) -> None:
    """It does not come to mean the instance that took its slot and ids, and is valid again with its own."""
    nvml.show(partitioned(SMALL))
    handle = handle_of("MIG-small")
    nvml.show(partitioned(SimMig(uuid="MIG-successor", gi=7, ci=0)))
    assert error_of(pynvml.nvmlDeviceGetUUID, handle) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    nvml.show(SimDevice(uuid="GPU-other", index=0))
    assert error_of(pynvml.nvmlDeviceGetUUID, handle) == pynvml.NVML_ERROR_GPU_IS_LOST
    nvml.show(partitioned(BIG, SMALL))
    assert pynvml.nvmlDeviceGetGpuInstanceId(handle) == 7


def test_gpus_memory_is_what_its_mig_devices_use(nvml: Driver) -> None:
    """Left open, it is the sum over the MIG devices and over processes in none of them, each counted once."""
    processes = (SimProcess(pid=1, gi=7, ci=0, memory=GIB), SimProcess(pid=2, gi=7, memory=GIB), SimProcess(pid=3, memory=GIB))
    nvml.show(partitioned(SMALL, BIG, processes=processes))
    assert pynvml.nvmlDeviceGetMemoryInfo(handle_of("MIG-small")).used == 2 * GIB
    assert pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used == 4 * GIB


def test_processes_are_listed_by_instance(nvml: Driver) -> None:
    """The GPU's handle lists all with their instance ids, a MIG handle its own."""
    processes = (SimProcess(pid=1, gi=7, ci=0), SimProcess(pid=2, gi=1, ci=2), SimProcess(pid=3, gi=1, ci=0))
    nvml.show(partitioned(SMALL, BIG, processes=processes))
    listed = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
    assert [(entry.pid, entry.gpuInstanceId, entry.computeInstanceId) for entry in listed] == [(1, 7, 0), (2, 1, 2), (3, 1, 0)]
    assert [entry.pid for entry in pynvml.nvmlDeviceGetComputeRunningProcesses(handle_of("MIG-small"))] == [1]
    assert [entry.pid for entry in pynvml.nvmlDeviceGetComputeRunningProcesses(handle_of("MIG-big"))] == [2]
