"""Owner look-ups over real HTTP: chains, refusals, objects that are gone, and how often the API is asked."""

import itertools
import logging
from typing import Any

import pytest

from exporter.model.reading import MissingReason, Reading
from exporter.model.workload import Lookup, LookupFailure, ObjectMeta, OwnerKey, OwnerTable
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import ApiFault, SimObject, World
from exporter.sources.kubernetes.connection import Connection
from exporter.sources.kubernetes.lookups import Owners
from tests.sources.kubernetes.kubernetes_support import (
    Clock,
    a_key,
    an_object,
    an_owner,
    asked,
    connected,
    eventually,
    fresh,
    reason,
)

DEPLOYMENT = an_owner("apps/v1", "Deployment", "chat")
REPLICA_SET = an_owner("apps/v1", "ReplicaSet", "chat-6f")
CRON_JOB = an_owner("batch/v1", "CronJob", "etl")
JOB = an_owner("batch/v1", "Job", "etl-28900001")
RAY_JOB = an_owner("ray.io/v1", "RayJob", "nightly")
RAY_CLUSTER = an_owner("ray.io/v1", "RayCluster", "nightly-x7k2p")

CHAT = (an_object(REPLICA_SET, "replicasets", DEPLOYMENT), an_object(DEPLOYMENT, "deployments", labels={"team": "red"}))
ETL = (an_object(JOB, "jobs", CRON_JOB), an_object(CRON_JOB, "cronjobs", labels={"team": "blue"}))
RAY = (an_object(RAY_CLUSTER, "rayclusters", RAY_JOB), an_object(RAY_JOB, "rayjobs"))

CHAT_KEY = a_key("apps/v1", "ReplicaSet", "chat-6f")
ETL_KEY = a_key("batch/v1", "Job", "etl-28900001")
RAY_KEY = a_key("ray.io/v1", "RayCluster", "nightly-x7k2p")


def a_world(*objects: SimObject, faults: tuple[ApiFault, ...] = ()) -> World:
    return World(objects=objects, api_faults=faults)


def owners_of(connection: Connection, clock: Clock | None = None) -> Owners:
    return Owners(connection, annotation_keys=frozenset({"note"}), clock=clock or Clock())


async def read(owners: Owners, *keys: OwnerKey) -> OwnerTable:
    reading: Reading[OwnerTable] = await owners.read(keys)
    return fresh(reading)


def kinds(table: OwnerTable) -> list[str]:
    """``Kind/name`` of everything found, in order of the chain."""
    return [f"{found.kind}/{found.name}" for found in table.objects.values() if isinstance(found, ObjectMeta)]


def failure(found: Lookup) -> LookupFailure:
    assert isinstance(found, LookupFailure)
    return found


@pytest.mark.parametrize(
    ("objects", "key", "chain"),
    [
        (CHAT, CHAT_KEY, ["ReplicaSet/chat-6f", "Deployment/chat"]),
        (ETL, ETL_KEY, ["Job/etl-28900001", "CronJob/etl"]),
        (RAY, RAY_KEY, ["RayCluster/nightly-x7k2p", "RayJob/nightly"]),
    ],
)
async def test_owner_is_found_with_all_its_controllers(
    api: ApiServer, connection: Connection, objects: tuple[SimObject, ...], key: OwnerKey, chain: list[str]
) -> None:
    """Built-in kinds by their paths, custom ones by discovery, each with the controllers above it (OWN-01)."""
    api.show(a_world(*objects))
    table = await read(owners_of(connection), key)
    assert kinds(table) == chain
    assert table.trouble is None


async def test_chain_through_a_pod_is_followed(api: ApiServer, connection: Connection) -> None:
    """LeaderWorkerSet: a worker's StatefulSet is owned by the leader pod, and that by another StatefulSet (OWN-01)."""
    lws = an_owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve")
    leaders = an_owner("apps/v1", "StatefulSet", "serve")
    leader = an_owner("v1", "Pod", "serve-0")
    workers = an_owner("apps/v1", "StatefulSet", "serve-0")
    api.show(
        a_world(
            an_object(workers, "statefulsets", leader),
            an_object(leader, "pods", leaders),
            an_object(leaders, "statefulsets", lws),
            an_object(lws, "leaderworkersets"),
        )
    )
    table = await read(owners_of(connection), a_key("apps/v1", "StatefulSet", "serve-0"))
    assert kinds(table) == ["StatefulSet/serve-0", "Pod/serve-0", "StatefulSet/serve", "LeaderWorkerSet/serve"]


