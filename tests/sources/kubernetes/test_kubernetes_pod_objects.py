"""Pod objects as the API sends them, and as nobody should: one odd field costs that field, one odd pod costs itself."""

import json
from typing import Any

import pytest

from exporter.model.ids import ContainerId, PodUid
from exporter.model.workload import Container, ContainerKind, OwnerReference, Pod, PodPhase
from exporter.sources.kubernetes.objects import node_meta
from exporter.sources.kubernetes.pod_objects import parse_pod
from tests.sources.kubernetes.kubernetes_support import FIXTURES, a_document, recorded

KEYS = frozenset({"note"})
C1 = "c1" * 32
C2 = "c2" * 32


def parsed(document: dict[str, Any]) -> Pod:
    pod = parse_pod(document, KEYS)
    assert pod is not None
    return pod


@pytest.mark.parametrize("name", ["pods-mixed.json", "pods-mirror.json"])
def test_every_recorded_pod_is_understood(name: str) -> None:
    """Real objects give complete pods: a phase, a start, containers, and an id for each container."""
    for document in recorded(name)["items"]:
        pod = parsed(document)
        assert pod.phase is not PodPhase.UNKNOWN
        assert pod.start_timestamp_seconds is not None
        assert sorted(pod.container_names.values()) == sorted(container.name for container in pod.containers)
        assert all(len(container_id) == 64 for container_id in pod.container_names)


def test_recorded_pod_keeps_what_attribution_needs() -> None:
    """Owner, limits without cpu and memory, kind of each container, start."""
    pods = {document["metadata"]["name"]: parsed(document) for document in recorded("pods-mixed.json")["items"]}
    whole = pods["whole-gpu-7cd7d7dd59-9bw82"]
    assert whole.containers == (Container("main", ContainerKind.MAIN, {"nvidia.com/gpu": 1}),)
    assert [(owner.kind, owner.controller) for owner in whole.owners] == [("ReplicaSet", True)]
    assert pods["init-gpu"].containers[1] == Container("warm", ContainerKind.INIT, {"nvidia.com/gpu": 1})
    assert pods["init-sidecar"].containers[1].kind is ContainerKind.SIDECAR
    assert pods["plain"].start_timestamp_seconds == 1796072888.0
    assert pods["completed-z8f74"].terminal
    assert pods["plain"].container_names == {
        ContainerId("ff419562dc9c714280ee9c78922af98f381029886ae1355f23c598642943f519"): "main"
    }


def test_recorded_mirror_pod_is_known_under_its_cgroup_uid() -> None:
    """The mirror's UID is not the static pod's: the hash in its annotations is what cgroup paths carry (PID-11)."""
    pod = parsed(recorded("pods-mirror.json")["items"][0])
    assert pod.uid == "045fbde6-1b6e-4738-834d-62e0e1469369"
    assert pod.cgroup_uids == (PodUid("5a80129a8dea3d2af199039e20aa8355"),)
    assert pod.is_mirror
    assert pod.annotations == {}


def test_recorded_watch_events_tell_when_the_pod_is_deleted() -> None:
    """The deletion's time is there from the moment it is asked for."""
    lines = (FIXTURES / "pods-watch.jsonl").read_text(encoding="utf-8").splitlines()
    pods = [parsed(event["object"]) for event in map(json.loads, lines) if event["type"] != "BOOKMARK"]
    assert [pod.deletion_timestamp_seconds is not None for pod in pods] == [False] * 4 + [True] * 5
    assert {pod.uid for pod in pods} == {PodUid("e4658ce9-a472-484a-9332-80bd901b069c")}


@pytest.mark.parametrize(
    ("annotations", "uids", "mirror"),
    [
        ({"kubernetes.io/config.hash": "0123456789ABCDEF0123456789abcdef"}, ("0123456789abcdef0123456789abcdef",), False),
        ({"kubernetes.io/config.mirror": "aa11"}, ("aa11",), True),
        ({"kubernetes.io/config.hash": "", "kubernetes.io/config.mirror": "aa11"}, ("aa11",), True),
        ({"kubernetes.io/config.source": "file"}, (), False),
        ({"kubernetes.io/config.source": "api"}, (), False),
        ({"kubernetes.io/config.hash": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}, ("6f9619ff8b86d011b42d00cf4fc964ff",), False),
        ({"kubernetes.io/config.hash": 5}, (), False),
        (None, (), False),
    ],
)
def test_static_pods_annotations_give_its_other_uid(annotations: object, uids: tuple[str, ...], mirror: bool) -> None:
    """config.hash, else config.mirror, in the form of cgroup paths; only the kubelet's own mark makes it a mirror (PID-11)."""
    pod = parsed(a_document(metadata={"annotations": annotations}))
    assert (pod.cgroup_uids, pod.is_mirror) == (uids, mirror)


