"""Team, cost centre, further labels, queue and class of a pod."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporter.attribution.lookups import Lookups
from exporter.attribution.ownership import resolve_ownership
from exporter.model.attribution import Ownership
from exporter.model.policy import ClassRule, OwnerField, OwnershipPolicy, OwnerSource, WorkloadClass
from exporter.model.reading import MissingReason, Observed
from exporter.model.workload import Lookup, LookupFailure, NamespaceTable, OwnerTable, Pod
from tests.builders import a_namespace, a_pod, a_policy, an_object, an_owner, forbidden, fresh, missing, train_0

LATE = LookupFailure(MissingReason.TIMEOUT, definitive=False)


def _lookups(
    namespace: Lookup | None = None, deployment: Lookup | None = None, owners: Observed[OwnerTable] | None = None
) -> Lookups:
    above = an_owner(kind="Deployment", name="train", uid="d-1")
    objects = {
        "rs-1": an_object(kind="ReplicaSet", name="train-6f", uid="rs-1", owners=(above,)),
        "d-1": deployment or an_object(),
    }
    return Lookups(
        fresh(OwnerTable(objects)) if owners is None else owners,
        fresh(NamespaceTable({"team-red": namespace or a_namespace()})),
    )


def _owner(pod: Pod, lookups: Lookups | None = None, **policy: Any) -> Ownership:
    return resolve_ownership(pod, lookups or _lookups(), a_policy(**policy))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [({"team": "blue"}, ("blue", "pod_label")), ({}, ("red", "namespace_label")), ({"team": ""}, ("red", "namespace_label"))],
)
def test_team_is_the_first_source_that_has_a_value(labels: dict[str, str], expected: tuple[str, str]) -> None:
    """The pod's label beats the namespace's, and an empty one counts as not set (OWN-05)."""
    owner = _owner(train_0(labels=labels))
    assert (owner.team, owner.team_source) == expected


def test_precedence_can_be_turned_round() -> None:
    """With the namespace first, a relabelled pod moves no cost (OWN-05)."""
    owner = _owner(train_0(labels={"team": "blue"}), precedence=(OwnerSource.NAMESPACE_LABEL, OwnerSource.POD_LABEL))
    assert (owner.team, owner.team_source) == ("red", "namespace_label")


def test_every_source_is_read_in_the_default_order() -> None:
    """Taking away the winner each time shows the whole order."""
    pod = train_0(
        labels={"team": "1", "kueue.x-k8s.io/queue-name": "7"},
        annotations={"team": "2"},
    )
    workload = an_object(labels={"team": "3"}, annotations={"team": "4"})
    namespace = a_namespace(labels={"team": "5"}, annotations={"team": "6"})
    for number, source in enumerate(OwnerSource, start=1):
        owner = _owner(pod, _lookups(namespace, workload), precedence=tuple(OwnerSource)[number - 1 :])
        assert (owner.team, owner.team_source) == (str(number), source.value)


def test_keys_are_tried_in_their_order_within_a_source() -> None:
    """The first key with a value wins, and a key of a stronger source beats an earlier key of a weaker one."""
    assert _owner(train_0(labels={"squad": "s", "finops.org/team": "f"})).team == "f"
    assert _owner(train_0(labels={"squad": "s"})).team == "s"


def test_cost_centre_in_an_annotation_is_kept_as_it_is() -> None:
    """A value with blanks and slashes cannot be a label, so it is read from annotations (OWN-06)."""
    namespace = a_namespace(annotations={"finance.example.com/cost-center": "CC 4711/R&D"})
    owner = _owner(train_0(), _lookups(namespace), cost_center=OwnerField("cost_center", ("finance.example.com/cost-center",)))
    assert (owner.cost_center, owner.cost_center_source) == ("CC 4711/R&D", "namespace_annotation")


def test_control_characters_are_kept_and_outer_blanks_are_not() -> None:
    """A line break inside a value is somebody's value; blanks around it are nobody's."""
    assert _owner(train_0(annotations={"team": ' a "b" \\c\nd \n'})).team == 'a "b" \\c\nd'
    assert _owner(train_0(labels={"team": " \n "})).team == "red"


@pytest.mark.parametrize(
    ("written", "lower", "expected"),
    [
        ("ML-Infra", True, "ml-infra"),
        ("ML-Infra", False, "ML-Infra"),
        ("mlinfra", False, "ml-infra"),
        ("MLINFRA", True, "ml-infra"),
        ("MLINFRA", False, "MLINFRA"),
        ("Old", True, "New"),
    ],
)
def test_value_is_folded_and_aliased(written: str, lower: bool, expected: str) -> None:
    """An alias applies to the value as written, or to its lower-case form if values are folded."""
    field = OwnerField("team", ("team",), lower=lower, aliases={"mlinfra": "ml-infra", "Old": "New"})
    assert _owner(train_0(labels={"team": written}), team=field).team == expected


def test_long_value_is_cut() -> None:
    """A value is never longer than the configuration allows."""
    owner = _owner(train_0(annotations={"team": "x" * 500, "volcano.sh/queue-name": "q" * 500}), max_length=10)
    assert (owner.team, owner.queue) == ("x" * 10, "q" * 10)


def test_extra_labels_follow_the_same_rules_in_their_order() -> None:
    """Each configured label has its value, or the word for nobody; a queue stands for none of them."""
    fields = (OwnerField("project", ("project",)), OwnerField("stage", ("stage",)))
    owner = _owner(train_0(labels={"project": "p", "kueue.x-k8s.io/queue-name": "q"}), extra=fields)
    assert owner.extra == (("project", "p"), ("stage", "unowned"))


def test_read_and_nobody_named_is_unowned() -> None:
    """Where everything was read and names nobody, the pod is unowned, for certain."""
    owner = _owner(train_0(), _lookups(a_namespace(labels={}, annotations={})))
    assert (owner.team, owner.cost_center, owner.team_source, owner.complete) == ("unowned", "unowned", "", True)


@pytest.mark.parametrize("failure", [forbidden(), LATE])
def test_unread_namespace_is_unknown_and_never_unowned(failure: LookupFailure) -> None:
    """A namespace that could not be read may name a team (OWN-09)."""
    owner = _owner(train_0(), _lookups(failure))
    assert (owner.team, owner.cost_center) == ("unknown", "unknown")
    assert owner.complete is failure.definitive
    assert (owner.workload_type, owner.workload) == ("deployment", "train")


def test_unread_namespace_does_not_hide_a_named_team() -> None:
    """What the pod itself says needs no namespace (OWN-09)."""
    assert _owner(train_0(labels={"team": "blue"}), _lookups(forbidden())).team == "blue"


@pytest.mark.parametrize(
    ("reason", "team", "complete"),
    [
        (MissingReason.FORBIDDEN, "unknown", True),
        (MissingReason.DISABLED, "unowned", True),
        (MissingReason.TIMEOUT, "unknown", False),
        (MissingReason.STARTING, "unknown", False),
        (MissingReason.SERVER_ERROR, "unknown", False),
    ],
)
def test_owner_source_as_a_whole_decides_like_its_look_ups(reason: MissingReason, team: str, complete: bool) -> None:
    """A source that is switched off leaves nothing to know; one that fails leaves a doubt, for now or for good."""
    owner = _owner(train_0(), _lookups(a_namespace(labels={}, annotations={}), owners=missing(reason)))
    assert (owner.team, owner.complete) == (team, complete)


def test_workload_that_is_gone_leaves_nothing_to_know() -> None:
    """A deleted owner names no team any more: the namespace's silence is the answer."""
    gone = LookupFailure(MissingReason.NOT_FOUND, definitive=True)
    owner = _owner(train_0(), _lookups(a_namespace(labels={}, annotations={}), gone))
    assert (owner.team, owner.complete) == ("unowned", True)


