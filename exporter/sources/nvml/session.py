"""NVML from its initialisation to its end, and again after a pause. For one thread: a shutdown never meets a call in flight."""

import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pynvml

from exporter.model.device import DeviceTrouble, NvmlState
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.sources.nvml import codes, library
from exporter.sources.nvml.devices import Devices
from exporter.sources.nvml.readings import Watch

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_MPS_ENUMERATION: Final = "NVML_MPS_DEVICE_ENUMERATION"
"""With this set NVML shows parts of GPUs in place of GPUs, and answers hardly anything about them."""

_NO_ACCESS: Final = frozenset({DeviceTrouble.UNKNOWN, DeviceTrouble.NO_PERMISSION})

logger = logging.getLogger(__name__)


class Session:
    """The driver, whenever it is there."""

    def __init__(self, library_name: str, clock: Callable[[], float], watch: Watch, devices: Devices) -> None:
        self._library = library_name
        self._clock = clock
        self._watch = watch
        self._devices = devices
        self._running = False
        self._pause_seconds = 0.0
        self._not_before = clock()
        self._missing = Missing(MissingReason.STARTING, self._not_before)
        self._fruitless = False

    def read(self) -> Reading[NvmlState]:
        """One cycle. Initialises NVML first where that is due, at most once.

        Missing: library_missing, driver_not_loaded, version_mismatch, permission_denied, driver_error.
        """
        now = self._clock()
        due = now >= self._not_before
        if not self._running and not due:
            return replace(self._missing, at=now)
        if self._fruitless and due:
            # NVML looks for devices when it starts. Access to their files can be taken from a running container, too, and
            # only opening them again can bring it back.
            self.end()
        try:
            state = self._read_state()
        except codes.DriverGoneError as gone:
            self.end()
            self._put_off()
            self._missing = Missing(gone.reason, now, gone.detail)
            return self._missing
        self._fruitless = _is_fruitless(state)
        if not self._fruitless:
            self._pause_seconds = 0.0
        elif due:
            self._put_off()
        return Fresh(state, now)

    def end(self) -> None:
        """Shuts NVML down, if it is up."""
        if self._running:
            self._running = False
            self._watch.call = "nvmlShutdown"
            self._devices.release()
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def _read_state(self) -> NvmlState:
        started = not self._running
        if started:
            self._start()
        try:
            return self._ask()
        except codes.DriverGoneError as gone:
            if started or gone.code != pynvml.NVML_ERROR_UNINITIALIZED:
                raise
        # Somebody else in this process has shut NVML down.
        self._running = False
        self._start()
        return self._ask()

    def _start(self) -> None:
        os.environ.pop(_MPS_ENUMERATION, None)
        self._watch.call = "nvmlInitWithFlags"
        try:
            library.load(self._library)
            # Without the flag a node that has no GPU is an error, and cannot be told from a driver that is not ready.
            pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_GPUS)
        except OSError as error:
            raise codes.DriverGoneError(
                MissingReason.LIBRARY_MISSING, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, str(error)
            ) from error
        except pynvml.NVMLError as error:
            raise codes.driver_gone(error.value, self._watch.call) from error
        self._running = True
        self._devices.begin_generation()

    def _ask(self) -> NvmlState:
        version = self._read_driver_version()
        devices, unidentified = self._devices.read()
        return NvmlState(driver_version=version, devices=devices, unidentified_devices=unidentified)

    def _read_driver_version(self) -> str:
        """Empty where the call fails: that alone costs nothing else."""
        call = "nvmlSystemGetDriverVersion"
        self._watch.call = call
        try:
            return library.read_text(call)
        except pynvml.NVMLError as error:
            if error.value in codes.DRIVER_GONE:
                raise codes.driver_gone(error.value, call) from error
            logger.debug("%s: %s", call, codes.name_of(error.value))
        return ""

    def _put_off(self) -> None:
        self._pause_seconds = min(max(2 * self._pause_seconds, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._not_before = self._clock() + self._pause_seconds


def _is_fruitless(state: NvmlState) -> bool:
    """True if no device answers, for no reason of a device's own: there may be more to see after a new start."""
    troubles = [device.trouble for device in state.devices] + [trouble for _, trouble in state.unidentified_devices]
    return all(trouble in _NO_ACCESS for trouble in troubles)
