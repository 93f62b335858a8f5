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
from mmtool.errors import UnreachableError
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.report import rehearsed_row
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.steps import StepName
from mmtool.plan.groups.applications import end_loss, internal_topics
from mmtool.plan.groups.facts import GroupSelection, Member
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.runbook.by_hand import Hands, Place
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


LOSING = {
    "renamed": (ALL, f"{CHANGELOG} (mirrored as east.{CHANGELOG})"),
    "outside topics": (IDENTITY, f"{CHANGELOG} (topics: not matched by orders.*)"),
}
REHEARSALS = {"planned": planned_mode.rehearse, "drill": drill.rehearse}


def execute(scene, service, rehearsal):
    context, journalist = scene.context(rehearsal)
    return service.execute(rehearsal, scene, context, journalist)


def test_a_planned_failover_drains_the_changelog_as_well(scene):
    ended = execute(scene, planned_mode, planned_mode.rehearse(scene.look(), APP))
    assert ended.operation.error is None
    assert scene.drained == [{TopicPartition("orders", 0): 30, TopicPartition(CHANGELOG, 0): 9}]


def test_a_drill_drains_the_changelog_as_well(scene):
    ended = execute(scene, drill, drill.rehearse(scene.look(), APP))
    assert ended.operation.error is None
    assert TopicPartition(CHANGELOG, 0) in scene.drained[0]


def test_the_steps_name_the_changelog(scene):
    said = {step.name: step.sentence for step in planned_mode.rehearse(scene.look(), APP).plan.steps}
    assert CHANGELOG in said["drain"]
    assert CHANGELOG in said["prove_boundary"]


def test_by_hand_the_ends_of_the_changelog_are_compared_on_both_sides(scene):
    rehearsal = planned_mode.rehearse(scene.look(), APP)
    hands = Hands(rehearsal.plan, rehearsal.names, Place("east", "east-1:9092"), Place("west", "west-1:9092"))
    lines = [line for line in hands.commands(StepName.DRAIN) if f"--topic {CHANGELOG}" in line]
    assert [line.split()[2] for line in lines] == ["east-1:9092", "west-1:9092"]


@pytest.mark.parametrize("service", [planned_mode, drill], ids=["planned", "drill"])
def test_a_changelog_that_differs_on_the_target_is_refused_before_anything_is_written(scene, service):
    for cluster, last in ((scene.source, "eight"), (scene.target, "other")):
        scene.holds(cluster, "orders", [(29, "last")])
        scene.holds(cluster, CHANGELOG, [(8, last)])
    ended = execute(scene, service, service.rehearse(scene.look(), APP))
    assert ended.operation.error.code == "boundary_differs"
    assert CHANGELOG in ended.operation.error.message
    assert scene.target.groups.committed == {}


@pytest.mark.parametrize("way", LOSING)
@pytest.mark.parametrize("mode", REHEARSALS)
def test_state_that_does_not_go_along_is_refused_with_the_reason(tmp_path, mode, way):
    extra, why = LOSING[way]
    scene = made(tmp_path, extra)
    rehearsal = REHEARSALS[mode](scene.look(), APP)
    error = rehearsal.refusal
    assert (error.exit_code, error.code) == (3, "state_not_mirrored")
    assert f"group app is a Kafka Streams application, and its state is not on west: {why}" in error.message
    assert "--without-state" in error.remedy
    (group,) = rehearsed_row(rehearsal)["groups"]
    reasons = {(row["topic"], row["partition"]): row["reason"] for row in group["partitions"]}
    assert reasons[CHANGELOG, 0] == "state_not_mirrored"


@pytest.mark.parametrize("way", LOSING)
def test_without_state_it_moves_and_says_so(tmp_path, way):
    scene = made(tmp_path, LOSING[way][0])
    rehearsal = planned_mode.rehearse(scene.look(), APP, without_state=True)
    assert rehearsal.refusal is None
    assert any(told.startswith("group app starts on west without its state") for told in rehearsal.warnings)
    ended = execute(scene, planned_mode, rehearsal)
    assert ended.operation.error is None
    (place,) = scene.target.groups.committed["app"]
    assert place.topic == scene.settings.remote_topic("orders")


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


