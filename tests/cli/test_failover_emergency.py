"""``mmtool failover emergency`` and the journal's commands as a script sees them, on clusters in memory."""

import json
import re
import time

import pytest

from kit.processes import error_of, row_of
from kit.scene import Scene
from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.translation.types import TopicPartition

REMOTE = TopicPartition("east.orders", 0)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """One partition of 100 records, mirrored to 60; app was last seen at 50. The source is gone."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    made.source.go_away(UnreachableError("the region is gone"))
    monkeypatch.setattr("mmtool.failover.service.connections.target_side", lambda flow, timeout: made.side)
    monkeypatch.setattr("mmtool.failover.service.connections.written_at", lambda *_: made.target)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.operation_lock_of", lambda flow, timeout: made.lock
    )
    return made


@pytest.fixture
def emergency(failover):
    return lambda *more: failover("emergency", "-g", "app", *more)


EXECUTE = ("--accept-data-loss", "--execute", "--yes")


def test_a_rehearsal_is_zero_and_warns_of_what_may_be_lost(emergency, scene):
    ended = emergency()
    partition = row_of(ended)["groups"][0]["partitions"][0]
    assert (ended.code, row_of(ended)["mode"], row_of(ended)["state"]) == (0, "emergency", "planned")
    assert (partition["downstream_offset"], partition["reread_max"], partition["lost_max"]) == (50, 10, 40)
    assert any("at most 40 records are lost" in w for w in json.loads(ended.stdout)["warnings"])
    assert (scene.target.groups.committed, scene.journal.stored) == ({}, {})


def test_a_rehearsal_names_the_options_that_execute_it(emergency):
    adds = [emergency(*more).stderr.rpartition("add ")[2].partition(" to ")[0] for more in ((), EXECUTE[:1])]
    assert adds == ["--execute --accept-data-loss", "--execute"]


def test_a_source_that_was_just_seen_with_consumers_that_commit_is_told_with_planned(emergency, scene):
    assert "failover planned" not in " ".join(json.loads(emergency().stdout)["warnings"])
    rates = CommitRatesRecord("app", {"orders": {"0": 5_000}})
    scene.state.view.apply(rates.key, rates.encode(), 0)
    (told,) = [w for w in json.loads(emergency().stdout)["warnings"] if "failover planned" in w]
    assert "consumers of app were committing on east seconds ago" in told


def test_executed_without_accepting_the_loss_it_is_three_and_nothing_is_changed(emergency, scene):
    ended = emergency("--execute", "--yes")
    assert (ended.code, error_of(ended)["code"]) == (3, "data_loss")
    assert "--accept-data-loss" in error_of(ended)["remedy"]
    assert (scene.target.groups.committed, scene.journal.stored, scene.marks.failed_over) == ({}, {}, set())


def test_executed_it_is_completed_and_tells_the_operations_name(emergency, scene):
    ended = emergency(*EXECUTE)
    row = row_of(ended)
    assert (ended.code, row["state"], row["rpo_records"], row["reread_records"]) == (0, "completed", 40, 10)
    assert scene.target.groups.committed == {"app": {REMOTE: Commit(50)}}
    assert f"operation {row['operation_id']} started\n" in ended.stderr


def test_a_selector_is_required(failover):
    assert failover("emergency").code == 2


def test_where_nobody_can_be_asked_it_needs_yes(emergency, scene):
    ended = emergency("--accept-data-loss", "--execute")
    assert (ended.code, scene.journal.stored) == (3, {})


def test_another_operation_under_way_is_ten(emergency, scene):
    scene.lock.failure = OwnedElsewhereError("another operation on flow east->west is running")
    ended = emergency(*EXECUTE)
    assert (ended.code, scene.target.groups.committed, scene.marks.failed_over) == (10, {}, set())


def test_a_journal_that_cannot_be_written_stops_it_before_anything_is_done(emergency, scene):
    scene.journal.failure = UnreachableError("west does not take it")
    ended = emergency(*EXECUTE)
    assert (ended.code, scene.target.groups.committed, scene.marks.failed_over) == (9, {}, set())


def test_a_target_that_does_not_answer_is_nine(emergency, scene):
    scene.target.go_away(UnreachableError("west is gone as well"))
    assert emergency().code == 9


# --- the journal -------------------------------------------------------------------------------------------


def test_a_rehearsal_is_not_on_record(failover, emergency):
    emergency()
    assert json.loads(failover("list").stdout)["data"] == []


def test_every_operation_is_listed_with_who_and_why(failover, emergency):
    done = row_of(emergency(*EXECUTE, "--reason", "INC-7"))
    row = row_of(failover("list"))
    assert (row["operation_id"], row["state"], row["reason"]) == (done["operation_id"], "completed", "INC-7")
    assert re.fullmatch(r".+@.+", row["by"])


def test_show_tells_what_the_command_told(failover, emergency):
    done = row_of(emergency(*EXECUTE))
    shown = row_of(failover("show", done["operation_id"]))
    assert {key: shown[key] for key in done} == done


@pytest.mark.parametrize("command", ["show", "resume", "cancel", "rollback"])
def test_a_name_that_no_journal_knows_is_three(failover, command):
    ended = failover(command, "20260101T000000Z-abcdef")
    assert (ended.code, error_of(ended)["code"]) == (3, "unknown_operation")


@pytest.mark.parametrize("command", ["show", "resume", "cancel", "rollback", "list", "release"])
def test_a_damaged_journal_or_none_that_answers_is_said(failover, emergency, scene, command):
    name = () if command in {"list", "release"} else (row_of(emergency(*EXECUTE))["operation_id"],)
    if command == "release":
        scene.target.go_away(UnreachableError("west does not answer"))
    scene.journal.failure = UnreachableError("west does not answer")
    assert failover(command, *name).code == 9


def test_what_was_rolled_back_before_anybody_knew_of_it_is_not_written(cut_off, failover, scene):
    name = row_of(cut_off)["operation_id"]
    taken_back = failover("rollback", name, "--execute", "--yes")
    assert (taken_back.code, row_of(taken_back)["state"], written_in(taken_back)) == (
        0,
        "rolled_back",
        [False],
    )
    assert written_in(failover("show", name)) == [False]


def test_the_list_as_csv_is_the_table(emergency, mmtool, scene):
    emergency(*EXECUTE)
    header, line = mmtool("failover", "list", "-c", scene.config, "-o", "csv").stdout.splitlines()
    assert header == "operation_id,flow,mode,state,group_names,by,began_at,reason,problem"
    assert line.split(",")[1:5] == ["east->west", "emergency", "completed", "app"]
    assert "[" not in line


@pytest.fixture
def cut_off(emergency, scene):
    """The target takes the commit, and is gone before it can be read back."""
    alter = scene.target.groups.alter

    def last_word(group, offsets):
        scene.journal.failure = UnreachableError("west has gone away")
        return alter(group, offsets)

    scene.target.groups.alter = last_word
    ended = emergency(*EXECUTE)
    scene.journal.failure = None
    return ended


def written_in(ended):
    return [p["written"] for group in row_of(ended)["groups"] for p in group["partitions"]]


def test_cut_off_after_the_commit_was_sent_it_is_six_and_nobody_says_that_nothing_is_written(cut_off):
    assert (cut_off.code, error_of(cut_off)["code"], written_in(cut_off)) == (6, "unreachable", [None])


def test_what_an_operation_that_was_cut_off_has_written_is_looked_up_on_the_target(cut_off, failover, scene):
    name = row_of(cut_off)["operation_id"]
    assert written_in(failover("show", name)) == [True]
    scene.target.groups.committed["app"].clear()
    assert written_in(failover("show", name)) == [False]
    scene.target.groups.commits = lambda *_, **__: (_ for _ in ()).throw(UnreachableError("west is away"))
    shown = failover("show", name)
    assert (shown.code, written_in(shown)) == (0, [None])
    assert (
        "mmtool does not know which offsets are committed on west, so WRITTEN is unknown (-) in some rows: west is away"
        in json.loads(shown.stdout)["warnings"]
    )


def test_a_completed_operation_has_nothing_to_resume_and_that_is_no_error(failover, emergency):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    ended = failover("resume", name, "--execute", "--yes")
    assert (ended.code, "there is nothing to resume" in ended.stderr) == (0, True)


def test_a_completed_operation_cannot_be_cancelled_and_the_way_back_is_named(failover, emergency):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    ended = failover("cancel", name, "--execute", "--yes")
    assert (ended.code, error_of(ended)["code"]) == (3, "wrong_state")
    assert "rollback" in error_of(ended)["remedy"]


def test_rolled_back_groups_and_topics_are_as_they_were(failover, emergency, scene):
    scene.commits("app", "east.orders", 7, cluster=scene.target)
    name = row_of(emergency(*EXECUTE))["operation_id"]
    rehearsed = failover("rollback", name)
    assert (rehearsed.code, scene.target.groups.committed["app"]) == (0, {REMOTE: Commit(50)})
    ended = failover("rollback", name, "--execute", "--yes")
    assert (ended.code, row_of(ended)["state"]) == (0, "rolled_back")
    assert [p["written"] for g in row_of(failover("show", name))["groups"] for p in g["partitions"]] == [
        False
    ]
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(7)}
    assert (scene.marks.failed_over, scene.marks.moved) == (set(), set())


def test_a_group_that_had_no_commit_has_none_again(failover, emergency, scene):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    failover("rollback", name, "--execute", "--yes")
    assert "app" not in scene.target.groups.listing().consumers


@pytest.mark.parametrize("at_work", ["members", "gone on"])
def test_a_group_that_somebody_has_started_is_not_rolled_back(failover, emergency, scene, at_work):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    if at_work == "members":
        scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    else:
        scene.commits("app", "east.orders", 55, cluster=scene.target)
    ended = failover("rollback", name, "--execute", "--yes")
    assert (ended.code, scene.marks.failed_over, row_of(ended)["state"]) == (3, {"orders"}, "completed")


def test_a_rollback_that_the_target_refuses_whole_has_changed_nothing_and_says_so(failover, emergency, scene):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    scene.target.groups.denied = {REMOTE}
    ended = failover("rollback", name, "--execute", "--yes")
    assert (ended.code, "in part" in ended.stdout) == (3, False)
    assert (scene.marks.failed_over, row_of(failover("show", name))["state"]) == ({"orders"}, "completed")


def test_who_goes_on_while_the_question_stands_is_not_moved_back(failover, emergency, scene, monkeypatch):
    name = row_of(emergency(*EXECUTE))["operation_id"]

    def consent(*_, **__):
        scene.commits("app", "east.orders", 60, cluster=scene.target)

    monkeypatch.setattr("mmtool.commands._failover_ways.consent", consent)
    ended = failover("rollback", name, "--execute")
    assert (ended.code, error_of(ended)["code"]) == (3, "would_rewind")
    assert scene.target.groups.committed == {"app": {REMOTE: Commit(60)}}
    assert (scene.marks.failed_over, row_of(failover("show", name))["state"]) == ({"orders"}, "completed")


def test_a_rolled_back_operation_is_rolled_back_for_good(failover, emergency):
    name = row_of(emergency(*EXECUTE))["operation_id"]
    failover("rollback", name, "--execute", "--yes")
    codes = {
        command: failover(command, name, "--execute", "--yes").code for command in ("rollback", "resume")
    }
    assert codes == {"rollback": 3, "resume": 3}


def test_a_folder_for_an_operation_that_saves_no_file_is_two(failover, emergency, scene, tmp_path):
    scene.target.groups.rights_missing = ["READ on group app"]
    name = row_of(emergency(*EXECUTE))["operation_id"]
    ended = failover("resume", name, "--diverged-dir", tmp_path, "--execute", "--yes")
    assert (ended.code, error_of(ended)["message"]) == (
        2,
        f"--diverged-dir is for the file of diverged records, and operation {name} writes none",
    )


def test_resumed_it_goes_by_what_was_said_of_partitions_that_nobody_knows(failover, emergency, scene):
    scene.has("orders", 100, 30)
    for number, end in enumerate((60, 30)):
        scene.mirrored("orders", number, [(0, 0, end)], end)
    scene.target.groups.rights_missing = ["READ on group app"]
    failed = emergency(*EXECUTE, "--unknown", "earliest")
    scene.target.groups.rights_missing = []
    ended = failover("resume", row_of(failed)["operation_id"], "--execute", "--yes")
    assert (failed.code, ended.code) == (9, 0)
    assert scene.target.groups.committed["app"] == {
        REMOTE: Commit(50),
        REMOTE._replace(partition=1): Commit(0),
    }


@pytest.fixture
def both(failover, scene):
    """Two groups of one topic that have failed over one after the other; the operations' names."""
    scene.told("late", "orders", (20, 20), at_ms=int(time.time() * 1000))
    return [row_of(failover("emergency", "-g", group, *EXECUTE))["operation_id"] for group in ("app", "late")]


