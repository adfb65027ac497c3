"""What is remembered of one GPU between cycles: who it is, what it cannot say, where its samples ended. No measured value."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

import pynvml

from exporter.model.device import Device, DeviceTrouble, MigInstance, MigMode
from exporter.model.ids import DeviceUuid, MigUuid
from exporter.sources.nvml import library, mig
from exporter.sources.nvml.accounting import AccountingMemory
from exporter.sources.nvml.gpm import GpmMemory
from exporter.sources.nvml.library import Handle
from exporter.sources.nvml.readings import Calls, Readings
from exporter.sources.nvml.samples import SampleMemory

_PREFIX = "NVML_DEVICE_ARCH_"
_ARCHITECTURES: dict[int, str] = {
    number: name.removeprefix(_PREFIX).capitalize()
    for name, number in vars(pynvml).items()
    if name.startswith(_PREFIX) and not name.endswith("UNKNOWN")
}


@dataclass(slots=True)
class Known:
    """A GPU that has told its UUID."""

    uuid: DeviceUuid
    index: int
    """NVML's index when the UUID was first seen."""
    slot: int
    """NVML's index when it was last seen."""
    generation: int
    """The last initialisation of the driver in which it was seen."""
    model: str = ""
    pci_bus_id: str = ""
    minor_number: int | None = None
    architecture: str = ""
    mig_mode: MigMode = MigMode.UNKNOWN
    mig_slices: int | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    trouble: DeviceTrouble | None = None
    """Of the last cycle."""
    process_cursor_us: int = 0
    """Newest moment of a process' sample; 0: none was told."""
    process_quiet_seconds: float = inf
    """Time for which no process has told a newer one; infinite while nobody knows how old the first was."""
    samples: SampleMemory = field(default_factory=SampleMemory)
    gpm: GpmMemory = field(default_factory=GpmMemory)
    accounting: AccountingMemory = field(default_factory=AccountingMemory)
    calls: Calls = field(default_factory=Calls)
    instance_calls: dict[MigUuid, Calls] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """For a log line."""
        return f"GPU {self.index} ({self.uuid})"

    def forget_driver(self) -> None:
        """After a new initialisation: another driver may know more calls, and counts its samples anew."""
        self.calls.clear()
        self.instance_calls.clear()
        # Samples of GPM went with the driver; nobody is left to take them back.
        self.gpm = GpmMemory()
        self.forget_samples()

    def forget_samples(self) -> None:
        """What it did meanwhile cannot be told from what it did before."""
        self.process_cursor_us, self.process_quiet_seconds = 0, inf
        self.samples = SampleMemory()
        self.accounting = AccountingMemory()

    def identify(self, readings: Readings, handle: Handle) -> None:
        """Asks for whatever of its identity it has not told yet."""
        self.model = (
            self.model or readings.ask("nvmlDeviceGetName", lambda: library.read_text("nvmlDeviceGetName", handle)) or ""
        )
        if not self.pci_bus_id:
            self.pci_bus_id = readings.ask("nvmlDeviceGetPciInfo_v3", lambda: library.read_bus_id(handle)) or ""
        if self.minor_number is None:
            self.minor_number = readings.ask("nvmlDeviceGetMinorNumber", lambda: int(pynvml.nvmlDeviceGetMinorNumber(handle)))
        if not self.architecture:
            number = readings.ask("nvmlDeviceGetArchitecture", lambda: int(pynvml.nvmlDeviceGetArchitecture(handle)))
            self.architecture = "" if number is None else _ARCHITECTURES.get(number, "")

    def update_mig_mode(self, readings: Readings, handle: Handle) -> None:
        """Asks for the mode; the last one stands if the call fails, since a change needs a GPU that nobody holds open."""
        number = mig.read_mode(readings, handle)
        mode = self.mig_mode
        if number is not None:
            mode = MigMode.ENABLED if number else MigMode.DISABLED
        elif not readings.can_answer("nvmlDeviceGetMigMode"):
            mode = MigMode.UNSUPPORTED
        if mode is not self.mig_mode and MigMode.ENABLED in {mode, self.mig_mode}:
            # What a GPU can say depends on the mode: utilisation is there without MIG only.
            self.calls.clear()
            self.calls.answered.add("nvmlDeviceGetMigMode")
            self.gpm.supported = None
            self.forget_samples()
        self.mig_mode = mode

    def remember_instances(self, live: Iterable[mig.LiveInstance], slices: int | None) -> None:
        """Keeps who the instances are, for as long as the GPU may not answer."""
        found = tuple(one.instance for one in live)
        self.mig_slices = slices
        self.mig_instances = tuple(replace(one, memory_used_bytes=None, memory_total_bytes=None) for one in found)
        self.instance_calls = {one.uuid: self.instance_calls.get(one.uuid, Calls()) for one in found}

    def without_answer(self, trouble: DeviceTrouble) -> Device:
        """The device as one that did not answer: identity and layout as last told, nothing measured."""
        self.forget_samples()
        return Device(
            uuid=self.uuid,
            index=self.index,
            model=self.model,
            pci_bus_id=self.pci_bus_id,
            minor_number=self.minor_number,
            architecture=self.architecture,
            mig_mode=self.mig_mode,
            mig_slices=self.mig_slices,
            mig_instances=self.mig_instances,
            trouble=trouble,
        )
