"""The way home on clusters in memory: what diverged is exported, nobody skips what was mirrored or born away."""

from dataclasses import replace

import pytest

from kit.batches import data
from kit.there_and_back import AT_HOME, AWAY, ORDERS, ThereAndBack
from mmtool.errors import GateError, NotAuthorisedError, RefusedError, UnreachableError, UsageError
from mmtool.failover.diverged_tail.tail_file import exported_records, read_export
from mmtool.failover.modes.failback import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.report import ended_row, next_steps, recorded_row, rehearsed_row, summary
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.steps import ORDER, Mode
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.translation.blocks import WriterState
from mmtool.translation.types import TopicPartition

BOTH, ALONE = GroupSelection(("app", "late")), GroupSelection(("app",))


@pytest.fixture
def scene(tmp_path):
    return ThereAndBack(tmp_path)


@pytest.fixture
def ran(scene, tmp_path):
    def run(selection=BOTH):
        rehearsal = rehearse(scene.both, selection)
        context, journalist = scene.context(rehearsal, home=True)
        return execute(rehearsal, scene, context, journalist, folder=tmp_path)

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


def test_groups_go_home_behind_the_tail_or_to_the_record_that_they_had_not_read(scene, ran):
    row = ended_row(ran())
    assert scene.source.groups.committed == AT_HOME
    assert (row["mode"], row["state"]) == ("failback", "completed")
    assert [step["name"] for step in row["steps"]] == list(ORDER[Mode.FAILBACK])
    assert (row["rpo_records"], row["reread_records"], row["diverged_records"]) == (0, 0, 5)


def test_a_row_says_which_offset_is_on_which_side(ran):
    row = row_of(ended_row(ran()), "app", "orders")
    assert (row["upstream_offset"], row["target_topic"], row["downstream_offset"]) == (15, "east.orders", 10)
    assert (row["target_offset_before"], row["written"]) == (8, True)


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


def test_the_rehearsal_says_what_diverged_and_what_is_known_after_the_drain(scene):
    rehearsal = rehearse(scene.both, BOTH)
    row = rehearsed_row(rehearsal)
    assert row_of(row, "app", "orders")["upstream_offset"] == 15
    assert row_of(row, "app", "west.orders")["reason"] == "known after drain"
    assert any("5 records of east never reached west (orders-0)" in warning for warning in rehearsal.warnings)
    ahead = "groups that had not read everything on west will read 5 diverged records on east"
    assert any(ahead in warning for warning in rehearsal.warnings)


def test_where_the_mirror_was_killed_before_its_last_books_fewer_may_have_diverged(scene):
    """Two records of the flow are on the target that are in no book: what they are, the mirror's next owner tells."""
    ((place, known),) = scene.state.stored.items()
    scene.state.stored[place] = replace(known, tail=replace(known.tail, writer=WriterState(77, 0, 10)))
    scene.target.logs[AWAY] = Bounds(0, 12)
    scene.away.registered[77] = scene.source.cluster_id
    scene.away.logs[AWAY] = data(0, 12, pid=77)
    rehearsal = rehearse(scene.both, BOTH)
    assert any("up to 5 records of east never reached west" in warning for warning in rehearsal.warnings)


def test_a_rehearsal_changes_nothing(scene, tmp_path):
    rehearse(scene.both, BOTH)
    assert (scene.source.groups.committed, scene.drained) == ({"app": {ORDERS: Commit(8)}}, [])
    assert (scene.journal.stored, list(tmp_path.glob("*.jsonl"))) == ({}, [])


def test_what_was_born_away_is_brought_home_to_its_end(scene, ran):
    ran()
    assert scene.drained == [{TopicPartition("orders", 0): 6}]


def test_afterwards_the_topics_are_mirrored_again_and_the_groups_are_nobodys_on_the_target(scene, ran):
    ran()
    assert (scene.marks.failed_over, scene.marks.moved) == (set(), set())


def test_a_topic_that_groups_which_stay_away_read_as_well_stays_failed_over(scene, ran):
    ended = ran(GroupSelection(("app",)))
    assert (scene.marks.failed_over, scene.marks.moved) == ({"orders"}, {"late"})
    assert any("orders stays failed over: late reads it on west" in w for w in ended.rehearsal.warnings)


def test_while_it_runs_nothing_is_mirrored_away(scene, ran):
    seen = []
    alter = scene.source.groups.alter
    scene.source.groups.alter = lambda *of: seen.append(set(scene.marks.failed_over)) or alter(*of)
    ran()
    assert seen == [{"orders"}, {"orders"}]


def test_a_topic_that_had_not_failed_over_is_mirrored_to_its_end_first_and_nothing_diverges(scene, ran):
    scene.marks.write([])
    scene.state.view.holds = type(scene.state.view.holds)()
    row = ended_row(ran())
    assert scene.drained[0] == {ORDERS: 15}
    assert row["diverged_records"] == 0