@pytest.mark.parametrize("first", [0, 1])
def test_a_topic_stays_failed_over_while_one_of_two_failovers_stands(failover, scene, both, first):
    """Or the returning source's records would come behind the groups of the other one."""
    failover("rollback", both[first], "--execute", "--yes")
    assert scene.marks.failed_over == {"orders"}
    failover("rollback", both[1 - first], "--execute", "--yes")
    assert scene.marks.failed_over == set()


def test_a_failover_that_gives_up_leaves_the_marks_of_another_one_alone(failover, scene, both):
    scene.target.groups.rights_missing = ["READ on group app"]
    ended = failover("emergency", "-g", "app", *EXECUTE)
    states = {step["name"]: step["state"] for step in row_of(ended)["steps"]}
    assert (ended.code, states["mark_failed_over"], scene.marks.failed_over) == (9, "undone", {"orders"})


def test_that_a_topic_stays_failed_over_is_not_announced_as_its_return(failover, both):
    assert "mirrored again" not in failover("rollback", both[0]).stderr


# --- release -----------------------------------------------------------------------------------------------


def test_released_topics_are_mirrored_again(failover, emergency, scene):
    emergency(*EXECUTE)
    rehearsed = failover("release")
    assert (rehearsed.code, scene.marks.failed_over) == (0, {"orders"})
    ended = failover("release", "--execute", "--yes")
    assert (ended.code, scene.marks.failed_over, row_of(ended)["state"]) == (0, set(), "released")


def test_a_topic_that_has_not_failed_over_cannot_be_released(failover, emergency):
    emergency(*EXECUTE)
    assert failover("release", "--topic", "payments").code == 2


def test_nothing_to_release_is_no_error(failover):
    ended = failover("release", "--execute", "--yes")
    assert (ended.code, "no topic of east->west has failed over" in ended.stderr) == (0, True)
