"""``check-config``: is this configuration usable, and what does it come to?"""

import argparse
import sys
from pathlib import Path

from exporter.commands.options import add_config_arguments, config_from
from exporter.config.loading import dump_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``serve``; the file may be named without ``--config``."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="YAML configuration file")
    add_config_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the effective configuration as YAML."""
    arguments.config = arguments.config or arguments.file
    effective = dump_config(config_from(arguments))
    try:
        sys.stdout.write(effective)
        sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"gpu-ownership-exporter: the output cannot be written: {error.strerror}\n")
        return 1
    return 0
