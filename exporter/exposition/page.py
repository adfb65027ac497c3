"""The node page for people, drawn from the same document as the JSON API. It needs nothing from anywhere else."""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum, unique

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from exporter.exposition import humane, wording
from exporter.exposition.api import node_document
from exporter.exposition.api_rows import Document
from exporter.exposition.families import clean
from exporter.model.attribution import State, UnattributedReason
from exporter.model.published import Build, Published

_OVERHEAD_BYTES = 1 << 30
"""A free GPU shows some memory that no process accounts for: the driver's own. More than this is somebody's."""


@unique
class Condition(StrEnum):
    """What a whole GPU, or a MIG instance, does: the look of its badge."""

    ACTIVE = "active"
    IDLE = "idle"
    UNKNOWN = "unknown"
    FREE = "free"
    UNHELD = "unheld"
    """Nobody holds it, and somebody uses it."""
    TROUBLE = "trouble"


class NodePage:
    """Draws the page. Reads its templates once, when it is made."""

    def __init__(self, build: Build, interval_seconds: float) -> None:
        self._build = build
        self._interval_seconds = interval_seconds
        environment = Environment(
            loader=PackageLoader("exporter.exposition"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals |= {"words": wording, "humane": humane}
        environment.filters |= {"percent": humane.percent, "size": humane.size, "number": humane.number}
        self._template = environment.get_template("node.html.j2")
        self._style = _source(environment, "node.css")
        self._script = _source(environment, "node.js")

    @property
    def content_security_policy(self) -> str:
        """Allows the page's own style and script, by their hashes, and nothing else."""
        return (
            "default-src 'none'; "
            f"style-src '{_hash(self._style)}'; script-src '{_hash(self._script)}'; "
            "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    def draw(self, published: Published | None, *, stalled: bool = False) -> bytes:
        """The page as UTF-8.

        Args:
            published: Outcome of the last cycle; None: there is none yet.
            stalled: True if the last cycle is older than it should be.
        """
        document = None if published is None else node_document(published)
        text = self._template.render(
            node=document,
            gpus=None if document is None or document["devices"] is None else [_gpu(each) for each in document["devices"]],
            models=[] if document is None else _models(document["devices"] or []),
            missing=[] if document is None else [each for each in document["sources"] if each["reason"]],
            stalled=stalled,
            build=self._build,
            interval_seconds=self._interval_seconds if published is None else published.interval_seconds,
            style=Markup(self._style),  # noqa: S704 - our own file
            script=Markup(self._script),  # noqa: S704 - our own file
        )
        return clean(text).encode()


def _source(environment: Environment, name: str) -> str:
    loader = environment.loader
    return "" if loader is None else loader.get_source(environment, name)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _models(devices: list[Document]) -> list[tuple[str, int]]:
    return Counter(device["model"] or "GPU of unknown model" for device in devices).most_common()


def _gpu(device: Document) -> Document:
    """A device of the document with its condition, and its holders and users sorted under its MIG instances."""
    instances = {each["mig_uuid"]: {**each, "containers": []} for each in device["mig_instances"]}
    whole: list[Document] = []
    for container in device["containers"]:
        (instances[container["mig_uuid"]]["containers"] if container["mig_uuid"] in instances else whole).append(container)
    for instance in instances.values():
        instance["condition"] = _instance_condition(instance, device)
    condition = _gpu_condition(device)
    return {
        **device,
        "containers": whole,
        "instances": list(instances.values()),
        "condition": condition.value,
        "verdict": _verdict(device, condition),
        "unattributed": [(reason, amount) for reason, amount in device["unattributed_memory_bytes"].items() if amount],
    }


def _gpu_condition(device: Document) -> Condition:
    if not device["up"]:
        return Condition.TROUBLE
    if device["allocated_ratio"] is None:
        return Condition.UNKNOWN
    if device["allocated_ratio"]:
        return _held_condition(device["containers"])
    return Condition.UNHELD if _in_use(device) else Condition.FREE


def _in_use(device: Document) -> bool:
    """Somebody is on it: a container, another process, a kernel, or memory that no process accounts for."""
    unattributed = device["unattributed_memory_bytes"]
    return bool(
        device["containers"]
        or device["measurements"]["utilization_ratio"]
        or any(amount for reason, amount in unattributed.items() if reason != UnattributedReason.NO_PROCESS)
        or unattributed.get(UnattributedReason.NO_PROCESS, 0) > _OVERHEAD_BYTES
    )


def _instance_condition(instance: Document, device: Document) -> Condition:
    if device["allocated_ratio"] is None:
        return Condition.UNKNOWN
    return _held_condition(instance["containers"]) if any(each["holds"] for each in instance["containers"]) else Condition.FREE


def _held_condition(containers: list[Document]) -> Condition:
    states = {each["state"] for each in containers if each["holds"]}
    if State.ACTIVE in states:
        return Condition.ACTIVE
    return Condition.UNKNOWN if State.UNKNOWN in states or not states else Condition.IDLE


def _verdict(device: Document, condition: Condition) -> str:
    """One sentence on the whole GPU."""
    if condition is Condition.TROUBLE:
        return wording.TROUBLES[device["trouble"]]
    if device["allocated_ratio"] is None:
        return "No source can say who holds it."
    if condition in (Condition.FREE, Condition.UNHELD):
        return "Nobody holds it, and it is used." if condition is Condition.UNHELD else "Nobody holds it."
    holders = [each for each in device["containers"] if each["holds"]]
    return _share_sentence(device["allocated_ratio"]) + _activity_sentence(holders)


def _share_sentence(allocated: float) -> str:
    almost_all = 0.995
    return "All of it is held" if allocated >= almost_all else f"{humane.percent(allocated)} of it is held"


def _activity_sentence(holders: list[Document]) -> str:
    if len(holders) <= 1:
        return "."
    counts: Mapping[str, int] = {
        word: sum(1 for each in holders if each["state"] in states)
        for word, states in (
            ("active", {State.ACTIVE}),
            ("idle", {State.IDLE_HELD, State.IDLE_EMPTY}),
            ("unknown", {State.UNKNOWN}),
        )
    }
    return f" by {len(holders)}: " + ", ".join(f"{count} {word}" for word, count in counts.items() if count) + "."