async def test_cluster_scoped_owner_is_asked_for_without_a_namespace(api: ApiServer, connection: Connection) -> None:
    """Discovery says whether a kind lives in namespaces (OWN-01)."""
    pool = an_owner("example.com/v1", "GpuPool", "west")
    job = an_owner("example.com/v1", "GpuJob", "train")
    api.show(a_world(an_object(job, "gpujobs", pool), an_object(pool, "gpupools", namespaced=False)))
    assert kinds(await read(owners_of(connection), a_key("example.com/v1", "GpuJob", "train"))) == [
        "GpuJob/train",
        "GpuPool/west",
    ]
    assert "/apis/example.com/v1/gpupools/west" in asked(api, "/apis")


async def test_metadata_alone_is_asked_for(api: ApiServer, connection: Connection) -> None:
    """Labels, and the annotations asked for, come from PartialObjectMetadata; the kind is the one asked for."""
    metadata: dict[str, Any] = {"labels": {"team": "red"}, "annotations": {"note": "kept", "other": "left"}}
    api.show(a_world(an_object(DEPLOYMENT, "deployments", **metadata)))
    table = await read(owners_of(connection), a_key("apps/v1", "Deployment", "chat"))
    found = table.objects["deployment-chat"]
    assert isinstance(found, ObjectMeta)
    assert (found.kind, found.namespace, found.labels) == ("Deployment", "team-red", {"team": "red"})
    assert found.annotations == {"note": "kept"}


async def test_owner_that_is_not_the_controller_is_not_followed(api: ApiServer, connection: Connection) -> None:
    """Only the controller manages the object; other references are for the garbage collector."""
    api.show(a_world(an_object(REPLICA_SET, "replicasets", {**DEPLOYMENT, "controller": False}), CHAT[1]))
    assert kinds(await read(owners_of(connection), CHAT_KEY)) == ["ReplicaSet/chat-6f"]


async def test_circle_of_owners_ends(api: ApiServer, connection: Connection) -> None:
    """Two objects that own each other are two objects."""
    api.show(a_world(an_object(REPLICA_SET, "replicasets", DEPLOYMENT), an_object(DEPLOYMENT, "deployments", REPLICA_SET)))
    assert kinds(await read(owners_of(connection), CHAT_KEY)) == ["ReplicaSet/chat-6f", "Deployment/chat"]
    assert len(api.requests) == 2


async def test_endless_chain_ends_after_eight_hops(api: ApiServer, connection: Connection) -> None:
    """A chain longer than any that makes sense costs a bounded number of requests."""
    links = [an_owner("apps/v1", "Deployment", f"d-{number}") for number in range(20)]
    api.show(a_world(*(an_object(link, "deployments", above) for link, above in itertools.pairwise(links))))
    assert len(kinds(await read(owners_of(connection), a_key("apps/v1", "Deployment", "d-0")))) == 9
    assert len(api.requests) == 9


async def test_owners_once_found_are_not_asked_for_again(api: ApiServer, connection: Connection) -> None:
    """Twenty reads for eighty pods of two workloads cost one GET per object, whatever the API's latency (RPC-09)."""
    api.show(a_world(*CHAT, *ETL, faults=(ApiFault(path="/apis", delay_seconds=0.3),)))
    owners = owners_of(connection)
    for _ in range(20):
        assert len((await read(owners, *[CHAT_KEY] * 40, *[ETL_KEY] * 40)).objects) == 4
    assert len(api.requests) == 4


async def test_two_ways_to_one_owner_ask_for_it_once(api: ApiServer, connection: Connection) -> None:
    """Many clusters of one RayJob: one GET each, one for the RayJob, one for discovery (RPC-09)."""
    clusters = [an_owner("ray.io/v1", "RayCluster", f"c-{number}") for number in range(5)]
    objects = [an_object(cluster, "rayclusters", RAY_JOB) for cluster in clusters]
    api.show(a_world(*objects, RAY[1], faults=(ApiFault(path="/apis", delay_seconds=0.05),)))
    await read(owners_of(connection), *(a_key("ray.io/v1", "RayCluster", f"c-{number}") for number in range(5)))
    assert len(asked(api, "/apis/ray.io/v1/namespaces/team-red/rayclusters")) == 5
    assert len(asked(api, "/apis/ray.io/v1/namespaces/team-red/rayjobs")) == 1
    assert len(api.requests) == 7


