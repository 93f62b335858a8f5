"""``mmtool status --groups`` as a script and an operator see it, on clusters in memory."""

import json
import time

import pytest

from kit.clusters import FakeFlowWatch
from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.plan.groups.facts import Member

KEYS = [
    "source",
    "target",
    "group",
    "topic",
    "partition",
    "committed",
    "lag_records",
    "lag_seconds",
    "target_committed",
    "reread_max",
    "reread_expected",
    "rpo_records",
    "checkpoint_age_seconds",
    "ready",
    "reason",
]


@pytest.fixture
def scene(tmp_path, wired):
    """``app`` was last seen at 50 of 60 mirrored records of 100; ``late`` has no checkpoint yet."""
    made = Scene(tmp_path)
    made.state = made.watch = FakeFlowWatch()
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=90)
    made.commits("app", "orders", 55)
    made.commits("late", "orders", 5)
    made.told("app", "orders", (50, 50), at_ms=int((time.time() - 3) * 1000))
    made.watch.times["orders", 0, 60] = int((time.time() - 7) * 1000)
    return wired(made)


@pytest.fixture
def status(mmtool, scene):
    return lambda *arguments: mmtool("status", "-c", scene.config, *arguments)


def test_rows_have_the_contract_s_keys_in_json_and_csv(status):
    ended = status("--groups", "-o", "json")
    assert ended.code == 0, ended
    assert [list(row)[: len(KEYS)] for row in ended.rows] == [KEYS, KEYS]
    assert [(row["group"], row["ready"]) for row in ended.rows] == [("app", True), ("late", False)]
    assert [isinstance(row["reason"], str) for row in ended.rows] == [True, True]
    header = status("--groups", "-o", "csv").stdout.splitlines()[0]
    assert header.split(",")[: len(KEYS)] == KEYS


def test_a_group_that_is_named_is_shown_alone_with_or_without_groups(status):
    for options in (["--groups", "-g", "app"], ["-g", "app"]):
        ended = status(*options, "-o", "json")
        assert [row["group"] for row in ended.rows] == ["app"]


def test_one_line_says_for_each_flow_what_a_failover_now_would_cost(status):
    ended = status("--groups")
    assert ended.code == 0
    assert (
        "east->west: 1 of 2 groups ready to fail over; not ready: late (unknown_group);"
        " in an emergency: 40 records lost (of the last 7."
    ) in ended.stderr
    assert (
        "s, worst orders-0); at most 10 records read again, unknown for 1 partition (worst app in orders-0)"
    ) in ended.stderr
    assert "checkpoints up to 3." in ended.stderr


def test_a_terminal_shows_what_is_not_ready_first(status, scene, monkeypatch):
    monkeypatch.setattr("mmtool.commands.status.stdout_is_tty", lambda: True)
    monkeypatch.setattr("mmtool.commands.status.rows_that_fit", lambda _: 1)
    scene.target.groups.members["app"] = (Member("app-1", "10.0.0.7"),)
    scene.told("late", "orders", (5, 5), at_ms=int(time.time() * 1000))
    ended = status("--groups")
    assert "active_on_target" in ended.stdout
    assert "late" not in ended.stdout
    assert "1 more group (0 not ready): show" in ended.stderr


def test_a_name_that_no_flow_knows_ends_with_3_and_has_its_row(status):
    ended = status("-g", "nobody", "-o", "json")
    assert ended.code == 3
    (row,) = ended.rows
    assert (row["group"], row["ready"], row["reason"].split(":")[0]) == ("nobody", False, "unknown_group")
    assert json.loads(ended.stdout)["errors"][0]["code"] == "unknown_group"


def test_with_the_source_away_the_target_s_rows_are_shown_and_the_command_ends_with_9(status, scene):
    scene.source.go_away(UnreachableError("the region is gone"))
    ended = status("--groups", "-o", "json")
    assert ended.code == 9
    (row,) = ended.rows
    assert (row["group"], row["committed"], row["reread_max"], row["rpo_records"]) == ("app", None, 10, 30)


def test_with_both_clusters_away_there_is_the_error_alone(status, scene):
    scene.source.go_away(UnreachableError("the region is gone"))
    scene.target.go_away(UnreachableError("the other one as well"))
    ended = status("--groups", "-o", "json")
    assert (ended.code, ended.rows) == (9, [])


def test_a_gate_on_the_mirror_s_lag_is_not_for_groups(status):
    ended = status("--groups", "--max-lag-seconds", "5")
    assert (ended.code, ended.stdout) == (2, "")
