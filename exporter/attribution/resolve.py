"""From a parsed device id to the devices of this node, or the reason why not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
    normal_pci_address,
)
from exporter.model.attribution import UnresolvedReason
from exporter.model.device import Device, MigInstance, MigMode, NvmlState
from exporter.model.ids import DeviceUuid

Place = tuple[Device, MigInstance | None]
"""A whole GPU, or a MIG instance on it."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Why the id leads to no device."""

    reason: UnresolvedReason
    possible: frozenset[DeviceUuid] = frozenset()
    """Devices on which it may be after all, since something about them could not be read."""


Resolution = tuple[Place, ...] | Unresolved


def resolve(parsed: ParsedDeviceId, nvml: NvmlState | None) -> Resolution:
    """Find the places that the id stands for; one, but for ``all`` and for a GPU instance with several compute instances."""
    if isinstance(parsed, Passthrough):
        return _passthrough(parsed, () if nvml is None else nvml.devices)
    if isinstance(parsed, Unknown):
        return Unresolved(UnresolvedReason.UNKNOWN_FORMAT)
    if nvml is None:
        return Unresolved(UnresolvedReason.NVML_MISSING)
    if isinstance(parsed, ByMinor):
        return _by_minor(parsed, nvml)
    if isinstance(parsed, MigById | MigByPlace):
        return _mig(parsed, nvml)
    return _whole_gpus(parsed, nvml)


def _whole_gpus(parsed: GpuById | GpuPart | AllGpus | Tegra, nvml: NvmlState) -> Resolution:
    wanted = parsed.uuid if isinstance(parsed, GpuById | GpuPart) else None
    return tuple((device, None) for device in nvml.devices if wanted in {None, _bare(device.uuid)}) or _not_found(nvml)


def _passthrough(parsed: Passthrough, devices: Iterable[Device]) -> Resolution:
    """A PCI address that NVML sees is not in a virtual machine: then it is only another spelling."""
    address = parsed.pci_address
    places = tuple((device, None) for device in devices if address and normal_pci_address(device.pci_bus_id) == address)
    return places or Unresolved(UnresolvedReason.PASSTHROUGH)


def _by_minor(parsed: ByMinor, nvml: NvmlState) -> Resolution:
    """A number that no device, or more than one, has told is nobody's for certain."""
    found = [device for device in nvml.devices if device.minor_number == parsed.minor]
    if len(found) != 1:
        return _not_found(nvml, {other.uuid for other in found or nvml.devices if other.minor_number in {None, parsed.minor}})
    if parsed.gpu_instance_id is None:
        return ((found[0], None),)
    return _instances(found, lambda mig: mig.gpu_instance_id == parsed.gpu_instance_id, nvml)


def _mig(parsed: MigById | MigByPlace, nvml: NvmlState) -> Resolution:
    if isinstance(parsed, MigById):
        return _instances(nvml.devices, lambda mig: _bare(mig.uuid) == parsed.uuid, nvml)
    place = (parsed.gpu_instance_id, parsed.compute_instance_id)
    parents = [device for device in nvml.devices if _bare(device.uuid) == parsed.parent_uuid]
    return _instances(parents, lambda mig: (mig.gpu_instance_id, mig.compute_instance_id) == place, nvml)


def _instances(devices: Iterable[Device], wanted: Callable[[MigInstance], bool], nvml: NvmlState) -> Resolution:
    devices = tuple(devices)
    places = tuple((device, mig) for device in devices for mig in device.mig_instances if wanted(mig))
    return places or _not_found(nvml, {device.uuid for device in devices if _layout_uncertain(device)})


def _layout_uncertain(device: Device) -> bool:
    """True if the device may have MIG instances that could not be read in this cycle."""
    unread = device.trouble is not None or bool(device.failed_calls)
    return unread and device.mig_mode in {MigMode.ENABLED, MigMode.UNKNOWN}


def _not_found(nvml: NvmlState, possible: Iterable[DeviceUuid] = ()) -> Unresolved:
    """Not known to NVML for certain only if NVML could tell about every device."""
    possible = frozenset(possible)
    certain = not possible and not nvml.unidentified_devices
    return Unresolved(UnresolvedReason.UNKNOWN_DEVICE if certain else UnresolvedReason.NVML_MISSING, possible)


def _bare(uuid: str) -> str:
    """The 36 characters that an id and NVML have in common."""
    return uuid.lower().removeprefix("mig-").removeprefix("gpu-")