async def test_answer_is_refreshed_after_its_time(api: ApiServer, connection: Connection) -> None:
    """A label that changes on the workload arrives within the hour."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(an_object(DEPLOYMENT, "deployments", labels={"team": "red"})))
    key = a_key("apps/v1", "Deployment", "chat")
    await read(owners, key)
    api.show(a_world(an_object(DEPLOYMENT, "deployments", labels={"team": "blue"})))
    clock.advance(3599.0)
    assert (await read(owners, key)).objects["deployment-chat"].labels == {"team": "red"}  # type: ignore[union-attr]
    clock.advance(1.0)
    assert (await read(owners, key)).objects["deployment-chat"].labels == {"team": "blue"}  # type: ignore[union-attr]


async def test_forbidden_owner_is_a_definitive_failure_and_the_tables_trouble(api: ApiServer, connection: Connection) -> None:
    """403 is not silence: the reason stands in the table, and the grant is noticed after five minutes (OWN-09)."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(*CHAT, faults=(ApiFault(path="/apis/apps/v1", status=403),)))
    table = await read(owners, CHAT_KEY)
    assert table.objects == {"replicaset-chat-6f": LookupFailure(MissingReason.FORBIDDEN, definitive=True)}
    assert table.trouble is MissingReason.FORBIDDEN
    clock.advance(59.0)
    await read(owners, CHAT_KEY)
    assert len(api.requests) == 1
    api.show(a_world(*CHAT))
    clock.advance(2.0)
    table = await read(owners, CHAT_KEY)
    assert (kinds(table), table.trouble) == (["ReplicaSet/chat-6f", "Deployment/chat"], None)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(500, MissingReason.SERVER_ERROR), (401, MissingReason.UNAUTHORIZED), (429, MissingReason.RATE_LIMITED)],
)
async def test_passing_trouble_is_tried_again_after_ten_seconds(
    api: ApiServer, connection: Connection, status: int, expected: MissingReason
) -> None:
    """Not definitive: metadata is pending, and the next attempt comes soon, not with each cycle."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(*CHAT, faults=(ApiFault(path="/apis", status=status),)))
    table = await read(owners, CHAT_KEY)
    assert table.objects == {"replicaset-chat-6f": LookupFailure(expected, definitive=False)}
    assert table.trouble is expected
    api.show(a_world(*CHAT))
    clock.advance(9.0)
    await read(owners, CHAT_KEY)
    assert len(api.requests) == 1
    clock.advance(2.0)
    assert kinds(await read(owners, CHAT_KEY)) == ["ReplicaSet/chat-6f", "Deployment/chat"]


async def test_owner_that_never_was_is_not_found_without_trouble(api: ApiServer, connection: Connection) -> None:
    """A 404 is an answer: definitive, and no fault of the source."""
    table = await read(owners_of(connection), CHAT_KEY)
    assert table.objects == {"replicaset-chat-6f": LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    assert table.trouble is None
    assert len(api.requests) == 1


async def test_owner_deleted_after_it_was_seen_stays_known(api: ApiServer, connection: Connection) -> None:
    """A finished Job that is deleted at once still leads to its CronJob, a day later too (OWN-11)."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(*ETL))
    await read(owners, ETL_KEY)
    api.show(a_world(ETL[1]))
    for _ in range(10):
        clock.advance(9000.0)
        table = await read(owners, ETL_KEY)
        assert kinds(table) == ["Job/etl-28900001", "CronJob/etl"]
        assert table.trouble is None


async def test_twenty_runs_lead_to_one_cron_job(api: ApiServer, connection: Connection) -> None:
    """Each run's Job is gone before the next one: the workload is the same for all (OWN-11)."""
    clock = Clock()
    owners = owners_of(connection, clock)
    for run in range(20):
        job = an_owner("batch/v1", "Job", f"etl-{28900001 + run}")
        api.show(a_world(an_object(job, "jobs", CRON_JOB), ETL[1]))
        key = a_key("batch/v1", "Job", f"etl-{28900001 + run}")
        assert kinds(await read(owners, key))[-1] == "CronJob/etl"
        api.show(a_world(ETL[1]))
        assert kinds(await read(owners, key))[-1] == "CronJob/etl"
    assert len(asked(api, "/apis/batch/v1/namespaces/team-red/cronjobs")) == 1


async def test_recreated_owner_of_the_same_name_is_another_object(api: ApiServer, connection: Connection) -> None:
    """The UID decides: a pod of the old Deployment is not laid on the new one's team."""
    api.show(a_world(an_object({**DEPLOYMENT, "uid": "second"}, "deployments", labels={"team": "blue"})))
    table = await read(owners_of(connection), a_key("apps/v1", "Deployment", "chat"))
    assert failure(table.objects["deployment-chat"]).reason is MissingReason.NOT_FOUND


