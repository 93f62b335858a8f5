"""``mmtool failover emergency`` and the journal's commands as a script sees them, on clusters in memory."""

import json
import time

import pytest

from kit.processes import error_of, row_of
from kit.scene import Scene
from mmtool.errors import UnreachableError


@pytest.fixture
def scene(tmp_path, wired):
    """One partition of 100 records, mirrored to 60; app was last seen at 50. The source is gone."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    made.source.go_away(UnreachableError("the region is gone"))
    return wired(made)


@pytest.fixture
def emergency(failover):
    return lambda *more: failover("emergency", "-g", "app", *more)


EXECUTE = ("--accept-data-loss", "--execute", "--yes")


def test_show_tells_what_the_command_told(failover, emergency):
    done = row_of(emergency(*EXECUTE))
    shown = row_of(failover("show", done["operation_id"]))
    assert {key: shown[key] for key in done} == done


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

    def last_word(group, offsets, kind=None):
        scene.journal.failure = UnreachableError("west has gone away")
        return alter(group, offsets, kind)

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
