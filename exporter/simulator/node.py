"""One simulated node: the four stand-ins, started together and shown the same world."""

import asyncio
import os
from pathlib import Path

from exporter.simulator.apiserver import ApiServer
from exporter.simulator.kubelet import KubeletSocket
from exporter.simulator.nvml.build import LIBRARY, build_library
from exporter.simulator.nvml.clock import SimClock
from exporter.simulator.nvml.state import environment, write_state
from exporter.simulator.proc import write_proc
from exporter.simulator.world import World


class SimulatedNode:
    """Files under one folder, a socket in it, and an API server on a loopback port; `show` changes what all of them say."""

    def __init__(self, directory: Path, world: World, *, library: Path | None = None, clock: SimClock | None = None) -> None:
        """Nothing is opened yet.

        Args:
            directory: Where the files go.
            world: What is shown at first.
            library: An NVML stand-in that is built already.
            clock: The GPUs' clock; None: the wall clock.
        """
        self.world = world
        self.clock = clock
        self.library = library or directory / "lib" / LIBRARY
        self.state = directory / "nvml.state"
        self.proc = directory / "proc"
        self.socket = directory / "pod-resources" / "kubelet.sock"
        self.kubelet = KubeletSocket(self.socket)
        self.api = ApiServer()
        self.api_url = ""

    async def start(self) -> None:
        """Build the library, open the socket and the port, and show the world.

        Raises:
            StandinBuildError: there is no C compiler.
        """
        for folder in (self.library.parent, self.proc, self.socket.parent):
            folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(build_library, self.library.parent)
        self.show(self.world)
        await self.kubelet.start()
        self.api_url = await self.api.start()

    def show(self, world: World) -> None:
        """Change the world, all four views of it at once."""
        self.world = world
        write_state(world, self.state)
        write_proc(world, self.proc)
        self.kubelet.show(world)
        self.api.show(world)

    async def stop(self) -> None:
        """Close the socket and the port."""
        await self.kubelet.stop()
        await self.api.stop()

    def environment(self) -> dict[str, str]:
        """Environment with which a process sees this node's GPUs."""
        return {**os.environ, **environment(self.state, self.clock)}

    def settings(self) -> tuple[str, ...]:
        """``key=value`` settings with which the exporter reads this node."""
        return (
            f"node_name={self.world.node}",
            f"nvml.library={self.library}",
            f"pod_resources.socket={self.socket}",
            f"procfs.root={self.proc}",
            f"kubernetes.api_server={self.api_url}",
        )
