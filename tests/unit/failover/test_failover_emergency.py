"""The emergency failover on clusters in memory: by what the target knows, and nothing of the source."""

import time
from dataclasses import replace

import pytest

from kit.maps import position_of
from kit.operations import lines_of
from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.failover.modes.emergency import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.report import ended_row, next_steps, recorded_row, rehearsed_row, summary
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.choices import Unknowns
from mmtool.plan.failover.emergency_facts import REPORT_SECONDS, SEEN_GRACE_SECONDS
from mmtool.plan.failover.steps import ORDER, Mode
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.records.documents import CommitRatesRecord, PauseRecord, State
from mmtool.plan.records.marks import FailedOverRecord, LookRecord
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
REMOTE = [TopicPartition("east.orders", n) for n in range(3)]


@pytest.fixture
def scene(tmp_path):
    """``orders`` is mirrored to 60 of 100 and to 100 of 100; ``app`` was last seen at 50 and at 100."""
    made = Scene(tmp_path)
    made.has("orders", 100, 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100)
    made.mirrored("orders", 1, [(0, 0, 100)], 100, source_end=100)
    made.told("app", "orders", (50, 50), (100, 100), at_ms=int(time.time() * 1000) - 3_000)
    made.source.go_away(UnreachableError("the region is gone"))
    return made


@pytest.fixture
def ran(scene):
    def run(selection=APP, unknowns=Unknowns.LEAVE, **changes):
        rehearsal = rehearse(scene.side, selection, unknowns)
        context, journalist = scene.context(rehearsal, "INC-7")
        return execute(rehearsal, replace(context, **changes), journalist)

    return run


def partitions(row):
    return row["groups"][0]["partitions"]


def test_groups_go_on_where_they_were_last_seen_and_the_source_is_not_asked(scene, ran):
    row = ended_row(ran())
    assert scene.target.groups.committed["app"] == {REMOTE[0]: Commit(50), REMOTE[1]: Commit(100)}
    assert (row["mode"], row["state"], row["point_of_no_return_passed"]) == ("emergency", "completed", True)
    assert [step["name"] for step in row["steps"]] == list(ORDER[Mode.EMERGENCY])
    assert {step["state"] for step in row["steps"]} == {"done"}


def test_before_asking_each_partition_tells_its_age_and_what_is_read_again_and_lost_at_most(scene):
    first, second = partitions(rehearsed_row(rehearse(scene.side, APP)))
    assert (first["exactness"], first["downstream_offset"], first["reread_max"], first["lost_max"]) == (
        "exact",
        50,
        10,
        40,
    )
    assert (second["reread_max"], second["lost_max"]) == (0, 0)
    assert 3 <= first["knowledge_age_seconds"] < 10


def commits_at(scene, *rates):
    """What `replicate` has measured of ``app``: offsets per second in each partition from 0."""
    record = CommitRatesRecord("app", {"orders": {str(n): rate * 1000 for n, rate in enumerate(rates)}})
    scene.state.view.apply(record.key, record.encode(), 0)


def reading_again(scene):
    rehearsal = rehearse(scene.side, APP)
    row = rehearsed_row(rehearsal)
    (told,) = [warning for warning in rehearsal.warnings if warning.startswith("checkpoints are up to")]
    return [partition["reread_expected"] for partition in partitions(row)], row["reread_expected"], told


def test_what_is_expected_to_be_read_again_is_the_commit_rate_times_the_age(scene):
    scene.told("app", "orders", (20, 20), (100, 100), at_ms=int(time.time() * 1000) - 3_000)
    commits_at(scene, 7, 50)
    expected, total, told = reading_again(scene)
    assert 21 <= expected[0] == total <= 39
    assert expected[1] == 0
    assert told.endswith(
        f"at most 40 records are read again, and probably about {total}, estimated from how fast the groups were"
        " committing on east"
    )


def test_never_more_is_expected_than_is_possible(scene):
    commits_at(scene, 1_000, 1_000)
    assert reading_again(scene)[:2] == ([10, 0], 10)


