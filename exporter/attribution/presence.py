"""Who is on a device: its processes laid on the containers and instances that they belong to."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from exporter.attribution.holders import Held
from exporter.attribution.processes import Whose
from exporter.model.attribution import UnattributedReason
from exporter.model.device import Device, GpuProcess, ProcessKind
from exporter.model.ids import ContainerKey, MigKey

MAY_BE_ANYBODYS = frozenset({UnattributedReason.UNRESOLVED_PID, UnattributedReason.NOT_IN_POD})

RowKey = tuple[ContainerKey, MigKey | None]
"""A container on a device, or on one MIG instance of it."""


@dataclass(frozen=True, slots=True)
class Laid:
    """One process on one place of the device."""

    pid: int
    whose: Whose
    mig: MigKey | None
    memory_used_bytes: int | None
    """None where the driver cannot tell."""
    kinds: frozenset[ProcessKind]

    @property
    def owner(self) -> RowKey | UnattributedReason:
        """The row that its use counts for, or the reason why there is none."""
        return self.whose if isinstance(self.whose, UnattributedReason) else (self.whose, self.mig)


@dataclass(frozen=True, slots=True)
class Presence:
    """Everybody on one device in this cycle, holders and users."""

    device: Device
    holders: frozenset[RowKey]
    laid: tuple[Laid, ...] | None
    """None if the driver's list could not be read."""
    whose: Mapping[int, Whose]
    """By PID, also for processes that only the activity samples name."""
    processes_known: bool
    """False if /proc could not be read: then neither a PID nor an empty list says anything."""

    @property
    def rows(self) -> frozenset[RowKey]:
        """All containers that hold or use the device."""
        users = {owner for one in self.laid or () if not isinstance(owner := one.owner, UnattributedReason)}
        sampled = {(whose, None) for whose in self.whose.values() if not isinstance(whose, UnattributedReason)}
        on_device = {container for container, _ in users | self.holders}
        return self.holders | users | {row for row in sampled if row[0] not in on_device}

    def processes(self, row: RowKey) -> int | None:
        """How many processes the row has; 0 only if it is certain that it has none."""
        own = self.own(row)
        if own is None or not self.processes_known or (not own and self.may_be_hidden(row)):
            return None
        return len({one.pid for one in own})

    def own(self, row: RowKey) -> tuple[Laid, ...] | None:
        """The row's processes; None if the driver's list could not be read."""
        return None if self.laid is None else tuple(one for one in self.laid if one.owner == row)

    def may_be_hidden(self, row: RowKey) -> bool:
        """True if a row without a process may have one all the same.

        That is so beside a PID that we could not look up, beside a process of the same pod whose container is not known,
        beside a container outside all pods (a sandboxed runtime's virtual machine), and where an MPS server is listed in its
        clients' stead.
        """
        container, mig = row
        near = [one for one in self.laid or () if one.mig in {None, mig} or mig is None]
        unnamed = [one for one in near if _is_of_pod(one.whose, container)]
        clients = [one for one in near if isinstance(one.whose, ContainerKey)]
        reasons = {one.whose for one in near}
        behind_server = UnattributedReason.MPS_SERVER in reasons and not clients
        return bool(reasons & MAY_BE_ANYBODYS) or behind_server or bool(unnamed)


def who_is_here(
    device: Device,
    held: Iterable[Held],
    whose: Mapping[int, Whose],
    is_server: Callable[[int], bool],
    *,
    processes_known: bool,
) -> Presence:
    """Lay the device's processes.

    Args:
        device: The device.
        held: What is held of it.
        whose: Owner of each PID.
        is_server: True for a PID that is an MPS server.
        processes_known: Whether /proc could be read.
    """
    holders = frozenset((one.container, one.key[1]) for one in held)
    holding = {container for container, _ in holders}
    pids = {process.pid for process in device.processes or ()} | {use.pid for use in device.process_use or ()}
    here = {pid: _here(pid, whose, holding, is_server) for pid in pids}
    listed = None if device.processes is None or not device.up else _lay(device, holders, here)
    return Presence(device, holders, listed, here if device.up else {}, processes_known)


def _here(pid: int, whose: Mapping[int, Whose], holding: Collection[ContainerKey], is_server: Callable[[int], bool]) -> Whose:
    """A server works for others, unless its container holds the device itself."""
    owner = whose.get(pid, UnattributedReason.UNRESOLVED_PID)
    return UnattributedReason.MPS_SERVER if owner not in holding and is_server(pid) else owner


def _lay(device: Device, holders: Collection[RowKey], whose: Mapping[int, Whose]) -> tuple[Laid, ...]:
    """Each process once on each place; what is listed twice counts with its largest memory."""
    laid: dict[tuple[int, MigKey | None], Laid] = {}
    for process in device.processes or ():
        owner = whose[process.pid]
        mig = _instance(device, process, owner, holders)
        known = [one.memory_used_bytes for one in (laid.get((process.pid, mig)), process) if one is not None]
        memory = max((size for size in known if size is not None), default=None)
        kinds = process.kinds | (laid[process.pid, mig].kinds if (process.pid, mig) in laid else frozenset())
        laid[process.pid, mig] = Laid(process.pid, owner, mig, memory, kinds)
    return tuple(laid.values())


def _instance(device: Device, process: GpuProcess, owner: Whose, holders: Collection[RowKey]) -> MigKey | None:
    """The instance that the driver names; where it does not say enough, the only one that the container holds."""
    fitting = [
        mig.key
        for mig in device.mig_instances
        if process.gpu_instance_id in {None, mig.gpu_instance_id}
        and process.compute_instance_id in {None, mig.compute_instance_id}
    ]
    if process.gpu_instance_id is not None and len(fitting) == 1:
        return fitting[0]
    held = [key for key in fitting if (owner, key) in holders]
    return held[0] if len(held) == 1 else None


def _is_of_pod(whose: Whose, container: ContainerKey) -> bool:
    """True for a process of the container's pod of which only the pod is known."""
    if isinstance(whose, UnattributedReason) or whose.container:
        return False
    return (whose.pod_uid, whose.namespace, whose.pod) == (container.pod_uid, container.namespace, container.pod)
