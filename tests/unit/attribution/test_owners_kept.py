"""What was known of an owner stays known while the pod is there; what is read anew counts from that moment."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporter.attribution.join import attribute
from exporter.model.attribution import Attribution, ContainerRow, Ownership, Recollection
from exporter.model.holding import Holding
from exporter.model.ids import ContainerKey, PodUid
from exporter.model.policy import OwnerField, OwnershipPolicy, WorkloadClass
from exporter.model.reading import MissingReason, Observed
from exporter.model.snapshot import Snapshot
from exporter.model.workload import Lookup, LookupFailure, NamespaceTable, ObjectMeta, OwnerTable, PodPhase
from tests.builders import (
    G0,
    U1,
    a_container,
    a_device,
    a_holding,
    a_namespace,
    a_pod_store,
    a_policy,
    an_object,
    an_owner,
    b0,
    b0_devices,
    forbidden,
    fresh,
    later,
    missing,
    pod_uid,
    train_0,
)

LATE = LookupFailure(MissingReason.TIMEOUT, definitive=False)
GONE = LookupFailure(MissingReason.NOT_FOUND, definitive=True)
AWAY = missing()
POLICY = a_policy(extra=(OwnerField("project", ("project",)),))


def _replica_set() -> ObjectMeta:
    above = an_owner(kind="Deployment", name="train", uid="d-1")
    return an_object(kind="ReplicaSet", name="train-6f", uid="rs-1", owners=(above,))


def _owners(deployment: Lookup | None = None, replica_set: Lookup | None = None) -> Observed[OwnerTable]:
    return fresh(OwnerTable({"rs-1": replica_set or _replica_set(), "d-1": deployment or an_object()}))


def _namespaces(namespace: Lookup) -> Observed[NamespaceTable]:
    return fresh(NamespaceTable({"team-red": namespace}))


def _join(
    snapshot: Snapshot, before: Attribution | Recollection | None = None, policy: OwnershipPolicy = POLICY
) -> Attribution:
    return attribute(snapshot, policy, before.recollection if isinstance(before, Attribution) else before)


def _row(attribution: Attribution) -> ContainerRow:
    [row] = attribution.containers
    return row


def _owner(attribution: Attribution) -> Ownership:
    return _row(attribution).owner


def _twice(first: dict[str, Any], second: dict[str, Any]) -> tuple[Ownership, Ownership]:
    """The owner of train-0 in two cycles, by what is different from the baseline in each of them."""
    one = _join(b0(**first))
    return _owner(one), _owner(_join(later(b0(**second)), one))


@pytest.mark.parametrize(
    "trouble",
    [
        {"owners": _owners(replica_set=LATE)},
        {"owners": AWAY},
        {"namespaces": _namespaces(LATE)},
        {"namespaces": AWAY},
        {"pods": AWAY, "owners": AWAY, "namespaces": AWAY},
    ],
    ids=["owner late", "owners away", "namespace late", "namespaces away", "API away"],
)
def test_failed_look_up_keeps_what_was_known(trouble: dict[str, Any]) -> None:
    """An owner that is only late is the one from before, and usage does not wait for it."""
    known, kept = _twice({}, trouble)
    assert (known.workload, known.team, known.complete) == ("train", "red", True)
    assert kept == known


def test_first_look_up_that_fails_is_incomplete_and_not_remembered() -> None:
    """There is nothing to fall back to, and a guess is nothing to remember."""
    attribution = _join(b0(owners=_owners(replica_set=LATE)))
    assert _owner(attribution).complete is False
    assert attribution.recollection.owners == {}


@pytest.mark.parametrize("hours", [1, 24])
def test_api_that_is_away_for_long_makes_no_holder_unknown(hours: int) -> None:
    """The holder is known by its name only, and stays the container that it was, with its UID and owner."""
    snapshot = b0()
    attribution = known = _join(snapshot)
    away = b0(pods=AWAY, owners=AWAY, namespaces=AWAY, node_meta=AWAY)
    for cycle in range(1, hours * 12 + 1):
        attribution = _join(later(away, cycle * 300.0), attribution)
    assert _row(attribution).container == _row(known).container == ContainerKey(U1, "team-red", "train-0", "main")
    assert _owner(attribution) == _owner(known)
    assert [(pod.uid, pod.owner) for pod in attribution.pods] == [(U1, _owner(known))]


def test_name_that_did_not_hold_in_the_cycle_before_is_nobodys() -> None:
    """Without the API a pod that comes anew under an old name is not the old one (it may be anybody's)."""
    away = {"pods": AWAY, "owners": AWAY, "namespaces": AWAY}
    one = _join(b0())
    two = _join(later(b0(holdings=(), **away)), one)
    three = _join(later(b0(**away), 10.0), two)
    assert _row(three).container.pod_uid == ""
    assert (_owner(three).workload, _owner(three).team) == ("unknown", "unknown")


def test_name_that_holds_for_the_first_time_while_the_api_is_away_borrows_nothing() -> None:
    """What is remembered is another pod's."""
    one = _join(b0())
    away = b0(pods=AWAY, owners=AWAY, namespaces=AWAY, holdings=(a_holding(), a_holding(pod="new-0")))
    rows = {row.container.pod: row for row in _join(later(away), one).containers}
    assert (rows["train-0"].container.pod_uid, rows["train-0"].owner.team) == (U1, "red")
    assert (rows["new-0"].container.pod_uid, rows["new-0"].owner.team) == ("", "unknown")


def test_pod_of_the_same_name_borrows_nothing() -> None:
    """A StatefulSet's next pod has its name, and another UID: it waits for its own answer."""
    one = _join(b0())
    next_pod = train_0(uid=pod_uid(2), labels={"team": "blue"}, owners=(an_owner(uid="rs-2"),))
    attribution = _join(later(b0(pods=(next_pod,), owners=AWAY, tasks=())), one)
    assert (_row(attribution).container.pod_uid, _owner(attribution).team) == (pod_uid(2), "blue")
    assert _owner(attribution).complete is False
    assert set(attribution.recollection.owners) == set()


def test_name_is_not_looked_up_while_the_api_answers() -> None:
    """An old answer without the pod is better than a memory of its name."""
    one = _join(b0())
    kept_answer = Observed(usable=fresh(a_pod_store()).usable, missing=missing().missing)
    assert _row(_join(later(b0(pods=kept_answer)), one)).container.pod_uid == ""


@pytest.mark.parametrize(
    ("changes", "team"),
    [
        ({"pods": (train_0(labels={"team": "blue"}),)}, "blue"),
        ({"owners": _owners(deployment=an_object(labels={"team": "green"}))}, "green"),
        ({"namespaces": _namespaces(a_namespace(labels={"team": "pink"}))}, "pink"),
        ({"namespaces": _namespaces(a_namespace(labels={}))}, "unowned"),
    ],
)
def test_new_answer_replaces_the_old_one(changes: dict[str, Any], team: str) -> None:
    """Labels that change, or go, count from this moment; the next failure falls back to the new answer."""
    one = _join(b0())
    two = _join(later(b0(**changes)), one)
    assert (_owner(one).team, _owner(two).team) == ("red", team)
    three = _join(later(b0(owners=AWAY, namespaces=AWAY), 10.0), two)
    assert _owner(three).team == team


def test_controller_that_could_not_be_read_is_known_as_soon_as_it_is() -> None:
    """A role that was missing is granted: the guess was complete, and it was a guess."""
    pod = train_0(labels={})
    guess, known = _twice({"pods": (pod,), "owners": _owners(replica_set=forbidden())}, {"pods": (pod,)})
    assert (guess.workload_type, guess.workload, guess.complete) == ("replicaset", "train-6f", True)
    assert (known.workload_type, known.workload) == ("deployment", "train")


def test_pod_that_is_adopted_has_its_new_controller() -> None:
    """What the API says now is what is."""
    bare, adopted = _twice({"pods": (train_0(owners=()),)}, {})
    assert (bare.workload_type, bare.workload) == ("barepod", "train-0")
    assert (adopted.workload_type, adopted.workload) == ("deployment", "train")


def test_unknown_becomes_known() -> None:
    """A definitive refusal is complete, and no reason to stay unknown once it ends."""
    refused, known = _twice({"namespaces": _namespaces(forbidden())}, {})
    assert (refused.team, refused.complete) == ("unknown", True)
    assert known.team == "red"


def test_known_does_not_become_unknown() -> None:
    """A role that is taken away takes nothing from what was read before."""
    project = {"team": "red", "project": "p1"}
    known, refused = _twice({"namespaces": _namespaces(a_namespace(labels=project))}, {"namespaces": _namespaces(forbidden())})
    assert (known.team, known.cost_center, known.extra) == ("red", "CC-1", (("project", "p1"),))
    assert refused == known


def test_unowned_does_not_become_unknown() -> None:
    """That nobody is named was read as well."""
    nobody = _namespaces(a_namespace(labels={}, annotations={}))
    known, refused = _twice({"namespaces": nobody}, {"namespaces": _namespaces(forbidden())})
    assert (known.team, known.cost_center) == ("unowned", "unowned")
    assert (refused.team, refused.cost_center) == ("unowned", "unowned")


@pytest.mark.parametrize("lost", [GONE, forbidden()], ids=["deleted", "refused"])
@pytest.mark.parametrize("labels", [{}, {"pod-template-hash": "6f"}], ids=["no guess", "a good guess"])
def test_workload_that_is_lost_keeps_its_word(lost: LookupFailure, labels: Mapping[str, str]) -> None:
    """A controller that was deleted before its pod, or is refused now, goes on naming workload, team, class and queue."""
    pod = train_0(labels=labels)
    deployment = an_object(
        labels={"team": "green", "kueue.x-k8s.io/queue-name": "q1"}, annotations={"gpu-ownership/class": "training"}
    )
    known, kept = _twice(
        {"pods": (pod,), "owners": _owners(deployment)}, {"pods": (pod,), "owners": _owners(lost, replica_set=lost)}
    )
    assert (known.workload, known.team, known.queue) == ("train", "green", "q1")
    assert known.workload_class is WorkloadClass.TRAINING
    assert kept == known


def test_team_that_a_lost_workloads_queue_named_is_kept() -> None:
    """Kueue's label is on the Job, and not on its pods."""
    nobody = _namespaces(a_namespace(labels={}, annotations={}))
    queue = an_object(labels={"kueue.x-k8s.io/queue-name": "q1"})
    known, kept = _twice({"owners": _owners(queue), "namespaces": nobody}, {"owners": _owners(GONE), "namespaces": nobody})
    assert (known.team, known.team_source) == ("q1", "queue")
    assert kept == known


def test_pods_own_word_beats_that_of_a_lost_workload() -> None:
    """It is nearer, and it was read just now."""
    first = {"owners": _owners(an_object(labels={"team": "green"}, annotations={"gpu-ownership/class": "training"}))}
    said = {"labels": {"team": "blue"}, "annotations": {"gpu-ownership/class": "notebook"}}
    known, now = _twice(first, {"owners": _owners(GONE), "pods": (train_0(**said),)})
    assert (known.team, known.workload_class) == ("green", WorkloadClass.TRAINING)
    assert (now.team, now.workload_class, now.workload) == ("blue", WorkloadClass.NOTEBOOK, "train")


def test_label_that_was_taken_off_the_pod_is_gone_beside_a_refused_namespace() -> None:
    """The pod could be read, and it names nobody any more; what the namespace says is unknown."""
    refused = {"namespaces": _namespaces(forbidden())}
    known, now = _twice({"pods": (train_0(labels={"team": "blue"}),)} | refused, refused)
    assert (known.team, now.team) == ("blue", "unknown")


def test_queue_that_the_pod_names_anew_counts_beside_a_refused_workload() -> None:
    """The same kind of source, read just now."""
    refused = {"owners": _owners(replica_set=forbidden()), "namespaces": _namespaces(a_namespace(labels={}))}
    first, second = (train_0(labels={"kueue.x-k8s.io/queue-name": queue}) for queue in ("q1", "q2"))
    known, now = _twice({"pods": (first,)} | refused, {"pods": (second,)} | refused)
    assert ((known.team, known.queue), (now.team, now.queue)) == (("q1", "q1"), ("q2", "q2"))


QUIET = (a_device(), b0_devices()[1])
USER = train_0(containers=(a_container(gpus=0),))


@pytest.mark.parametrize(
    ("pods", "holdings", "remembered"),
    [
        ((train_0(),), (a_holding(),), {U1}),
        ((train_0(),), (), {U1}),
        ((USER,), (), {U1}),
        ((train_0(phase=PodPhase.SUCCEEDED),), (), {U1}),
        (a_pod_store(deleted=(train_0(),)), (), set()),
        ((), (), set()),
        (AWAY, (), {U1}),
        (AWAY, (a_holding(),), {U1}),
    ],
    ids=["holds", "asks", "listed only", "ended and listed", "just deleted", "not listed", "API away", "API away, holds"],
)
def test_owner_is_remembered_for_as_long_as_the_pod_is_there(
    pods: Any, holdings: Iterable[Holding], remembered: set[PodUid]
) -> None:
    """It is there while the API lists it, it holds something, or its process runs; nobody can say while the API is away."""
    one = _join(b0(pods=(USER,)))
    assert set(one.recollection.owners) == {U1}
    two = _join(later(b0(devices=QUIET, pods=pods, holdings=holdings, tasks=())), one)
    assert set(two.recollection.owners) == remembered


def test_owner_of_a_pod_whose_process_outlives_it_is_remembered() -> None:
    """It still runs."""
    one = _join(b0())
    two = _join(later(b0(pods=a_pod_store(deleted=(train_0(),)), holdings=())), one)
    assert set(two.recollection.owners) == {U1}


def test_pods_that_come_and_go_leave_nothing_behind() -> None:
    """However many there were, only those that are there now are remembered."""
    attribution = _join(b0())
    for number in range(2, 60):
        pod = train_0(uid=pod_uid(number), name=f"job-{number}")
        attribution = _join(
            later(b0(pods=(pod,), holdings=(a_holding(pod=pod.name, device_id=G0),)), number * 5.0), attribution
        )
    assert set(attribution.recollection.owners) == {pod_uid(59)}
    assert attribution.recollection.holders == {("team-red", "job-59"): pod_uid(59)}