async def test_recreated_owner_leaves_what_was_known_of_the_old_one(api: ApiServer, connection: Connection) -> None:
    """The old object's labels stay with the old object's pods."""
    clock = Clock()
    owners = owners_of(connection, clock)
    key = a_key("apps/v1", "Deployment", "chat")
    api.show(a_world(CHAT[1]))
    await read(owners, key)
    api.show(a_world(an_object({**DEPLOYMENT, "uid": "second"}, "deployments", labels={"team": "blue"})))
    clock.advance(4000.0)
    assert (await read(owners, key)).objects["deployment-chat"].labels == {"team": "red"}  # type: ignore[union-attr]


async def test_known_owner_outlives_an_api_that_is_gone(api: ApiServer, connection: Connection) -> None:
    """While look-ups fail the last answer counts and the trouble shows; after a day it counts no more (OWN-08)."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(*CHAT))
    await read(owners, CHAT_KEY)
    await api.stop()
    clock.advance(4000.0)
    table = await read(owners, CHAT_KEY)
    assert kinds(table) == ["ReplicaSet/chat-6f", "Deployment/chat"]
    assert table.trouble is MissingReason.CONNECTION_REFUSED
    clock.advance(86400.0)
    table = await read(owners, CHAT_KEY)
    assert failure(table.objects["replicaset-chat-6f"]) == LookupFailure(MissingReason.CONNECTION_REFUSED, definitive=False)


async def test_kind_that_is_not_served_is_definitive_and_asked_for_once(api: ApiServer, connection: Connection) -> None:
    """A custom resource whose definition is gone: discovery says so for all its objects at once."""
    owners = owners_of(connection)
    keys = [a_key("ray.io/v1", "RayCluster", f"c-{number}") for number in range(5)]
    table = await read(owners, *keys)
    assert set(table.objects.values()) == {LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    await read(owners, *keys)
    assert asked(api, "/") == ["/apis/ray.io/v1"]


async def test_kind_installed_later_is_found(api: ApiServer, connection: Connection) -> None:
    """A kind that a known group did not have is looked for again after five minutes, not only after an hour."""
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(RAY[1]))
    assert kinds(await read(owners, RAY_KEY)) == []
    api.show(a_world(*RAY))
    clock.advance(61.0)
    assert kinds(await read(owners, RAY_KEY)) == ["RayCluster/nightly-x7k2p", "RayJob/nightly"]


async def test_refused_discovery_is_a_definitive_failure(api: ApiServer, connection: Connection) -> None:
    """Nobody may list the group's kinds: metadata is complete without it, and the trouble is named."""
    api.show(a_world(*RAY, faults=(ApiFault(path="/apis/ray.io/v1", status=403),)))
    table = await read(owners_of(connection), RAY_KEY)
    assert table.objects == {RAY_KEY.uid: LookupFailure(MissingReason.FORBIDDEN, definitive=True)}
    assert table.trouble is MissingReason.FORBIDDEN


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "../../secrets/x"},
        {"name": ".."},
        {"name": "a/b"},
        {"name": "a?watch=1"},
        {"name": ""},
        {"api_version": "../v1"},
        {"api_version": "apps/v1/x"},
        {"api_version": ""},
        {"namespace": "a/../b"},
        {"namespace": ""},
    ],
)
async def test_reference_that_no_object_can_have_is_not_asked_for(
    api: ApiServer, connection: Connection, odd: dict[str, str]
) -> None:
    """References are written by users: they address an owner, or nothing."""
    key = a_key(**{"api_version": "apps/v1", "kind": "ReplicaSet", "name": "chat-6f", **odd})
    table = await read(owners_of(connection), key)
    assert table.objects == {key.uid: LookupFailure(MissingReason.NOT_FOUND, definitive=True)}
    assert asked(api, "/") == []


async def test_one_refused_owner_leaves_the_others_alone(api: ApiServer, connection: Connection) -> None:
    """Partial success: the failures are in the table beside the answers, and the most frequent one is its trouble."""
    faults = (ApiFault(path="/apis/batch", status=500), ApiFault(path="/apis/ray.io", status=403))
    api.show(a_world(*CHAT, *ETL, *RAY, faults=faults))
    other_job = a_key("batch/v1", "Job", "other")
    table = await read(owners_of(connection), CHAT_KEY, ETL_KEY, other_job, RAY_KEY)
    assert kinds(table) == ["ReplicaSet/chat-6f", "Deployment/chat"]
    assert failure(table.objects[RAY_KEY.uid]).reason is MissingReason.FORBIDDEN
    assert table.trouble is MissingReason.SERVER_ERROR


