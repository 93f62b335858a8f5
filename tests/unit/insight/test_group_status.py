"""Whether groups could fail over now, and what it would cost, on clusters in memory."""

import time
from dataclasses import replace

import pytest

from kit.clusters import FakeFlowWatch
from kit.maps import position_of
from kit.scene import Scene
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.failover.modes.emergency import rehearse
from mmtool.failover.report.operation_row import rehearsed_row
from mmtool.insight.group_status import group_status
from mmtool.insight.status import WatchedFlow
from mmtool.insight.status_report import groups_headline
from mmtool.insight.translation import look, translate_groups
from mmtool.metrics.families import FAILOVER_READY
from mmtool.metrics.samples import samples_of_groups
from mmtool.plan.groups.facts import GroupSelection, Member
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.groups.offsets import Direction, Rules
from mmtool.plan.groups.status import GroupReason, GroupRow, GroupSummary, summaries
from mmtool.plan.records.documents import CommitRatesRecord, State
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))


class Groups(Scene):
    """``orders``: 60 of 100 records are mirrored; ``app`` has read 55 of them, and was last seen at 50."""

    def __init__(self, directory, extra=""):
        super().__init__(directory, extra)
        self.state = self.watch = FakeFlowWatch()
        self.has("orders", 100)
        self.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=90)
        self.commits("app", "orders", 55)
        self.checkpoint("app", 50)

    def checkpoint(self, group, offset, seconds=3.4):
        self.told(group, "orders", (offset, offset), at_ms=int((time.time() - seconds) * 1000))

    def wrote(self, offset, seconds_ago, topic="orders"):
        self.watch.times[topic, 0, offset] = int((time.time() - seconds_ago) * 1000)

    def was_at_end(self, seconds_ago, state=State.RUNNING, reason=""):
        at_ms = int((time.time() - seconds_ago) * 1000)
        place = TopicPartition("orders", 0)
        word = position_of(place, "id-orders", 60, 90, state, reason=reason, at_end_ms=at_ms)
        self.watch.view.apply(word.key, word.encode(), 0)

    def watched(self, *topics):
        return WatchedFlow(replace(self.clusters, state=self.watch), self.watch, topics, self.mm2)

    def found(self, *names, topics=()):
        return group_status(self.watched(*topics), GroupSelection(names))

    def row(self, *names):
        (row,) = self.found(*names).rows
        return row


@pytest.fixture
def scene(tmp_path):
    return Groups(tmp_path)


@pytest.mark.parametrize("state", [State.HALTED, State.PAUSED])
def test_a_group_is_not_ready_where_a_drain_would_refuse_its_partition(scene, state):
    scene.was_at_end(5, state, "offsets_differ: another producer wrote")
    row = scene.row()
    assert (row.ready, row.blocks_group) == (False, True)
    assert row.reason == f"{state}: offsets_differ: another producer wrote"
    scene.mirrored("orders", 0, [(0, 0, 100)], 100)  # nothing is left to drain
    assert scene.row().ready


@pytest.mark.parametrize(("state", "is_told"), [(State.HALTED, True), (State.PAUSED, False)])
def test_a_translation_tells_of_a_halted_partition_also_where_the_offset_is_exact(scene, state, is_told):
    scene.was_at_end(5, state, "offsets_differ: another producer wrote")
    flow = look(replace(scene.clusters, state=scene.watch))
    found = translate_groups(flow, APP, Rules(Direction.FORWARD))
    assert [verdict.refusal for plan in found.plans for verdict in plan.verdicts] == [None]
    assert (
        any("orders-0 of east->west is halted: offsets_differ" in said for said in found.warnings) == is_told
    )


def test_a_group_s_own_lag_and_what_an_emergency_would_cost_are_told(scene):
    scene.wrote(55, 20)
    scene.wrote(60, 7)
    scene.commits("app", "east.orders", 45, cluster=scene.target)
    row = scene.row()
    assert (row.group, row.place, row.committed, row.lag_records) == (
        "app",
        TopicPartition("orders", 0),
        55,
        45,
    )
    assert (row.target_committed, row.reread_max, row.rpo_records) == (45, 10, 40)
    assert (row.ready, row.reason, row.blocks_group) == (True, "", False)
    assert 20 <= row.lag_seconds < 25
    assert 7 <= row.rpo_seconds < 12
    assert 3 <= row.checkpoint_age_seconds < 8


