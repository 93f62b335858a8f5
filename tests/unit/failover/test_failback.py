"""The way home on clusters in memory: what diverged is exported, nobody skips what was mirrored or born away."""

from dataclasses import replace

import pytest

from kit.batches import data
from kit.tail_files import exported_records
from kit.there_and_back import AWAY, ORDERS, ThereAndBack
from mmtool.errors import RefusedError, UnreachableError
from mmtool.failover.modes.failback import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import rehearsed_row
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.translation.blocks import WriterState
from mmtool.translation.types import TopicPartition

BOTH, ALONE = GroupSelection(("app", "late")), GroupSelection(("app",))


@pytest.fixture
def scene(tmp_path):
    return ThereAndBack(tmp_path)


@pytest.fixture
def ran(scene, tmp_path):
    def run():
        rehearsal = rehearse(scene.both, BOTH)
        return execute(rehearsal, scene.context(rehearsal, home=True), folder=tmp_path)

    return run


def row_of(row, group, topic):
    (found,) = [
        partition
        for one in row["groups"]
        if one["group"] == group
        for partition in one["partitions"]
        if partition["topic"] == topic
    ]
    return found


def test_what_diverged_is_in_a_file_before_anything_is_written(scene, ran, tmp_path):
    seen = []
    alter = scene.source.groups.alter
    scene.source.groups.alter = lambda *of: (
        seen.append([path.name for path in tmp_path.glob("*.jsonl")]) or alter(*of)
    )
    ended = ran()
    name = f"mmtool-diverged-{ended.operation.plan.operation_id}.jsonl"
    assert seen[0] == [name]
    assert [found.record.offset for found in exported_records(tmp_path / name)] == [10, 11, 12, 13, 14]


def test_where_the_mirror_was_killed_before_its_last_books_fewer_may_have_diverged(scene):
    """Two records of the flow are on the target that are in no book: what they are, the mirror's next owner tells."""
    ((place, known),) = scene.state.stored.items()
    scene.state.stored[place] = replace(known, tail=replace(known.tail, writer=WriterState(77, 0, 10)))
    scene.target.logs[AWAY] = Bounds(0, 12)
    scene.away.registered[77] = scene.source.cluster_id
    scene.away.logs[AWAY] = data(0, 12, pid=77)
    rehearsal = rehearse(scene.both, BOTH)
    assert any("up to 5 records of east never reached west" in warning for warning in rehearsal.warnings)


def test_what_was_born_away_is_brought_home_to_its_end(scene, ran):
    ran()
    assert scene.drained == [{TopicPartition("orders", 0): 6}]


def test_while_it_runs_nothing_is_mirrored_away(scene, ran):
    seen = []
    alter = scene.source.groups.alter
    scene.source.groups.alter = lambda *of: seen.append(set(scene.marks.failed_over)) or alter(*of)
    ran()
    assert seen == [{"orders"}, {"orders"}]


def test_a_group_that_was_further_at_home_than_the_drain_can_lead_it_is_known_before(scene):
    scene.marks.write([])
    scene.state.view.holds = type(scene.state.view.holds)()
    scene.commits("app", "orders", 15)
    assert row_of(rehearsed_row(rehearse(scene.both, BOTH)), "app", "orders")["upstream_offset"] == 15


def test_who_never_left_is_told_of_before_it_skips_what_it_was_sent_back_to(scene):
    """Its offsets away are copies of older ones at home."""
    never_left = (
        "no recorded failover moved group app to west, and a failback would make it skip 7 records on east"
        " (orders-0)"
    )
    assert not any(never_left in warning for warning in rehearse(scene.both, BOTH).warnings)
    scene.state.marked(MovedGroupRecord("app", False, "op-away", "ann@host-1", 1))
    warnings = rehearse(scene.both, BOTH).warnings
    assert [never_left in warning for warning in warnings if "moved group" in warning] == [True]


def test_a_topic_that_neither_direction_mirrors_is_listed_and_left(tmp_path):
    scene = ThereAndBack(tmp_path, "west->east.topics = orders\n")
    scene.target.add_topic("logs", "id-logs", 3)
    scene.commits("app", "logs", 3, cluster=scene.target)
    row = rehearsed_row(rehearse(scene.both, BOTH))
    (left,) = [p for g in row["groups"] for p in g["partitions"] if p["target_topic"] == "logs"]
    assert (left["reason"], left["written"]) == ("not_mirrored", False)


@pytest.mark.parametrize(
    ("came", "message"), [(0, ""), (2, "an earlier export is not overwritten")], ids=["fewer", "as many"]
)
def test_an_export_serves_again_where_no_record_has_come_since_whatever_retention_took(
    scene, tmp_path, came, message
):
    """As many others would be in no file, and passed over."""
    rehearsal = rehearse(scene.both, ALONE)
    scene.source.groups.rights_missing = ["READ on group app"]
    execute(rehearsal, scene.context(rehearsal, home=True), folder=tmp_path)
    scene.source.groups.rights_missing = []
    scene.home.logs[ORDERS] = data(12, 3 + came)
    scene.source.logs[ORDERS] = Bounds(12, 15 + came)
    (before,) = recorded(scene.journal.entries())
    again = rehearse(scene.both, ALONE, operation_id=before.operation_id)
    context = scene.context(again, since=before, home=True)
    ended = execute(again, context, folder=tmp_path)
    error = ended.operation.error
    assert message in ("" if error is None else error.message)
    assert scene.source.groups.committed["app"][ORDERS] == Commit(8 if came else 15)


def test_a_way_home_over_a_flow_that_nobody_ever_left_by_is_the_wrong_way_round(scene):
    scene.state.stored.clear()
    scene.state.view = type(scene.state.view)()
    with pytest.raises(RefusedError, match="flow east->west never ran and moved no group") as refused:
        rehearse(scene.both, BOTH)
    assert "-s west -t east" in refused.value.remedy


@pytest.mark.parametrize("where", ["home", "away"])
def test_a_partition_without_a_leader_of_a_topic_that_no_group_reads_keeps_no_group_from_going_home(
    scene, where
):
    scene.has("orders-other", 5)
    scene.mirrored("orders-other", 0, [(0, 0, 5)], 5, source_end=5)
    at = {
        "home": (scene.source, TopicPartition("orders-other", 0)),
        "away": (scene.target, TopicPartition("east.orders-other", 0)),
    }
    cluster, place = at[where]
    cluster.unanswered[place] = UnreachableError(f"{place} has no leader")
    assert rehearse(scene.both, BOTH).refusal is None


def test_topics_of_the_way_back_that_no_group_reads_need_no_leader(scene):
    scene.target.add_topic("orders-new", "id-new", 5)
    scene.target.unanswered[TopicPartition("orders-new", 0)] = UnreachableError("orders-new has no leader")
    assert rehearse(scene.both, BOTH).refusal is None