def test_an_idle_group_is_expected_to_read_nothing_again(scene):
    """An emergency over idle groups is no reason to fear all that they have left to read."""
    commits_at(scene, 0, 0)
    expected, total, told = reading_again(scene)
    assert (expected, total) == ([0, 0], 0)
    assert (
        "at most 10 records are read again, and probably none, because no group was committing on east"
        in told
    )


def test_where_no_rate_was_measured_nothing_is_expected_and_that_is_said(scene):
    expected, total, told = reading_again(scene)
    assert (expected, total) == ([None, 0], None)
    assert (
        "at most 10 records are read again, which the groups may have read on east after the checkpoints"
        in told
    )
    assert told.endswith("the expected number is unknown, because the commit rate of a group is unknown")


def test_what_was_measured_before_mm2_took_over_tells_nothing_of_now(scene):
    commits_at(scene, 0, 0)
    scene.told("app", "orders", (50, 50), (100, 100), at_ms=int(time.time() * 1000), by_mm2=True)
    assert reading_again(scene)[0] == [None, 0]


def test_what_was_expected_is_in_the_summary_and_stays_in_the_journal(scene, ran):
    scene.told("app", "orders", (20, 20), (100, 100), at_ms=int(time.time() * 1000) - 3_000)
    commits_at(scene, 2, 0)
    ended = ran()
    total = ended_row(ended)["reread_expected"]
    assert 6 <= total < 40
    assert f"at most 40 read again ({total} expected)" in summary(ended)
    (found,) = recorded(scene.journal.entries())
    assert recorded_row(found)["reread_expected"] == total


def test_what_may_be_lost_is_a_warning_that_names_the_partition(scene):
    rehearsal = rehearse(scene.side, APP)
    assert rehearsal.at_risk
    assert any("at most 40 records are lost" in w and "orders-0" in w for w in rehearsal.warnings)


def test_a_mirror_that_had_caught_up_puts_nothing_at_risk(scene):
    scene.mirrored("orders", 0, [(0, 0, 100)], 100, source_end=100)
    assert not rehearse(scene.side, APP).at_risk


def seen(scene, seconds_ago, ends=(100, 100)):
    """The mirror holds 60 of orders-0, and saw the ends of both partitions that long ago."""
    at_ms = int((time.time() - seconds_ago) * 1000)
    for partition, (held, end) in enumerate(zip((60, 100), ends, strict=True)):
        scene.mirrored("orders", partition, [(0, 0, held)], held, source_end=end, seen_ms=at_ms)


LIMIT = REPORT_SECONDS + SEEN_GRACE_SECONDS


@pytest.mark.parametrize("seconds", [LIMIT - 3, LIMIT + 1, -LIMIT - 3])
def test_a_loss_is_known_only_while_the_source_s_end_was_seen_within_the_last_seconds(scene, seconds):
    """A mirror that dies before the source does knows nothing of what came since."""
    seen(scene, seconds)
    rehearsal = rehearse(scene.side, APP)
    row, known = rehearsed_row(rehearsal), 0 <= seconds < LIMIT
    found = [(partition["lost_max"], partition["lost_min"]) for partition in partitions(row)]
    assert found == ([(40, 40), (0, 0)] if known else [(None, 40), (None, 0)])
    assert (row["lost_max"], row["lost_min"]) == ((40, 40) if known else (None, 40))
    assert {partition["source_seen_at"] is None for partition in partitions(row)} == {False}


def test_a_source_that_nobody_has_seen_for_long_puts_records_at_risk_though_all_were_mirrored(scene):
    seen(scene, 82, (60, 100))
    rehearsal = rehearse(scene.side, APP)
    (told,) = [said for said in rehearsal.warnings if "the number of lost records" in said]
    at = rehearsed_row(rehearsal)["source_seen_at"]
    assert rehearsal.at_risk
    assert told == (
        f"the number of lost records is unknown: east last seen 82 s ago (at {at:%H:%M:%S}), and west does not know"
        " what was written to east since then; records may be lost in orders-0, orders-1"
    )


