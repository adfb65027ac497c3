"""argv becomes a command. Exit codes: 0 done, 1 ran and failed, 2 bad usage or configuration."""

import argparse
import sys
from collections.abc import Sequence

from exporter.commands import check_config, demo, serve
from exporter.config.loading import ConfigError
from exporter.version import __version__

INTERRUPTED = 130
"""Ctrl-C before there was anything to end: what shells expect."""
COMMANDS = ("serve", "demo", "check-config")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; `serve` where none is named."""
    arguments = _parser().parse_args(_with_command(list(sys.argv[1:] if argv is None else argv)))
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        sys.stderr.write(f"gpu-ownership-exporter: {error}\n")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


def _with_command(argv: list[str]) -> list[str]:
    if argv and (argv[0] in COMMANDS or argv[0] in ("-h", "--help", "--version") or not argv[0].startswith("-")):
        return argv
    return ["serve", *argv]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu-ownership-exporter",
        description="Who holds each GPU of this node, what it really does, and who answers and pays for it.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for module, name, text in (
        (serve, "serve", "measure this node and serve /metrics (the default)"),
        (demo, "demo", "the same over a simulated node of 8 GPUs; needs neither a GPU nor Kubernetes"),
        (check_config, "check-config", "validate a configuration file and print the effective configuration"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
