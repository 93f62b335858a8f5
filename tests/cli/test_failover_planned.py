"""``mmtool failover planned`` as a script sees it, on clusters in memory."""

import io

import pytest

from kit.processes import row_of
from kit.scene import Scene

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
def scene(tmp_path, wired):
    """One partition of 100 records, mirrored to 60; app has read 80."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.commits("app", "orders", 80)
    return wired(made)


@pytest.fixture
def planned(failover):
    return lambda *arguments: failover("planned", *arguments)


def test_one_row_per_operation_with_the_contracts_keys(planned):
    row = row_of(planned("-g", "app"))
    assert row.keys() >= ROW
    assert row["groups"][0].keys() >= {"group", "partitions"}
    assert row["groups"][0]["partitions"][0].keys() == PARTITION
    assert row["steps"][0].keys() == {"name", "state", "sentence"}


def test_the_steps_that_are_rehearsed_are_the_steps_that_are_done(planned):
    rehearsed, done = (row_of(planned("-g", "app", *more))["steps"] for more in ([], ["--execute", "--yes"]))
    assert [step["sentence"] for step in rehearsed] == [step["sentence"] for step in done]
    assert {step["state"] for step in done} == {"done"}


def test_each_steps_sentence_is_said_once(planned):
    err = planned("-g", "app", "--execute", "--yes").stderr
    assert err.count("read the offsets back from west with another client") == 1
    assert err.count("read_back: done") == 1


def test_the_offsets_are_seen_before_the_question(planned, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ended = planned("-g", "app", "--execute")
    table, _, _ = ended.stderr.partition("move app to west? [y/N]: ")
    assert (ended.code, "known after drain" in table) == (3, True)


def test_it_says_so_as_well_when_the_rows_have_nowhere_to_go(planned, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    ended = planned("-g", "app", "--execute", "--yes")
    assert (ended.code, "start the consumers of app" in ended.stderr) == (7, True)
    assert (
        "error: stdout cannot be written: it is closed; the command itself has completed, only its output is missing\n"
        in ended.stderr
    )


def test_the_table_has_a_line_for_each_group_and_partition(mmtool, scene):
    out = mmtool("failover", "planned", "-c", scene.config, "-g", "app").stdout
    assert [line.split()[0] for line in out.splitlines()][-1] == "app"
