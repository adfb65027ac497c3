"""The whole line in one process: the real sources over the four stand-ins, a cycle at a time, and the page that comes out."""

import asyncio
import contextlib
import functools
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.accounting.codec import decode, encode
from exporter.attribution.wanted import annotations_wanted
from exporter.config.loading import load_config
from exporter.config.policy import ownership_policy
from exporter.exposition.rendering import Format, metric_pages
from exporter.model.ids import DeviceUuid
from exporter.model.ledger import LedgerRules
from exporter.model.policy import PriceBook
from exporter.model.published import Build, Published
from exporter.model.reading import Fresh
from exporter.pipeline import Clock, Settings, Sources, beginning, run_cycle, save
from exporter.simulator.node import SimulatedNode
from exporter.simulator.nvml.build import build_library
from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.nvml.state import environment
from exporter.simulator.world import World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Namespaces, Node, Owners
from exporter.sources.kubernetes.pods import Pods
from exporter.sources.nvml.source import Nvml
from exporter.sources.podresources.source import PodResources
from exporter.sources.procfs.source import ProcFs
from exporter.store.state_file import NoStateFile, StateFile
from tests.page import Page, assert_sound

BUILD = Build(version="0", commit="", python="", simulated=True)
PATIENCE_SECONDS = 5.0
AT_ONCE = LedgerRules(birth_hold_seconds=0.0)
"""What is counted is published in the same cycle: births are for the tests that are about them."""
PodMarks = set[tuple[str, str, tuple[tuple[str, str], ...]]]
"""UID, phase and labels of each pod: enough to see whether a change has arrived."""