def test_the_loss_is_unknown_in_the_summary_and_in_the_journal_as_well(scene, ran):
    seen(scene, 82)
    ended = ran()
    row = ended_row(ended)
    assert (row["rpo_records"], row["lost_min"]) == (None, 40)
    assert "an unknown number of records (at least 40: east last seen at " in summary(ended)
    (found,) = recorded(scene.journal.entries())
    assert {key: recorded_row(found)[key] for key in ("groups", "lost_min", "source_seen_at")} == {
        key: row[key] for key in ("groups", "lost_min", "source_seen_at")
    }


def halted(scene):
    at = position_of(TopicPartition("orders", 0), scene.source.ids["orders"], 60, 100, State.HALTED)
    scene.state.view.apply(at.key, at.encode(), 0)


def paused(scene):
    at = position_of(TopicPartition("orders", 0), scene.source.ids["orders"], 60, 100, State.RUNNING)
    word = PauseRecord(
        scene.source.ids["orders"], "orders", paused=True, by="ann@host-1", since_ms=0, reason=""
    )
    for said in (at, word):
        scene.state.view.apply(said.key, said.encode(), 0)


def left_behind(scene):
    """Another emergency has marked the topic a while ago; its source lived on, and is heard of until now."""
    scene.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100, seen_ms=int(time.time() * 1000) - 60_000)
    scene.state.marked(
        FailedOverRecord("orders", True, "20260101T000000Z-abcdef", "bob@host-2", 1),
        LookRecord(int(time.time() * 1000)),
    )


@pytest.mark.parametrize("how", [halted, paused, left_behind])
def test_where_a_mirror_was_halted_or_paused_or_left_behind_nobody_saw_how_far_the_source_went_on(scene, how):
    how(scene)
    rehearsal = rehearse(scene.side, APP)
    assert (rehearsal.at_risk, partitions(rehearsed_row(rehearsal))[0]["lost_max"]) == (True, None)
    (told,) = [
        warning for warning in rehearsal.warnings if "the number of lost records is unknown" in warning
    ]
    assert "west does not store where partitions end on east, or how far they were mirrored" in told
    assert "records may be lost in orders-0" in told


def test_the_mark_that_an_emergency_has_just_set_leaves_its_loss_known(scene, ran):
    scene.state.marked(LookRecord(int(time.time() * 1000)))
    assert ended_row(ran())["rpo_records"] == 40


def test_where_some_group_has_read_to_the_source_went_at_least(scene):
    """The mirror saw it end at 60; what a group has read behind that was there."""
    scene.mirrored("orders", 0, [(0, 0, 60)], 60)
    scene.told("late", "orders", (5_000, 60))
    rehearsal = rehearse(scene.side, APP)
    assert (rehearsal.at_risk, partitions(rehearsed_row(rehearsal))[0]["lost_max"]) == (True, 4_940)


def test_of_a_flow_that_mirror_maker_ran_nobody_saw_where_the_source_ended_so_all_is_at_risk(scene):
    scene.state.stored.clear()
    scene.mirrored_by_mm2("orders", 0, 60, (0, 0), (40, 40))
    scene.told("app", "orders", (50, 50), (100, 100), by_mm2=True)
    rehearsal = rehearse(scene.side, APP)
    row = partitions(rehearsed_row(rehearsal))[0]
    assert (rehearsal.at_risk, row["exactness"], row["lost_max"]) == (True, "bounded", None)
    assert row["downstream_offset"] <= 50


def test_a_rehearsal_changes_nothing(scene):
    rehearse(scene.side, APP)
    assert (scene.target.groups.committed, scene.marks.failed_over, scene.journal.stored) == ({}, set(), {})


def test_its_topics_are_marked_and_its_groups_are_at_home_on_the_target(scene, ran):
    ran()
    assert (scene.marks.failed_over, scene.marks.moved) == ({"orders"}, {"app"})


def test_a_refusal_takes_the_marks_back(scene, ran):
    scene.target.groups.rights_missing = ["READ on topic east.orders"]
    ended = ran()
    states = {step["name"]: step["state"] for step in ended_row(ended)["steps"]}
    assert (ended.operation.error.exit_code, states["mark_failed_over"]) == (9, "undone")
    assert (scene.marks.failed_over, scene.marks.moved, scene.target.groups.committed) == (set(), set(), {})


