"""The pod-resources source against a real gRPC server on a real socket: every reason for no answer, and the way back."""

import asyncio
import logging
import os
import socket as sockets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.model.holding import Holding, Holdings
from exporter.model.reading import Fresh, Missing, MissingReason, Reading
from exporter.simulator.kubelet import KubeletSocket
from exporter.simulator.world import KubeletFault, SimContainer, SimPod, World
from exporter.sources.podresources import podresources_pb2 as v1
from exporter.sources.podresources.source import PodResources

ROOT = Path(__file__).resolve().parents[2]
G0 = "GPU-0a0a0a0a-1111-4222-8333-000000000000"
G1 = "GPU-0a0a0a0a-1111-4222-8333-000000000001"
LIST = "/v1.PodResourcesLister/List"
MIB = 1 << 20


def _world(device_id: str = G0) -> World:
    main = SimContainer(devices=(("nvidia.com/gpu", (device_id,)),))
    return World(
        pods=(SimPod(name="train-0", namespace="team-red", uid="u1", containers=(main,)),),
        allocatable={"nvidia.com/gpu": (G0, G1)},
    )


class Clock:
    """Monotonic seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """As time.monotonic."""
        return self.now


Make = Callable[..., PodResources]
Serve = Callable[..., Awaitable[KubeletSocket]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
async def make(path: Path, clock: Clock) -> AsyncIterator[Make]:
    """Makes sources that are closed at the end."""
    made: list[PodResources] = []

    def _make(socket: Path = path, *, deadline_seconds: float = 10.0, max_message_bytes: int = 16 * MIB) -> PodResources:
        source = PodResources(
            socket=socket,
            interval_seconds=10.0,
            deadline_seconds=deadline_seconds,
            max_message_bytes=max_message_bytes,
            clock=clock,
        )
        made.append(source)
        return source

    yield _make
    for source in made:
        await source.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts kubelets with one pod on G0 that are stopped at the end."""
    started: list[KubeletSocket] = []

    async def _serve(socket: Path, **versions: bool) -> KubeletSocket:
        kubelet = KubeletSocket(socket, **versions)
        started.append(kubelet)
        kubelet.show(_world())
        await kubelet.start()
        return kubelet

    yield _serve
    for kubelet in started:
        await kubelet.stop()


@pytest.fixture
async def kubelet(path: Path, serve: Serve) -> KubeletSocket:
    """A kubelet at the usual path."""
    return await serve(path)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _holdings(reading: Reading[Holdings]) -> Holdings:
    assert isinstance(reading, Fresh), reading
    return reading.value


def _devices(reading: Reading[Holdings]) -> list[str]:
    return [each.device_id for each in _holdings(reading).holdings]


def _missing(reading: Reading[Holdings]) -> Missing:
    assert isinstance(reading, Missing), reading
    return reading


def _reason(reading: Reading[Holdings]) -> MissingReason:
    return _missing(reading).reason


def _dead_socket(path: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))


# When it asks


