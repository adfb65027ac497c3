"""From a device id, as some device plugin made it up, to the device that NVML knows."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NUMBER = r"[0-9]{1,9}"


@dataclass(frozen=True, slots=True)
class GpuById:
    """``GPU-<uuid>``, shared: ``GPU-<uuid>::<n>``, ``-<n>`` (HAMi) or ``-_-<n>`` (Aliyun)."""

    uuid: str
    """Lower case, without ``GPU-``."""
    replica: int | None = None
    """None: the id names no replica, so it stands for the whole device."""


@dataclass(frozen=True, slots=True)
class GpuPart:
    """``GPU-<uuid>-memory-<n>`` or ``-core-<n>``: a unit of a GPU that is given beside a replica of it, thousands at a time."""

    uuid: str


@dataclass(frozen=True, slots=True)
class MigById:
    """``MIG-<uuid>``, shared: ``MIG-<uuid>::<n>``."""

    uuid: str
    """Lower case, without ``MIG-``."""
    replica: int | None = None


@dataclass(frozen=True, slots=True)
class MigByPlace:
    """``MIG-GPU-<uuid>/<gi>/<ci>``: drivers before R470."""

    parent_uuid: str
    gpu_instance_id: int
    compute_instance_id: int
    replica: int | None = None


@dataclass(frozen=True, slots=True)
class ByMinor:
    """``nvidia<minor>``, with ``/gi<n>`` and ``/vgpu<n>``: Google's device plugin."""

    minor: int
    """N of /dev/nvidiaN."""
    gpu_instance_id: int | None = None
    replica: int | None = None


@dataclass(frozen=True, slots=True)
class AllGpus:
    """``all``: WSL2."""

    replica: int | None = None


@dataclass(frozen=True, slots=True)
class Tegra:
    """``tegra``: the one integrated GPU."""

    replica: int | None = None


@dataclass(frozen=True, slots=True)
class Passthrough:
    """A PCI address, the UUID of a mediated device, or an IOMMU group: given to a virtual machine."""

    pci_address: str = ""
    """Lower case, with an 8-digit domain; empty for the other two."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """In none of these forms."""


ParsedDeviceId = GpuById | GpuPart | MigById | MigByPlace | ByMinor | AllGpus | Tegra | Passthrough | Unknown


def parse_device_id(text: str) -> ParsedDeviceId:
    """Recognise the form; digits and UUIDs in any case."""
    for form, make in _FORMS:
        if match := form.fullmatch(text):
            return make(match)
    return Unknown()


def normal_pci_address(text: str) -> str:
    """``0000:3B:00.0`` and ``00000000:3b:00.0`` are the same address: 8-digit domain, lower case; empty if it is none."""
    match = _PCI_ADDRESS.fullmatch(text)
    return f"{int(match['domain'] or '0', 16):08x}:{match['rest'].lower()}" if match else ""


def _int(text: str | None) -> int | None:
    return None if text is None else int(text)


_PCI_ADDRESS = re.compile(r"(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<rest>[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_REPLICA = rf"(?:::(?P<replica>{_NUMBER}))?"
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], ParsedDeviceId]], ...] = (
    (
        re.compile(rf"(?i:nvidia)(?P<minor>{_NUMBER})(?:/gi(?P<gi>{_NUMBER}))?(?:/vgpu(?P<replica>{_NUMBER}))?"),
        lambda match: ByMinor(int(match["minor"]), _int(match["gi"]), _int(match["replica"])),
    ),
    (
        re.compile(rf"(?i:GPU)-(?P<uuid>{_UUID})-(?:memory|core)-{_NUMBER}"),
        lambda match: GpuPart(match["uuid"].lower()),
    ),
    (
        re.compile(rf"(?i:GPU)-(?P<uuid>{_UUID})(?:(?:::|-_-|-)(?P<replica>{_NUMBER}))?"),
        lambda match: GpuById(match["uuid"].lower(), _int(match["replica"])),
    ),
    (
        re.compile(rf"(?i:MIG-GPU)-(?P<uuid>{_UUID})/(?P<gi>{_NUMBER})/(?P<ci>{_NUMBER}){_REPLICA}"),
        lambda match: MigByPlace(match["uuid"].lower(), int(match["gi"]), int(match["ci"]), _int(match["replica"])),
    ),
    (
        re.compile(rf"(?i:MIG)-(?P<uuid>{_UUID}){_REPLICA}"),
        lambda match: MigById(match["uuid"].lower(), _int(match["replica"])),
    ),
    (re.compile(rf"(?i:all){_REPLICA}"), lambda match: AllGpus(_int(match["replica"]))),
    (re.compile(rf"(?i:tegra){_REPLICA}"), lambda match: Tegra(_int(match["replica"]))),
    (_PCI_ADDRESS, lambda match: Passthrough(normal_pci_address(match[0]))),
    (re.compile(rf"{_UUID}|[0-9]+"), lambda _: Passthrough()),
)
