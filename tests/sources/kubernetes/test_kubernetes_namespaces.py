"""Namespace look-ups over real HTTP: their time to live, what stays known while they fail, and how often the API is asked."""

import pytest

from exporter.model.reading import MissingReason
from exporter.model.workload import LookupFailure, NamespaceTable, ObjectMeta
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import ApiFault, World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Namespaces
from tests.sources.kubernetes.kubernetes_support import Clock, asked, fresh

PATH = "/api/v1/namespaces"
RED = {"team-red": {"labels": {"team": "red"}, "annotations": {"cost": "CC 4711/R&D", "other": "left"}}}
BLUE = {"team-red": {"labels": {"team": "blue"}}}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def namespaces(connection: Connection, clock: Clock) -> Namespaces:
    return Namespaces(connection, annotation_keys=frozenset({"cost"}), clock=clock)


async def read(namespaces: Namespaces, *names: str) -> NamespaceTable:
    return fresh(await namespaces.read(names))


def team(table: NamespaceTable) -> str:
    found = table.namespaces["team-red"]
    assert isinstance(found, ObjectMeta), found
    return found.labels["team"]


async def test_namespace_gives_labels_and_chosen_annotations(api: ApiServer, namespaces: Namespaces) -> None:
    """The annotation's value comes as it is, the ones nobody asked for do not (OWN-06)."""
    api.show(World(namespaces=RED))
    table = await read(namespaces, "team-red")
    found = table.namespaces["team-red"]
    assert isinstance(found, ObjectMeta)
    assert (found.kind, found.labels, found.annotations) == ("Namespace", {"team": "red"}, {"cost": "CC 4711/R&D"})
    assert table.trouble is None


async def test_namespace_is_asked_for_once_in_five_minutes(api: ApiServer, namespaces: Namespaces, clock: Clock) -> None:
    """Reads cost nothing until the answer is old; then a changed label arrives (RPC-09)."""
    api.show(World(namespaces=RED))
    for _ in range(20):
        await read(namespaces, *["team-red"] * 80)
    api.show(World(namespaces=BLUE))
    clock.advance(299.0)
    assert team(await read(namespaces, "team-red")) == "red"
    assert asked(api, PATH) == [f"{PATH}/team-red"]
    clock.advance(1.0)
    assert team(await read(namespaces, "team-red")) == "blue"
    assert len(api.requests) == 2


async def test_forbidden_namespaces_are_the_tables_trouble_until_granted(
    api: ApiServer, namespaces: Namespaces, clock: Clock
) -> None:
    """A missing role shows as forbidden, and the grant is noticed without a restart (OWN-09)."""
    api.show(World(namespaces=RED, api_faults=(ApiFault(path=PATH, status=403),)))
    table = await read(namespaces, "team-red", "team-blue")
    assert set(table.namespaces.values()) == {LookupFailure(MissingReason.FORBIDDEN, definitive=True)}
    assert table.trouble is MissingReason.FORBIDDEN
    api.show(World(namespaces=RED))
    clock.advance(301.0)
    table = await read(namespaces, "team-red")
    assert (team(table), table.trouble) == ("red", None)


async def test_every_third_look_up_failing_changes_nothing(api: ApiServer, namespaces: Namespaces, clock: Clock) -> None:
    """Thirty refreshes, ten of them failing: one and the same metadata throughout (OWN-08)."""
    for cycle in range(30):
        faults = (ApiFault(path=PATH, status=500),) if cycle % 3 == 2 else ()
        api.show(World(namespaces=RED, api_faults=faults))
        clock.advance(301.0)
        assert team(await read(namespaces, "team-red")) == "red"


async def test_last_answer_counts_for_an_hour_of_failures(api: ApiServer, namespaces: Namespaces, clock: Clock) -> None:
    """While it counts the trouble shows beside it; after an hour it is unknown, not old (OWN-08)."""
    api.show(World(namespaces=RED))
    await read(namespaces, "team-red")
    await api.stop()
    clock.advance(3600.0)
    table = await read(namespaces, "team-red")
    assert (team(table), table.trouble) == ("red", MissingReason.CONNECTION_REFUSED)
    clock.advance(11.0)
    table = await read(namespaces, "team-red")
    assert table.namespaces == {"team-red": LookupFailure(MissingReason.CONNECTION_REFUSED, definitive=False)}


async def test_deleted_namespace_stays_known_for_its_last_pods(api: ApiServer, namespaces: Namespaces, clock: Clock) -> None:
    """A namespace that is gone will never say anything else: what it said last stays."""
    api.show(World(namespaces=RED))
    await read(namespaces, "team-red")
    api.show(World())
    clock.advance(301.0)
    table = await read(namespaces, "team-red")
    assert (team(table), table.trouble) == ("red", None)


async def test_namespace_that_never_was_is_not_found(namespaces: Namespaces) -> None:
    """A 404 is an answer, and no trouble."""
    table = await read(namespaces, "team-red")
    assert table.namespaces == {"team-red": LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    assert table.trouble is None


async def test_odd_labels_cost_themselves(api: ApiServer, namespaces: Namespaces) -> None:
    """Null labels and annotations of the wrong type leave an empty namespace, not a failure (EXPO-06)."""
    api.show(World(namespaces={"team-red": {"labels": None, "annotations": ["x"]}}))
    found = (await read(namespaces, "team-red")).namespaces["team-red"]
    assert isinstance(found, ObjectMeta)
    assert (found.labels, found.annotations) == ({}, {})


@pytest.mark.parametrize("name", ["../nodes/gpu-n1", "a/b", "a?b", "..", ""])
async def test_name_that_is_a_path_is_not_asked_for(api: ApiServer, namespaces: Namespaces, name: str) -> None:
    """A name addresses a namespace, or nothing."""
    table = await read(namespaces, name)
    assert table.namespaces == {name: LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    assert len(api.requests) == 0