def test_only_annotations_asked_for_are_kept() -> None:
    """Everything else is never held in memory."""
    annotations = {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "x" * 1_000_000}
    assert parsed(a_document(metadata={"annotations": annotations})).annotations == {"note": "kept"}


@pytest.mark.parametrize("odd", [None, [], "text", 5, True, [None], {"a": None, "b": 1, "c": []}])
@pytest.mark.parametrize("field", ["labels", "annotations", "ownerReferences"])
def test_odd_metadata_fields_are_empty(field: str, odd: object) -> None:
    """Labels, annotations or ownerReferences that are null or of another type are empty, and the pod stays (EXPO-06)."""
    pod = parsed(a_document(metadata={field: odd}))
    assert (pod.labels, pod.annotations, pod.owners) == ({}, {}, ())
    assert (pod.uid, pod.namespace, pod.name) == ("u1", "team-red", "p")


@pytest.mark.parametrize("odd", [None, [], "text", 5, [None, 5, "x", []], [{}], [{"name": 5}], {"name": "x"}])
@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"])
def test_odd_container_statuses_give_no_container_ids(field: str, odd: object) -> None:
    """Statuses that are missing, null or of another type leave the rest of the pod alone (EXPO-06)."""
    pod = parsed(a_document(status={field: odd, "phase": "Running"}))
    assert pod.container_names == {}
    assert pod.phase is PodPhase.RUNNING


@pytest.mark.parametrize("odd", [None, [], "text", 5, True])
@pytest.mark.parametrize("field", ["spec", "status"])
def test_odd_spec_or_status_leaves_a_pod(field: str, odd: object) -> None:
    """A pod whose spec or status is no object still has its identity."""
    pod = parsed({**a_document(), field: odd})
    assert (pod.containers, pod.phase) == ((), PodPhase.UNKNOWN)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"metadata": None},
        {"metadata": []},
        a_document(metadata={"uid": None}),
        a_document(metadata={"uid": ""}),
        a_document(metadata={"name": 7}),
        a_document(metadata={"namespace": ["team-red"]}),
    ],
)
def test_pod_without_identity_is_left_out(document: dict[str, Any]) -> None:
    """Without UID, namespace or name nothing can be joined with it."""
    assert parse_pod(document, KEYS) is None


def test_odd_label_values_cost_themselves() -> None:
    """A label whose value is no string goes, its neighbours stay (EXPO-06)."""
    pod = parsed(a_document(metadata={"labels": {"team": "red", "count": 5, "none": None, "list": ["x"]}}))
    assert pod.labels == {"team": "red"}


def test_ten_thousand_labels_are_labels() -> None:
    """Many labels are no reason to lose a pod."""
    labels = {f"key-{number}": "v" for number in range(10_000)}
    assert len(parsed(a_document(metadata={"labels": labels})).labels) == 10_000


def test_odd_owner_references_cost_themselves() -> None:
    """An entry without kind, name or UID goes; a controller flag that is not true is false."""
    good = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "r1", "controller": "yes"}
    references = [None, {}, {"kind": "Job"}, {"kind": "Job", "name": "j", "uid": 5}, good]
    assert parsed(a_document(metadata={"ownerReferences": references})).owners == (
        OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs", uid="r1", controller=False),
    )


@pytest.mark.parametrize(
    ("written", "count"),
    [
        *[
            ("1", 1),
            ("0", 0),
            (3, 3),
            ("8", 8),
            ("2k", 2000),
            ("1e3", 1000),
            ("1Ki", None),
            ("9e99", None),
            ("500m", None),
            ("1.5", None),
            ("-1", None),
            (-1, None),
        ],
        *[("", None), (None, None), (True, None), (1.5, None), ([], None), ("9" * 400, None), (10**300, None), ("٣", None)],
    ],
)
def test_limits_are_whole_numbers_or_nothing(written: object, count: int | None) -> None:
    """Extended resources are counted in whole units; anything else is not guessed at."""
    spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": written}}}]}
    limits = parsed(a_document(spec=spec)).containers[0].limits
    assert limits == ({} if count is None else {"nvidia.com/gpu": count})


def test_limits_without_a_slash_are_not_extended_resources() -> None:
    """cpu, memory, ephemeral-storage and hugepages stay out, in whatever unit they are."""
    limits = {"cpu": "4", "memory": "1073741824", "hugepages-2Mi": "4", "nvidia.com/mig-1g.10gb": "2"}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    assert parsed(a_document(spec=spec)).containers[0].limits == {"nvidia.com/mig-1g.10gb": 2}


