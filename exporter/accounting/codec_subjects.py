"""The labels of a saved ledger's counters: each label set is written once, and everything else names it by its place."""

from collections.abc import Iterable

from exporter.accounting.codec_checks import damaged, member, row, rows, text, whole
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import ContainerSubject, DeviceSubject, MigSubject, OwnerLabels, OwnerSubject, Subject
from exporter.model.policy import WorkloadClass


class SubjectTable:
    """Gives every subject its place while a ledger is written."""

    def __init__(self) -> None:
        self.rows: list[list[object]] = []
        """A row names earlier rows only."""
        self._places: dict[Subject, int] = {}

    def place(self, subject: Subject) -> int:
        """Where it stands; it is written when it is first asked for."""
        known = self._places.get(subject)
        if known is None:
            found = self._row(subject)
            known = self._places[subject] = len(self.rows)
            self.rows.append(found)
        return known

    def _row(self, subject: Subject) -> list[object]:
        match subject:
            case DeviceSubject(gpu, uuid):
                return ["device", gpu, uuid]
            case MigSubject(device, gpu_instance_id, compute_instance_id, profile):
                return ["mig", self.place(device), gpu_instance_id, compute_instance_id, profile]
            case ContainerSubject(device, mig, namespace, pod, container, owner):
                where = [self.place(device), None if mig is None else self.place(mig)]
                return ["container", *where, namespace, pod, container, *_owner_labels(owner)]
            case OwnerSubject(model, namespace, team, cost_center, workload_class, extra):
                return ["owner", model, namespace, team, cost_center, workload_class.value, _further_labels(extra)]


class Subjects:
    """The subjects of a document, by their places.

    Raises:
        RefusedStateError: damaged.
    """

    def __init__(self, document: object) -> None:
        self._all: list[Subject] = []
        for each in rows(document):
            self._all.append(self._read(each))
        if len(set(self._all)) != len(self._all):
            raise damaged("a subject stands there twice")

    def any(self, place: object) -> Subject:
        """The subject at a place."""
        number = whole(place)
        if number >= len(self._all):
            raise damaged("a subject is named that is not there")
        return self._all[number]

    def container(self, place: object) -> ContainerSubject:
        """The container at a place."""
        found = self.any(place)
        if not isinstance(found, ContainerSubject):
            raise damaged("a container is wanted")
        return found

    def owner(self, place: object) -> OwnerSubject:
        """The owner at a place."""
        found = self.any(place)
        if not isinstance(found, OwnerSubject):
            raise damaged("an owner is wanted")
        return found

    def _device(self, place: object) -> DeviceSubject:
        found = self.any(place)
        if not isinstance(found, DeviceSubject):
            raise damaged("a device is wanted")
        return found

    def _mig(self, place: object) -> MigSubject | None:
        if place is None:
            return None
        found = self.any(place)
        if not isinstance(found, MigSubject):
            raise damaged("a MIG instance is wanted")
        return found

    def _read(self, document: object) -> Subject:
        match rows(document):
            case ["device", gpu, uuid]:
                return DeviceSubject(whole(gpu), DeviceUuid(text(uuid)))
            case ["mig", device, gi, ci, profile]:
                return MigSubject(self._device(device), whole(gi), None if ci is None else whole(ci), text(profile))
            case ["container", device, mig, namespace, pod, container, *owner]:
                return ContainerSubject(
                    self._device(device), self._mig(mig), text(namespace), text(pod), text(container), _read_labels(owner)
                )
            case ["owner", model, namespace, team, cost_center, workload_class, further]:
                names = (text(model), text(namespace), text(team), text(cost_center))
                return OwnerSubject(*names, member(WorkloadClass, workload_class), _read_further(further))
            case _:
                raise damaged("a subject is wanted")


def _owner_labels(owner: OwnerLabels) -> list[object]:
    names = [owner.workload_type, owner.workload, owner.workload_class.value, owner.team, owner.cost_center]
    return [*names, _further_labels(owner.extra)]


def _further_labels(extra: Iterable[tuple[str, str]]) -> list[list[str]]:
    return [[name, value] for name, value in extra]


def _read_labels(document: object) -> OwnerLabels:
    kind, workload, workload_class, team, cost_center, further = row(document, 6)
    return OwnerLabels(
        text(kind),
        text(workload),
        member(WorkloadClass, workload_class),
        text(team),
        text(cost_center),
        _read_further(further),
    )


def _read_further(document: object) -> tuple[tuple[str, str], ...]:
    pairs = (row(each, 2) for each in rows(document))
    return tuple((text(name), text(value)) for name, value in pairs)