def test_a_write_that_is_refused_whole_takes_the_marks_back_as_well(scene, ran):
    scene.target.groups.denied = set(REMOTE)
    row = ended_row(ran())
    assert (row["state"], row["point_of_no_return_passed"], scene.marks.failed_over) == (
        "failed",
        False,
        set(),
    )


def test_marks_that_cannot_be_taken_back_are_said(scene, ran):
    def missing(wanted):
        scene.marks.failure = UnreachableError("gone as well")
        return ["READ on topic east.orders"]

    scene.target.groups.missing_rights = missing
    ended = ran().operation
    assert "mark_failed_over could not be undone: gone as well" in ended.sentence
    assert ended.error.remedy == (
        "grant these rights on west to mmtool's principal; then run `mmtool failover resume"
        f" {ended.plan.operation_id} -c FILE --execute` to complete the operation, or `mmtool failover cancel"
        f" {ended.plan.operation_id} -c FILE --execute` to undo it"
    )


def test_a_group_that_is_active_on_the_target_is_refused_before_anything_is_marked(scene, ran):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    assert rehearse(scene.side, APP).refusal.code == "active_on_target"
    assert scene.marks.failed_over == set()


def test_a_group_that_had_read_past_the_mirror_goes_on_at_its_end(scene, ran):
    scene.told("app", "orders", (80, 60))
    row = ended_row(ran())
    assert (partitions(row)[0]["downstream_offset"], partitions(row)[0]["exactness"]) == (60, "bounded")
    assert scene.target.groups.committed["app"][REMOTE[0]] == Commit(60)


def test_records_that_the_target_has_deleted_count_as_lost(scene):
    scene.target.logs[REMOTE[0]] = replace(scene.target.logs[REMOTE[0]], log_start=55)
    row = partitions(rehearsed_row(rehearse(scene.side, APP)))[0]
    assert (row["downstream_offset"], row["lost_max"]) == (55, 45)


def test_a_name_that_no_checkpoint_tells_of_is_unknown(scene):
    refusal = rehearse(scene.side, GroupSelection(("app", "typo"))).refusal
    assert (refusal.exit_code, refusal.code) == (3, "unknown_group")


def test_a_flow_that_never_ran_is_refused(tmp_path):
    scene = Scene(tmp_path)
    assert rehearse(scene.side, APP).refusal.code in {"never_ran", "refused"}


def test_metadata_goes_along(scene, ran):
    scene.told("app", "orders", (50, 50), metadata="stream-time")
    ran()
    assert scene.target.groups.committed["app"][REMOTE[0]] == Commit(50, "stream-time")


@pytest.fixture
def half_known(scene):
    """A third partition, of which nobody knows how far ``app`` is."""
    scene.source.failure = None
    scene.source.add_topic("orders", "id-orders", 100, 100, 7)
    scene.target.add_topic("east.orders", "id-remote-orders", 60, 100, 7)
    scene.mirrored("orders", 2, [(0, 0, 7)], 7, source_end=7)
    return scene


@pytest.mark.parametrize(
    ("unknowns", "offset", "reason", "reread", "lost"),
    [
        (Unknowns.LEAVE, None, "source_unreachable", None, 0),
        (Unknowns.EARLIEST, 0, "", 7, 0),
        (Unknowns.LATEST, 7, "", 0, 7),
    ],
)
def test_a_partition_that_nobody_knows_a_position_of_is_left_or_goes_where_it_is_told(
    half_known, unknowns, offset, reason, reread, lost
):
    row = partitions(rehearsed_row(rehearse(half_known.side, APP, unknowns)))[2]
    assert (row["downstream_offset"], row["reason"], row["reread_max"], row["lost_max"]) == (
        offset,
        reason,
        reread,
        lost,
    )


