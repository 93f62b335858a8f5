"""``groups sync``, turn by turn, on clusters in memory."""

import json
import signal
from dataclasses import replace

import pytest

from kit.scene import half_read
from mmtool.commands.groups import _synced, _turns
from mmtool.errors import UnreachableError
from mmtool.failover.commits import group_sync
from mmtool.failover.commits.group_sync import GroupSync
from mmtool.output import OutputFormat
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.groups.sync import percentile
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.translation.types import TopicPartition

REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


class Turns:
    """A flow's groups synced every so many seconds of a clock that the test moves."""

    def __init__(self, directory):
        self.scene = half_read(directory)
        self.clock = 1000.0
        self.sync = GroupSync(self.scene.clusters, GroupSelection(), now=lambda: self.clock)

    def after(self, seconds):
        self.clock += seconds
        return self.sync.turn()

    def row(self, seconds=0.0, group="app"):
        (row,) = [row for row in self.after(seconds).rows if row.group == group]
        return row

    @property
    def committed(self):
        found = self.scene.target.groups.committed.get("app", {})
        return [None if at not in found else found[at].offset for at in REMOTE]


@pytest.fixture
def turns(tmp_path):
    return Turns(tmp_path)


def told(row):
    return str(row.state), row.written, row.refused, row.freshness_seconds


def test_one_partition_that_cannot_be_told_keeps_no_other_one_back_and_grows_old(turns):
    turns.row()
    turns.scene.commits("app", "orders", 50, 10)
    assert told(turns.row(5)) == ("behind", 0, 1, 5.0)
    assert turns.committed == [11, 10]
    row = turns.row(5)
    assert (told(row), row.reason) == (("behind", 0, 1, 10.0), "1 beyond_source_end")


def test_who_is_moved_by_somebody_else_in_the_middle_of_a_turn_is_not_moved_back(turns, monkeypatch):
    target = turns.scene.target

    def slowly(seconds=target.offsets_retention_seconds):
        turns.clock += 5
        turns.scene.commits("app", "east.orders", 18, cluster=target)
        return seconds()

    monkeypatch.setattr(target, "offsets_retention_seconds", slowly)
    row = turns.row()
    assert (row.state, "east.orders-0 was committed by another" in row.reason) == ("behind", True)
    assert turns.committed == [18, 10]
    assert (turns.row(5).state, turns.committed) == ("ahead", [18, 10])


def test_a_group_whose_coordinator_did_not_answer_is_followed_in_the_next_turn(turns):
    groups = turns.scene.target.groups
    turns.scene.commits("other", "orders", 15)
    groups.hidden["other"] = UnreachableError("cluster west: describing group other failed")
    rows = {row.group: row for row in turns.after(0).rows}
    assert (told(rows["app"])[0], rows["other"].reason) == ("synced", groups.hidden["other"].message)
    groups.hidden.clear()
    assert told(turns.row(1, "other"))[0] == "synced"


def test_who_commits_without_being_in_the_group_is_told_of(turns):
    turns.row()
    turns.scene.commits("app", "east.orders", 3, 10, cluster=turns.scene.target)
    turns.scene.commits("app", "orders", 15, 10)
    row = turns.row(5)
    assert row.state == "active_on_target"
    assert "assign()" in row.reason
    assert turns.committed == [3, 10]


def test_freshness_is_the_age_that_positions_reached_before_they_were_renewed(turns):
    for seconds in (0, 2, 2, 2, 8):
        turn = turns.after(seconds)
    assert turn.ages == {2.0: 6, 8.0: 2}
    assert "age of the replaced offsets p50 2.0s, p99 8.0s" in turn.headline


def test_percentiles_are_values_that_were_seen():
    assert [percentile(dict.fromkeys(range(1, 101), 1), share) for share in (0.5, 0.99)] == [50, 99]
    assert [percentile({7.0: 3, 9.0: 3}, 0.5), percentile({}, 0.5)] == [7.0, None]


# --- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def sync(mmtool, turns, monkeypatch):
    scene = turns.scene
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: scene.clusters)
    return lambda *arguments: mmtool("groups", "sync", "-c", scene.config, *arguments)


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), 130, "stopped by SIGINT"),
        (lambda: signal.raise_signal(signal.SIGTERM), 143, "stopped by SIGTERM"),
    ],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_it_says_what_it_does_until_it_is_stopped_and_its_end_is_no_error(sync, monkeypatch, end, code, said):
    turns = iter([lambda: None, end])
    monkeypatch.setattr("mmtool.output.render.time.sleep", lambda _: next(turns)())
    ended = sync("--every", "5", "-o", "json")
    documents = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.code, [len(document["data"]) for document in documents]) == (code, [1, 1])
    assert ended.said == [
        "east->west: committing the groups' translated offsets on west every 5 s, until you stop this command (Ctrl-C)",
        said,
    ]


def test_while_a_cluster_is_away_the_sync_goes_on_and_says_so(turns):
    """The last rows, and what is the matter, as a document; nothing more than that as a table in a file."""
    shown = {output: _turns(turns.sync, _synced(turns.after(0)), output) for output in OutputFormat}
    for results in shown.values():
        next(results)
    turns.scene.source.go_away(UnreachableError("cluster east does not answer"))
    away = {output: next(results) for output, results in shown.items()}
    assert [[error.message for error in result.errors] for result in away.values()] == [
        ["cluster east does not answer"]
    ] * 3
    assert (len(away[OutputFormat.JSON].rows), len(away[OutputFormat.TABLE].rows)) == (1, 0)
    turns.scene.source.failure = turns.scene.source.groups.failure = None
    turns.scene.commits("app", "orders", 15, 10)
    back = next(shown[OutputFormat.JSON])
    assert (back.errors, back.rows[0]["state"], turns.committed) == ((), "synced", [14, 10])


def test_a_group_that_a_failover_has_moved_is_named_and_left_alone_until_it_comes_home(turns):
    turns.row()
    mark = MovedGroupRecord("app", moved=True, operation_id="fo-7", by="ann@east", since_ms=1_780_000_000_000)
    turns.scene.state.marked(mark)
    turns.scene.commits("app", "orders", 15, 10)
    row = turns.row(5)
    assert told(row) == ("active_on_target", 0, 2, None)
    assert row.reason == "moved by ann@east at 2026-05-28T20:26:40Z (operation fo-7)"
    assert turns.committed == [11, 10]
    turns.scene.state.marked(replace(mark, moved=False))
    assert told(turns.row(5)) == ("synced", 1, 0, 0.0)
    assert turns.committed == [14, 10]


def test_a_failover_s_mark_that_comes_in_the_middle_of_a_turn_counts(turns, monkeypatch):
    """A turn for thousands of groups takes a while, and what it is about to commit is older than the failover."""
    monkeypatch.setattr(group_sync, "_MARKS_SECONDS", 0.0)
    state, groups = turns.scene.state, turns.scene.target.groups
    monkeypatch.setattr(state, "control", lambda _: replace(state.view, moved=dict(state.view.moved)))
    mark = MovedGroupRecord("app", moved=True, operation_id="fo-7", by="ann@east", since_ms=1_780_000_000_000)

    def commits(asked, read=groups.commits_each):
        found = read(asked)
        turns.scene.commits("app", "east.orders", 18, 10, cluster=turns.scene.target)
        state.marked(mark)
        return found

    monkeypatch.setattr(groups, "commits_each", commits)
    assert told(turns.row()) == ("active_on_target", 0, 2, None)
    assert turns.committed == [18, 10]
