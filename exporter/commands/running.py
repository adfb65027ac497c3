"""How a long-running command begins and ends: logging, the event loop, and an end that no stuck thread can hold up."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine


def run_to_the_end(main: Coroutine[None, None, int], log_level: str) -> int:
    """Run `main`, then leave the process at once: a thread stuck in a driver call must not keep it alive."""
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    status = asyncio.run(main)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)
