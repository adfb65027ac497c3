"""What a return code of NVML means for one value, for a device, and for the driver as a whole."""

from typing import Final

import pynvml

from exporter.model.device import DeviceTrouble
from exporter.model.reading import MissingReason

ABSENT: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""This driver, device or mode cannot say, and will not be able to as long as it is what it is."""

HOLE: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})
"""Nothing at this index."""

_DEVICE_GONE: Final = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})

DRIVER_GONE: Final = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
"""No call can succeed until NVML is initialised again."""

_REASONS: Final = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: MissingReason.LIBRARY_MISSING,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: MissingReason.DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: MissingReason.VERSION_MISMATCH,
    pynvml.NVML_ERROR_NO_PERMISSION: MissingReason.PERMISSION_DENIED,
}

_TROUBLES: Final = {
    pynvml.NVML_ERROR_GPU_IS_LOST: DeviceTrouble.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: DeviceTrouble.RESET_REQUIRED,
    pynvml.NVML_ERROR_TIMEOUT: DeviceTrouble.TIMEOUT,
    pynvml.NVML_ERROR_NO_PERMISSION: DeviceTrouble.NO_PERMISSION,
}

_PREFIX: Final = "NVML_ERROR_"
_NAMES: Final[dict[int, str]] = {
    code: name.removeprefix(_PREFIX).lower() for name, code in vars(pynvml).items() if name.startswith(_PREFIX)
}


class DeviceGoneError(Exception):
    """One device stopped to answer; the others are not touched by it."""

    def __init__(self, trouble: DeviceTrouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


class DriverGoneError(Exception):
    """NVML as a whole does not answer."""

    def __init__(self, reason: MissingReason, code: int, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.code = code
        self.detail = detail


def name_of(code: int) -> str:
    """The code's name as nvml.h has it, in lower case and without its prefix: ``no_permission``; closed, so fit for a label."""
    return _NAMES.get(code, "unrecognized")


def trouble_of(code: int) -> DeviceTrouble:
    """What the code says of the device that did not even tell its UUID."""
    return _TROUBLES.get(code, DeviceTrouble.UNKNOWN)


def driver_gone(code: int, call: str) -> DriverGoneError:
    """The whole driver's absence, whatever the code."""
    return DriverGoneError(_REASONS.get(code, MissingReason.DRIVER_ERROR), code, f"{call}: {name_of(code)} ({code})")


def raise_if_gone(code: int, call: str) -> None:
    """Raises for codes that say more than "not this value": the driver is gone, or the device is.

    Raises:
        DriverGoneError: no call of any device can succeed.
        DeviceGoneError: no call of this device can succeed.
    """
    if code in DRIVER_GONE:
        raise driver_gone(code, call)
    if code in _DEVICE_GONE:
        raise DeviceGoneError(_TROUBLES[code])
