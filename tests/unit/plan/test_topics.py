"""A mirrored topic gets its partitions on the target: made or grown, never shrunk, never touched otherwise."""

from __future__ import annotations

import pytest

from mmtool.plan.topics import CreateTopic, GrowTopic, TopicFacts, meeting, plan_topics
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

    found = meeting(["orders", "orders-eu", "payments"], shortened)
    assert set(found) == {"orders", "orders-eu"}
    assert "orders and orders-eu would both be called orders" in found["orders"]