async def test_slow_api_costs_the_deadline_and_no_more(api: ApiServer) -> None:
    """A read ends in time with a TIMEOUT for what is pending; what hangs is left alone while the others get their turn."""
    hanging = [an_owner("batch/v1", "Job", f"slow-{number}") for number in range(5)]
    api.show(
        a_world(*CHAT, *(an_object(job, "jobs") for job in hanging), faults=(ApiFault(path="/apis/batch", delay_seconds=60.0),))
    )
    keys = [*(a_key("batch/v1", "Job", f"slow-{number}") for number in range(5)), CHAT_KEY]
    async with connected(api.url, request_timeout_seconds=1.0) as connection:
        owners = owners_of(connection)
        table = await read(owners, *keys)
        assert all(
            failure(table.objects[key.uid]) == LookupFailure(MissingReason.TIMEOUT, definitive=False) for key in keys[:5]
        )
        table = await read(owners, *keys)
        assert kinds(table) == ["ReplicaSet/chat-6f", "Deployment/chat"]
        assert table.trouble is MissingReason.TIMEOUT


async def test_flood_of_owners_is_spread_over_cycles(api: ApiServer, connection: Connection) -> None:
    """More owners than our limit lets through: the rest is pending in this cycle, and found in a later one."""
    deployments = [an_owner("apps/v1", "Deployment", f"d-{number}") for number in range(40)]
    api.show(a_world(*(an_object(deployment, "deployments") for deployment in deployments)))
    keys = [a_key("apps/v1", "Deployment", f"d-{number}") for number in range(40)]
    owners = owners_of(connection)
    table = await read(owners, *keys)
    pending = [found for found in table.objects.values() if isinstance(found, LookupFailure)]
    assert {found.reason for found in pending} == {MissingReason.RATE_LIMITED}
    assert not any(found.definitive for found in pending)
    assert 10 <= len(api.requests) <= 25
    for _ in range(3):
        table = await read(owners, *keys)
    assert len(kinds(table)) == 40
    assert len(api.requests) == 40


async def test_switched_off_owners_are_disabled(connection: Connection, api: ApiServer) -> None:
    """Nothing is asked, and the reason says so."""
    owners = Owners(connection, annotation_keys=frozenset(), enabled=False)
    assert reason(await owners.read([CHAT_KEY])) is MissingReason.DISABLED
    assert asked(api, "/") == []


async def test_nothing_asked_is_an_empty_table(connection: Connection, api: ApiServer) -> None:
    """No GPU pods, no requests."""
    table = await read(owners_of(connection))
    assert (table.objects, table.trouble, asked(api, "/")) == ({}, None, [])


@pytest.mark.parametrize(
    "body", [{}, {"metadata": None}, {"metadata": {"name": "chat"}}, {"metadata": {"uid": 5, "name": "x"}}]
)
async def test_owner_without_identity_is_malformed(api: ApiServer, connection: Connection, body: dict[str, object]) -> None:
    """An answer that is no object is not taken for one."""
    api.show(a_world(SimObject(path="/apis/apps/v1/namespaces/team-red/deployments/chat", body=body)))
    table = await read(owners_of(connection), a_key("apps/v1", "Deployment", "chat"))
    assert failure(table.objects["deployment-chat"]).reason is MissingReason.MALFORMED


async def test_only_transitions_are_logged(api: ApiServer, connection: Connection, caplog: pytest.LogCaptureFixture) -> None:
    """One line when it fails, one when it is back, none in between."""
    caplog.set_level(logging.INFO, logger="exporter")
    clock = Clock()
    owners = owners_of(connection, clock)
    api.show(a_world(*CHAT, faults=(ApiFault(path="/apis", status=500),)))
    for _ in range(5):
        await read(owners, CHAT_KEY)
        clock.advance(15.0)
    api.show(a_world(*CHAT))
    for _ in range(5):
        await read(owners, CHAT_KEY)
    await eventually(lambda: len(caplog.messages) == 2, "two lines")
    assert caplog.messages == [
        "kubernetes owners missing: server_error (1 of 1 look-ups)",
        "kubernetes owners back after 75.0 s (server_error)",
    ]
