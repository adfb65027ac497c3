"""The top controller of a pod, with and without the API's help."""

from typing import Any

import pytest

from exporter.attribution.controllers import find_workload
from exporter.attribution.lookups import Lookups
from exporter.model.reading import MissingReason
from exporter.model.workload import Lookup, LookupFailure, NamespaceTable, OwnerReference, OwnerTable, Pod
from tests.builders import TIMESTAMP, a_pod, an_object, an_owner, forbidden, fresh, missing, train_0

NOT_FOUND = LookupFailure(MissingReason.NOT_FOUND, definitive=True)
LATE = LookupFailure(MissingReason.TIMEOUT, definitive=False)


def _lookups(**objects: Lookup) -> Lookups:
    return Lookups(fresh(OwnerTable(objects)), fresh(NamespaceTable({})))


def _named(pod: Pod, lookups: Lookups) -> tuple[str, str]:
    workload = find_workload(pod, lookups)
    return workload.type, workload.name


def _ref(kind: str, name: str, uid: str, api_version: str = "x/v1") -> OwnerReference:
    return an_owner(kind=kind, name=name, uid=uid, api_version=api_version)


def _obj(kind: str, name: str, uid: str, *owners: OwnerReference, **changes: Any) -> Lookup:
    return an_object(kind=kind, name=name, uid=uid, owners=owners, **changes)


CHAINS = {
    "RayJob over RayCluster": (
        [("RayCluster", "rc-9x", "c"), ("RayJob", "nightly", "j")],
        ("rayjob", "nightly"),
    ),
    "JobSet over Job": ([("Job", "js-w-0", "j"), ("JobSet", "js", "s")], ("jobset", "js")),
    "Deployment over ReplicaSet": ([("ReplicaSet", "d-6f", "r"), ("Deployment", "d", "d")], ("deployment", "d")),
    "TrainJob over three": (
        [("Job", "t-node-0", "a"), ("JobSet", "t", "b"), ("TrainJob", "t", "c")],
        ("trainjob", "t"),
    ),
    "LeaderWorkerSet over a leader pod": (
        [("StatefulSet", "l-0", "a"), ("Pod", "l-0", "b"), ("StatefulSet", "l", "c"), ("LeaderWorkerSet", "l", "d")],
        ("leaderworkerset", "l"),
    ),
    "an executor under a bare driver pod": ([("Pod", "driver", "a")], ("barepod", "driver")),
    "CronJob over Job": ([("Job", "etl-28900001", "a"), ("CronJob", "etl", "b")], ("cronjob", "etl")),
    "an executor under a static pod": ([("Pod", "driver", "a"), ("Node", "gpu-n1", "b")], ("barepod", "driver")),
    "StatefulSet alone": ([("StatefulSet", "db", "a")], ("statefulset", "db")),
}


@pytest.mark.parametrize(("chain", "expected"), CHAINS.values(), ids=CHAINS.keys())
def test_owners_are_followed_to_the_top(chain: list[tuple[str, str, str]], expected: tuple[str, str]) -> None:
    """The workload is what a person made, however many controllers stand between (OWN-01)."""
    references = [_ref(*entry) for entry in chain]
    objects = {
        reference.uid: _obj(reference.kind, reference.name, reference.uid, *references[level + 1 : level + 2])
        for level, reference in enumerate(references)
    }
    workload = find_workload(a_pod(owners=(references[0],)), _lookups(**objects))
    assert (workload.type, workload.name) == expected
    assert not workload.pending
    assert not workload.unreadable


def test_top_controller_gives_its_metadata() -> None:
    """Labels and annotations are the top controller's, not those of what stands between."""
    lookups = _lookups(
        r=_obj("ReplicaSet", "d-6f", "r", _ref("Deployment", "d", "d"), labels={"team": "wrong"}),
        d=_obj("Deployment", "d", "d", labels={"team": "right"}, annotations={"a": "b"}),
    )
    workload = find_workload(a_pod(owners=(_ref("ReplicaSet", "d-6f", "r"),)), lookups)
    assert (workload.labels, workload.annotations) == ({"team": "right"}, {"a": "b"})