def test_sources_that_are_not_asked_leave_no_doubt() -> None:
    """A namespace that cannot be read does not matter to a configuration that does not read it."""
    owner = _owner(train_0(), _lookups(forbidden()), precedence=(OwnerSource.POD_LABEL,))
    assert owner.team == "unowned"


def test_bare_pod_takes_its_team_from_the_namespace() -> None:
    """A pod without an owner needs no look-up of one (OWN-03)."""
    owner = _owner(a_pod(name="nb-anna"), _lookups(owners=missing()))
    assert (owner.workload_type, owner.workload, owner.team, owner.complete) == ("barepod", "nb-anna", "red", True)


def test_unknown_pod_is_unknown_in_everything() -> None:
    """Without metadata every label says so, and none is empty."""
    policy = a_policy(extra=(OwnerField("project", ("project",)),))
    for complete in (True, False):
        owner = resolve_ownership(None, _lookups(), policy, complete=complete)
        assert owner == Ownership(
            "unknown", "unknown", WorkloadClass.OTHER, "unknown", "unknown", (("project", "unknown"),), complete=complete
        )


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({"kueue.x-k8s.io/local-queue-name": "a", "kueue.x-k8s.io/queue-name": "b"}, {}, "a"),
        ({"kueue.x-k8s.io/queue-name": "b", "kai.scheduler/queue": "d"}, {}, "b"),
        ({"volcano.sh/queue-name": "c"}, {"volcano.sh/queue-name": "e"}, "c"),
        ({}, {"volcano.sh/queue-name": "e"}, "e"),
        ({"kai.scheduler/queue": "d"}, {}, "d"),
        ({"kai.scheduler/queue": " "}, {}, ""),
    ],
)
def test_queue_is_read_from_the_schedulers_own_keys(
    labels: Mapping[str, str], annotations: Mapping[str, str], expected: str
) -> None:
    """The queue is known for the common batch schedulers."""
    assert _owner(train_0(labels=labels, annotations=annotations)).queue == expected


