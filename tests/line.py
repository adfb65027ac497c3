"""The whole line in one process: the real sources over the four stand-ins, a cycle at a time, and the page that comes out."""

import asyncio
import contextlib
import functools
import os
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution.wanted import annotations_wanted
from exporter.config.loading import load_config
from exporter.config.policy import ownership_policy
from exporter.exposition.rendering import Format, metric_pages
from exporter.model.published import Build, Published
from exporter.model.reading import Fresh
from exporter.pipeline import Settings, Sources, beginning, run_cycle
from exporter.simulator.node import SimulatedNode
from exporter.simulator.nvml.build import build_library
from exporter.simulator.nvml.state import environment
from exporter.simulator.world import World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Namespaces, Node, Owners
from exporter.sources.kubernetes.pods import Pods
from exporter.sources.nvml.source import Nvml
from exporter.sources.podresources.source import PodResources
from exporter.sources.procfs.source import ProcFs
from tests.page import Page, assert_sound

BUILD = Build(version="0", commit="", python="", simulated=True)
PATIENCE_SECONDS = 5.0
PodMarks = set[tuple[str, str, tuple[tuple[str, str], ...]]]
"""UID, phase and labels of each pod: enough to see whether a change has arrived."""


@dataclass(slots=True)
class Line:
    """A simulated node, and the exporter's inside on it."""

    node: SimulatedNode
    sources: Sources
    settings: Settings
    published: Published
    pages: list[Page] = field(default_factory=list)

    async def cycle(self) -> Page:
        """One cycle over the world as it is; the page that it gives must be sound."""
        self.published = await run_cycle(self.sources, self.settings, self.published)
        page = Page(metric_pages(BUILD, ())[Format.TEXT](self.published).decode())
        assert_sound(page)
        self.pages.append(page)
        return page

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
async def a_line(folder: Path, world: World, *, node_name: str = "", max_age_seconds: float = 60.0) -> AsyncIterator[Line]:
    """Start a simulated node that shows `world`, and the real sources on it; `node_name` is what they take it for."""
    name = node_name or world.node
    node = SimulatedNode(folder, world, library=_library())
    await node.start()
    os.environ.update(environment(node.state))
    config = load_config(None, {}, node.settings())
    policy = ownership_policy(config)
    keys = annotations_wanted(policy)
    connection = Connection(api_server=node.api_url)
    pods = Pods(connection, node=name, annotation_keys=keys, watch_timeout_seconds=60.0)
    nvml = Nvml(library=str(node.library), deadline_seconds=2.0)
    procfs = ProcFs(node.proc, deadline_seconds=2.0)
    pod_resources = PodResources(socket=node.socket, interval_seconds=0.0, deadline_seconds=2.0, max_message_bytes=64 << 20)
    sources = Sources(
        nvml=nvml,
        pod_resources=pod_resources,
        pods=pods,
        node=Node(connection, node=name),
        procfs=procfs,
        owners=Owners(connection, annotation_keys=keys),
        namespaces=Namespaces(connection, annotation_keys=keys),
    )
    settings = Settings(node=name, build=BUILD, policy=policy, max_age_seconds=max_age_seconds)
    line = Line(node, sources, settings, beginning(settings))
    following = asyncio.create_task(pods.run())
    try:
        if not node_name:
            await line.settled()
        yield line
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        for source in (connection, pod_resources, procfs, nvml):
            await source.close()
        await node.stop()