def test_containers_of_all_kinds_are_told_apart() -> None:
    """An init container that restarts always is a sidecar; ephemeral ones are their own kind."""
    spec = {
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "warm"}, {"name": "proxy", "restartPolicy": "Always"}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    assert [(container.name, container.kind) for container in parsed(a_document(spec=spec)).containers] == [
        ("main", ContainerKind.MAIN),
        ("warm", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
        ("debug", ContainerKind.EPHEMERAL),
    ]


def test_container_ids_lose_their_scheme_and_the_last_instance_stays_known() -> None:
    """A GPU process of the instance that was just restarted still has its container's name."""
    statuses = [
        {"name": "main", "containerID": f"containerd://{C1}", "lastState": {"terminated": {"containerID": f"cri-o://{C2}"}}},
        {"name": "waiting", "containerID": "", "lastState": {}},
        {"name": "bare", "containerID": "docker://" + C1.upper()[:-2] + "FF", "lastState": None},
    ]
    names = parsed(a_document(status={"containerStatuses": statuses})).container_names
    assert names == {ContainerId(C1): "main", ContainerId(C2): "main", ContainerId(C1[:-2] + "ff"): "bare"}


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("2026-11-30T21:08:08Z", 1796072888.0),
        ("2026-11-30T21:08:08.5Z", 1796072888.5),
        ("2026-11-30T21:08:08.123456789Z", pytest.approx(1796072888.123456, abs=1e-6)),
        ("2026-11-30T22:08:08+01:00", 1796072888.0),
        ("2026-11-30T21:08:08", None),
        ("2026-13-30T21:08:08Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
        (1796072888, None),
        ("9999-12-31T23:59:59Z", 253402300799.0),
    ],
)
def test_start_time_is_unix_seconds_or_unknown(written: object, seconds: object) -> None:
    """RFC 3339 with a zone; what cannot be read is unknown, not zero."""
    assert parsed(a_document(status={"startTime": written})).start_timestamp_seconds == seconds


def _status(name: object, started: object) -> dict[str, Any]:
    return {"name": name, "state": {"running": {"startedAt": started}}}


def test_running_containers_of_all_kinds_have_their_own_start() -> None:
    """A container that was restarted is younger than its pod; one that waits or has ended runs since never."""
    ended = {"name": "done", "state": {"terminated": {"startedAt": "2026-11-30T21:00:00Z"}}}
    status = {
        "startTime": "2026-11-30T20:00:00Z",
        "containerStatuses": [_status("main", "2026-11-30T21:08:08Z"), {"name": "waits", "state": {"waiting": {}}}, ended],
        "initContainerStatuses": [_status("proxy", "2026-11-30T21:08:07Z")],
        "ephemeralContainerStatuses": [_status("debug", "2026-11-30T22:08:08.5+01:00")],
    }
    assert parsed(a_document(status=status)).container_starts == {
        "main": 1796072888.0,
        "proxy": 1796072887.0,
        "debug": 1796072888.5,
    }


@pytest.mark.parametrize(
    "odd",
    [
        _status("odd", None),
        _status("odd", 1796072888),
        _status("odd", "2026-11-30T21:08:08"),
        _status("odd", "2026-02-30T21:08:08Z"),
        _status("odd", "99999-01-01T00:00:00Z"),
        _status("odd", ["2026-11-30T21:08:08Z"]),
        _status(7, "2026-11-30T21:08:08Z"),
        _status("", "2026-11-30T21:08:08Z"),
        {"name": "odd", "state": {"running": "2026-11-30T21:08:08Z"}},
        {"name": "odd", "state": {"running": None}},
        {"name": "odd", "state": [{"running": {}}]},
        {"name": "odd", "state": None},
        {"name": "odd"},
        "odd",
    ],
)
def test_odd_start_of_a_container_costs_that_start_only(odd: object) -> None:
    """The others keep theirs, and the pod stays."""
    pod = parsed(a_document(status={"containerStatuses": [odd, _status("main", "2026-11-30T21:08:08Z")]}))
    assert pod.container_starts == {"main": 1796072888.0}


@pytest.mark.parametrize("phase", [None, "", "running", "Terminating", 5])
def test_odd_phase_is_unknown_and_not_terminal(phase: object) -> None:
    """Only a phase that says so ends a pod."""
    pod = parsed(a_document(status={"phase": phase}))
    assert (pod.phase, pod.terminal) == (PodPhase.UNKNOWN, False)


def test_pod_uid_is_lower_case() -> None:
    """As cgroup paths have it."""
    assert (
        parsed(a_document(metadata={"uid": "ABCDEF00-0000-4000-8000-000000000000"})).uid
        == "abcdef00-0000-4000-8000-000000000000"
    )


def test_odd_node_keeps_what_can_be_read() -> None:
    """A node object with odd fields still has its name and its good labels."""
    meta = node_meta(
        {
            "metadata": {"name": "n", "labels": {"a": "b", "c": 5}, "creationTimestamp": "?"},
            "spec": None,
            "status": {"capacity": {"nvidia.com/gpu": "8", "cpu": "128", "example.com/odd": "8Gi"}},
        }
    )
    assert meta is not None
    assert (meta.labels, meta.provider_id, meta.created_timestamp_seconds) == ({"a": "b"}, "", None)
    assert (meta.unschedulable, meta.capacity) == (False, {"nvidia.com/gpu": 8})
