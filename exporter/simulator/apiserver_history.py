"""The history of the simulated API server's pods: what changed at which resourceVersion."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.simulator.apiserver_objects import Document, pod_documents
from exporter.simulator.world import World

_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Change:
    """One event, ready to be sent."""

    version: int
    line: bytes


class PodHistory:
    """Turns differences between worlds into events."""

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 0
        """A watch from before this version is answered with 410."""
        self._pods: dict[str, Document] = {}
        self._shown: Mapping[str, Document] = {}
        self._changes: deque[Change] = deque(maxlen=_KEPT)

    def items(self) -> list[Document]:
        """All pods as of `version`."""
        return list(self._pods.values())

    def since(self, version: int) -> list[Change]:
        """Changes after `version`; version 0: the pods there are, as if just added."""
        if version == 0:
            return [Change(self.version, event_line("ADDED", document)) for document in self._pods.values()]
        return [change for change in self._changes if change.version > version]

    def show(self, world: World) -> list[Change]:
        """Take the next world; returns what changed."""
        if world.pod_list is not None:
            self.version = max(self.version, int(world.pod_list["metadata"]["resourceVersion"]))
        shown, before = pod_documents(world), self._shown
        changes = [self._changed("DELETED", uid, before[uid]) for uid in before if uid not in shown]
        for uid, document in shown.items():
            if uid not in before:
                changes.append(self._changed("ADDED", uid, document))
            elif before[uid] != document:
                changes.append(self._changed("MODIFIED", uid, document))
        self._shown = shown
        self._changes.extend(changes)
        return changes

    def forget(self) -> None:
        """Compact the history away: no version handed out so far can be resumed from."""
        self.version += 1
        self.oldest = self.version

    def bookmark(self) -> bytes:
        """An event that only moves the version on."""
        metadata = {"resourceVersion": str(self.version)}
        return event_line("BOOKMARK", {"metadata": metadata, "spec": {"containers": None}, "status": {}})

    def _changed(self, kind: str, uid: str, document: Document) -> Change:
        self.version += 1
        versioned = {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}}
        if kind == "DELETED":
            del self._pods[uid]
        else:
            self._pods[uid] = versioned
        return Change(self.version, event_line(kind, versioned))


def event_line(kind: str, document: Document, *, of_a_pod: bool = True) -> bytes:
    """One line of a watch."""
    whole = {"kind": "Pod", "apiVersion": "v1", **document} if of_a_pod else document
    return json.dumps({"type": kind, "object": whole}, separators=(",", ":")).encode() + b"\n"
