"""Answers to look-ups of owners and namespaces, with the reason where there is none."""

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.model.reading import MissingReason, Observed
from exporter.model.workload import Lookup, LookupFailure, NamespaceTable, ObjectMeta, OwnerReference, OwnerTable

# Asking again soon will not help: metadata is complete without the answer.
_DEFINITIVE = frozenset(
    {MissingReason.DISABLED, MissingReason.FORBIDDEN, MissingReason.NOT_FOUND, MissingReason.NO_CONFIGURATION},
)
# There is nothing that could have been read: switched off, or the object does not exist any more.
_NOTHING_TO_READ = frozenset({MissingReason.DISABLED, MissingReason.NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Lookups:
    """What can be asked about the objects above a pod."""

    owners: Observed[OwnerTable]
    namespaces: Observed[NamespaceTable]

    def owner(self, namespace: str, reference: OwnerReference) -> Lookup:
        """The object that a reference in this namespace means.

        Anybody can write another object's UID: what was found counts only if kind, name and namespace are the reference's.
        """
        table = self.owners.value
        found = _look_up({} if table is None else table.objects, reference.uid, self.owners)
        if isinstance(found, ObjectMeta) and not _is_meant(found, namespace, reference):
            return LookupFailure(MissingReason.NOT_FOUND, definitive=True)
        return found

    def namespace(self, name: str) -> Lookup:
        """The namespace with this name."""
        table = self.namespaces.value
        return _look_up({} if table is None else table.namespaces, name, self.namespaces)


def _is_meant(found: ObjectMeta, namespace: str, reference: OwnerReference) -> bool:
    return (found.kind, found.name, found.namespace) == (reference.kind, reference.name, namespace)


def pending(lookup: Lookup) -> bool:
    """True if an answer may still come."""
    return isinstance(lookup, LookupFailure) and not lookup.definitive


def unreadable(lookup: Lookup) -> bool:
    """True if there is, or may be, metadata that we could not read."""
    return isinstance(lookup, LookupFailure) and lookup.reason not in _NOTHING_TO_READ


def is_definitive(reason: MissingReason) -> bool:
    """True if a source that is missing for this reason will not come back by itself soon."""
    return reason in _DEFINITIVE


def _look_up(
    answers: Mapping[str, Lookup],
    key: str,
    source: Observed[OwnerTable] | Observed[NamespaceTable],
) -> Lookup:
    found = answers.get(key)
    if found is not None:
        return found
    reason = MissingReason.STARTING if source.missing is None else source.missing.reason
    return LookupFailure(reason, definitive=is_definitive(reason))
