"""The state of Kafka Streams applications on clusters in memory: it goes along, or the move is refused."""

import base64
import dataclasses
import re
import struct

import pytest

from kit.batches import data
from kit.one_name import OneName
from kit.scene import Scene
from kit.there_and_back import ThereAndBack
from mmtool.failover.modes import drill, failback, planned_mode
from mmtool.failover.operation.records import recorded
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.applications import StateLoss, end_loss, internal_topics
from mmtool.plan.groups.facts import GroupSelection, Member
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.words import Names
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
CHANGELOG = "app-counts-changelog"
STREAM_TIME = base64.b64encode(b"\x02" + struct.pack(">qi", 1_700_000_000_000, 0)).decode()
ALL = "east->west.topics = orders.*, app-.*\n"


def made(directory, extra):
    """``app`` has read all of ``orders``, which is mirrored; of its changelog, 9 records long, nothing is."""
    scene = Scene(directory, extra)
    scene.has("orders", 30)
    scene.mirrored("orders", 0, [(0, 0, 30)], 30)
    scene.source.add_topic(CHANGELOG, "id-changelog", 9)
    if scene.settings.mirrors_topic(CHANGELOG):
        scene.has(CHANGELOG, 9)
    scene.commits("app", "orders", 30, metadata=STREAM_TIME)
    return scene


@pytest.fixture
def scene(tmp_path):
    """Names stay, and ``topics`` lets the changelog pass."""
    return made(tmp_path, IDENTITY + ALL)


def execute(scene, service, rehearsal):
    return service.execute(rehearsal, scene.context(rehearsal))


def test_the_journal_keeps_what_goes_along_and_what_was_allowed(scene):
    execute(scene, planned_mode, planned_mode.rehearse(scene.look(), APP, without_state=True))
    (found,) = recorded(scene.journal.entries())
    assert (found.head.plan.state, found.head.plan.without_state) == ((CHANGELOG,), True)


def test_topics_of_a_group_with_a_longer_name_are_not_taken_for_its_own():
    topics = [
        CHANGELOG,
        "app-two-counts-changelog",
        "app-two-by-key-repartition",
        "app-changelog",
        "apps-x-changelog",
    ]
    assert internal_topics(["app"], topics, ["app", "app-two"]) == {"app": (CHANGELOG,)}
    assert internal_topics(["app-two"], topics, ["app", "app-two"]) == {
        "app-two": ("app-two-by-key-repartition", "app-two-counts-changelog")
    }


JOIN = [
    "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000004-topic",
    "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000012-topic",
    "app-by-owner-subscription-registration-topic",
    "app-by-owner-subscription-response-topic",
]


def test_the_topics_of_foreign_key_joins_are_internal_topics_under_both_kinds_of_names():
    others = ["app-topic", "app-orders-topic", "app-subscription-registration", "app-x-subscription-topic"]
    assert internal_topics(["app"], [*others, *JOIN], ["app"]) == {"app": tuple(sorted(JOIN))}


@pytest.mark.parametrize("topic", JOIN)
def test_a_foreign_key_join_whose_topics_are_not_mirrored_is_refused(tmp_path, topic):
    scene = made(tmp_path, IDENTITY + "east->west.topics = orders.*, app-.*-(changelog|repartition)\n")
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9)
    scene.source.add_topic(topic, "id-join", 3)
    error = planned_mode.rehearse(scene.look(), APP).refusal
    assert error.code == "state_not_mirrored"
    assert topic in error.message
    pattern = re.search(r"mirror (app-\S+)", error.remedy).group(1)
    assert all(re.fullmatch(pattern, name) for name in (*JOIN, CHANGELOG, "app-x-repartition"))


def is_refused(scene):
    refusal = planned_mode.rehearse(scene.look(), APP).refusal
    return refusal is not None and refusal.code == "state_not_mirrored"


def test_a_plain_consumer_is_no_application_because_of_a_topic_that_is_named_after_it(tmp_path):
    scene = made(tmp_path, "")
    scene.commits("app", "orders", 30, metadata="host-1")
    assert not is_refused(scene)
    scene.commits("app", CHANGELOG, 5)  # it reads the topic, as no application does
    assert not is_refused(scene)


