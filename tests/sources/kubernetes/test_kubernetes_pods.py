"""The reflector over real HTTP: list, watch, and every way in which they end."""

import asyncio
import itertools
import json
import logging
import time
from dataclasses import replace

import pytest

from exporter.model.ids import PodUid
from exporter.model.reading import Fresh, MissingReason
from exporter.simulator.apiserver import ApiServer
from exporter.simulator.world import ApiFault, SimPod
from exporter.sources.kubernetes.connection import Connection
from tests.sources.kubernetes.kubernetes_support import (
    FIXTURES,
    Clock,
    a_pod,
    a_world,
    connected,
    eventually,
    names,
    pod_named,
    reason,
    recorded,
    reflecting,
    store,
)

RED = a_pod("train-0", labels={"team": "red"})
BLUE = replace(RED, labels={"team": "blue"})


def lists(api: ApiServer) -> int:
    return sum(request.is_list for request in api.requests)


def watches(api: ApiServer) -> int:
    return sum(request.is_watch for request in api.requests)


async def test_pods_before_the_first_answer_are_starting(connection: Connection) -> None:
    """Nothing was asked yet: that is starting, not an empty node."""
    async with reflecting(connection) as pods:
        assert reason(pods.read()) is MissingReason.STARTING


async def test_list_asks_the_cache_for_this_node_only(api: ApiServer, connection: Connection) -> None:
    """One list with the node's field selector from the server's cache, then a watch with bookmarks and an end (RPC-09)."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: names(pods) == {"train-0"} and watches(api) == 1, "list and watch")
    listed, watched = api.requests
    assert listed.query == {"fieldSelector": "spec.nodeName=gpu-n1", "resourceVersion": "0"}
    assert watched.query["fieldSelector"] == "spec.nodeName=gpu-n1"
    assert watched.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watched.query["timeoutSeconds"]) <= 600
    assert listed.user_agent == "gpu-ownership-exporter"


async def test_pods_added_changed_and_deleted_follow_without_another_list(api: ApiServer, connection: Connection) -> None:
    """Each event changes the store and its generation, and none of them costs a request."""
    api.show(a_world())
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        before = pods.generation
        api.show(a_world(RED))
        await eventually(lambda: names(pods) == {"train-0"}, "added")
        api.show(a_world(BLUE))
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "modified")
        api.show(a_world())
        await eventually(lambda: names(pods) == set(), "deleted")
        assert store(pods).recently_deleted[PodUid("uid-train-0")].labels == {"team": "blue"}
        assert pods.generation == before + 3
    assert len(api.requests) == 2


async def test_pod_recreated_under_its_name_is_another_pod(api: ApiServer, connection: Connection) -> None:
    """The old UID is among the deleted, the new one is alive, though the name is the same."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(replace(RED, uid="uid-second")))
        await eventually(lambda: PodUid("uid-second") in store(pods).pods, "recreated")
        assert set(store(pods).pods) == {PodUid("uid-second")}
        assert set(store(pods).recently_deleted) == {PodUid("uid-train-0")}


async def test_pod_not_in_the_api_is_not_in_the_store(api: ApiServer, connection: Connection) -> None:
    """A pod that only the kubelet knows stays unknown here (STALE-01)."""
    api.show(a_world(RED, replace(a_pod("old-job"), in_api=False)))
    async with reflecting(connection) as pods:
        await eventually(lambda: names(pods) == {"train-0"}, "list")


async def test_finished_pod_is_terminal(api: ApiServer, connection: Connection) -> None:
    """Phase Succeeded comes through, whatever the kubelet still lists (STALE-01)."""
    api.show(a_world(a_pod("old-job"), a_pod("new-job")))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(a_pod("old-job", phase="Succeeded"), a_pod("new-job")))
        await eventually(lambda: pod_named(pods, "old-job").terminal, "finished")
        assert not pod_named(pods, "new-job").terminal


async def test_watch_expired_in_the_stream_lists_once(api: ApiServer, connection: Connection) -> None:
    """An ERROR 410 event is followed by exactly one list and a watch that goes on (RPC-06)."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.expire_watches()
        await eventually(lambda: watches(api) == 2 and api.open_watches == 1, "second watch")
        api.show(a_world(BLUE))
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "event after it")
        await asyncio.sleep(0.3)
        assert (lists(api), watches(api)) == (2, 2)


async def test_watch_refused_with_410_lists_once(api: ApiServer, connection: Connection) -> None:
    """HTTP 410 on resuming is followed by exactly one list, which brings what was missed, and no busy loop (RPC-06)."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.cut_watches()
        api.expire_watches()
        api.show(a_world(BLUE))
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "news from the list")
        await asyncio.sleep(0.3)
        assert (lists(api), watches(api), api.open_watches) == (2, 3, 1)