def test_ancestor_that_cannot_be_read_still_has_its_name() -> None:
    """A missing role on the custom resource leaves the name in the reference (OWN-01)."""
    lookups = _lookups(c=_obj("RayCluster", "rc-9x", "c", _ref("RayJob", "nightly", "j")), j=forbidden())
    workload = find_workload(a_pod(owners=(_ref("RayCluster", "rc-9x", "c"),), labels={"ray.io/cluster": "rc-9x"}), lookups)
    assert (workload.type, workload.name, workload.pending, workload.unreadable) == ("rayjob", "nightly", False, True)


def test_circle_of_owners_ends() -> None:
    """References in a circle give some name of the circle and do not hang."""
    lookups = _lookups(a=_obj("A", "a", "a", _ref("B", "b", "b")), b=_obj("B", "b", "b", _ref("A", "a", "a")))
    assert _named(a_pod(owners=(_ref("A", "a", "a"),)), lookups) in {("a", "a"), ("b", "b")}


@pytest.mark.parametrize("reason", list(MissingReason))
def test_replica_set_with_its_hash_is_a_deployment_without_a_call(reason: MissingReason) -> None:
    """The hash that the Deployment's controller wrote on the pod names the Deployment exactly."""
    lookups = Lookups(missing(reason), missing(reason))
    assert _named(train_0(), lookups) == ("deployment", "train")


def test_replica_set_of_a_rollout_is_a_rollout() -> None:
    """The other controller that makes ReplicaSets marks its pods with a label of its own."""
    pod = train_0(labels={"rollouts-pod-template-hash": "6f"})
    assert _named(pod, _lookups(**{"rs-1": forbidden()})) == ("rollout", "train")


@pytest.mark.parametrize("labels", [{}, {"pod-template-hash": "7a"}, {"pod-template-hash": ""}])
def test_replica_set_without_its_hash_stays_what_it_is(labels: dict[str, str]) -> None:
    """A name is never cut by guess."""
    assert _named(train_0(labels=labels), _lookups(**{"rs-1": forbidden()})) == ("replicaset", "train-6f")


def test_pod_without_a_controller_is_a_bare_pod() -> None:
    """Never an empty workload; a reference that only guards against collection is no controller (OWN-03)."""
    guard = an_owner(kind="ConfigMap", controller=False)
    for owners in ((), (guard,)):
        assert _named(a_pod(name="nb-anna", owners=owners), _lookups()) == ("barepod", "nb-anna")


def test_static_pod_is_told_by_its_mirror_or_by_its_node() -> None:
    """A pod from a file on the node is its own workload."""
    mirror = a_pod(name="gpu-agent-gpu-n1", is_mirror=True)
    of_node = a_pod(name="gpu-agent-gpu-n1", owners=(an_owner(kind="Node", name="gpu-n1"),))
    for pod in (mirror, of_node):
        assert _named(pod, _lookups()) == ("staticpod", "gpu-agent-gpu-n1")


def _job_pod(name: str, **changes: Any) -> Pod:
    return a_pod(owners=(_ref("Job", name, "j", changes.pop("api_version", "batch/v1")),), **changes)


@pytest.mark.parametrize("run", range(20))
def test_runs_of_a_cron_job_whose_jobs_are_gone_are_one_workload(run: int) -> None:
    """A Job that is deleted at once still tells its CronJob by its name (OWN-11)."""
    assert _named(_job_pod(f"etl-{28900001 + run}"), _lookups(j=NOT_FOUND)) == ("cronjob", "etl")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nightly-batch-29600000", ("cronjob", "nightly-batch")),
        ("old-1790000000", ("cronjob", "old")),
        ("train-20260801", ("job", "train-20260801")),
        ("train-1", ("job", "train-1")),
        ("-29600000", ("job", "-29600000")),
        ("29600000", ("job", "29600000")),
        ("run-123456789", ("job", "run-123456789")),
    ],
)
def test_job_is_folded_only_where_its_suffix_is_a_time_near_its_start(name: str, expected: tuple[str, str]) -> None:
    """A date that a person appended is a minute of 2008 and no run of a CronJob (OWN-11)."""
    assert _named(_job_pod(name), _lookups(j=forbidden())) == expected
    assert _named(_job_pod(name, start_timestamp_seconds=TIMESTAMP + 60), _lookups(j=forbidden())) == expected