def test_the_rehearsal_shows_no_offset_that_the_drain_will_change(scene, ran):
    """``app`` has read all that is mirrored; the five records after that are mirrored before it goes home."""
    scene.marks.write([])
    scene.state.view.holds = type(scene.state.view.holds)()
    rehearsal = rehearse(scene.both, BOTH)
    row, late = (row_of(rehearsed_row(rehearsal), group, "orders") for group in ("app", "late"))
    assert (row["upstream_offset"], row["exactness"], row["reason"]) == (None, None, "known after drain")
    assert (late["upstream_offset"], late["exactness"], rehearsal.refusal) == (7, "exact", None)
    assert row_of(ended_row(ran()), "app", "orders")["upstream_offset"] == 10


def test_a_group_that_was_further_at_home_than_the_drain_can_lead_it_is_known_before(scene):
    scene.marks.write([])
    scene.state.view.holds = type(scene.state.view.holds)()
    scene.commits("app", "orders", 15)
    assert row_of(rehearsed_row(rehearse(scene.both, BOTH)), "app", "orders")["upstream_offset"] == 15


def test_the_rehearsal_does_not_call_diverged_what_is_mirrored_first(scene):
    scene.marks.write([])
    scene.state.view.holds = type(scene.state.view.holds)()
    warnings = rehearse(scene.both, BOTH).warnings
    assert "5 records of east are not on west yet (orders-0): the failback mirrors them first" in warnings
    assert not any("never reached" in warning or "of them" in warning for warning in warnings)


def test_who_had_read_further_at_home_is_not_moved_back(scene, ran):
    scene.commits("late", "orders", 9)
    ran()
    assert scene.source.groups.committed["late"] == {ORDERS: Commit(9)}


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


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_group_with_members_on_either_side_is_refused(scene, side):
    getattr(scene, side).groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    assert rehearse(scene.both, BOTH).refusal.exit_code == 3


def test_a_way_back_that_does_not_catch_up_leaves_everything_as_it_was(scene, ran):
    def drain(*_):
        raise GateError("not within 8 s")

    scene.drain = drain
    ended = ran()
    assert (ended.operation.error.exit_code, scene.source.groups.committed) == (
        4,
        {"app": {ORDERS: Commit(8)}},
    )
    assert (scene.marks.failed_over, scene.marks.moved) == ({"orders"}, {"app", "late"})


def test_a_folder_that_cannot_be_written_stops_it_before_anything_is_written(scene, tmp_path):
    rehearsal = rehearse(scene.both, BOTH)
    context, journalist = scene.context(rehearsal, home=True)
    ended = execute(rehearsal, scene, context, journalist, folder=tmp_path / "missing")
    assert isinstance(ended.operation.error, UsageError)
    assert scene.source.groups.committed == {"app": {ORDERS: Commit(8)}}


def test_where_nothing_diverged_there_is_no_file(scene, ran, tmp_path):
    scene.home.logs.clear()
    scene.source.add_topic("orders", "id-orders", 10)
    row = ended_row(ran())
    assert (row["diverged_records"], list(tmp_path.glob("*.jsonl"))) == (0, [])
    assert scene.source.groups.committed["app"][ORDERS] == Commit(10)


def test_a_topic_that_neither_direction_mirrors_is_listed_and_left(tmp_path):
    scene = ThereAndBack(tmp_path, "west->east.topics = orders\n")
    scene.target.add_topic("logs", "id-logs", 3)
    scene.commits("app", "logs", 3, cluster=scene.target)
    row = rehearsed_row(rehearse(scene.both, BOTH))
    (left,) = [p for g in row["groups"] for p in g["partitions"] if p["target_topic"] == "logs"]
    assert (left["reason"], left["written"]) == ("not_mirrored", False)


def test_the_end_is_told_in_one_line_and_consumers_are_sent_home(ran):
    ended = ran()
    assert "0 read again" in summary(ended)
    first = next_steps(ended)[1].sentence
    assert "bootstrap.servers=east-1:9092" in first
    assert "orders instead of east.orders" in first
    (diverged, _) = ended.warnings
    assert f"mmtool-diverged-{ended.rehearsal.plan.operation_id}.jsonl" in diverged


def test_records_that_a_group_skips_are_in_the_headline_and_a_step_leads_back_to_them(ran, tmp_path):
    ended = ran()
    file = tmp_path / f"mmtool-diverged-{ended.operation.plan.operation_id}.jsonl"
    assert file.exists()
    said = f"5 records that never reached west are skipped: they are in {file}; 0 other records lost"
    assert said in summary(ended)
    step = next_steps(ended)[0]
    assert step.sentence.startswith(f"app will skip 5 records on east, which are in {file}: before")
    written, reset = step.commands
    assert "orders,0,10 > mmtool-diverged-" in written
    assert "--group app --reset-offsets --from-file mmtool-diverged-" in reset