def test_the_costs_are_those_of_an_emergency_s_rehearsal(scene):
    rates = CommitRatesRecord("app", {"orders": {"0": 1_000}})
    scene.watch.view.apply(rates.key, rates.encode(), 0)
    row = scene.row()
    (partition,) = rehearsed_row(rehearse(scene.side, APP))["groups"][0]["partitions"]
    assert (row.reread_max, row.reread_expected) == (partition["reread_max"], partition["reread_expected"])
    assert row.reread_expected == 4
    assert partition["lost_max"] == 30  # the source was last seen to end at 90, and ends at 100


def test_a_timestamp_of_the_future_says_nothing_about_an_age(scene):
    scene.wrote(55, -1_800)
    scene.wrote(60, -1_800)
    row = scene.row()
    assert (row.lag_seconds, row.rpo_seconds) == (None, None)
    scene.was_at_end(7)
    row = scene.row()
    assert row.lag_seconds is None
    assert 7 <= row.rpo_seconds < 12


def test_without_lag_no_record_is_asked_for_its_age(scene):
    scene.commits("app", "orders", 100)
    scene.mirrored("orders", 0, [(0, 0, 100)], 100)
    scene.watch.first_missing_times = None
    row = scene.row()
    assert (row.lag_records, row.lag_seconds, row.rpo_records, row.rpo_seconds) == (0, 0.0, 0, 0.0)


def test_a_commit_ahead_of_the_mirror_is_no_obstacle_as_a_drain_cures_it(scene):
    scene.commits("app", "orders", 80)
    row = scene.row()
    assert (row.ready, row.reason, row.lag_records) == (True, "", 20)


def test_a_group_at_work_on_the_target_is_not_ready(scene):
    scene.target.groups.members["app"] = (Member("app-1", "10.0.0.7"),)
    row = scene.row()
    assert (row.ready, row.blocks_group) == (False, True)
    assert row.reason.startswith("active_on_target: consumers of this group run on west")


@pytest.mark.parametrize("running", [True, False])
def test_a_group_that_a_failover_has_moved_to_the_target_need_not_be_stopped_or_moved_back(scene, running):
    scene.state.marked(MovedGroupRecord("app", True, "op-1", "ann@host-1", 0))
    scene.commits("app", "east.orders", 58, cluster=scene.target)
    if running:
        scene.target.groups.members["app"] = (Member("app-1", "10.0.0.7"),)
    row = scene.row()
    word = "active_on_target" if running else "would_rewind"
    assert (row.ready, row.moved, row.blocks_group) == (False, True, False)
    assert row.reason.startswith(
        f"{word}: moved by ann@host-1 at 1970-01-01T00:00:00Z (operation op-1); nothing"
    )


def test_a_group_that_a_failover_has_moved_is_in_nobody_s_count_of_ready_groups(scene):
    scene.state.marked(MovedGroupRecord("app", True, "op-1", "ann@host-1", 0))
    found = scene.found()
    assert groups_headline(found) == "east->west: 0 of 1 group ready to fail over; moved by a failover: app"
    (summary,) = summaries(found.rows)
    assert FAILOVER_READY not in [one.family for one in samples_of_groups({}, [summary])]  # an alert is on 0
    assert summary.ready is False


def test_a_group_without_a_checkpoint_is_not_ready_as_an_emergency_would_not_know_it(scene):
    scene.commits("late", "orders", 10)
    app, late = scene.found().rows
    assert (app.ready, late.ready) == (True, False)
    assert late.reason.startswith("unknown_group: west has no checkpoint of the group")
    assert (late.committed, late.reread_max, late.checkpoint_age_seconds) == (10, None, None)


def test_a_group_whose_name_is_taken_is_not_ready_and_its_other_topics_do_not_count(tmp_path):
    (tmp_path / "map.csv").write_text("app,app-dr\n")
    scene = Groups(tmp_path, f"mmtool.group.map = {tmp_path / 'map.csv'}\n")
    scene.source.add_topic("local", "id-local", 5)
    scene.commits("app", "local", 2)
    held = GroupNames(("east", "west"), scene.settings.group_map)
    scene.target.groups.committed["app"] = {}
    watched = scene.watched()
    found = group_status(replace(watched, clusters=replace(watched.clusters, names=held)))
    local, orders = found.rows
    assert (local.reason.word, local.blocks_group) == ("not_mirrored", False)
    assert (orders.reason.word, orders.ready, orders.blocks_group) == ("group_name_taken", False, True)
    assert orders.reason.endswith(
        f"give the group another target name in {tmp_path / 'map.csv'}; or leave it out"
    )


