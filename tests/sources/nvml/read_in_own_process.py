"""Reads NVML in a process of its own, since a process keeps the first library that it has loaded: one JSON line a reading.

Arguments: the library, and how many readings. Before each reading but the first a line of standard input is waited for.
"""

import asyncio
import json
import sys
from dataclasses import asdict

from exporter.sources.nvml.source import Nvml


async def main(library: str, readings: int) -> None:
    """Every reading comes 30 s after the one before by the source's clock."""
    now = 0.0
    source = Nvml(library=library, deadline_seconds=10.0, clock=lambda: now)
    for number in range(readings):
        if number:
            sys.stdin.readline()
        print(json.dumps(asdict(await source.read()), default=sorted), flush=True)  # noqa: T201 - the answer to whoever started us
        now += 30.0
    await source.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
