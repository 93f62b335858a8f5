"""Names, partitions, loops and schemas, judged."""

import pytest

from mmtool.doctor.finding import Severity
from mmtool.doctor.topics import (
    judge_file,
    judge_halted,
    judge_identity,
    judge_names,
    judge_partitions,
    judge_schemas,
    judge_topics,
    known_aliases,
)
from mmtool.plan.flow.positions import PartitionRow
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import TopicFacts
from mmtool.translation.names import DefaultPolicy
from mmtool.translation.types import UNKNOWN

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
NO_REFRESH = "refresh.topics.enabled = false"


def topic(partitions, name="orders"):
    return TopicFacts(name, f"id-of-{name}", partitions)


def severities(found):
    return [one.severity for one in found]


@pytest.mark.parametrize(
    ("have", "lines", "expected"),
    [
        (3, [], []),
        (1, [], []),  # the next refresh adds them
        (1, [NO_REFRESH], [Severity.PROBLEM]),
        (None, [NO_REFRESH], [Severity.PROBLEM]),
        (None, [], []),
        (4, [], [Severity.WARNING]),
        (4, [NO_REFRESH], [Severity.WARNING]),
    ],
)
def test_fewer_partitions_are_a_problem_without_refresh_and_more_are_a_warning(flow, have, lines, expected):
    mirror = None if have is None else topic(have, "A.orders")
    assert severities(judge_partitions(flow(*lines), topic(3), mirror)) == expected


def test_halted_partitions_are_a_problem_for_each_topic(flow):
    def row(number, state, reason="", name="orders"):
        stored = str(state.value)  # as a position's document gives it back
        return PartitionRow("A", "B", name, number, f"A.{name}", state=stored, reason=reason)

    halted = [row(2, State.HALTED, "later"), row(1, State.HALTED, "cut"), row(0, State.RUNNING)]
    others = [row(0, State.HALTED, "gone", "bills")]
    bills, orders = judge_halted(flow(), [*halted, *others])
    assert (bills.subject, bills.severity) == ("A.bills", Severity.PROBLEM)
    assert orders.message == "orders-1, and 1 more partition of orders of A->B is halted: cut"


def test_names_that_are_one_in_metrics_are_a_problem_only_before_the_mirror_is_there(flow):
    (found,) = judge_names(flow(), ["a.b"], ["A_a_b"])
    assert "A.a.b cannot be created on B: it collides with A_a_b" in found.message
    assert list(judge_names(flow(), ["a.b"], ["A_a_b", "A.a.b"])) == []


@pytest.mark.parametrize(
    ("has_run", "remedy"),
    [
        (False, "add a.b to topics.exclude of A->B, or set A->B.mmtool.topic.rename.format so that mirrors"),
        (True, "add a.b to topics.exclude of A->B; its mirror cannot get another name, because the flow"),
    ],
)
def test_other_names_are_no_remedy_once_the_flow_has_run(flow, has_run, remedy):
    (found,) = judge_names(flow(), ["a.b"], ["A_a_b"], has_run=has_run)
    assert found.remedy.startswith(remedy)


def test_a_wrong_name_is_found_where_it_is_unknown_whether_the_flow_has_run(flow):
    (found,) = judge_names(flow(), ["a.b"], ["A_a_b"], has_run=UNKNOWN)
    assert found.remedy == "add a.b to topics.exclude of A->B"


def test_two_topics_with_one_mirror_are_a_problem_each(flow):
    naming = flow("mmtool.topic.rename.format = ${topic}.heartbeats")
    found = list(judge_names(naming, ["A", "heartbeats", "orders"], []))
    assert [one.subject for one in found] == ["A", "heartbeats"]
    assert found[0].message == "topics A and heartbeats would have the same name on B, A.heartbeats"


# --- loops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "name", "is_loop"),
    [
        ("A", "B.A.orders", True),
        ("B", "A.B.orders", True),
        ("B", "A.B.A.orders", True),
        ("A", "C.B.A.orders", True),
        ("B", "A.orders", False),
        ("C", "B.A.orders", False),
        ("A", "A.orders", False),  # born there under such a name: no flow brings it
        ("A", "app.A.orders", False),  # app is no cluster
        ("A", "B.checkpoints.internal", False),
    ],
)
def test_a_topic_is_a_loop_where_its_name_says_that_it_left_its_cluster_and_came_back(cluster, name, is_loop):
    found = list(judge_topics(DefaultPolicy(), cluster, cluster, {"A", "B", "C"}, [name, "orders"]))
    assert [one.subject for one in found] == ([name] if is_loop else [])


def test_the_topic_that_is_mirrored_to_the_cluster_is_to_be_excluded():
    (found,) = judge_topics(DefaultPolicy(), "A", "A", {"A", "B"}, ["B.A.x", "B.A.y"])
    assert found.message.startswith(
        "topics B.A.x, B.A.y on A are, by their names, copies of topics of A itself"
    )
    assert "add A.x, A.y to topics.exclude of each flow to A; then delete B.A.x, B.A.y on A" in found.remedy


def test_no_name_is_a_loop_under_a_blank_separator():
    assert list(judge_topics(DefaultPolicy(separator=""), "A", "A", {"A", "B"}, ["BAx"])) == []


RING = (
    "clusters = A, B, C",
    "C.bootstrap.servers = localhost:3",
    "B->C.enabled = true",
    "C->A.enabled = true",
    IDENTITY,
)


def test_a_ring_under_identical_names_is_a_loop_of_each_of_its_flows(file):
    settings = file(*RING)
    (found,) = judge_file(settings.one("B", "C"), settings.flows)
    assert (found.subject, found.severity) == ("B->C", Severity.PROBLEM)
    assert "would reach A a second time" in found.message
    assert list(judge_file(file().one("A", "B"), file().flows)) == []


def test_identical_names_both_ways_are_a_loop_for_topics_that_both_flows_mirror(file):
    settings = file("B->A.enabled = true", "B->A.topics = orders", IDENTITY)
    there, back = settings.flows
    (found,) = judge_identity(there, back, ["orders", "audit"], ["orders", "audit"])
    assert "each record of orders is copied back and forth" in found.message
    assert list(judge_identity(there, back, ["audit"], ["audit"])) == []
    assert list(judge_identity(there, back, ["orders"], [])) == []


def test_every_alias_by_which_a_flow_names_topics_is_known(file):
    settings = file("A.alias = plant", "A->B.target.cluster.alias = site")
    assert {"plant", "site", "B"} <= known_aliases(settings)


# --- schemas ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["topics = orders"], [Severity.WARNING]),
        (["topics = .*"], [Severity.PROBLEM]),
        ([IDENTITY], []),
        ([IDENTITY, "topics = orders"], [Severity.WARNING]),
    ],
)
def test_schemas_are_mirrored_under_their_own_name_or_it_is_told(flow, lines, expected):
    assert severities(judge_schemas(flow(*lines))) == expected


@pytest.mark.parametrize(
    ("lines", "helps"),
    [
        (["topics = orders"], "add _schemas to "),
        (["topics = .*", "topics.exclude = _.*"], "remove the pattern that matches _schemas from "),
    ],
)
def test_what_helps_schemas_that_are_not_mirrored_fits_the_key_that_leaves_them_out(flow, lines, helps):
    (found,) = judge_schemas(flow(*lines))
    assert found.remedy.startswith(helps)