def test_a_partition_without_a_checkpoint_does_not_blame_a_source_that_answers(scene):
    scene.has("orders-two", 5)
    scene.mirrored("orders-two", 0, [(0, 0, 5)], 5)
    scene.commits("app", "orders-two", 5)
    _, two = scene.found().rows
    assert (two.ready, two.reason.word) == (False, "no_checkpoint")
    assert "`mmtool replicate` writes one" in two.reason


def test_a_partition_that_was_never_mirrored_is_not_ready(scene):
    scene.has("orders-new", 5)
    scene.commits("app", "orders-new", 2)
    old, new = scene.found().rows
    assert (old.ready, new.ready) == (True, False)
    assert new.reason.startswith("never_ran: ")
    assert (new.lag_records, new.rpo_records) == (3, None)


def test_a_topic_that_the_flow_leaves_out_is_listed_and_does_not_keep_the_group_back(scene):
    scene.source.add_topic("local", "id-local", 5)
    scene.commits("app", "local", 2)
    local, orders = scene.found().rows
    assert (local.ready, local.blocks_group, orders.ready) == (False, False, True)
    assert local.reason.startswith("not_mirrored: ")
    assert [(summary.group, summary.ready) for summary in summaries([local, orders])] == [("app", True)]


def test_a_partition_without_a_commit_is_ready_and_says_that_it_is_left_without_one(scene):
    scene.has("orders-two", 5, 5)
    scene.mirrored("orders-two", 0, [(0, 0, 5)], 5)
    scene.mirrored("orders-two", 1, [(0, 0, 5)], 5)
    scene.commits("app", "orders-two", 5)
    scene.told_of("app", TopicPartition("orders-two", 0), (5, 5), at_ms=int(time.time() * 1000))
    row = scene.found().rows[-1]
    assert (row.place, row.committed, row.ready) == (TopicPartition("orders-two", 1), None, True)
    assert row.reason.startswith("no_commit: ")


def test_a_group_that_a_cluster_tells_nothing_of_costs_its_own_row(scene):
    scene.commits("bad", "orders", 10)
    scene.source.groups.hidden["bad"] = MmtoolError("east does not tell its commits")
    app, bad = scene.found().rows
    assert (app.ready, bad.ready, bad.topic) == (True, False, None)
    assert bad.reason == "unknown_group: east does not tell its commits"


def test_a_partition_that_does_not_answer_costs_its_own_row(scene):
    scene.has("orders-bad", 5)
    scene.mirrored("orders-bad", 0, [(0, 0, 5)], 5)
    scene.commits("app", "orders-bad", 5)
    scene.source.unanswered[TopicPartition("orders-bad", 0)] = UnreachableError("no leader")
    good, bad = scene.found().rows
    assert (good.ready, bad.ready, bad.lag_records) == (True, False, None)
    assert bad.reason == "partition_missing: no leader"


def test_one_topic_alone_says_nothing_of_groups_that_do_not_read_it(scene):
    scene.has("orders-two", 5)
    scene.commits("other", "orders-two", 2)
    assert {row.group for row in scene.found(topics=["orders"]).rows} == {"app"}


def test_a_flow_that_never_ran_has_no_group_that_is_ready(tmp_path):
    scene = Groups(tmp_path)
    scene.watch.stored.clear()
    scene.mm2.held.clear()
    row = scene.row()
    assert (row.ready, row.reason.split(":")[0]) == (False, "never_ran")


def test_a_group_that_was_synced_between_two_questions_is_asked_about_again(scene):
    scene.commits("app", "east.orders", 57, cluster=scene.target)
    asked = []

    def describe(groups, real=scene.source.groups.describe_each):
        asked.append(groups)
        if len(asked) == 2:
            scene.commits("app", "orders", 57)
        return real(groups)

    scene.source.groups.describe_each = describe
    scene.checkpoint("app", 57)
    assert scene.row().ready
    assert len(asked) == 2


def test_a_group_s_summary_adds_up_its_partitions():
    def row(n, **values):
        return GroupRow("east", "west", "app", "orders", n, **values)

    found = summaries(
        [
            row(0, lag_records=5, reread_max=1, checkpoint_age_seconds=2.0, ready=True),
            row(
                1,
                lag_records=7,
                checkpoint_age_seconds=9.0,
                reason=GroupReason("ambiguous", "no"),
                blocks_group=True,
            ),
        ]
    )
    assert found == [GroupSummary("app", False, 12, 1, 9.0, "ambiguous: no")]