def test_without_a_group_that_skips_any_nothing_has_to_be_fed_back(scene, ran):
    scene.commits("app", "east.orders", 9, cluster=scene.target)
    ended = ran()
    assert "0 records lost" in summary(ended)
    assert next_steps(ended)[0].sentence.startswith("start the consumers")


def test_what_a_group_had_read_of_the_tail_before_it_is_not_offered_again(scene, ran):
    scene.commits("app", "orders", 12)
    assert "orders,0,12 > " in next_steps(ran())[0].commands[0]


def test_the_journal_tells_the_same_as_the_command(scene, ran):
    row = ended_row(ran())
    (found,) = recorded(scene.journal.entries())
    told = recorded_row(found)
    assert {key: told[key] for key in row} == row


def test_an_export_that_is_there_and_whole_is_kept_when_it_is_taken_up_again(scene, tmp_path):
    rehearsal = rehearse(scene.both, BOTH)
    context, journalist = scene.context(rehearsal, home=True)
    scene.target.groups.members["app"] = ()
    execute(rehearsal, scene, context, journalist, folder=tmp_path)
    (path,) = tmp_path.glob("*.jsonl")
    stamp = path.stat().st_mtime_ns
    again = rehearse(scene.both, BOTH, operation_id=rehearsal.plan.operation_id)
    (before,) = recorded(scene.journal.entries())
    context, journalist = scene.context(again, since=before, home=True)
    execute(again, scene, context, journalist, folder=tmp_path)
    assert (path.stat().st_mtime_ns, read_export(path).records) == (stamp, 5)


@pytest.mark.parametrize(
    ("came", "message"), [(0, ""), (2, "an earlier export is not overwritten")], ids=["fewer", "as many"]
)
def test_an_export_serves_again_where_no_record_has_come_since_whatever_retention_took(
    scene, tmp_path, came, message
):
    """As many others would be in no file, and passed over."""
    rehearsal = rehearse(scene.both, ALONE)
    scene.source.groups.rights_missing = ["READ on group app"]
    execute(rehearsal, scene, *scene.context(rehearsal, home=True), folder=tmp_path)
    scene.source.groups.rights_missing = []
    scene.home.logs[ORDERS] = data(12, 3 + came)
    scene.source.logs[ORDERS] = Bounds(12, 15 + came)
    (before,) = recorded(scene.journal.entries())
    again = rehearse(scene.both, ALONE, operation_id=before.operation_id)
    context, journalist = scene.context(again, since=before, home=True)
    ended = execute(again, scene, context, journalist, folder=tmp_path, since=before.operation.standing)
    error = ended.operation.error
    assert message in ("" if error is None else error.message)
    assert scene.source.groups.committed["app"][ORDERS] == Commit(8 if came else 15)


def test_the_name_of_the_mirrored_partition_is_not_mistaken_for_one_that_was_born_away(scene, ran):
    ran()
    assert AWAY not in scene.source.groups.committed["app"]


def test_a_way_home_over_a_flow_that_nobody_ever_left_by_is_the_wrong_way_round(scene):
    scene.state.stored.clear()
    scene.state.view = type(scene.state.view)()
    with pytest.raises(RefusedError, match="flow east->west never ran and moved no group") as refused:
        rehearse(scene.both, BOTH)
    assert "-s west -t east" in refused.value.remedy


def test_a_group_that_cannot_be_asked_is_refused_and_not_taken_for_one_without_commits(tmp_path):
    scene = ThereAndBack(tmp_path)
    scene.target.groups.hidden["late"] = NotAuthorisedError("denied DESCRIBE on group late")
    rehearsal = rehearse(scene.both, GroupSelection(("app", "late")))
    assert rehearsal.refusal.code == "unknown_group"
    assert "denied DESCRIBE on group late" in rehearsal.refusal.message


def test_a_group_that_stays_away_and_cannot_be_asked_keeps_no_other_from_going_home(tmp_path):
    scene = ThereAndBack(tmp_path)
    scene.target.groups.hidden["late"] = NotAuthorisedError("denied DESCRIBE on group late")
    rehearsal = rehearse(scene.both, GroupSelection(("app",)))
    assert rehearsal.refusal is None
    assert rehearsal.plan.released == ()
    (said,) = [told for told in rehearsal.warnings if "orders stays failed over" in told]
    assert (
        "does not know whether late reads it on west: denied DESCRIBE on group late; to fail orders back"
        in said
    )


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


@pytest.mark.parametrize("where", ["home", "away"])
def test_a_partition_without_a_leader_that_a_group_reads_ends_a_failback(scene, where):
    cluster, place = (scene.source, ORDERS) if where == "home" else (scene.target, AWAY)
    cluster.unanswered[place] = UnreachableError(f"{place} has no leader")
    with pytest.raises(UnreachableError, match="no leader"):
        rehearse(scene.both, BOTH)
