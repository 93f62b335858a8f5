"""A topic of a cluster is ready, missing or different, and what differs is named once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.plan.topics.facts import CreateTopic
from mmtool.plan.topics.requirements import faults_of, needed_topic

COMPACT = CreateTopic("", "mmtool-control.a.internal", 1, 3, {"cleanup.policy": "compact"})
MIRROR = CreateTopic("orders", "a.orders", 4, 2, {"segment.ms": "1000"}, policy="delete")


def with_policy(value):
    return {"cleanup.policy": ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=True)}


def test_a_missing_topic_has_the_definition_that_mmtool_would_create_it_with():
    found = needed_topic("b", MIRROR, None, {})
    assert (found.cluster, found.topic, found.source_topic) == ("b", "a.orders", "orders")
    assert (found.partitions, found.replication_factor, found.configs) == (4, 2, {"segment.ms": "1000"})
    assert (found.state, found.reason) == ("missing", "topic a.orders on b is missing")
    assert (found.has_partitions, found.policy) == (None, None)


@pytest.mark.parametrize(
    ("wanted", "count", "policy", "reason"),
    [
        (MIRROR, 4, "delete", ""),
        (MIRROR, 9, "delete", ""),
        (MIRROR, 3, "delete", "topic a.orders on b has 3 partitions instead of 4"),
        (MIRROR, 4, "compact", "topic a.orders on b has cleanup.policy=compact instead of delete"),
        (replace(MIRROR, policy=None), 4, "compact", ""),
        (replace(MIRROR, policy="compact,delete"), 4, "delete, compact", ""),
        (
            MIRROR,
            1,
            "compact,delete",
            "topic a.orders on b has 1 partition instead of 4 and cleanup.policy=compact,delete instead of delete",
        ),
    ],
)
def test_a_topic_differs_by_too_few_partitions_and_by_its_cleanup_policy(wanted, count, policy, reason):
    found = needed_topic("b", wanted, count, with_policy(policy))
    assert (found.reason, found.state) == (reason, "different" if reason else "ready")
    assert found.policy == (wanted.policy if "cleanup" in reason else None)


def test_a_topic_whose_only_partition_is_a_lease_may_not_have_more():
    assert "has 2 partitions instead of 1" in needed_topic("b", COMPACT, 2, {}).reason
    assert needed_topic("b", replace(COMPACT, partitions=8), 12, {}).state == "ready"
    for name, source in (("heartbeats", ""), ("mmtool-canary", "mmtool-canary")):
        assert needed_topic("b", replace(COMPACT, name=name, source_topic=source), 2, {}).state == "ready"


@given(st.integers(1, 9), st.integers(1, 9))
def test_configs_that_are_not_shown_are_not_compared(wanted, count):
    found = needed_topic("b", replace(MIRROR, partitions=wanted), count, {})
    assert (found.state == "ready") == (count >= wanted)


def test_missing_topics_are_named_together_and_before_those_that_differ():
    topics = [
        needed_topic("b", MIRROR, 1, {}),
        needed_topic("b", COMPACT, None, {}),
        needed_topic("b", replace(COMPACT, name="heartbeats"), None, {}),
        needed_topic("b", replace(COMPACT, name="fine"), 1, {}),
    ]
    assert faults_of(topics) == (
        "topics mmtool-control.a.internal, heartbeats on b are missing; topic a.orders on b has 1 partition instead of"
        " 4; mmtool.create.topics = false"
    )
    assert faults_of(topics[3:]) == faults_of([]) == ""