@pytest.mark.parametrize("unknowns", [Unknowns.EARLIEST, Unknowns.LATEST])
def test_what_the_rule_says_is_written(half_known, ran, unknowns):
    ran(unknowns=unknowns)
    wanted = Commit(0 if unknowns is Unknowns.EARLIEST else 7)
    assert half_known.target.groups.committed["app"][REMOTE[2]] == wanted


def test_a_partition_that_is_left_keeps_nobody_from_moving(half_known, ran):
    ran()
    assert half_known.target.groups.committed["app"].keys() == set(REMOTE[:2])


def test_knowledge_is_as_young_as_the_last_look_of_the_flows_owner(scene):
    scene.state.marked(LookRecord(int(time.time() * 1000) - 1_000))
    assert partitions(rehearsed_row(rehearse(scene.side, APP)))[0]["knowledge_age_seconds"] < 2


def test_a_group_that_could_not_be_asked_is_known_as_of_its_own_last_look_and_no_other_one_is(scene):
    """`app` was asked 30 s ago, `never` not since its checkpoint of 3 s ago was written."""
    now = int(time.time() * 1000)
    for group, ago in {"app": 63, "never": 3, "other": 63}.items():
        scene.told(group, "orders", (50, 50), at_ms=now - ago * 1000)
    scene.state.marked(LookRecord(now, {"app": now - 30_000, "never": None}))
    row = rehearsed_row(rehearse(scene.side, GroupSelection(("app", "never", "other"))))
    ages = {of["group"]: of["partitions"][0]["knowledge_age_seconds"] for of in row["groups"]}
    assert {group: int(age) // 3 for group, age in ages.items()} == {"app": 10, "never": 1, "other": 0}


def test_of_mirror_makers_checkpoints_their_own_time_counts(scene):
    scene.state.marked(LookRecord(int(time.time() * 1000)))
    scene.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000) - 60_000, by_mm2=True)
    assert partitions(rehearsed_row(rehearse(scene.side, APP)))[0]["knowledge_age_seconds"] >= 60


BOTH_WAYS = (
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    "west->east.enabled = true\n"
)
ONE_NAME = TopicPartition("orders", 0)


@pytest.fixture
def pair(tmp_path):
    """``orders`` has one name on both sides; 60 records of east are among the 90 of west."""

    def made(runs, checkpoint, log_start=0):
        scene = Scene(tmp_path, BOTH_WAYS)
        scene.has("orders", 60)
        scene.mirrored("orders", 0, runs, 60, source_end=60)
        scene.target.logs[ONE_NAME] = Bounds(log_start, 90)
        scene.told("app", "orders", checkpoint, at_ms=int(time.time() * 1000))
        return scene

    return made


def test_with_identical_names_both_ways_a_checkpoint_tells_what_one_directions_runs_cannot(pair):
    row = partitions(rehearsed_row(rehearse(pair([(0, 0, 60)], (60, 70)).side, APP)))[0]
    assert (row["downstream_offset"], row["exactness"], row["reread_max"]) == (70, "bounded", 20)
    assert row["lost_max"] == 0


def test_with_identical_names_both_ways_deleted_records_count_as_lost_wherever_they_were_born(pair):
    """Ten records of east are unread behind the checkpoint, and five of west that the group may have read on east."""
    rehearsal = rehearse(pair([(0, 0, 15), (15, 30, 45)], (5, 5), log_start=20).side, APP)
    row = partitions(rehearsed_row(rehearsal))[0]
    assert (row["downstream_offset"], row["exactness"], row["lost_max"]) == (20, "bounded", 15)
    assert rehearsal.at_risk
    assert (
        "at most 15 records are lost: east was last seen to hold them, and west does not hold them (orders-0)"
        in rehearsal.warnings
    )


def test_with_identical_names_both_ways_deleted_records_that_the_group_has_read_are_not_lost(pair):
    """The checkpoint waits for one record of west; the group has read what east sent behind it."""
    rehearsal = rehearse(pair([(0, 6, 60)], (50, 5), log_start=20).side, APP)
    assert partitions(rehearsed_row(rehearsal))[0]["lost_max"] == 1
    assert rehearsal.at_risk