def test_queue_of_the_workload_counts_where_the_pod_has_none() -> None:
    """Some schedulers label only the job."""
    workload = an_object(labels={"kueue.x-k8s.io/queue-name": "lq"})
    owner = _owner(train_0(), _lookups(a_namespace(labels={}, annotations={}), workload))
    assert (owner.queue, owner.team, owner.team_source) == ("lq", "lq", "queue")


RULES = (
    ClassRule(WorkloadClass.NOTEBOOK, label_exists=frozenset({"notebook-name", "hub.jupyter.org/username"})),
    ClassRule(WorkloadClass.SERVING, frozenset({"inferenceservice"}), frozenset({"serve"})),
    ClassRule(WorkloadClass.TRAINING, frozenset({"job", "deployment"})),
)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (train_0(), WorkloadClass.TRAINING),
        (train_0(labels={"serve": ""}), WorkloadClass.SERVING),
        (train_0(labels={"serve": "", "notebook-name": "n"}), WorkloadClass.NOTEBOOK),
        (a_pod(), WorkloadClass.OTHER),
        (a_pod(labels={"serve": ""}), WorkloadClass.SERVING),
    ],
)
def test_class_is_the_first_rule_of_which_one_condition_holds(pod: Pod, expected: WorkloadClass) -> None:
    """The workload's type or a label is enough, and the order of the rules decides."""
    assert _owner(pod, classes=RULES).workload_class is expected


def test_class_rule_sees_the_workloads_labels() -> None:
    """A label of the workload is as good as one of the pod."""
    assert (
        _owner(train_0(), _lookups(None, an_object(labels={"serve": ""})), classes=RULES).workload_class
        is WorkloadClass.SERVING
    )


def test_class_annotation_beats_the_rules_nearest_first() -> None:
    """Pod, then workload, then namespace; a word that is no class is passed over."""
    key = "gpu-ownership/class"
    workload, namespace = an_object(annotations={key: "evaluation"}), a_namespace(annotations={key: "serving"})
    for annotations, above, expected in (
        ({key: "batch_inference"}, workload, WorkloadClass.BATCH_INFERENCE),
        ({key: "nonsense"}, workload, WorkloadClass.EVALUATION),
        ({}, an_object(), WorkloadClass.SERVING),
    ):
        owner = _owner(train_0(annotations=annotations), _lookups(namespace, above), classes=RULES)
        assert owner.workload_class is expected


def test_policy_fields_do_not_depend_on_each_other() -> None:
    """A team from the pod and a cost centre from the namespace are two answers with two sources."""
    policy: OwnershipPolicy = replace(a_policy(), unowned="nobody")
    owner = resolve_ownership(train_0(labels={"team": "blue"}), _lookups(), policy)
    assert (owner.team_source, owner.cost_center, owner.cost_center_source) == ("pod_label", "CC-1", "namespace_annotation")