async def test_watch_that_expires_every_time_backs_off(api: ApiServer, connection: Connection) -> None:
    """A server that always answers 410 gets a list now and then, and the store stays usable (RPC-06)."""
    api.show(a_world(RED, api_faults=()))
    async with reflecting(connection, first_retry_seconds=0.2, longest_retry_seconds=5.0) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        started, before = time.monotonic(), lists(api)
        while time.monotonic() - started < 1.5:
            if api.open_watches:
                api.expire_watches()
            await asyncio.sleep(0.01)
        assert lists(api) - before <= 4
        assert names(pods) == {"train-0"}


async def test_watch_with_another_error_event_lists_anew(api: ApiServer, connection: Connection) -> None:
    """An ERROR event other than 410 ends the watch and brings a new list."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.send(b'{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError"}}\n')
        await eventually(lambda: watches(api) == 2 and api.open_watches == 1, "second watch")
        assert lists(api) == 2
        assert names(pods) == {"train-0"}


async def test_watch_cut_in_the_middle_resumes_without_a_list(api: ApiServer, connection: Connection) -> None:
    """A cut stream is resumed from where it was: what happened meanwhile arrives, and the store is never missing (OWN-08)."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.cut_watches()
        await eventually(lambda: api.open_watches == 0, "cut")
        assert names(pods) == {"train-0"}
        api.show(a_world(BLUE))
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "event from the gap")
        assert (lists(api), watches(api)) == (1, 2)


async def test_watch_ended_by_the_server_resumes_from_the_bookmark(api: ApiServer, connection: Connection) -> None:
    """The regular end is no failure: the next watch starts where the last event or bookmark was."""
    api.show(a_world(RED))
    async with reflecting(connection, watch_timeout_seconds=0.5) as pods:
        await eventually(lambda: watches(api) >= 2, "second watch")
        assert names(pods) == {"train-0"}
        assert lists(api) == 1
        assert all(request.query["resourceVersion"] == "101" for request in api.requests if request.is_watch)


async def test_half_open_watch_is_given_up_and_resumed(api: ApiServer) -> None:
    """A peer that is gone without a word is left after the watch's time and a margin, not never."""
    api.show(a_world(RED))
    api.silent = True
    async with (
        connected(api.url, request_timeout_seconds=1.0) as connection,
        reflecting(connection, watch_timeout_seconds=0.1) as pods,
    ):
        await eventually(lambda: api.open_watches == 1, "silent watch")
        api.silent = False
        api.show(a_world(BLUE))
        assert pod_named(pods, "train-0").labels == {"team": "red"}
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "resumed")
        assert lists(api) == 1


async def test_open_watch_counts_as_now_and_an_interrupted_one_does_not(api: ApiServer, connection: Connection) -> None:
    """While a watch is open its silence is good news; once it is cut the age grows from when it was last heard."""
    clock = Clock()
    api.show(a_world(RED))
    async with reflecting(connection, clock=clock, first_retry_seconds=60.0) as pods:
        await eventually(lambda: api.open_watches == 1 and isinstance(pods.read(), Fresh), "watch")
        clock.advance(100.0)
        open_reading = pods.read()
        assert isinstance(open_reading, Fresh)
        assert open_reading.taken_at == 1100.0
        api.cut_watches()
        await eventually(lambda: pods.read() == Fresh(store(pods), 1000.0), "cut")
        clock.advance(100.0)
        assert pods.read() == Fresh(store(pods), 1000.0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, MissingReason.UNAUTHORIZED),
        (403, MissingReason.FORBIDDEN),
        (404, MissingReason.NOT_FOUND),
        (408, MissingReason.TIMEOUT),
        (429, MissingReason.RATE_LIMITED),
        (500, MissingReason.SERVER_ERROR),
        (503, MissingReason.SERVER_ERROR),
    ],
)
async def test_refused_list_says_why_and_recovers(
    api: ApiServer, connection: Connection, status: int, expected: MissingReason
) -> None:
    """Each refusal has its reason, and the pods are there as soon as it is lifted, without a restart (OWN-09)."""
    api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", status=status),)))
    async with reflecting(connection) as pods:
        await eventually(lambda: reason(pods.read()) is expected, expected.value)
        api.show(a_world(RED))
        await eventually(lambda: names(pods) == {"train-0"}, "recovery")


