"""mmtool's own topics are there, lost, or only not heard of: who has mirrored does not begin again without them."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from mmtool.errors import RefusedError, UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import PartitionLeader, TopicMetadata
from mmtool.plan.records.identity import FlowIdentity
from mmtool.replication.ownership import checks as lost_state
from mmtool.replication.ownership.checks import OwnTopics, check_led, own_topic_id, until_gone
from mmtool.replication.pump.batch_prep import FencedError
from mmtool.replication.topics import presence
from mmtool.translation.types import ClusterId, TopicId

IDENTITY = FlowIdentity(ClusterId("east-id"), ClusterId("west-id"), "east", "west")
CONTROL, RUNS = IDENTITY.control_topic, IDENTITY.runs_topic
STARTED, NEVER = SimpleNamespace(flow="a record"), SimpleNamespace(flow=None)


class Target:
    """A cluster that lists topics; each answer is the next of ``answers``, and the last one from then on."""

    alias = "west"

    def __init__(self, *answers):
        self._answers, self.asked = list(answers), 0

    async def refresh(self, topics):
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        self._known = answer
        return {
            name: TopicMetadata(name, TopicId(answer[name]), Code.NONE, [])
            for name in topics
            if name in answer
        }

    def topic_id(self, name):
        return self._known.get(name)


BOTH = {CONTROL: "c1", RUNS: "r1"}


@pytest.fixture
def flow(monkeypatch):
    """One whose runs topic holds nothing."""
    monkeypatch.setattr(lost_state, "read_block_keys", lambda *_: set())
    monkeypatch.setattr(presence, "_LOOK_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(lost_state, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(presence, "_GONE_AFTER_SECONDS", 0.1)
    settings = SimpleNamespace(target=None, is_external=False)
    return SimpleNamespace(identity=IDENTITY, settings=settings, target=Target(BOTH))


def check(flow, *controls):
    async def checked():
        own = OwnTopics()
        for control in controls:
            await own.check(flow, control)

    asyncio.run(checked())


def test_a_flow_that_begins_and_one_that_goes_on_are_taken(flow):
    check(flow, NEVER, STARTED, STARTED)


def test_offset_runs_without_a_flow_on_record_are_no_first_start(flow, monkeypatch):
    monkeypatch.setattr(lost_state, "read_block_keys", lambda *_: {"a key"})
    check(flow, STARTED)
    with pytest.raises(RefusedError, match=rf"topic {CONTROL} on west was deleted or emptied") as refused:
        check(flow, NEVER)
    assert (refused.value.code, "flow rebuild" in refused.value.remedy) == ("control_lost", True)


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ({CONTROL: "c2", RUNS: "r1"}, "control_lost"),
        ({RUNS: "r1"}, "control_lost"),
        ({CONTROL: "c1", RUNS: "r2"}, "runs_lost"),
        ({CONTROL: "c1"}, "runs_lost"),
    ],
    ids=["control made again", "control deleted", "runs made again", "runs deleted"],
)
def test_who_has_mirrored_is_not_taken_again_without_its_topics(flow, now, code):
    flow.target = Target(BOTH, now)
    with pytest.raises(RefusedError) as refused:
        check(flow, STARTED, STARTED)
    assert refused.value.code == code


def test_where_another_system_keeps_the_mirrors_nothing_is_to_be_rebuilt(flow):
    flow.settings.is_external, flow.target = True, Target(BOTH, {})
    with pytest.raises(RefusedError) as refused:
        check(flow, STARTED, STARTED)
    assert "start `mmtool replicate` again" in refused.value.remedy
    assert "flow rebuild" not in refused.value.remedy


def test_a_broker_that_has_not_heard_of_them_yet_is_asked_again(flow):
    flow.target = Target(BOTH, {}, BOTH)
    check(flow, STARTED, STARTED)


def test_a_pump_ends_once_one_is_gone_and_not_because_a_cluster_is_away(flow):
    away = ConnectionLostError("west does not answer")
    target = Target(BOTH, away, {}, BOTH, {CONTROL: "c1", RUNS: "r2"})
    with pytest.raises(FencedError, match=f"topic {RUNS} was deleted on west"):
        asyncio.run(until_gone(target, BOTH))
    assert target.asked == 5


def test_a_topic_that_is_not_listed_has_no_id_to_be_planned_with(flow):
    flow.target = Target({CONTROL: "c1"})
    asyncio.run(flow.target.refresh([CONTROL]))
    assert own_topic_id(flow, CONTROL) == "c1"
    with pytest.raises(UnreachableError, match=f"topic {RUNS} is missing on cluster west"):
        own_topic_id(flow, RUNS)


@pytest.mark.parametrize(
    ("leaders", "said"),
    [
        ({CONTROL: [1], RUNS: [1, 2]}, None),
        ({CONTROL: [-1], RUNS: [1, -1]}, f"{CONTROL}-0 of west has no leader (and 1 more)"),
        ({}, None),
    ],
    ids=["led", "not led", "not there"],
)
def test_own_topics_that_nobody_leads_are_named(leaders, said):
    """As while one of several disks of a broker is full: what waits for them is not to wait in silence."""

    async def refresh(topics):
        led = {name: [PartitionLeader(p, 0, at, 0) for p, at in enumerate(leaders[name])] for name in leaders}
        return {name: TopicMetadata(name, TopicId(name), Code.NONE, led.get(name, [])) for name in topics}

    def leader(topic, partition):
        return None if leaders[topic][partition] < 0 else leaders[topic][partition]

    target = SimpleNamespace(alias="west", refresh=refresh, leader=leader)
    expected = pytest.raises(ConnectionLostError) if said else nullcontext()
    with expected as caught:
        asyncio.run(check_led(SimpleNamespace(target=target, identity=IDENTITY)))
    assert said is None or str(caught.value) == said
