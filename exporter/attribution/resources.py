"""Which extended resources are GPUs. Plugins can rename them, so a name alone neither proves nor excludes much."""

import re

from exporter.attribution.device_ids import ByMinor, GpuById, GpuPart, MigById, MigByPlace, ParsedDeviceId, Passthrough
from exporter.attribution.resolve import Unresolved, resolve
from exporter.model.device import NvmlState

# Everything else under nvidia.com/ counts: time-sliced and renamed GPUs, and passthrough GPUs under their model's name.
_VENDOR = "nvidia.com/"
_NOT_GPUS = re.compile(
    r"(?:^|[._-])(?:"
    r"(?:nics?|ib|roce|hca|dpu|bf|cx|vf|ovs|priority)(?![a-z])"
    r"|hostdev|rdma|sriov|mlnx|mellanox|connectx|netdev|macvlan|ipvlan|doca|nvswitch|audio|gpumem|gpucores)",
)
# Of a scheduler's own resources, the one that counts GPUs; its siblings count memory and cores.
_OTHER_VENDORS = frozenset({"volcano.sh/vgpu-number", "volcano.sh/gpu-number", "aliyun.com/gpu-count"})


_LIKELY = re.compile(r"(?i:gpu-|mig-|nvidia[0-9]|all|tegra)|[0-9a-fA-F]{2,8}:")


def may_be_gpu(device_id: str) -> bool:
    """False if the id is in no form that a GPU's could have: a cheap look, since other devices' ids come in thousands."""
    return _LIKELY.match(device_id) is not None


def is_gpu_resource(name: str) -> bool:
    """True if the name says that its units are GPUs or parts of them that can be given to a container one by one."""
    lower = name.lower()
    if lower in _OTHER_VENDORS:
        return True
    return lower.startswith(_VENDOR) and not _NOT_GPUS.search(lower.removeprefix(_VENDOR))


def counts_as_gpu(resource: str, parsed: ParsedDeviceId, nvml: NvmlState | None) -> bool:
    """True if the id is a GPU's by its form, or is one that NVML knows, or the resource's name says so.

    ``all`` and ``tegra`` are words that other plugins may use too: there only the name decides. Units of a GPU's memory
    and cores never count: the same container holds a unit of the GPU itself.
    """
    if isinstance(parsed, GpuPart):
        return False
    if isinstance(parsed, GpuById | MigById | MigByPlace | ByMinor) or is_gpu_resource(resource):
        return True
    return isinstance(parsed, Passthrough) and not isinstance(resolve(parsed, nvml), Unresolved)