def test_who_is_active_is_told_that_streams_members_stay_after_a_clean_close(scene):
    scene.source.groups.members["app"] = (Member("app-1f-StreamThread-1-consumer", "/10.0.0.7"),)
    error = planned_mode.rehearse(scene.look(), APP).refusal
    assert error.code == "active_on_source"
    assert "Kafka Streams members stay until session.timeout.ms after a clean close" in error.message


# --- a copy that the target has lost -------------------------------------------------------------------------


def copy_deleted(scene):
    scene.target.forget_topic(CHANGELOG)


def copy_made_again(scene):
    scene.target.forget_topic(CHANGELOG)
    scene.target.add_topic(CHANGELOG, "id-of-another", 9)


def copy_cut(scene):
    scene.target.logs[TopicPartition(CHANGELOG, 0)] = Bounds(0, 3)


LOSSES = {
    copy_deleted: "was deleted or recreated",
    copy_made_again: "was deleted or recreated",
    copy_cut: "ends at offset 3, but had been mirrored up to offset 9: west has lost records",
}


MIRRORED_AGAIN_OR_WITHOUT_STATE = (
    f"mirror {CHANGELOG} again: stop `mmtool replicate`, delete {CHANGELOG} on west if it exists, run `mmtool flow"
    f" forget -c FILE -s east -t west --topic {CHANGELOG} --execute`, and start `mmtool replicate`; or, to move the"
    " application without its state, add"
    " --without-state to `mmtool failover`, and reset the application on west with kafka-streams-application-reset.sh"
    " before you start it"
)


@pytest.fixture
def copied(scene):
    """The changelog's nine records are on west as well."""
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    return scene


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("mode", REHEARSALS)
def test_a_rehearsal_refuses_state_whose_copy_the_target_has_lost(copied, mode, lose):
    lose(copied)
    rehearsal = REHEARSALS[mode](copied.look(), APP)
    assert (rehearsal.refusal.exit_code, rehearsal.refusal.code) == (3, "state_not_mirrored")
    assert f"{CHANGELOG} (the copy of partition 0 on west {LOSSES[lose]}" in rehearsal.refusal.message
    assert (
        f"mmtool flow forget -c FILE -s east -t west --topic {CHANGELOG} --execute"
        in rehearsal.refusal.remedy
    )
    assert "IdentityReplicationPolicy" not in rehearsal.refusal.remedy
    allowed = REHEARSALS[mode](copied.look(), APP, without_state=True)
    assert allowed.refusal is None


@pytest.mark.parametrize("lose", [copy_made_again, copy_cut])
@pytest.mark.parametrize("service", [planned_mode, drill], ids=["planned", "drill"])
def test_state_whose_copy_is_lost_after_the_rehearsal_is_refused_before_anything_is_written(
    copied, service, lose
):
    rehearsal = service.rehearse(copied.look(), APP)
    assert rehearsal.refusal is None
    lose(copied)
    context, journalist = copied.context(rehearsal)
    again = dataclasses.replace(rehearsal, flow=copied.look())
    ended = service.execute(again, copied, context, journalist)
    assert (ended.operation.error.exit_code, ended.operation.error.code) == (3, "state_not_mirrored")
    said = f"the state in {CHANGELOG}-0 is not on west: the copy of partition 0 on west {LOSSES[lose]}"
    assert ended.operation.error.message == said
    assert ended.operation.error.remedy == MIRRORED_AGAIN_OR_WITHOUT_STATE
    assert copied.target.groups.committed == {}


