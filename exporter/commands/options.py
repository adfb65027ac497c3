"""Options that several commands share."""

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path

from exporter.config.loading import load_config
from exporter.config.schema import Config

LOG_LEVELS = ("debug", "info", "warning", "error")


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Where settings come from: file < environment < flags."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML configuration file")
    parser.add_argument("--listen", metavar="ADDRESS", help="address and port of the HTTP server, such as :9836")
    parser.add_argument("--node-name", metavar="NAME", help="name of this node in Kubernetes")
    parser.add_argument("--interval", metavar="DURATION", help="length of a cycle, such as 5s")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any setting, such as --set nvml.library=/x"
    )
    parser.add_argument("--log-level", choices=LOG_LEVELS, default="info")


def config_from(arguments: argparse.Namespace, *defaults: str) -> Config:
    """The configuration that file, environment and flags add up to.

    Args:
        arguments: As parsed.
        defaults: ``key=value`` settings that come before the flags.

    Raises:
        ConfigError: something cannot be read or is not allowed.
    """
    return load_config(arguments.config, os.environ, [*defaults, *arguments.set, *_named(arguments)])


def _named(arguments: argparse.Namespace) -> Iterator[str]:
    for key in ("listen", "node_name", "interval"):
        value = getattr(arguments, key)
        if value is not None:
            yield f"{key}={json.dumps(value)}"
