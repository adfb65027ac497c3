"""The node's own object over real HTTP."""

import pytest

from exporter.model.reading import Fresh, MissingReason
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import ApiFault, World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Node
from tests.sources.kubernetes.kubernetes_support import NODE, Clock, connected, fresh, reason


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def node(connection: Connection, clock: Clock) -> Node:
    return Node(connection, node=NODE, clock=clock)


async def test_node_gives_labels_provider_capacity_and_cordon(api: ApiServer, node: Node) -> None:
    """Everything that the exporter says of a node by name; cpu and memory are no extended resources."""
    api.show(
        World(
            node=NODE,
            node_labels={"nvidia.com/gpu.replicas": "4"},
            node_provider_id="aws:///i-1",
            node_capacity={"nvidia.com/gpu": "8"},
            node_unschedulable=True,
        )
    )
    meta = fresh(await node.read())
    assert (meta.name, meta.labels, meta.provider_id) == (NODE, {"nvidia.com/gpu.replicas": "4"}, "aws:///i-1")
    assert (meta.capacity, meta.unschedulable, meta.created_timestamp_seconds) == ({"nvidia.com/gpu": 8}, True, 1793491200.0)


async def test_node_is_asked_for_once_in_five_minutes(api: ApiServer, node: Node, clock: Clock) -> None:
    """In between the answer counts as current; afterwards the change is there."""
    api.show(World(node=NODE))
    for _ in range(10):
        assert not fresh(await node.read()).unschedulable
        clock.advance(29.0)
    reading = await node.read()
    assert isinstance(reading, Fresh)
    assert reading.taken_at == clock.now
    assert len(api.requests) == 1
    api.show(World(node=NODE, node_unschedulable=True))
    clock.advance(11.0)
    assert fresh(await node.read()).unschedulable


@pytest.mark.parametrize(
    ("status", "expected", "retry_seconds"),
    [
        (403, MissingReason.FORBIDDEN, 60.0),
        (404, MissingReason.NOT_FOUND, 60.0),
        (500, MissingReason.SERVER_ERROR, 10.0),
        (429, MissingReason.RATE_LIMITED, 10.0),
    ],
)
async def test_refused_node_is_missing_and_tried_again_in_time(
    api: ApiServer, node: Node, clock: Clock, status: int, expected: MissingReason, retry_seconds: float
) -> None:
    """The reason shows, the API is left alone for a while, and the node is there again without a restart."""
    api.show(World(node=NODE, api_faults=(ApiFault(path="/api/v1/nodes", status=status),)))
    assert reason(await node.read()) is expected
    api.show(World(node=NODE))
    clock.advance(retry_seconds - 1.0)
    assert reason(await node.read()) is expected
    assert len(api.requests) == 1
    clock.advance(1.0)
    assert fresh(await node.read()).name == NODE


async def test_node_that_fails_later_is_missing(api: ApiServer, node: Node, clock: Clock) -> None:
    """An old answer is not passed on as a new one: how long it is used is not this source's to say."""
    api.show(World(node=NODE))
    await node.read()
    await api.stop()
    clock.advance(300.0)
    assert reason(await node.read()) is MissingReason.CONNECTION_REFUSED


async def test_slow_node_is_a_timeout(api: ApiServer) -> None:
    """A read takes no longer than its deadline."""
    api.show(World(node=NODE, api_faults=(ApiFault(path="/api/v1/nodes", delay_seconds=60.0),)))
    async with connected(api.url) as connection:
        node = Node(connection, node=NODE, deadline_seconds=0.2)
        assert reason(await node.read()) is MissingReason.TIMEOUT


@pytest.mark.parametrize("name", ["", "..", "a/b"])
async def test_node_without_a_name_is_not_asked_for(api: ApiServer, connection: Connection, name: str) -> None:
    """An empty name would read the list of all nodes."""
    assert reason(await Node(connection, node=name).read()) is MissingReason.NOT_FOUND
    assert len(api.requests) == 0
