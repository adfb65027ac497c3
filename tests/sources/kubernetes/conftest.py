"""An API server on a real socket for each test."""

from collections.abc import AsyncIterator

import pytest

from exporter.simulator.apiserver import ApiServer
from exporter.sources.kubernetes.connection import Connection
from tests.sources.kubernetes.kubernetes_support import connected


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def connection(api: ApiServer) -> AsyncIterator[Connection]:
    async with connected(api.url) as ready:
        yield ready
