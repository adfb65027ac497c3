"""All GPUs of the node in one cycle: one that fails costs itself only; one that was seen stays until the driver starts anew."""

import logging
from collections.abc import Callable, Container, Mapping
from typing import Final

import pynvml

from exporter.model.device import Device, DeviceTrouble, MigMode
from exporter.model.ids import DeviceUuid
from exporter.sources.nvml import codes, library, measures, mig, processes
from exporter.sources.nvml.gpm import GpmReading, Key, read_gpm
from exporter.sources.nvml.known import Known
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.process_use import read_process_use
from exporter.sources.nvml.readings import Readings, Watch
from exporter.sources.nvml.samples import read_activity

_MOST_DEVICES: Final = 256
_MIG_SLOTS: Final = 8
"""Asked through where the driver does not tell how many there can be."""
_NOWHERE: Final = -1
WHOLE_GPU: Final[Key] = (None, frozenset())

logger = logging.getLogger(__name__)


class Devices:
    """What is known of the node's GPUs; for one thread."""

    def __init__(
        self, watch: Watch, clock: Callable[[], float], *, gpm: bool, accounting: bool, indexes: Mapping[DeviceUuid, int]
    ) -> None:
        """Nothing is asked yet.

        Args:
            watch: told of each call.
            clock: monotonic seconds.
            gpm: whether GPM may be used.
            accounting: whether the driver's accounts of processes may be used.
            indexes: by UUID, of GPUs that an earlier run has seen.
        """
        self._watch = watch
        self._clock = clock
        self._gpm = gpm
        self._accounting = accounting
        self._indexes = indexes
        self._generation = 0
        self._count = 0
        self._handles: dict[int, Handle] = {}
        self._known: dict[DeviceUuid, Known] = {}
        self._unidentified: dict[int, DeviceTrouble] = {}

    def begin_generation(self) -> None:
        """The driver was initialised: no handle is good any more, and whoever is not seen again is gone."""
        self._generation += 1
        self._handles.clear()
        for known in self._known.values():
            known.forget_driver()

    def release(self) -> None:
        """Give back what the driver keeps for us, before it is shut down."""
        for known in self._known.values():
            known.gpm.release()

    def read(self) -> tuple[tuple[Device, ...], tuple[tuple[int, DeviceTrouble], ...]]:
        """Devices in order of their index, and (index, why) of those that never told their UUID.

        Raises:
            DriverGoneError: NVML as a whole does not answer.
        """
        found: dict[DeviceUuid, Device] = {}
        silent: dict[int, DeviceTrouble] = {}
        for slot in range(self._read_count()):
            handle = self._find(slot, found)
            if isinstance(handle, DeviceTrouble):
                silent[slot] = handle
            else:
                found[handle[1]] = self._read_device(slot, *handle)
        self._name_silent(found, silent)
        for uuid, known in self._known.items():
            if uuid not in found and known.generation == self._generation:
                found[uuid] = known.without_answer(DeviceTrouble.LOST)
        self._log_changes(found, silent)
        return tuple(sorted(found.values(), key=lambda device: (device.index, device.uuid))), tuple(sorted(silent.items()))

    def _read_count(self) -> int:
        call = "nvmlDeviceGetCount_v2"
        self._watch.call = call
        try:
            count = min(int(pynvml.nvmlDeviceGetCount()), _MOST_DEVICES)
        except pynvml.NVMLError as error:
            raise codes.driver_gone(error.value, call) from error
        if count != self._count:
            # Indices may have moved: what was behind one of them says nothing now.
            self._handles.clear()
            self._count = count
        return count

    def _find(self, slot: int, taken: Container[DeviceUuid]) -> tuple[Handle, DeviceUuid] | DeviceTrouble:
        """The device behind an index.

        A handle is kept between cycles, and looked up again if it does not answer, or is that of a device found elsewhere.
        """
        trouble = DeviceTrouble.UNKNOWN
        cached = self._handles.pop(slot, None)
        for handle in (None,) if cached is None else (cached, None):
            try:
                found = self._ask_uuid(slot, handle)
            except codes.DeviceGoneError as gone:
                trouble = gone.trouble
            except pynvml.NVMLError as error:
                trouble = codes.trouble_of(error.value)
            else:
                if found[1] not in taken:
                    self._handles[slot] = found[0]
                    return found
        return trouble

    def _ask_uuid(self, slot: int, handle: Handle | None) -> tuple[Handle, DeviceUuid]:
        call = "nvmlDeviceGetHandleByIndex_v2"
        try:
            if handle is None:
                self._watch.call = f"{call} (GPU {slot})"
                handle = Handle(pynvml.nvmlDeviceGetHandleByIndex(slot))
            call = "nvmlDeviceGetUUID"
            self._watch.call = f"{call} (GPU {slot})"
            uuid = DeviceUuid(library.read_text(call, handle))
        except pynvml.NVMLError as error:
            codes.raise_if_gone(error.value, call)
            raise
        if not uuid:
            raise codes.DeviceGoneError(DeviceTrouble.UNKNOWN)
        return handle, uuid

    def _read_device(self, slot: int, handle: Handle, uuid: DeviceUuid) -> Device:
        index = self._indexes.get(uuid, slot)
        known = self._known.setdefault(uuid, Known(uuid=uuid, index=index, slot=slot, generation=self._generation))
        for other in self._known.values():
            if other.slot == slot:
                other.slot = _NOWHERE
        known.slot = slot
        known.generation = self._generation
        try:
            return self._measure(known, handle)
        except codes.DeviceGoneError as gone:
            return known.without_answer(gone.trouble)

    def _measure(self, known: Known, handle: Handle) -> Device:
        readings = Readings(known.calls, self._watch, known.subject)
        known.identify(readings, handle)
        known.update_mig_mode(readings, handle)
        slices, live = self._read_mig(known, readings, handle)
        known.remember_instances(live, slices)
        measured = read_activity(readings, handle, known.samples, now := self._clock())
        gpm = self._read_gpm(known, readings, handle, live, now)
        memory = measures.read_memory(readings, handle)
        power_watts, power_limit_watts = measures.read_power(readings, handle)
        listed = processes.read_processes(readings, handle, live, memory.total_bytes)
        whole = gpm.get(WHOLE_GPU)
        return Device(
            uuid=known.uuid,
            index=known.index,
            model=known.model,
            pci_bus_id=known.pci_bus_id,
            minor_number=known.minor_number,
            architecture=known.architecture,
            mig_mode=known.mig_mode,
            mig_slices=slices,
            mig_instances=mig.measured_instances(live, gpm),
            utilization_ratio=measured.utilization_ratio,
            activity=measured.activity,
            sm_active_ratio=None if whole is None else whole.sm_ratio,
            tensor_active_ratio=None if whole is None else whole.tensor_ratio,
            memory_used_bytes=memory.used_bytes,
            memory_reserved_bytes=memory.reserved_bytes,
            memory_total_bytes=memory.total_bytes,
            power_watts=power_watts,
            power_limit_watts=power_limit_watts,
            temperature_celsius=measures.read_temperature_celsius(readings, handle),
            energy_joules=measures.read_energy_joules(readings, handle),
            ecc_errors=measures.read_ecc_errors(readings, handle),
            row_remap_pending=measures.read_row_remap_pending(readings, handle),
            clock_event_seconds=measures.read_clock_event_seconds(readings, handle),
            processes=listed,
            process_use=read_process_use(readings, handle, known, measured, listed, accounting=self._accounting),
            rejected=tuple(readings.rejected),
            failed_calls=tuple(readings.failed),
        )

    @staticmethod
    def _read_mig(known: Known, readings: Readings, handle: Handle) -> tuple[int | None, list[mig.LiveInstance]]:
        if known.mig_mode is not MigMode.ENABLED:
            return None, []
        slices = mig.read_slices(readings, handle)
        slots = slices or known.mig_slices or _MIG_SLOTS
        return slices, mig.read_instances(readings, handle, slots, known.instance_calls, known.subject)

    def _read_gpm(
        self, known: Known, readings: Readings, handle: Handle, live: list[mig.LiveInstance], now: float
    ) -> dict[Key, GpmReading]:
        if not self._gpm:
            return {}
        keys = [WHOLE_GPU] if known.mig_mode is not MigMode.ENABLED else mig.gpm_keys(live)
        return read_gpm(readings, handle, known.gpm, keys, now)

    def _name_silent(self, found: dict[DeviceUuid, Device], silent: dict[int, DeviceTrouble]) -> None:
        """Gives an index that does not answer the UUID that was last seen there, if that UUID is nowhere else."""
        for known in self._known.values():
            if known.uuid not in found and known.slot in silent:
                known.generation = self._generation
                found[known.uuid] = known.without_answer(silent.pop(known.slot))

    def _log_changes(self, found: dict[DeviceUuid, Device], silent: dict[int, DeviceTrouble]) -> None:
        for uuid, device in found.items():
            known = self._known[uuid]
            if device.trouble is not None and device.trouble is not known.trouble:
                logger.warning("%s does not answer: %s", known.subject, device.trouble)
            elif device.trouble is None and known.trouble is not None:
                logger.info("%s answers again", known.subject)
            known.trouble = device.trouble
        for slot, trouble in silent.items():
            if self._unidentified.get(slot) is not trouble:
                logger.warning("GPU at index %d does not tell its UUID: %s", slot, trouble)
        self._unidentified = dict(silent)