@pytest.mark.parametrize("service", [planned_mode, drill], ids=["planned", "drill"])
def test_state_that_was_not_mirrored_from_its_start_is_refused_without_a_word_about_commits(scene, service):
    scene.mirrored(CHANGELOG, 0, [(12, 5, 3)], 15, start=(12, 5))
    rehearsal = service.rehearse(scene.look(), APP)
    ended = execute(scene, service, rehearsal)
    assert ended.operation.error.code == "state_not_mirrored"
    assert ended.operation.error.message.endswith("is not on west: east->west has not mirrored all of it")
    assert "commit" not in ended.operation.error.message


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_of_a_state_topics_end_speaks_of_state_and_not_of_commits(reason):
    loss = end_loss(reason, Names("east", "west"), "MIRROR IT AGAIN")
    assert "commit" not in loss.why
    assert loss.remedy


def test_state_that_mm2_copied_and_the_target_has_lost_is_refused(scene):
    scene.mirrored_by_mm2(CHANGELOG, 0, 9, (0, 0), (8, 8))
    assert planned_mode.rehearse(scene.look(), APP).refusal is None
    copy_cut(scene)
    error = planned_mode.rehearse(scene.look(), APP).refusal
    assert error.code == "state_not_mirrored"
    assert LOSSES[copy_cut] in error.message
    assert error.remedy.startswith(
        f"mirror {CHANGELOG} again: stop MirrorMaker 2, delete {CHANGELOG} on west if it exists, delete"
        f" MirrorMaker 2's stored offsets of {CHANGELOG}, and start MirrorMaker 2; or, to move the application"
    )


def test_a_copy_that_may_hold_records_of_its_own_is_not_to_be_deleted_unasked(tmp_path):
    both = "west->east.enabled = true\neast->west.mmtool.start = latest\n"
    scene = made(tmp_path, f"{IDENTITY}{ALL}{both}")
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    copy_cut(scene)
    remedy = planned_mode.rehearse(scene.look(), APP).refusal.remedy
    assert remedy.startswith(
        f"if the application has never run on west, mirror {CHANGELOG} again: stop `mmtool replicate`, delete"
        f" {CHANGELOG} on west if it exists, set east->west.mmtool.start = earliest, run `mmtool flow forget"
    )


def test_state_whose_copy_cannot_be_asked_is_refused_with_the_reason(copied):
    copied.target.unanswered[TopicPartition(CHANGELOG, 0)] = UnreachableError("the partition has no leader")
    error = planned_mode.rehearse(copied.look(), APP).refusal
    assert error.code == "state_not_mirrored"
    assert f"{CHANGELOG} (the partition has no leader)" in error.message
    assert error.remedy.startswith(
        f"check that every partition of {CHANGELOG} has a leader on both clusters, and mmtool's rights on the topic;"
        " then run the same command again; or, to move the application without its state"
    )


# --- emergency --------------------------------------------------------------------------------------------


@pytest.fixture
def lost(scene):
    """East is away; west knows where ``app`` was, and six of the nine records of its changelog."""
    scene.mirrored("orders", 0, [(0, 0, 30)], 30, source_end=30)
    scene.mirrored(CHANGELOG, 0, [(0, 0, 6)], 6, source_end=9)
    scene.told("app", "orders", (30, 30), metadata=STREAM_TIME)
    return scene


def test_an_emergency_says_how_far_the_changelog_is_behind_and_asks_to_accept_that(lost):
    rehearsal = emergency.rehearse(lost.side, APP)
    assert rehearsal.refusal is None
    assert rehearsal.at_risk
    (told,) = [told for told in rehearsal.warnings if told.startswith("state of app")]
    assert f"west lacks up to 3 records of {CHANGELOG} that east was seen to hold" in told
    ((name, behind, _),) = [tuple(row.values()) for row in rehearsed_row(rehearsal)["state_topics"]]
    assert (name, behind) == (CHANGELOG, 3)