def test_with_identical_names_both_ways_deleted_records_that_everybody_has_read_put_nothing_at_risk(pair):
    rehearsal = rehearse(pair([(0, 0, 60)], (25, 25), log_start=20).side, APP)
    assert partitions(rehearsed_row(rehearsal))[0]["lost_max"] == 0
    assert not rehearsal.at_risk


def test_what_a_checkpoint_skips_is_in_the_sum_and_stays_in_the_journal(pair):
    scene = pair([(0, 0, 15), (15, 30, 45)], (5, 5), log_start=20)
    rehearsal = rehearse(scene.side, APP)
    context, journalist = scene.context(rehearsal, "INC-7")
    row = ended_row(execute(rehearsal, context, journalist))
    (found,) = recorded(scene.journal.entries())
    assert (row["rpo_records"], recorded_row(found)["rpo_records"]) == (15, 15)
    assert partitions(recorded_row(found))[0]["lost_max"] == 15


def test_the_end_is_told_in_one_line_and_what_to_do_next(ran):
    ended = ran()
    assert summary(ended).startswith(
        "moved 1 group, 2 offsets, exact; at most 40 records lost, at most 10 read again; "
    )
    assert "failover failback -s east -t west" in lines_of(next_steps(ended))


def test_the_journal_tells_the_same_as_the_command(scene, ran):
    row = ended_row(ran())
    (found,) = recorded(scene.journal.entries())
    told = recorded_row(found)
    assert {key: told[key] for key in row} == row
    assert (told["reason"], told["by"], told["group_names"]) == ("INC-7", "ann@host-1", ["app"])


def test_before_the_first_commit_all_that_will_be_written_is_on_record(scene, ran):
    scene.commits("app", "east.orders", 7, cluster=scene.target)
    seen = []

    def alter(group, offsets):
        (found,) = recorded(scene.journal.entries())
        seen.append([(plan.to_write(), plan.before()) for plan in found.operation.plan.groups])
        return {}

    scene.target.groups.alter = alter
    ran()
    assert seen == [[({REMOTE[0]: Commit(50), REMOTE[1]: Commit(100)}, {REMOTE[0]: Commit(7)})]]


@pytest.mark.parametrize("unknowns", [Unknowns.EARLIEST, Unknowns.LATEST])
def test_a_partition_without_a_known_position_whose_log_cannot_be_asked_keeps_its_group_back(
    scene, ran, unknowns
):
    scene.mirrored("orders", 2, [(0, 0, 5)], 5, source_end=5)
    scene.target.unanswered[REMOTE[2]] = UnreachableError("the partition has no leader")
    error = rehearse(scene.side, APP, unknowns).refusal
    assert (error.exit_code, error.code) == (3, "partition_missing")
    assert "orders-2: the partition has no leader" in error.message


def test_left_without_a_position_it_needs_no_answer_of_its_log(scene):
    scene.mirrored("orders", 2, [(0, 0, 5)], 5, source_end=5)
    scene.target.unanswered[REMOTE[2]] = UnreachableError("the partition has no leader")
    rehearsal = rehearse(scene.side, APP, Unknowns.LEAVE)
    assert rehearsal.refusal is None
    assert partitions(rehearsed_row(rehearsal))[2]["reason"] == "source_unreachable"


@pytest.mark.parametrize("accepts", [False, True])
def test_a_loss_that_became_unknown_while_the_operator_was_asked_needs_consent_again(scene, accepts):
    scene.mirrored("orders", 0, [(0, 0, 100)], 100, source_end=100)
    rehearsal = rehearse(scene.side, APP, accepts_loss=accepts)
    context, journalist = scene.context(rehearsal, "INC-7")
    later = replace(context.clock, now=lambda: time.time() + 60)
    ended = execute(rehearsal, replace(context, clock=later), journalist)
    assert not rehearsal.at_risk
    assert (ended.operation.error is None, bool(scene.target.groups.committed)) == (accepts, accepts)
    if not accepts:
        assert ended.operation.error.code == "data_loss"
        assert "last seen 6" in ended.operation.error.message
        assert ended.operation.error.message.endswith("no offset was committed")
