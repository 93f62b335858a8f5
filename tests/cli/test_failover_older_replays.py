"""Failbacks that an older mmtool ran with ``--diverged replay``: the journals of ``older_replays`` are its bytes.

Groups ``app`` and ``late`` were to return from west to east; five records of ``orders`` had never reached west.
"""

from pathlib import Path

import pytest

from kit.one_name import AT_HOME, OneName
from kit.processes import error_of, row_of
from kit.wiring import wire_failovers
from mmtool.failover.operation.records import recorded
from mmtool.plan.records.journal import Entry
from mmtool.plan.records.marks import FailedOverRecord

JOURNALS = Path(__file__).parent / "older_replays"
EXECUTE = ("--execute", "--yes")


class Older:
    """The clusters, and the commands."""

    def __init__(self, scene, mmtool):
        self.scene, self._mmtool = scene, mmtool

    def has(self, name):
        """The journal has the older operation; its id."""
        lines = (JOURNALS / f"{name}.jsonl").read_bytes().splitlines()
        self.scene.journal.stored |= {Entry.decode(line).key: line for line in lines}
        return Entry.decode(lines[0]).operation_id

    def run(self, *words):
        return self._mmtool("failover", *words, "-c", self.scene.config, "-o", "json")

    def refused(self, *words):
        """Code and remedy of a refusal."""
        answer = self.run(*words)
        error = error_of(answer)
        assert answer.code == 3, answer
        return error["code"], error["remedy"].replace(str(self.scene.config), "FILE")

    @property
    def states(self):
        return {one.operation_id: str(one.state) for one in recorded(self.scene.journal.entries())}


@pytest.fixture
def older(tmp_path, monkeypatch, mmtool):
    scene = OneName(tmp_path)
    wire_failovers(scene, lambda name, value: monkeypatch.setattr(f"mmtool.{name}", value))
    return Older(scene, mmtool)


def way_on(operation):
    return (
        "with the release of mmtool that started the operation:"
        f" `mmtool failover resume {operation} -c FILE --execute` completes that operation;"
        f" `mmtool failover cancel {operation} -c FILE --execute` ends it"
    )


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("half_way", "running"),
        ("replayed", "running"),
        ("failed", "failed"),
        ("past_return", "running"),
        ("completed", "completed"),
    ],
)
def test_it_is_listed_and_shown(older, name, state):
    operation = older.has(name)
    for words in (("list",), ("show", operation)):
        shown = older.run(*words)
        assert (shown.code, row_of(shown)["operation_id"], row_of(shown)["state"]) == (0, operation, state)


@pytest.mark.parametrize("verb", ["resume", "cancel"])
@pytest.mark.parametrize("execute", [(), EXECUTE], ids=["rehearsed", "executed"])
def test_half_replayed_it_is_ended_by_the_release_that_started_it(older, verb, execute):
    operation = older.has("half_way")
    before = dict(older.scene.journal.stored)
    assert older.refused(verb, operation, *execute) == ("wrong_state", way_on(operation))
    assert (older.scene.journal.stored, older.scene.marks.failed_over) == (before, {"orders"})


def test_half_replayed_it_is_shown_with_the_way_to_end_it(older):
    operation = older.has("half_way")
    shown = older.run("show", operation)
    assert "some of 5 diverged records may already be written to west" in shown.stderr
    assert way_on(operation) in shown.stderr.replace(str(older.scene.config), "FILE")


def test_half_replayed_it_gives_way_to_no_failback_of_its_groups(older):
    operation = older.has("half_way")
    assert older.refused("failback", "-g", "app", *EXECUTE) == ("open_operation", way_on(operation))
    assert (older.states[operation], older.scene.marks.failed_over) == ("running", {"orders"})


def test_half_replayed_it_gives_way_to_no_emergency_as_its_groups_are_on_the_target_already(older):
    operation = older.has("half_way")
    older.scene.target.groups.committed.clear()
    older.scene.told("app", "orders", (8, 8))
    words = ("emergency", "-g", "app", "--accept-data-loss", *EXECUTE)
    assert older.refused(*words) == ("open_operation", way_on(operation))
    assert (older.states[operation], older.scene.marks.failed_over) == ("running", {"orders"})


def test_half_replayed_topics_are_not_released(older):
    operation = older.has("half_way")
    assert older.refused("release", *EXECUTE) == ("open_operation", way_on(operation))
    assert older.scene.marks.failed_over == {"orders"}


def test_half_replayed_topics_stay_failed_over_when_another_operation_is_undone(older):
    older.scene.target.groups.committed.clear()
    older.scene.told("app", "orders", (8, 8))
    away = row_of(older.run("emergency", "-g", "app", "--accept-data-loss", *EXECUTE))["operation_id"]
    older.scene.state.marked(FailedOverRecord("orders", True, away, "ann@host-1", 0))
    operation = older.has("half_way")
    assert older.refused("rollback", away, *EXECUTE) == ("open_operation", way_on(operation))
    assert (older.states[away], older.scene.marks.failed_over) == ("completed", {"orders"})


@pytest.mark.parametrize("name", ["failed", "replayed"])
def test_with_nothing_half_replayed_it_is_cancelled_and_started_again(older, name):
    operation = older.has(name)
    assert older.refused("resume", operation, *EXECUTE) == (
        "wrong_state",
        (
            f"run `mmtool failover cancel {operation} -c FILE --execute`, then start the failback again with"
            " --diverged file or --diverged topic NAME"
        ),
    )
    assert older.run("cancel", operation, *EXECUTE).code == 0
    answer = older.run("failback", "-g", "app", "-g", "late", "--diverged", "topic", "salvage", *EXECUTE)
    assert (answer.code, older.scene.source.groups.committed) == (0, AT_HOME)
    assert older.states[operation] == "cancelled"


def test_failed_before_its_first_record_it_gives_way(older):
    older.has("failed")
    answer = older.run("failback", "-g", "app", "-g", "late", "--diverged", "topic", "salvage", *EXECUTE)
    assert answer.code == 0
    assert sorted(older.states.values()) == ["cancelled", "completed"]


def test_past_its_point_of_no_return_it_is_resumed(older):
    operation = older.has("past_return")
    answer = older.run("resume", operation, *EXECUTE)
    assert (answer.code, row_of(answer)["state"]) == (0, "completed")
    assert older.scene.source.groups.committed == AT_HOME


@pytest.mark.parametrize("words", [("replay",), ("replay", "salvage")], ids=" ".join)
def test_a_new_replay_is_a_usage_error_that_names_the_other_choices(older, words):
    answer = older.run("failback", "-g", "app", "--diverged", *words)
    error = error_of(answer)
    assert (answer.code, error["code"]) == (2, "usage")
    assert all(word in error["message"] for word in ("replay", "file", "topic")), error