def test_an_emergency_says_by_how_much_a_whole_changelog_is_ahead_of_the_offsets(lost):
    lost.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    rehearsal = emergency.rehearse(lost.side, APP)
    assert not rehearsal.at_risk
    (told,) = [told for told in rehearsal.warnings if told.startswith("state of app")]
    assert f"west holds every record of {CHANGELOG} that east was seen to hold" in told


def test_an_emergency_marks_the_changelog_as_failed_over(lost):
    rehearsal = emergency.rehearse(lost.side, APP)
    context, journalist = lost.context(rehearsal)
    ended = emergency.execute(rehearsal, context, journalist)
    assert ended.operation.error is None
    assert lost.marks.failed_over == {"orders", CHANGELOG}


def test_an_emergency_refuses_a_changelog_under_another_name(tmp_path):
    scene = made(tmp_path, ALL)
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    scene.told("app", "orders", (30, 30), metadata=STREAM_TIME)
    error = emergency.rehearse(scene.side, APP).refusal
    assert error.code == "state_not_mirrored"
    assert f"mirrored as east.{CHANGELOG}" in error.message
    assert emergency.rehearse(scene.side, APP, without_state=True).refusal is None


def test_an_emergency_refuses_an_application_of_whose_state_the_target_knows_nothing(tmp_path):
    scene = made(tmp_path, IDENTITY)
    scene.told("app", "orders", (30, 30), metadata=STREAM_TIME)
    error = emergency.rehearse(scene.side, APP).refusal
    assert error.code == "state_not_mirrored"
    scene.told("app", "orders", (30, 30), metadata="host-1")
    assert emergency.rehearse(scene.side, APP).refusal is None


def test_an_emergency_puts_both_conditions_of_a_new_copy_into_one_clause(tmp_path):
    scene = made(tmp_path, f"{IDENTITY}{ALL}west->east.enabled = true\n")
    scene.told("app", "orders", (30, 30), metadata=STREAM_TIME)
    scene.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    copy_cut(scene)
    remedy = emergency.rehearse(scene.side, APP).refusal.remedy
    assert remedy.startswith(
        f"as long as east answers and the application has never run on west, mirror {CHANGELOG} again: stop"
    )


@pytest.mark.parametrize("lose", LOSSES)
def test_an_emergency_refuses_state_whose_copy_the_target_has_lost(lost, lose):
    lost.mirrored(CHANGELOG, 0, [(0, 0, 9)], 9, source_end=9)
    lose(lost)
    error = emergency.rehearse(lost.side, APP).refusal
    assert error.code == "state_not_mirrored"
    assert LOSSES[lose] in error.message
    assert emergency.rehearse(lost.side, APP, without_state=True).refusal is None


def test_an_emergency_does_not_take_the_target_s_own_state_for_a_mirror(tmp_path):
    """It has run on west once, and its changelog of that time is still there."""
    scene = made(tmp_path, IDENTITY)
    scene.told("app", "orders", (30, 30), metadata=STREAM_TIME)
    scene.target.add_topic(CHANGELOG, "id-of-its-own", 4)
    error = emergency.rehearse(scene.side, APP).refusal
    assert error.code == "state_not_mirrored"
    assert f"{CHANGELOG} (topics: not matched by orders.*)" in error.message


# --- failback ---------------------------------------------------------------------------------------------


def test_a_failback_refuses_state_that_would_come_back_under_another_name(tmp_path):
    scene = ThereAndBack(tmp_path)
    scene.target.add_topic(CHANGELOG, "id-changelog-there", 4)
    scene.runs_streams("app")
    rehearsal = failback.rehearse(scene.both, APP)
    assert rehearsal.refusal.code == "state_not_mirrored"
    assert (
        f"its state is not on east: {CHANGELOG} (mirrored as west.{CHANGELOG})" in rehearsal.refusal.message
    )
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
    assert (
        f"{CHANGELOG} (2 records of it on east never reached west and would mix with"
        in rehearsal.refusal.message
    )
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
