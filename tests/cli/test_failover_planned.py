"""``mmtool failover planned`` as a script sees it, on clusters in memory."""

import io
import json
import re

import pytest

from kit.scene import Scene
from mmtool.errors import GateError
from mmtool.plan.groups.facts import Member

ROW = {
    "operation_id",
    "mode",
    "state",
    "point_of_no_return_passed",
    "groups",
    "steps",
    "rto_seconds",
    "rpo_records",
    "reread_records",
    "diverged_records",
    "undo",
}
PARTITION = {
    "topic",
    "partition",
    "upstream_offset",
    "target_topic",
    "downstream_offset",
    "exactness",
    "reread_max",
    "reread_expected",
    "lost_max",
    "lost_min",
    "source_seen_at",
    "knowledge_age_seconds",
    "target_offset_before",
    "written",
    "reason",
    "detail",
    "offsets",
}


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """One partition of 100 records, mirrored to 60; app has read 80."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.commits("app", "orders", 80)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: made)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.operation_lock_of", lambda flow, timeout: made.lock
    )
    return made


@pytest.fixture
def planned(mmtool, scene):
    def run(*arguments):
        return mmtool("failover", "planned", "-c", scene.config, "-o", "json", *arguments)

    return run


def row_of(ended):
    document = json.loads(ended.stdout)
    (row,) = document["data"]
    return row


def test_one_row_per_operation_with_the_contracts_keys(planned):
    row = row_of(planned("-g", "app"))
    assert row.keys() >= ROW
    assert row["groups"][0].keys() >= {"group", "partitions"}
    assert row["groups"][0]["partitions"][0].keys() == PARTITION
    assert row["steps"][0].keys() == {"name", "state", "sentence"}


def test_a_rehearsal_is_zero_and_tells_what_is_known_after_the_drain(planned, scene):
    ended = planned("-g", "app")
    row = row_of(ended)
    partition = row["groups"][0]["partitions"][0]
    assert (ended.code, row["mode"], row["state"]) == (0, "planned", "planned")
    assert (partition["downstream_offset"], partition["reason"]) == (None, "known after drain")
    assert {step["state"] for step in row["steps"]} == {"pending"}
    assert (scene.drained, scene.target.groups.committed) == ([], {})


def test_executed_it_is_completed_and_proven(planned, scene):
    ended = planned("-g", "app", "--fence", "none", "--execute", "--yes")
    row = row_of(ended)
    partition = row["groups"][0]["partitions"][0]
    assert (ended.code, row["state"], row["rpo_records"], row["reread_records"]) == (0, "completed", 0, 0)
    assert (partition["downstream_offset"], partition["exactness"], partition["written"]) == (
        80,
        "exact",
        True,
    )
    assert row["rto_seconds"] >= 0


def test_the_steps_that_are_rehearsed_are_the_steps_that_are_done(planned):
    rehearsed, done = (row_of(planned("-g", "app", *more))["steps"] for more in ([], ["--execute", "--yes"]))
    assert [step["sentence"] for step in rehearsed] == [step["sentence"] for step in done]
    assert {step["state"] for step in done} == {"done"}


EXECUTE = ("-g", "app", "--execute", "--yes")


def test_a_second_one_says_which_operation_moved_the_groups_and_changes_nothing(planned, scene):
    first = row_of(planned(*EXECUTE))
    before = (len(scene.drained), dict(scene.target.groups.committed), dict(scene.journal.stored))
    for again in (planned(*EXECUTE), planned("-g", "app")):
        assert (again.code, row_of(again)["operation_id"]) == (0, first["operation_id"])
        assert again.stderr.endswith(
            f"nothing was changed: operation {first['operation_id']} has already moved app\n"
        )
    assert (
        len(scene.drained),
        scene.target.groups.committed,
        scene.journal.stored,
    ) == before


def test_beside_groups_that_were_not_moved_one_that_was_is_left_out_by_name(planned, scene):
    first = row_of(planned(*EXECUTE))["operation_id"]
    scene.commits("late", "orders", 70)
    ended = planned("-g", "late", *EXECUTE)
    assert [group["group"] for group in row_of(ended)["groups"]] == ["late"]
    assert f"app is left out: operation {first} has already moved it" in json.loads(ended.stdout)["warnings"]


def test_a_group_that_has_read_on_at_the_source_since_moves_again(planned, scene):
    first = row_of(planned(*EXECUTE))["operation_id"]
    scene.commits("app", "orders", 90)
    again = row_of(planned(*EXECUTE))
    assert (again["operation_id"] != first, again["state"]) == (True, "completed")


NOTHING = "nothing was changed; add --execute to execute this plan\n"


def test_a_rehearsal_says_that_it_is_one(planned):
    assert planned("-g", "app").stderr.endswith(NOTHING)
    assert planned("-g", "app", "-q").stderr == ""


@pytest.mark.parametrize("more", [["-g", "typo"], ["-g", "idle"], ["-g", "app", "--execute", "--yes"]])
def test_only_a_plan_that_would_move_something_is_called_a_rehearsal(planned, scene, more):
    scene.commits("idle", "orders")
    assert NOTHING not in planned(*more).stderr


def test_executed_it_says_in_one_line_what_it_came_to(planned):
    err = planned("-g", "app", "--execute", "--yes").stderr
    assert re.search(
        r"^moved 1 group, 1 offset, exact; 0 records lost, 0 read again; \d+\.\d s$", err, re.MULTILINE
    )


def test_each_steps_sentence_is_said_once(planned):
    err = planned("-g", "app", "--execute", "--yes").stderr
    assert err.count("read the offsets back from west with another client") == 1
    assert err.count("read_back: done") == 1


def test_several_groups_are_all_named_in_what_is_next_and_in_the_plural(planned, scene):
    scene.commits("my app", "orders", 10)
    err = planned("-g", "app", "-g", "my app", "--execute", "--yes").stderr
    assert "--describe --group app --group 'my app'\n" in err
    assert "check that app, my app are stopped on east and idle on west" in err


def test_the_offsets_are_seen_before_the_question(planned, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ended = planned("-g", "app", "--execute")
    table, _, _ = ended.stderr.partition("move app to west? [y/N]: ")
    assert (ended.code, "known after drain" in table) == (3, True)


def test_afterwards_it_says_what_to_do_next(planned):
    assert "start the consumers of app with bootstrap.servers=west-1:9092" in (
        planned("-g", "app", "--execute", "--yes").stderr
    )


def test_it_says_so_as_well_when_the_rows_have_nowhere_to_go(planned, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    ended = planned("-g", "app", "--execute", "--yes")
    assert (ended.code, "start the consumers of app" in ended.stderr) == (7, True)
    assert (
        "error: stdout cannot be written: it is closed; the command itself has completed, only its output is missing\n"
        in ended.stderr
    )


def test_a_selector_is_required(planned):
    assert planned().code == 2


def test_execute_where_nobody_can_be_asked_needs_yes(planned, scene):
    assert (planned("-g", "app", "--execute").code, scene.drained) == (3, [])


def test_an_active_group_is_three_and_its_members_are_named(planned, scene):
    scene.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    ended = planned("-g", "app", "--execute", "--yes")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, error["code"], "app-1 on 10.0.0.7" in error["message"]) == (
        3,
        "active_on_source",
        True,
    )


def test_an_unknown_group_is_three_and_gets_the_nearest_name(planned):
    ended = planned("-g", "ap")
    assert (ended.code, row_of(ended)["groups"][0]["partitions"][0]["reason"]) == (3, "unknown_group")
    assert json.loads(ended.stdout)["errors"][0]["message"].endswith("; did you mean app?")


def test_a_drain_that_runs_out_of_time_is_four_with_nothing_written(planned, scene, monkeypatch):
    def drain(flow, until, timeout_seconds):
        raise GateError(f"not within {timeout_seconds} s")

    monkeypatch.setattr(scene, "drain", drain)
    ended = planned("-g", "app", "--execute", "--yes", "--timeout", "8s")
    row = row_of(ended)
    assert (ended.code, row["state"], row["point_of_no_return_passed"]) == (4, "failed", False)
    assert json.loads(ended.stdout)["errors"][0]["message"] == "not within 8.0 s"
    assert scene.target.groups.committed == {}


def test_the_table_has_a_line_for_each_group_and_partition(mmtool, scene):
    out = mmtool("failover", "planned", "-c", scene.config, "-g", "app").stdout
    assert [line.split()[0] for line in out.splitlines()][-1] == "app"
