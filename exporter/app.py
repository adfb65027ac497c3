"""Composition root: the only file that names concrete sources. Builds them, runs the loop and the server, and ends both."""

import asyncio
import contextlib
import functools
import logging
import os
import platform
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

from aiohttp import web

from exporter import pipeline
from exporter.accounting.codec import decode, encode
from exporter.attribution.wanted import annotations_wanted
from exporter.config.policy import ledger_rules, ownership_policy
from exporter.config.schema import Config
from exporter.config.units import Address
from exporter.exposition.server import create_application, create_runner
from exporter.model.ids import DeviceUuid
from exporter.model.published import Build, Published
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Namespaces, Node, Owners
from exporter.sources.kubernetes.pods import Pods
from exporter.sources.nvml.source import Nvml
from exporter.sources.off import SwitchedOff, SwitchedOffPods
from exporter.sources.podresources.source import PodResources
from exporter.sources.procfs.source import ProcFs
from exporter.store.state_file import NoStateFile, StateFile
from exporter.version import __version__

logger = logging.getLogger(__name__)

END_AFTER_SECONDS = 4.0
"""After this time the process ends, whatever is still stuck: the contract says 5 s."""


Listening = Callable[[Address], None]
"""Told where the server can be reached, once it can be."""


def _only_logged(_: Address) -> None:
    """The log has said it already."""


class ListenError(Exception):
    """The HTTP server cannot have its address."""


class Latest:
    """The one reference that scrapes read."""

    def __init__(self) -> None:
        self._published: Published | None = None

    def publish(self, published: Published) -> None:
        """Replace what scrapes see."""
        self._published = published

    def get(self) -> Published | None:
        """The outcome of the last cycle; None before the first."""
        return self._published


async def run_until_signalled(config: Config, *, simulated: bool, listening: Listening = _only_logged) -> int:
    """Run until SIGTERM or SIGINT.

    Args:
        config: What to read, and where to listen.
        simulated: Says on every face that nothing of this is real.
        listening: Called with each address once it is listened on.

    Returns:
        The exit code: 0, or 1 if the address cannot be listened on.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _end, stop)
    return await run_until(stop, config, simulated=simulated, listening=listening)


def _end(stop: asyncio.Event) -> None:
    stop.set()
    last_resort = threading.Timer(END_AFTER_SECONDS, os._exit, args=(0,))
    last_resort.daemon = True
    last_resort.start()


async def run_until(stop: asyncio.Event, config: Config, *, simulated: bool, listening: Listening) -> int:
    """Run until `stop` is set."""
    latest = Latest()
    build = Build(__version__, os.environ.get("GPU_OWNERSHIP_EXPORTER_COMMIT", ""), platform.python_version(), simulated)
    settings = pipeline.Settings(
        node=node_name(config),
        build=build,
        policy=ownership_policy(config),
        interval_seconds=config.interval,
        max_age_seconds=config.max_age,
        ledger=ledger_rules(config),
    )
    application = create_application(
        latest=latest.get,
        build=build,
        interval_seconds=config.interval,
        extra_labels=tuple(label.name for label in config.ownership.extra_labels),
    )
    try:
        async with _serving(application, config.listen, listening):
            await _measure(config, settings, latest, stop)
    except ListenError as error:
        logger.error("%s", error)  # noqa: TRY400 - one clear line, no traceback
        return 1
    logger.info("ended")
    return 0


async def _measure(config: Config, settings: pipeline.Settings, latest: Latest, stop: asyncio.Event) -> None:
    """Keep the pods up to date beside the loop of cycles; a mistake of ours in either ends both."""
    async with _store(config, settings) as store:
        # First of all: the GPUs keep the indexes that they had.
        ledger = await store.load()
        async with _sources(config, settings, ledger.gpu_indexes) as sources, asyncio.TaskGroup() as tasks:
            cycles = pipeline.run(sources, settings, store, ledger, latest.publish)
            running = (
                tasks.create_task(sources.pods.run(), name="pods"),
                tasks.create_task(cycles, name="cycles"),
            )
            await stop.wait()
            for task in running:
                task.cancel()


def node_name(config: Config) -> str:
    """The node's name: configured, else from the downward API, else the host's, with a warning."""
    name = config.node_name or os.environ.get("NODE_NAME", "")
    if not name:
        name = socket.gethostname()
        logger.warning("no node name is set (node_name, or $NODE_NAME from the downward API): using the host's, %s", name)
    return name


@contextlib.asynccontextmanager
async def _serving(application: web.Application, address: Address, listening: Listening) -> AsyncIterator[None]:
    runner = create_runner(application)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host or None, address.port).start()
        except OSError as error:
            raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error
        for host, port, *_ in runner.addresses:
            logger.info("listening on %s port %s", host, port)
        listening(Address(address.host, runner.addresses[0][1]))
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _store(config: Config, settings: pipeline.Settings) -> AsyncIterator[StateFile | NoStateFile]:
    store: StateFile | NoStateFile = NoStateFile()
    if config.ledger.state_file:
        store = StateFile(
            Path(config.ledger.state_file),
            encode=functools.partial(encode, node=settings.node),
            decode=functools.partial(decode, node=settings.node),
        )
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _sources(
    config: Config, settings: pipeline.Settings, indexes: Mapping[DeviceUuid, int]
) -> AsyncIterator[pipeline.Sources]:
    nvml = Nvml(
        library=config.nvml.library,
        deadline_seconds=config.nvml.deadline,
        gpm=config.nvml.gpm == "auto",
        accounting=config.nvml.accounting == "auto",
        indexes=indexes,
    )
    pod_resources = PodResources(
        socket=Path(config.pod_resources.socket),
        # Asked on the beat of the loop that is nearest: a beat that comes a moment early must not put it off to the next one.
        interval_seconds=max(config.pod_resources.interval - config.interval / 2, 0.0),
        deadline_seconds=config.pod_resources.deadline,
        max_message_bytes=config.pod_resources.max_message,
    )
    procfs = ProcFs(Path(config.procfs.root), deadline_seconds=config.procfs.deadline)
    connection = Connection(api_server=config.kubernetes.api_server, kubeconfig=config.kubernetes.kubeconfig)
    api = _from_the_api if config.kubernetes.enabled else _without_the_api
    try:
        yield api(config, settings, connection)(nvml=nvml, pod_resources=pod_resources, procfs=procfs)
    finally:
        for source in (connection, pod_resources, procfs, nvml):
            await source.close()


def _from_the_api(config: Config, settings: pipeline.Settings, connection: Connection) -> Callable[..., pipeline.Sources]:
    keys = annotations_wanted(settings.policy)
    watch_timeout = config.kubernetes.watch_timeout
    return functools.partial(
        pipeline.Sources,
        pods=Pods(connection, node=settings.node, annotation_keys=keys, watch_timeout_seconds=watch_timeout),
        node=Node(connection, node=settings.node),
        owners=Owners(connection, annotation_keys=keys, enabled=config.kubernetes.owner_lookups),
        namespaces=Namespaces(connection, annotation_keys=keys),
    )


def _without_the_api(*_: object) -> Callable[..., pipeline.Sources]:
    off = SwitchedOff()
    return functools.partial(pipeline.Sources, pods=SwitchedOffPods(), node=off, owners=off, namespaces=off)