def test_a_group_is_an_application_by_its_own_repartition_topic_or_its_members(tmp_path):
    scene = made(tmp_path, "")
    scene.commits("app", "orders", 30)
    scene.source.groups.members["app"] = (Member("app-1f-StreamThread-1-consumer", "/10.0.0.7"),)
    (verdict, *_) = planned_mode.rehearse(scene.look(), APP).state.topics
    assert verdict.name == CHANGELOG
    scene.source.groups.members.clear()
    assert not is_refused(scene)
    scene.source.add_topic("app-by-key-repartition", "id-by-key", 3)
    scene.commits("app", "app-by-key-repartition", 3)
    assert is_refused(scene)


# --- a copy that the target has lost -------------------------------------------------------------------------


def copy_made_again(scene):
    scene.target.forget_topic(CHANGELOG)
    scene.target.add_topic(CHANGELOG, "id-of-another", 9)


@pytest.fixture
def copied(scene):
    """The changelog's nine records are on west as well."""
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    return scene


@pytest.mark.parametrize("service", [planned_mode, drill], ids=["planned", "drill"])
def test_state_whose_copy_is_lost_after_the_rehearsal_is_refused_before_anything_is_written(copied, service):
    rehearsal = service.rehearse(copied.look(), APP)
    assert rehearsal.refusal is None
    copy_made_again(copied)
    context = copied.context(rehearsal)
    again = dataclasses.replace(rehearsal, flow=copied.look())
    ended = service.execute(again, context)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (3, "state_not_mirrored")
    assert copied.target.groups.committed == {}


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_of_a_state_topics_end_speaks_of_state_and_not_of_commits(reason):
    loss = end_loss(reason, Names("east", "west"), StateLoss)
    assert "commit" not in loss.why
    assert loss.remedy


# --- failback ---------------------------------------------------------------------------------------------


def test_a_failback_refuses_state_that_would_come_back_under_another_name(tmp_path):
    scene = ThereAndBack(tmp_path)
    scene.target.add_topic(CHANGELOG, "id-changelog-there", 4)
    scene.runs_streams("app")
    rehearsal = failback.rehearse(scene.both, APP)
    assert rehearsal.refusal.code == "state_not_mirrored"
    assert f"{CHANGELOG} (mirrored as west.{CHANGELOG})" in rehearsal.refusal.message
    assert failback.rehearse(scene.both, APP, without_state=True).refusal is None


@pytest.fixture
def one_name(tmp_path):
    """Names stay; of the changelog's five records on east, three went to west before east was lost."""
    both_ways = "east->west.topics = orders.*, app-.*\nwest->east.topics = orders.*, app-.*\n"
    scene = OneName(tmp_path, both_ways)
    scene.has(CHANGELOG, 5)
    scene.mirrored(CHANGELOG, 0, [(0, 0, 3)], 3, source_end=5)
    scene.home.logs[TopicPartition(CHANGELOG, 0)] = data(0, 3) + data(3, 2)
    scene.state.marked(FailedOverRecord(CHANGELOG, True, "op-away", "ann@host-1", 0))
    scene.runs_streams("app")
    return scene


def test_a_failback_refuses_state_of_which_a_part_never_left_home(one_name):
    rehearsal = failback.rehearse(one_name.both, APP)
    assert rehearsal.refusal.code == "state_not_mirrored"
    assert f"{CHANGELOG} (2 records of it on east never reached west" in rehearsal.refusal.message
    assert rehearsal.refusal.remedy.startswith("to move the application without its state")
    allowed = failback.rehearse(one_name.both, APP, without_state=True)
    assert allowed.refusal is None
    assert any("starts on east without its state" in told for told in allowed.warnings)


def test_a_failback_brings_state_home_that_went_away_whole(one_name):
    one_name.source.logs[TopicPartition(CHANGELOG, 0)] = Bounds(0, 3)
    one_name.home.logs[TopicPartition(CHANGELOG, 0)] = data(0, 3)
    rehearsal = failback.rehearse(one_name.both, APP)
    assert rehearsal.refusal is None
    assert CHANGELOG in rehearsal.held
    said = {step.name: step.sentence for step in rehearsal.plan.steps}
    assert f"and the state in {CHANGELOG}" in said["drain_back"]
