"""mmtool's own topics are as mmtool makes them, or nothing is begun on them."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import PartitionLeader, TopicMetadata
from mmtool.plan.records.identity import JOURNAL_TOPIC, PRODUCERS_TOPIC, FlowIdentity
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.plan.words import counted
from mmtool.replication.ownership import internal_topics
from mmtool.translation.types import ClusterId, TopicId

FLOW = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")
MADE = {FLOW.runs_topic: 8, FLOW.control_topic: 1, PRODUCERS_TOPIC: 1, JOURNAL_TOPIC: 1}


class Target:
    """Has these topics, with so many partitions."""

    alias = "west"

    def __init__(self, counts):
        self.counts = counts

    async def refresh(self, topics):
        return {
            name: TopicMetadata(
                name,
                TopicId(name),
                Code.NONE,
                [PartitionLeader(n, Code.NONE, 0, 0) for n in range(self.counts[name])],
            )
            for name in topics
        }

    async def known_by_all(self, _):
        return True


class Admin:
    """Has made nothing but what is ``missing``; ``policies`` by topic, or who may not see them."""

    def __init__(self, policies, missing=()):
        self.policies, self.missing = policies, set(missing)

    def __call__(self, _):
        return self

    def create_internal(self, _):
        self.missing.clear()

    def replicas(self, names):
        return dict.fromkeys(set(names) - self.missing, 1)

    def configs(self, topics):
        if isinstance(self.policies, Exception):
            raise self.policies
        return {
            name: {
                "cleanup.policy": ConfigEntry(
                    self.policies.get(name, "compact"), ConfigOrigin.OVERRIDE, True, True
                ),
                "min.insync.replicas": ConfigEntry("2", ConfigOrigin.DEFAULT, False, True),
            }
            for name in topics
        }


def made(monkeypatch, *, counts=MADE, policies=None, missing=()):
    monkeypatch.setattr(internal_topics, "TopicAdmin", Admin({} if policies is None else policies, missing))
    settings = SimpleNamespace(
        offset_syncs_replication_factor=1, emit_offset_syncs=False, target=SimpleNamespace(alias="west")
    )
    context = SimpleNamespace(identity=FLOW, settings=settings, target=Target({**MADE, **counts}))
    return asyncio.run(internal_topics.make_internal_topics(context))


def test_own_topics_with_fewer_replicas_than_are_to_be_in_sync_are_said_when_they_are_made(monkeypatch):
    (said,) = made(monkeypatch, missing=[JOURNAL_TOPIC])
    assert said.startswith(f"topic {JOURNAL_TOPIC} on west has 1 replica, below min.insync.replicas = 2: ")
    assert "set offset-syncs.topic.replication.factor to 2 or more" in said
    assert made(monkeypatch) == []


@pytest.mark.parametrize(
    ("topic", "count"),
    [(FLOW.control_topic, 3), (JOURNAL_TOPIC, 2), (PRODUCERS_TOPIC, 6), (FLOW.runs_topic, 1)],
)
def test_a_topic_with_other_partitions_is_refused(monkeypatch, topic, count):
    """Of two partitions of the control topic two owners would each hold one, and run the flow both."""
    with pytest.raises(
        RefusedError, match=f"topic {topic} on west has {counted(count, 'partition')} instead of"
    ):
        made(monkeypatch, counts={topic: count})


def test_more_partitions_of_the_runs_are_no_harm(monkeypatch):
    made(monkeypatch, counts={FLOW.runs_topic: 12})


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_what_is_old_is_refused(monkeypatch, policy):
    with pytest.raises(RefusedError, match=f"{PRODUCERS_TOPIC} on west has cleanup.policy={policy}"):
        made(monkeypatch, policies={PRODUCERS_TOPIC: policy})


def test_who_may_not_see_properties_is_told_nothing_of_them(monkeypatch):
    made(monkeypatch, policies=NotAuthorisedError("cluster west denies DESCRIBE_CONFIGS"))
