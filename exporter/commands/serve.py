"""``serve``: the DaemonSet's main process."""

import argparse

from exporter.app import run_until_signalled
from exporter.commands.options import add_config_arguments, config_from
from exporter.commands.running import run_to_the_end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Configuration, and the settings that are most often given by hand."""
    add_config_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    config = config_from(arguments)
    return run_to_the_end(run_until_signalled(config, simulated=False), arguments.log_level)