async def test_answering_kubelet_gives_holdings(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """One read names holders, all pods, and what could be given out, as of the moment of asking."""
    kubelet.show(replace(_world(), pods=(*_world().pods, SimPod(name="web", uid="u2"))))
    reading = await make().read()
    assert reading == Fresh(
        Holdings(
            holdings=(Holding("team-red", "train-0", "main", "nvidia.com/gpu", G0),),
            pods=frozenset({("team-red", "train-0"), ("default", "web")}),
            allocatable={"nvidia.com/gpu": frozenset({G0, G1})},
        ),
        clock.now,
    )


async def test_read_within_the_interval_returns_the_last_answer(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """The kubelet is asked once an interval, and an old answer keeps its time."""
    source = make()
    first = await source.read()
    clock.now += 9.9
    assert await source.read() is first
    assert kubelet.calls[LIST] == 1
    clock.now += 0.1
    assert await source.read() == Fresh(_holdings(first), clock.now)
    assert kubelet.calls[LIST] == 2


async def test_refresh_asks_at_once_and_at_most_once_a_second(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """A change elsewhere brings a new answer before its time, without hammering the kubelet."""
    source = make()
    await source.read(refresh=True)
    kubelet.show(_world(G1))
    clock.now += 0.5
    assert _devices(await source.read(refresh=True)) == [G0]
    clock.now += 0.5
    assert _devices(await source.read(refresh=True)) == [G1]
    assert kubelet.calls[LIST] == 2


async def test_reads_at_the_same_time_ask_once(kubelet: KubeletSocket, make: Make) -> None:
    """Two readers share one question."""
    source = make()
    first, second = await asyncio.gather(source.read(), source.read())
    assert first is second
    assert kubelet.calls[LIST] == 1


async def test_failed_read_is_tried_again_after_a_second(path: Path, serve: Serve, make: Make, clock: Clock) -> None:
    """A failure is not asked about in a hurry, and does not last for an interval."""
    source = make()
    first = await source.read()
    await serve(path)
    clock.now += 0.9
    assert await source.read() is first
    clock.now += 0.1
    assert _devices(await source.read()) == [G0]


async def test_cancelled_read_leaves_the_source_usable(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """Whoever gives up waiting spoils nothing for the next one."""
    kubelet.show(replace(_world(), kubelet_faults=(KubeletFault(delay_seconds=60),)))
    source = make()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(source.read(), 0.2)
    kubelet.show(_world())
    clock.now += 1
    assert _devices(await source.read()) == [G0]


async def test_closed_source_dials_again(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """Closing hangs up, and is no end."""
    source = make()
    await source.read()
    await source.close()
    clock.now += 10
    assert _devices(await source.read()) == [G0]
    assert kubelet.calls[LIST] == 2


# Where the socket is


@pytest.mark.parametrize(
    "variant", ["empty folder", "no folder", "a folder in its place", "a file in its place", "a file above"]
)
async def test_absent_socket_is_missing_with_its_path(variant: str, tmp_path: Path, make: Make) -> None:
    """A kubelet folder elsewhere is said, with the path that was looked at (DEP-01)."""
    path = tmp_path / "pod-resources" / "kubelet.sock"
    if variant == "a file above":
        path.parent.write_text("")
    elif variant != "no folder":
        path.parent.mkdir()
    if variant == "a folder in its place":
        path.mkdir()
    if variant == "a file in its place":
        path.write_text("")
    missing = _missing(await make(path).read())
    assert missing.reason is MissingReason.SOCKET_MISSING
    assert str(path) in missing.detail


async def test_absent_socket_is_logged_once(
    make: Make, path: Path, serve: Serve, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing socket is one line in the log, however long it lasts, and its return another (DEP-01)."""
    caplog.set_level(logging.INFO)
    source = make()
    for _ in range(5):
        await source.read()
        clock.now += 5
    await serve(path)
    for _ in range(3):
        await source.read()
        clock.now += 10
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("exporter")]
    assert lines == [
        f"pod-resources missing: socket_missing ({path})",
        "pod-resources back after 25.0 s (socket_missing)",
    ]


@pytest.mark.parametrize(
    "name", ["elsewhere.sock", "with space.sock", "100%25 & #1?.sock", "\N{LATIN SMALL LETTER U WITH DIAERESIS}.sock"]
)
async def test_socket_at_any_path_is_found(name: str, tmp_path: Path, serve: Serve, make: Make) -> None:
    """The option decides where the kubelet is, whatever characters it holds (DEP-01)."""
    await serve(tmp_path / "var" / name)
    assert _devices(await make(tmp_path / "var" / name).read()) == [G0]


async def test_path_too_long_for_a_socket_is_unreachable(tmp_path: Path, make: Make) -> None:
    """A socket that exists and whose path no address can hold is told from one that is not there."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    handle = os.open(folder, os.O_RDONLY)
    _dead_socket(Path(f"/proc/self/fd/{handle}/kubelet.sock"))
    os.close(handle)
    assert _reason(await make(folder / "kubelet.sock").read()) is MissingReason.UNREACHABLE


AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from exporter.model.reading import Missing
from exporter.sources.podresources.source import PodResources

def source():
    return PodResources(socket=Path(sys.argv[1]), interval_seconds=1, deadline_seconds=5, max_message_bytes=1 << 20)

async def main():
    allowed, denied = source(), source()
    if os.geteuid() == 0:
        print(type(await allowed.read()).__name__)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    else:
        print("Fresh")
    reading = await denied.read()
    print(reading.reason if isinstance(reading, Missing) else reading)
    await allowed.close()
    await denied.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("variant", ["socket", "folder"])
async def test_socket_that_may_not_be_used_is_permission_denied(variant: str, open_folder: Path, serve: Serve) -> None:
    """A socket that is there and closed to us is not a missing one (DEP-02)."""
    path = open_folder / "pod-resources" / "kubelet.sock"
    await serve(path)
    (path if variant == "socket" else path.parent).chmod(0)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        AS_NOBODY,
        str(path),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    output, _ = await process.communicate()
    path.parent.chmod(0o755)
    assert output.decode().split() == ["Fresh", "permission_denied"]


# Who answers


async def test_dead_socket_is_connection_refused(make: Make, path: Path) -> None:
    """A socket file that a kubelet left behind has nobody at it."""
    _dead_socket(path)
    assert _reason(await make().read()) is MissingReason.CONNECTION_REFUSED


async def test_server_that_hangs_up_is_connection_refused(make: Make, path: Path) -> None:
    """Somebody who accepts and closes is not a kubelet that is ready."""
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), path)
    assert _reason(await make(deadline_seconds=5.0).read()) is MissingReason.CONNECTION_REFUSED
    server.close()


async def test_server_that_says_nothing_is_a_timeout(make: Make, path: Path) -> None:
    """Somebody who accepts and stays silent costs one deadline (RPC-10)."""
    with sockets.socket(sockets.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        started = time.monotonic()
        assert _reason(await make(deadline_seconds=0.3).read()) is MissingReason.TIMEOUT
        assert time.monotonic() - started < 3


async def test_full_queue_of_connections_is_a_timeout(make: Make, path: Path) -> None:
    """Somebody who listens and no longer accepts is busy, not gone (RPC-10)."""
    with sockets.socket(sockets.AF_UNIX) as busy, sockets.socket(sockets.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        assert _reason(await make(deadline_seconds=0.5).read()) is MissingReason.TIMEOUT


async def test_stalled_call_ends_at_the_deadline_and_recovers(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """A kubelet that accepts and does not answer costs one deadline, then answers again (RPC-10)."""
    source = make(deadline_seconds=0.5)
    await source.read()
    kubelet.show(replace(_world(), kubelet_faults=(KubeletFault(method="List", delay_seconds=60),)))
    clock.now += 10
    started = time.monotonic()
    assert _reason(await source.read()) is MissingReason.TIMEOUT
    assert time.monotonic() - started < 3
    kubelet.show(_world(G1))
    clock.now += 1
    assert _devices(await source.read()) == [G1]


async def test_both_calls_share_one_deadline(kubelet: KubeletSocket, make: Make) -> None:
    """A second call that stalls ends the wait of the first one's deadline, and costs what it asks for alone (RPC-10)."""
    faults = (KubeletFault(method="List", delay_seconds=0.8), KubeletFault(method="GetAllocatableResources", delay_seconds=60))
    kubelet.show(replace(_world(), kubelet_faults=faults))
    started = time.monotonic()
    holdings = _holdings(await make(deadline_seconds=1.0).read())
    assert time.monotonic() - started < 1.6
    assert holdings.holdings
    assert holdings.allocatable is None


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("RESOURCE_EXHAUSTED", "rejected by rate limit", MissingReason.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", "", MissingReason.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", "trying to send message larger than max (20181048 vs. 4194304)", MissingReason.TOO_LARGE),
        ("PERMISSION_DENIED", "no", MissingReason.PERMISSION_DENIED),
        ("UNAUTHENTICATED", "no", MissingReason.UNAUTHORIZED),
        ("INTERNAL", "broken", MissingReason.SERVER_ERROR),
        ("UNKNOWN", "broken", MissingReason.SERVER_ERROR),
        ("CANCELLED", "stopping", MissingReason.SERVER_ERROR),
        ("UNAVAILABLE", "starting", MissingReason.CONNECTION_REFUSED),
        ("DEADLINE_EXCEEDED", "the server's own", MissingReason.TIMEOUT),
    ],
)
async def test_status_of_the_kubelet_names_the_reason(
    code: str, message: str, reason: MissingReason, kubelet: KubeletSocket, make: Make, clock: Clock
) -> None:
    """Each status has a reason of its own kind, keeps the kubelet's words as detail, and passes."""
    source = make()
    kubelet.show(replace(_world(), kubelet_faults=(KubeletFault(method="List", code=code, message=message),)))
    missing = _missing(await source.read())
    assert missing.reason is reason
    assert missing.at == clock.now
    assert message in missing.detail
    kubelet.show(_world())
    clock.now += 1
    assert _devices(await source.read()) == [G0]


async def test_garbage_is_malformed_and_passes(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """Bytes that are no answer are a failure of the source, not a node without pods (EXPO-06)."""
    source = make()
    kubelet.show(replace(_world(), kubelet_faults=(KubeletFault(garbage=True),)))
    assert _reason(await source.read()) is MissingReason.MALFORMED
    kubelet.show(_world())
    clock.now += 1
    assert _devices(await source.read()) == [G0]


@pytest.mark.parametrize(
    "fault", [KubeletFault(garbage=True), KubeletFault(code="RESOURCE_EXHAUSTED"), KubeletFault(code="INTERNAL")]
)
async def test_trouble_with_allocatable_costs_allocatable_alone(
    fault: KubeletFault, kubelet: KubeletSocket, make: Make, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Holders are known without it, and the log says once that it is not known (EXPO-06)."""
    source = make()
    kubelet.show(replace(_world(), kubelet_faults=(replace(fault, method="GetAllocatableResources"),)))
    for _ in range(3):
        reading = await source.read()
        assert _devices(reading) == [G0]
        assert _holdings(reading).allocatable is None
        clock.now += 10
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    kubelet.show(_world())
    assert _holdings(await source.read()).allocatable == {"nvidia.com/gpu": frozenset({G0, G1})}


# What it answers with


def _padded(size_bytes: int) -> bytes:
    """The answer for `_world`, among pods with many containers and long id lists."""
    answer = v1.ListPodResourcesResponse()
    answer.pod_resources.add(name="train-0", namespace="team-red").containers.add(name="main").devices.add(
        resource_name="nvidia.com/gpu", device_ids=[G0]
    )
    ids = [f"example.org-nic-{number:0>84}" for number in range(size_bytes // 1600 // 102 + 1)]
    for pod in range(400):
        listed = answer.pod_resources.add(name=f"pod-{pod}", namespace="team-blue")
        for name in ("a", "b", "c", "d"):
            listed.containers.add(name=name, cpu_ids=range(64)).devices.add(resource_name="example.org/nic", device_ids=ids)
    return answer.SerializeToString()


@pytest.mark.parametrize("size_mib", [6, 15])
async def test_large_answer_is_read(size_mib: int, kubelet: KubeletSocket, make: Make) -> None:
    """An answer far above gRPC's own limit of 4 MiB is one like any other (RPC-01)."""
    response = _padded(size_mib * MIB - 200_000)
    assert (size_mib - 1) * MIB < len(response) < 16 * MIB
    kubelet.show(replace(_world(), list_response=response))
    holdings = _holdings(await make().read())
    assert ("team-red", "train-0", G0) in {(each.namespace, each.pod, each.device_id) for each in holdings.holdings}
    assert len(holdings.pods) == 401


async def test_answer_above_the_limit_is_too_large_and_passes(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """An answer above our limit is a failure of the source, not a node without pods (RPC-01)."""
    kubelet.show(replace(_world(), list_response=_padded(20 * MIB)))
    source = make()
    assert _reason(await source.read()) is MissingReason.TOO_LARGE
    kubelet.show(_world())
    clock.now += 1
    assert _devices(await source.read()) == [G0]


@pytest.mark.parametrize(
    ("versions", "allocatable"),
    [
        ({"has_v1": False}, None),
        ({"has_allocatable": False}, None),
        ({"has_v1alpha1": False}, {"nvidia.com/gpu": frozenset({G0, G1})}),
    ],
    ids=["v1alpha1 alone (A)", "v1 without GetAllocatableResources (C)", "v1 alone"],
)
async def test_kubelet_of_any_age_names_holders(
    versions: dict[str, bool], allocatable: dict[str, frozenset[str]] | None, path: Path, make: Make, serve: Serve
) -> None:
    """Whichever version is served is used; what it cannot say is None (RPC-05)."""
    await serve(path, **versions)
    holdings = _holdings(await make().read())
    assert holdings.holdings == (Holding("team-red", "train-0", "main", "nvidia.com/gpu", G0),)
    assert holdings.allocatable == allocatable


async def test_socket_of_another_service_is_unimplemented(path: Path, serve: Serve, make: Make, clock: Clock) -> None:
    """A wrong mount, whose server knows neither version, is named as such; the right one is used when it comes (RPC-05 B)."""
    other = await serve(path, has_v1=False, has_v1alpha1=False)
    source = make()
    assert _reason(await source.read()) is MissingReason.UNIMPLEMENTED
    await other.stop()
    await serve(path)
    clock.now += 1
    assert _devices(await source.read()) == [G0]


# Restarts of the kubelet


@pytest.mark.parametrize(
    ("unlink", "reason"),
    [(True, MissingReason.SOCKET_MISSING), (False, MissingReason.CONNECTION_REFUSED)],
    ids=["unlinked", "left"],
)
async def test_restarted_kubelet_is_found_by_path(
    unlink: bool, reason: MissingReason, kubelet: KubeletSocket, make: Make, clock: Clock
) -> None:
    """While the kubelet is away the reason says so; the first read after it is back has its new answer (RPC-03)."""
    source = make()
    assert _devices(await source.read()) == [G0]
    for device in (G1, G0):
        await kubelet.stop(unlink=unlink)
        clock.now += 10
        assert _reason(await source.read()) is reason
        kubelet.show(_world(device))
        await kubelet.start()
        clock.now += 1
        assert _devices(await source.read()) == [device]


async def test_restart_between_two_reads_goes_unnoticed(kubelet: KubeletSocket, make: Make, clock: Clock) -> None:
    """A connection that died with the old kubelet does not spoil the first read from the new one (RPC-03)."""
    source = make()
    await source.read()
    await kubelet.stop()
    kubelet.show(_world(G1))
    await kubelet.start()
    clock.now += 10
    assert _devices(await source.read()) == [G1]


async def test_new_socket_file_replaces_a_live_connection(
    kubelet: KubeletSocket, serve: Serve, make: Make, clock: Clock, tmp_path: Path
) -> None:
    """Who listens at the path now is who is asked, although the old connection would still answer (RPC-03)."""
    source = make()
    await source.read()
    successor = await serve(tmp_path / "next.sock")
    successor.show(_world(G1))
    (tmp_path / "next.sock").rename(tmp_path / "kubelet.sock")
    clock.now += 10
    assert _devices(await source.read()) == [G1]
    assert kubelet.calls[LIST] == 1
