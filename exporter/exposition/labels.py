"""The label sets of the contract: D (device), M (MIG instance), C (container), O (owner) and the pod's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.catalogue import RESERVED_LABELS
from exporter.exposition.families import Labels
from exporter.model.attribution import ContainerRow, Ownership, PodRow
from exporter.model.device import Device, MigInstance
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import ContainerSubject, DeviceSubject, MigSubject, OwnerLabels, OwnerSubject, Subject
from exporter.model.published import Published

_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Labeller:
    """What labels need beside the row that they stand for."""

    node: str
    indexes: Mapping[DeviceUuid, int]
    extra_labels: tuple[str, ...]

    def device(self, device: Device) -> Labels:
        """D."""
        return {"node": self.node, "gpu": str(device.index), "uuid": device.uuid}

    def container(self, row: ContainerRow) -> Labels:
        """D, M where the row is on a MIG instance, C and O."""
        index = self.indexes.get(row.device)
        return {
            **self.owner(row.owner),
            "node": self.node,
            "gpu": "" if index is None else str(index),
            "uuid": row.device,
            **({} if row.mig is None else mig_labels(row.mig)),
            "namespace": row.container.namespace,
            "pod": row.container.pod,
            "container": row.container.container,
        }

    def subject(self, subject: Subject) -> Labels:
        """The labels under which a counter is kept, whether or not its subject is still there."""
        match subject:
            case DeviceSubject():
                return {"node": self.node, "gpu": str(subject.gpu), "uuid": subject.uuid}
            case MigSubject():
                return {**self.subject(subject.device), **_mig_subject_labels(subject)}
            case ContainerSubject():
                return {
                    **self.owner(subject.owner),
                    **self.subject(subject.device if subject.mig is None else subject.mig),
                    "namespace": subject.namespace,
                    "pod": subject.pod,
                    "container": subject.container,
                }
            case OwnerSubject():
                return {
                    **self._extra(subject.extra),
                    "node": self.node,
                    "model": subject.model,
                    "namespace": subject.namespace,
                    "team": subject.team,
                    "cost_center": subject.cost_center,
                    "workload_class": subject.workload_class.value,
                }

    def pod(self, row: PodRow) -> Labels:
        """The pod's, and O."""
        return {**self.owner(row.owner), "namespace": row.namespace, "pod": row.pod, "uid": row.uid, "node": self.node}

    def owner(self, owner: Ownership | OwnerLabels) -> Labels:
        """O."""
        return {
            **self._extra(owner.extra),
            "workload_type": owner.workload_type,
            "workload": owner.workload,
            "workload_class": owner.workload_class.value,
            "team": owner.team,
            "cost_center": owner.cost_center,
        }

    def _extra(self, extra: tuple[tuple[str, str], ...]) -> Labels:
        """Those that are configured; an extra label never replaces one of the contract's."""
        return {name: value for name, value in extra if name in self.extra_labels}


def refuse_unusable(extra_labels: tuple[str, ...]) -> None:
    """Raise ValueError for names that would make a line invalid or replace a label of the contract."""
    unusable = [name for name in extra_labels if name in RESERVED_LABELS or not _LABEL_NAME.fullmatch(name)]
    if unusable or len(set(extra_labels)) < len(extra_labels):
        raise ValueError(f"unusable or repeated extra labels: {', '.join(unusable or extra_labels)}")


def labeller(published: Published, extra_labels: tuple[str, ...]) -> Labeller:
    """The labeller of one cycle."""
    indexes = {row.device.uuid: row.device.index for row in published.attribution.devices}
    return Labeller(published.snapshot.node, indexes, extra_labels)


def _mig_subject_labels(subject: MigSubject) -> Labels:
    instance = "" if subject.compute_instance_id is None else str(subject.compute_instance_id)
    return {
        "gpu_instance_id": str(subject.gpu_instance_id),
        "compute_instance_id": instance,
        "mig_profile": subject.profile,
    }


def mig_labels(instance: MigInstance) -> Labels:
    """M."""
    return {
        "gpu_instance_id": str(instance.gpu_instance_id),
        "compute_instance_id": str(instance.compute_instance_id),
        "mig_profile": instance.profile,
    }