def test_job_that_can_be_read_is_never_folded() -> None:
    """A Job that the API shows without a CronJob above it is a Job, whatever its name."""
    assert _named(_job_pod("etl-28900001"), _lookups(j=_obj("Job", "etl-28900001", "j"))) == ("job", "etl-28900001")


def test_job_that_may_still_be_read_is_not_folded_yet() -> None:
    """While the look-up is pending, so is the verdict."""
    workload = find_workload(_job_pod("etl-28900001"), _lookups(j=LATE))
    assert (workload.type, workload.pending) == ("job", True)


def test_job_of_another_api_is_not_folded() -> None:
    """Only the built-in CronJob names its Jobs so."""
    assert _named(_job_pod("etl-28900001", api_version="batch.volcano.sh/v1alpha1"), _lookups(j=NOT_FOUND))[0] == "job"


LABELLED = {
    "JobSet": ("Job", {"jobset.sigs.k8s.io/jobset-name": "js"}, ("jobset", "js")),
    "TrainJob": (
        "Job",
        {"jobset.sigs.k8s.io/jobset-name": "t", "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"},
        ("trainjob", "t"),
    ),
    "MPIJob's launcher": (
        "Job",
        {"training.kubeflow.org/job-name": "m", "training.kubeflow.org/operator-name": "mpi-operator"},
        ("mpijob", "m"),
    ),
    "PyTorchJob behind a Pod": (
        "Pod",
        {"training.kubeflow.org/job-name": "p", "training.kubeflow.org/operator-name": "pytorchjob-controller"},
        ("pytorchjob", "p"),
    ),
    "Notebook": ("StatefulSet", {"notebook-name": "nb"}, ("notebook", "nb")),
    "InferenceService": ("ReplicaSet", {"serving.kserve.io/inferenceservice": "llm"}, ("inferenceservice", "llm")),
    "LeaderWorkerSet": ("StatefulSet", {"leaderworkerset.sigs.k8s.io/name": "l"}, ("leaderworkerset", "l")),
    "RayCluster behind a Pod": ("Pod", {"ray.io/cluster": "rc"}, ("raycluster", "rc")),
    "a job name without its operator": ("Job", {"training.kubeflow.org/job-name": "p"}, ("job", "x")),
    "an empty label": ("StatefulSet", {"notebook-name": ""}, ("statefulset", "x")),
}


@pytest.mark.parametrize(("kind", "labels", "expected"), LABELLED.values(), ids=LABELLED.keys())
def test_labels_name_what_stands_above_an_unreadable_building_block(
    kind: str, labels: dict[str, str], expected: tuple[str, str]
) -> None:
    """Well-known controllers write on the pods what a person made."""
    assert _named(a_pod(owners=(_ref(kind, "x", "u"),), labels=labels), _lookups(u=forbidden())) == expected


def test_readable_owners_beat_labels() -> None:
    """Labels can be copied by anybody; references are checked by the API server."""
    pod = a_pod(owners=(_ref("StatefulSet", "db", "u"),), labels={"notebook-name": "nb"})
    assert _named(pod, _lookups(u=_obj("StatefulSet", "db", "u"))) == ("statefulset", "db")


def test_reference_without_kind_or_name_gives_no_empty_workload() -> None:
    """Half-empty references still give a type and a name."""
    assert _named(a_pod(owners=(_ref("", "", ""),)), _lookups()) == ("unknown", "pod-1")
