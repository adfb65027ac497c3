"""``demo``: the same process as ``serve`` over a simulated node, real sockets throughout."""

import argparse
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

from exporter.app import run_until_signalled
from exporter.commands.options import add_config_arguments, config_from
from exporter.commands.running import run_to_the_end
from exporter.config.units import Address
from exporter.simulator.demo import demo_world
from exporter.simulator.node import SimulatedNode
from exporter.simulator.nvml.build import StandinBuildError

logger = logging.getLogger(__name__)

PRICES = ("prices.default=3.5",)
"""Made up, as everything else here."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``serve``."""
    add_config_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the simulated node until SIGTERM or SIGINT."""
    return run_to_the_end(_demo(arguments), arguments.log_level)


async def _demo(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="gpu-ownership-demo-") as folder:
        node = SimulatedNode(Path(folder), demo_world(time.time_ns() // 1000))
        config_from(arguments)  # what is wrong in it is said before anything is started
        try:
            await node.start()
            return await _serve(node, arguments)
        except StandinBuildError as error:
            logger.error("%s", error)  # noqa: TRY400 - one clear line, no traceback
            return 1
        finally:
            await node.stop()


async def _serve(node: SimulatedNode, arguments: argparse.Namespace) -> int:
    os.environ.update(node.environment())
    config = config_from(arguments, "interval=2s", *PRICES, *node.settings())
    return await run_until_signalled(config, simulated=True, listening=_say_where)


def _say_where(address: Address) -> None:
    host = "localhost" if address.host in ("", "0.0.0.0", "::") else str(address).rpartition(":")[0]  # noqa: S104 - compared, not bound
    base = f"http://{host}:{address.port}"
    sys.stdout.write(
        "SIMULATED node: 8 GPUs that do not exist, read over real sockets and NVIDIA's own Python binding.\n"
        f"  page      {base}/\n"
        f"  metrics   {base}/metrics\n"
        f"  JSON      {base}/api/v1/node\n"
        "Ctrl-C ends it.\n"
    )
    sys.stdout.flush()