class SimTime:
    """Time that stands still until it is advanced: the host's two clocks and the GPUs' go together.

    Give the same one to two lines, one after the other, and the exporter has been restarted on a node that went on.
    """

    def __init__(self, folder: Path, *, seconds: float = 1000.0, started_timestamp_seconds: float = 1_796_000_000.0) -> None:
        """Make it stand still.

        Args:
            folder: Where the file of the GPUs' clock goes.
            seconds: What the GPUs' clock says: so long ago the driver was loaded.
            started_timestamp_seconds: What the wall clock says.
        """
        self.gpus = SimClock(folder / "gpu-clock", round(seconds * 1e6))
        self._began_us = self.gpus.now_us
        self._monotonic = seconds
        self._wall = started_timestamp_seconds

    @property
    def passed_seconds(self) -> float:
        """Since it was made."""
        return (self.gpus.now_us - self._began_us) / 1e6

    @property
    def clock(self) -> Clock:
        """For everything that reads the time."""
        return Clock(lambda: self._monotonic + self.passed_seconds, lambda: self._wall + self.passed_seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.gpus.advance_us(round(seconds * 1e6))


@dataclass(slots=True)
class Line:
    """A simulated node, and the exporter's inside on it."""

    node: SimulatedNode
    sources: Sources
    settings: Settings
    store: StateFile | NoStateFile
    outcome: Published
    """What the next cycle goes on from."""
    published: Published
    """What is shown: the same, unless the state file cannot be written."""
    time: SimTime | None = None
    pages: list[Page] = field(default_factory=list)

    async def cycle(self) -> Page:
        """One cycle over the world as it is; the page that it gives must be sound."""
        self.outcome = await run_cycle(self.sources, self.settings, self.outcome)
        self.outcome, self.published = await save(self.store, self.outcome)
        page = Page(metric_pages(BUILD, ())[Format.TEXT](self.published).decode())
        assert_sound(page)
        self.pages.append(page)
        return page

    async def cycles(self, count: int, *, seconds: float | None = None) -> list[Page]:
        """Let an interval (or so many seconds) of simulated time pass before each of so many cycles; their pages."""
        assert self.time is not None, "a_line(..., sim_time=SimTime(folder)) is wanted"
        pages = []
        for _ in range(count):
            self.time.advance(self.settings.interval_seconds if seconds is None else seconds)
            pages.append(await self.cycle())
        return pages

    async def show(self, world: World) -> Page:
        """Change the world, and one cycle over it once the watch has told of it."""
        self.node.show(world)
        await self.settled()
        return await self.cycle()

    async def settled(self) -> None:
        """Wait until the pod source knows what the API shows."""
        expected = _shown(self.node.world)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self._known() != expected:
                await asyncio.sleep(0.01)

    def _known(self) -> PodMarks | None:
        reading = self.sources.pods.read()
        if not isinstance(reading, Fresh):
            return None
        pods = reading.value.pods.values()
        return {(pod.uid, pod.phase.value, tuple(pod.labels.items())) for pod in pods}


@functools.cache
def _library() -> Path:
    """One build for all tests of a session."""
    return build_library(Path(tempfile.mkdtemp(prefix="nvml-standin-")))


def _shown(world: World) -> PodMarks:
    if world.pod_list is None:
        return {(pod.uid, pod.phase, tuple(pod.labels.items())) for pod in world.pods if pod.in_api}
    return {
        (pod["metadata"]["uid"], pod["status"]["phase"], tuple(pod["metadata"].get("labels", {}).items()))
        for pod in world.pod_list["items"]
    }


@contextlib.asynccontextmanager
async def a_line(
    folder: Path,
    world: World,
    *,
    node_name: str = "",
    max_age_seconds: float = 60.0,
    rules: LedgerRules = AT_ONCE,
    prices: PriceBook | None = None,
    sim_time: SimTime | None = None,
    state_file: Path | None = None,
) -> AsyncIterator[Line]:
    """Start a simulated node that shows `world`, and the real sources on it.

    Args:
        folder: Where the node's files go.
        world: What it is like at first.
        node_name: What the sources take it for; empty: what it is called.
        max_age_seconds: How long holdings and metadata are kept.
        rules: When what is counted is published.
        prices: What a GPU costs; None: nobody knows.
        sim_time: The clocks of host and GPUs; None: the real ones.
        state_file: Where the ledger survives; None: it does not.
    """
    name = node_name or world.node
    node = SimulatedNode(folder, world, library=_library(), clock=sim_time.gpus if sim_time else None)
    await node.start()
    os.environ.update(environment(node.state, node.clock))
    policy = replace(ownership_policy(load_config(None, {}, node.settings())), prices=prices or PriceBook())
    clock = sim_time.clock if sim_time else Clock()
    settings = Settings(node=name, build=BUILD, policy=policy, max_age_seconds=max_age_seconds, ledger=rules, clock=clock)
    store = _store(state_file, name, clock)
    ledger = await store.load()
    sources, to_close = _sources(node, settings, ledger.gpu_indexes)
    begun = beginning(settings, ledger)
    line = Line(node, sources, settings, store, begun, begun, sim_time)
    following = asyncio.create_task(sources.pods.run())
    try:
        if not node_name:
            await line.settled()
        yield line
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        for each in (*to_close, store):
            await each.close()
        await node.stop()


def _store(state_file: Path | None, node: str, clock: Clock) -> StateFile | NoStateFile:
    if state_file is None:
        return NoStateFile()
    coder = functools.partial(encode, node=node), functools.partial(decode, node=node)
    return StateFile(state_file, encode=coder[0], decode=coder[1], wall=clock.wall)


def _sources(
    node: SimulatedNode, settings: Settings, indexes: Mapping[DeviceUuid, int]
) -> tuple[Sources, tuple[Connection | PodResources | ProcFs | Nvml, ...]]:
    """The sources, and what has to be closed at the end."""
    keys = annotations_wanted(settings.policy)
    # Deadlines and timeouts are real time; what is said to have been read when, and for how long it counts, is not.
    clock = settings.clock.monotonic
    connection = Connection(api_server=node.api_url)
    nvml = Nvml(library=str(node.library), deadline_seconds=2.0, indexes=indexes, clock=clock)
    procfs = ProcFs(node.proc, deadline_seconds=2.0, clock=clock)
    pod_resources = PodResources(
        socket=node.socket, interval_seconds=0.0, deadline_seconds=2.0, max_message_bytes=64 << 20, clock=clock
    )
    sources = Sources(
        nvml=nvml,
        pod_resources=pod_resources,
        pods=Pods(connection, node=settings.node, annotation_keys=keys, watch_timeout_seconds=60.0, clock=clock),
        node=Node(connection, node=settings.node, clock=clock),
        procfs=procfs,
        owners=Owners(connection, annotation_keys=keys, clock=clock),
        namespaces=Namespaces(connection, annotation_keys=keys, clock=clock),
    )
    return sources, (connection, pod_resources, procfs, nvml)