async def test_refused_watch_is_missing_until_it_is_allowed(api: ApiServer, connection: Connection) -> None:
    """List allowed and watch forbidden is no source: frozen pods must not look fresh; no list is repeated meanwhile."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", status=403),)))
        api.cut_watches()
        await eventually(lambda: reason(pods.read()) is MissingReason.FORBIDDEN, "forbidden")
        api.show(a_world(BLUE))
        await eventually(lambda: names(pods) == {"train-0"}, "allowed again")
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "what was missed")
        assert lists(api) == 1


async def test_server_that_lost_our_place_is_listed_again(api: ApiServer, connection: Connection) -> None:
    """After a 5xx on the watch (as after a restore from backup, when our version lies in the future) a list starts over."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", status=504),)))
        api.cut_watches()
        await eventually(lambda: reason(pods.read()) is MissingReason.SERVER_ERROR, "504")
        before = lists(api)
        api.show(a_world(BLUE))
        await eventually(lambda: names(pods) == {"train-0"}, "back")
        assert pod_named(pods, "train-0").labels == {"team": "blue"}
        assert lists(api) > before


async def test_slow_list_is_a_timeout(api: ApiServer) -> None:
    """A list that takes longer than the request timeout is missing for that reason."""
    api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", delay_seconds=30.0),)))
    async with connected(api.url, request_timeout_seconds=0.2) as connection, reflecting(connection) as pods:
        await eventually(lambda: reason(pods.read()) is MissingReason.TIMEOUT, "timeout")


async def test_api_absent_at_start_is_found_when_it_appears(api: ApiServer, connection: Connection) -> None:
    """Nobody listens at first: refused, then pods, with the same objects."""
    await api.stop()
    async with reflecting(connection) as pods:
        await eventually(lambda: reason(pods.read()) is MissingReason.CONNECTION_REFUSED, "refused")
        api.show(a_world(RED))
        await api.start(int(api.url.rpartition(":")[2]))
        await eventually(lambda: names(pods) == {"train-0"}, "appeared")


async def test_api_gone_and_back_brings_what_was_missed(api: ApiServer, connection: Connection) -> None:
    """An API server that restarts makes the source missing for as long, and no longer."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        await api.stop()
        await eventually(lambda: reason(pods.read()) is MissingReason.CONNECTION_REFUSED, "refused")
        api.show(a_world(BLUE))
        await api.start(int(api.url.rpartition(":")[2]))
        await eventually(lambda: names(pods) == {"train-0"}, "back")
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "what was missed")


async def test_api_down_is_asked_at_most_once_a_second(api: ApiServer, connection: Connection) -> None:
    """With the default pauses a refusing server sees no more than a request a second."""
    api.show(a_world(api_faults=(ApiFault(path="/api/v1/pods", status=500),)))
    async with reflecting(connection, first_retry_seconds=1.0, longest_retry_seconds=30.0) as pods:
        await eventually(lambda: reason(pods.read()) is MissingReason.SERVER_ERROR, "first failure")
        await eventually(lambda: len(api.requests) >= 2, "second attempt")
    times = [request.seconds for request in api.requests]
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times))


async def test_eighty_pods_cost_one_list(api: ApiServer, connection: Connection) -> None:
    """The calls do not grow with pods nor with reads (RPC-09)."""
    api.show(a_world(*(a_pod(f"p-{index}") for index in range(80))))
    async with reflecting(connection) as pods:
        await eventually(lambda: len(names(pods)) == 80 and api.open_watches == 1, "list")
        for _ in range(20):
            assert len(store(pods).pods) == 80
    assert (lists(api), len(api.requests)) == (1, 2)


async def test_strange_lines_cost_only_themselves(api: ApiServer, connection: Connection) -> None:
    """Garbage, unknown events and pods without a UID are counted; the watch goes on (EXPO-06)."""
    api.show(a_world(RED))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        for line in (
            b"not json\n",
            b"[" * 100_000 + b"\n",
            b'"text"\n',
            b'{"type":"ADDED","object":null}\n',
            b'{"type":"NEWS","object":{}}\n',
            b'{"type":"ADDED","object":{"metadata":null}}\n',
            b'{"type":"DELETED","object":{"metadata":{"name":5}}}\n',
        ):
            api.send(line)
        api.show(a_world(BLUE))
        await eventually(lambda: pod_named(pods, "train-0").labels == {"team": "blue"}, "event after them")
        assert store(pods).malformed == 7
        api.cut_watches()
        await eventually(lambda: watches(api) == 2, "resumed")
    assert lists(api) == 1


async def test_event_in_many_pieces_is_one_event(api: ApiServer, connection: Connection) -> None:
    """Lines are put together again however the network cuts them."""
    api.show(a_world())
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "p", "namespace": "n", "uid": "u"}}}).encode()
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        for start in range(0, len(line), 7):
            api.send(line[start : start + 7])
            await asyncio.sleep(0.005)
        assert names(pods) == set()
        api.send(b"\n")
        await eventually(lambda: names(pods) == {"p"}, "put together")


async def test_event_of_several_megabytes_is_read(api: ApiServer, connection: Connection) -> None:
    """A pod with huge annotations is a pod; what nobody asked for is not kept."""
    api.show(a_world())
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(a_pod("big", annotations={"huge": "x" * (5 << 20), "note": "kept"})))
        await eventually(lambda: names(pods) == {"big"}, "big event")
        assert pod_named(pods, "big").annotations == {"note": "kept"}


async def test_recorded_list_is_read_completely(api: ApiServer, connection: Connection) -> None:
    """Every pod of a real API server's answer comes through, none is malformed."""
    api.show(a_world(pod_list=recorded("pods-mixed.json")))
    async with reflecting(connection) as pods:
        await eventually(lambda: len(names(pods)) == 10, "list")
        assert store(pods).malformed == 0
        assert pod_named(pods, "completed-z8f74").terminal


