"""What a look finds is planned, whenever it finds it, and a look that was cut off is made again."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.flow_runs import run_of
from kit.mirror import SOURCE_ID, TARGET_ID, assigned
from kit.tasks import under_way
from kit.wire import on_loop
from mmtool.errors import UnreachableError
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.plan.flow.phases import FlowEvent, FlowPhase
from mmtool.plan.topics.configs import TargetLimits
from mmtool.replication.driver import flow_run
from mmtool.replication.driver import topic_refresh as looking
from mmtool.replication.driver.topic_refresh import TopicRefresher
from mmtool.replication.ownership.ownership import FlowLife
from mmtool.replication.topics import start_offsets
from mmtool.replication.topics.mirror_topics import MirroredTopic, TopicsView
from mmtool.translation.types import TopicPartition

TOPIC = MirroredTopic("orders", SOURCE_ID, 1, "source.orders", TARGET_ID, TargetLimits())


@pytest.fixture
def run():
    """As much of a flow as a look touches."""

    async def refresh(*_):
        return TopicsView({TOPIC.name: TOPIC}, matched=1)

    return run_of(refresh)


def test_a_partition_that_gets_its_leader_later_is_planned_as_soon_as_it_has_one(run, monkeypatch):
    """The topic was seen before, so its shape is no news then."""
    first = []

    async def first_blocks(*_):
        return first

    monkeypatch.setattr(flow_run, "first_blocks", first_blocks)
    assert asyncio.run(run.refresh())
    assert not asyncio.run(run.refresh())
    first.append((TOPIC, 0, assigned().block))
    assert asyncio.run(run.refresh())
    assert [p.topic for p in run.partitions()] == ["orders"]


class Cluster(dict):
    """Where each partition ends; those that it does not hold have no leader yet. All begin at 0."""

    alias = "east"

    async def refresh(self, _):
        pass

    def leader(self, topic, partition):
        return 1 if TopicPartition(topic, partition) in self else None


async def listed(cluster, timestamps, **_):
    """As brokers have it: what has no leader is waited for a minute, and then the whole question is in vain."""
    if lone := [at for at in timestamps if at not in cluster]:
        raise UnreachableError(f"{lone[0]} has no leader")
    return {at: 0 if when == EARLIEST else cluster[at] for at, when in timestamps.items()}


@pytest.fixture
def late(run, monkeypatch):
    """The same for a flow that begins at ``mmtool.start = latest``, with a source and a target."""
    monkeypatch.setattr(start_offsets, "list_offsets", listed)
    run._led = start_offsets.LeaderCheck(run.watch.news, settle_seconds=0)
    run.flow.settings.start = "latest"
    run.flow.identity = SimpleNamespace(
        source_id="source", target_id="target", name="east->west", options="-c FILE"
    )
    run.flow.source = Cluster({TopicPartition(TOPIC.name, p): 7 for p in range(2)})
    run.flow.target = Cluster({TopicPartition(TOPIC.target_name, p): 0 for p in range(2)})
    run.flow.target.alias = "west"
    return run


def look(run, partitions):
    """A look that finds the topic with so many partitions; where each of them begins on the source."""

    async def refresh(*_):
        return TopicsView({TOPIC.name: replace(TOPIC, partitions=partitions)}, matched=1)

    run._topics.refresh = refresh
    asyncio.run(run.refresh())
    return [p.block.mirror_start.upstream for p in run.partitions()]


def test_a_partition_that_is_added_during_its_topic_s_first_round_is_mirrored_whole(late):
    """Its first records are new, wherever ``mmtool.start`` lets a topic begin."""
    assert (look(late, 1), look(late, 2)) == ([7], [7, 0])


def test_a_partition_that_had_no_leader_when_its_topic_was_first_seen_begins_as_its_topic_does(late):
    young = TopicPartition(TOPIC.target_name, 1)
    end = late.flow.target.pop(young)
    first = look(late, 2)
    late.flow.target[young] = end
    assert (first, look(late, 2)) == ([7], [7, 7])


def test_a_partition_without_a_leader_keeps_no_other_one_back_and_is_named_once(late):
    alone = TopicPartition(TOPIC.name, 0)
    late.flow.source.pop(alone)
    assert (look(late, 2), look(late, 2)) == ([7], [7])
    (told,) = late.watch.news
    assert told.endswith("orders-0 has no leader on east; mmtool keeps trying")
    with pytest.raises(UnreachableError) as refused:
        asyncio.run(late.set_goal())
    assert refused.value.message.endswith("cannot mirror orders-0 yet: orders-0 has no leader on east")
    assert refused.value.remedy.startswith("start the brokers of east that hold its replicas")
    late.flow.source[alone] = 5
    assert look(late, 2) == [5, 7]


def test_each_side_that_lacks_a_leader_is_named(late):
    late.flow.source.pop(TopicPartition(TOPIC.name, 0))
    for partition in range(2):
        late.flow.target.pop(TopicPartition(TOPIC.target_name, partition))
    look(late, 2)
    with pytest.raises(UnreachableError) as refused:
        asyncio.run(late.set_goal())
    assert "orders-0 has no leader on east; source.orders-0, source.orders-1" in refused.value.message
    assert refused.value.remedy.startswith("start the brokers of east and west that hold their replicas")


class Flow:
    """A flow whose looks take as long as the test wants."""

    name = "a->b"

    def __init__(self, *, refresh_topics):
        settings = SimpleNamespace(refresh_topics=refresh_topics, refresh_topics_interval_seconds=600)
        self.flow = SimpleNamespace(settings=settings)
        self.view = self.found = TopicsView(matched=1)
        self.warnings = []
        self.looks = 0
        self.life, self.wants_look = FlowLife(FlowPhase.RUNNING), False
        self.gate = asyncio.Event()
        self.fails = []

    async def refresh(self):
        self.looks += 1
        await self.gate.wait()
        if self.fails and self.fails.pop(0):
            raise UnreachableError("a does not answer")
        self.view = self.found
        return False


@pytest.mark.parametrize("refresh_topics", [True, False])
@on_loop
async def test_changed_settings_are_looked_at_at_once_even_where_nothing_is_looked_for_otherwise(
    refresh_topics,
):
    flow = Flow(refresh_topics=refresh_topics)
    flow.gate.set()
    topics = TopicRefresher([flow], lambda _: None)
    await topics.look()
    found = [topics.is_due, flow.looks]
    topics.soon()
    found.append(topics.is_due)
    await topics.look()
    assert [*found, flow.looks] == [False, int(refresh_topics), True, int(refresh_topics) + 1]


@pytest.mark.parametrize("refresh_topics", [True, False])
@on_loop
async def test_a_look_that_failed_is_made_again_soon_and_what_it_may_have_found_is_planned_then(
    refresh_topics, monkeypatch
):
    """It may have come as far as a new topic, whose shape is no news to the next look; that is ten minutes away."""
    now = [1000.0]
    monkeypatch.setattr(looking.time, "monotonic", lambda: now[0])
    flow, said = Flow(refresh_topics=refresh_topics), []
    flow.gate.set()
    flow.fails = [True, True, False, False]
    topics = TopicRefresher([flow], said.append)
    topics.soon()
    found = []
    for _ in flow.fails[:]:
        now[0] += looking._AGAIN_SECONDS
        found.append(topics.is_due and await topics.look())
    assert (found, flow.looks, said) == (
        [False, False, True, False],
        3,
        ["a->b: the topic list could not be refreshed: a does not answer; mmtool keeps trying"],
    )


@on_loop
async def test_a_flow_that_is_away_is_not_looked_at():
    flow = Flow(refresh_topics=True)
    flow.life.happen(FlowEvent.DOUBT)
    assert (await TopicRefresher([flow], lambda _: None).look(), flow.looks) == (False, 0)


@on_loop
async def test_a_look_that_was_cut_off_is_due_again():
    """A round that ended for another reason must not put off what the file asks for."""
    flow = Flow(refresh_topics=False)
    topics = TopicRefresher([flow], lambda _: None)
    topics.soon()
    async with under_way(topics.look()):
        await asyncio.sleep(0)
        before = topics.is_due
    after = topics.is_due
    flow.gate.set()
    assert (before, after, await topics.look(), flow.looks) == (False, True, True, 2)


@on_loop
async def test_a_topic_that_is_refused_later_is_told_once_although_nothing_is_planned_anew():
    flow, said = Flow(refresh_topics=True), []
    flow.gate.set()
    topics = TopicRefresher([flow], said.append)
    for refused in ({}, {"late": "its name is taken"}, {"late": "its name is taken"}):
        flow.found = TopicsView(matched=1, refused=refused)
        await topics.look()
    assert said == ["a->b: topic late is not mirrored: its name is taken"]
