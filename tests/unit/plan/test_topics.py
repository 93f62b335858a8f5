"""A mirrored topic gets its partitions on the target: made or grown, never shrunk, never touched otherwise."""

import pytest

from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.plan.topics.facts import (
    CreateTopic,
    GrowTopic,
    TopicFacts,
    meeting,
    not_the_same,
    plan_topics,
    taken_names,
)
from mmtool.replication.topics.presence import Presence, presence_of
from mmtool.translation.types import TopicId

CONFIGS = {"retention.ms": "1"}


def orders(partitions):
    return TopicFacts("orders", TopicId("id"), partitions, CONFIGS)


def renamed(name):
    return f"A.{name}"


@pytest.mark.parametrize(
    ("partitions", "target", "steps"),
    [
        (3, {}, [CreateTopic("orders", "A.orders", 3, 2, CONFIGS)]),
        (3, {"orders": 3}, [CreateTopic("orders", "A.orders", 3, 2, CONFIGS)]),
        (3, {"A.orders": 2}, [GrowTopic("orders", "A.orders", 2, 3)]),
        (3, {"A.orders": 3}, []),
        (3, {"A.orders": 4}, []),
        (3, {"A.orders": 3, "A.other": 1}, []),
    ],
    ids=["missing", "another name", "smaller", "equal", "larger", "beside others"],
)
def test_one_topic(partitions, target, steps):
    assert plan_topics([orders(partitions)], target, renamed, 2) == steps


def test_the_steps_keep_the_order_of_the_topics():
    topics = [TopicFacts(name, TopicId(name), 1) for name in ("c", "a", "b")]
    steps = plan_topics(topics, {"A.a": 0}, renamed, 1)
    assert [step.source_topic for step in steps] == ["c", "a", "b"]


def test_nothing_matched_is_nothing_to_do():
    assert plan_topics([], {"A.orders": 3}, renamed, 1) == []


def test_topics_that_would_have_one_name_on_the_target_are_named_together():
    def shortened(name):
        return name.removesuffix("-eu")

    found = meeting(["orders", "orders-eu", "payments"], shortened, "west")
    assert set(found) == {"orders", "orders-eu"}
    assert "topics orders and orders-eu would have the same name on west, orders" in found["orders"]


@pytest.mark.parametrize(
    ("topic_id", "mirrored", "begins_again", "why"),
    [
        ("id", (), False, ""),
        ("id", ("id", "before"), False, ""),
        ("id", ("before",), False, "was deleted and created again"),
        ("id", ("before",), True, ""),
        ("id", ("t",), False, "had no topic id when it was mirrored and has one now"),
        ("id", ("t",), True, "had no topic id when it was mirrored and has one now"),
        ("id", ("t", "id"), True, ""),
        ("id", ("t", "before"), True, ""),
        ("t", ("t",), False, ""),
    ],
)
def test_a_topic_is_mirrored_on_only_where_it_is_the_same_or_may_begin_again(
    topic_id, mirrored, begins_again, why
):
    """One that was given an id is neither: as far as anybody knows all of it is on the target already."""
    said = not_the_same("t", topic_id, mirrored, begins_again=begins_again)
    assert why in said
    assert bool(why) == bool(said)


@pytest.mark.parametrize("begins_again", [False, True])
def test_a_new_topic_does_not_follow_the_old_one_at_the_sources_own_offsets(begins_again):
    said = not_the_same("t", "id", ("before",), begins_again=begins_again, kept_in="west.t")
    assert "delete topic west.t on the target" in said
    assert "restart" not in said
    assert not_the_same("t", "id", ("id", "before"), begins_again=begins_again, kept_in="west.t") == ""


def test_a_topic_that_is_given_an_id_under_a_running_pump_is_still_there():
    assert presence_of("t", TopicMetadata("t", "id", 0, [])) is Presence.THERE
    assert presence_of("before", TopicMetadata("t", "id", 0, [])) is Presence.RECREATED


def test_a_topic_whose_name_on_the_target_another_flow_uses_is_refused_with_that_flow():
    found = taken_names(["x", "y"], "us.east.{}".format, {"us.east.x": "us->hub"}, "hub")
    assert list(found) == ["x"]
    assert "x would be called us.east.x on hub, where us->hub mirrors another topic" in found["x"]