async def test_recorded_watch_lines_tell_a_pods_whole_life(api: ApiServer, connection: Connection) -> None:
    """The raw lines of a real watch: one pod comes, runs, and is deleted; the bookmark is where the next watch starts."""
    api.show(a_world())
    async with reflecting(connection, first_retry_seconds=0.01) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        lines = (FIXTURES / "pods-watch.jsonl").read_bytes().splitlines(keepends=True)
        for line in lines[:4]:
            api.send(line)
        await eventually(lambda: names(pods) == {"watched"}, "running")
        for line in lines[4:]:
            api.send(line)
        await eventually(lambda: names(pods) == set(), "gone")
        (gone,) = store(pods).recently_deleted.values()
        assert (gone.name, store(pods).malformed) == ("watched", 0)
        api.cut_watches()
        await eventually(lambda: watches(api) == 2, "resumed")
    assert [request.query["resourceVersion"] for request in api.requests if request.is_watch][1] == "587"


async def test_list_without_items_is_an_empty_node(api: ApiServer, connection: Connection) -> None:
    """Items may be null (a Go server's empty list): no pods, which is an answer."""
    api.show(a_world(pod_list={"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": None}))
    async with reflecting(connection) as pods:
        await eventually(lambda: isinstance(pods.read(), Fresh), "empty list")
        assert store(pods).pods == {}


async def test_cancelled_task_leaves_no_connection_open(api: ApiServer, connection: Connection) -> None:
    """Ending the task ends its watch."""
    api.show(a_world(RED))
    async with reflecting(connection):
        await eventually(lambda: api.open_watches == 1, "watch")
    await connection.close()
    api.send(b"\n")
    await eventually(lambda: api.open_watches == 0, "closed")


async def test_many_pods_in_one_event_burst_all_arrive(api: ApiServer, connection: Connection) -> None:
    """A hundred pods at once: all of them, in one stream."""
    api.show(a_world())
    burst: tuple[SimPod, ...] = tuple(a_pod(f"p-{index}") for index in range(100))
    async with reflecting(connection) as pods:
        await eventually(lambda: api.open_watches == 1, "watch")
        api.show(a_world(*burst))
        await eventually(lambda: len(names(pods)) == 100, "burst")


async def test_only_transitions_are_logged(api: ApiServer, connection: Connection, caplog: pytest.LogCaptureFixture) -> None:
    """One line when the pods go missing, one when the reason changes, one when they are back."""
    caplog.set_level(logging.INFO, logger="exporter")
    api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", status=500),)))
    async with reflecting(connection) as pods:
        await eventually(lambda: len(api.requests) >= 3, "some failures")
        api.show(a_world(RED, api_faults=(ApiFault(path="/api/v1/pods", status=403),)))
        before = len(api.requests)
        await eventually(lambda: len(api.requests) >= before + 2, "other failures")
        api.show(a_world(RED))
        await eventually(lambda: api.open_watches == 1 and names(pods) == {"train-0"}, "back")
        api.cut_watches()
        await eventually(lambda: watches(api) == 2 and api.open_watches == 1, "cut and resumed")
    missing, changed, back = caplog.messages
    assert missing == "kubernetes pods missing: server_error (HTTP 500 for /api/v1/pods)"
    assert changed == "kubernetes pods missing: forbidden (HTTP 403 for /api/v1/pods)"
    assert back.startswith("kubernetes pods back after ")
