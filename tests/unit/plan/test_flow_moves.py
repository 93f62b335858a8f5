"""The letters A to D of moving what a flow has stored."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.runs import ORDERS
from mmtool.plan.flow.moves import Action, changes, plan_forget, plan_seek, refused, sentences
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.translation.answers import Reason, SourceLog, TargetLog
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset

PLACES = TopicPartition("orders", 7), TopicPartition("east.orders", 7)
NEVER = PartitionFacts(*PLACES, None, SourceLog(10, 200), UNKNOWN)


def facts(frontier=100, *, start=0, end=200, target_end=90):
    """Upstream 10 to 99 went to 0 to 89; the source's log is [start, end)."""
    known = map_of(ORDERS, [(10, 0, 90)], frontier, start=(10, 0))
    return PartitionFacts(*PLACES, known, SourceLog(start, end), TargetLog(0, target_end))


@st.composite
def partitions(draw):
    start = draw(st.integers(0, 150))
    end = draw(st.integers(max(start, 100), 300))
    made = facts(draw(st.integers(100, end)), start=start, end=end, target_end=draw(st.integers(80, 120)))
    return made if draw(st.booleans()) else replace(made, map=None)


def seek(made, to):
    return plan_seek(made, UpstreamOffset(to))


def executed(made, move):
    """The same partition once the move is made."""
    if move.action is Action.SKIP:
        return replace(made, map=map_of(ORDERS, [(10, 0, 90)], move.after, start=(10, 0)))
    target = made.target_log
    began = map_of(ORDERS, [], move.after, start=(move.after, target.log_end))
    return replace(made, map=began)


@given(partitions(), st.integers(0, 400))
def test_a_position_lies_within_the_sources_log_or_is_refused(made, to):
    move = seek(made, to)
    if to > made.source_log.log_end:
        assert (move.action, move.reason) == (Action.REFUSE, Reason.BEYOND_SOURCE_END)
    else:
        assert move.after == max(to, made.source_log.log_start)


@given(partitions(), st.integers(0, 300))
def test_a_move_that_was_made_is_not_made_again(made, to):
    move = seek(made, to)
    if move.action is Action.REFUSE:
        return
    assert seek(executed(made, move), to).action is Action.KEEP or move.action is Action.KEEP


@given(partitions(), st.integers(0, 300))
def test_what_was_mirrored_is_never_skipped_and_what_never_was_is_never_repeated(made, to):
    move = seek(made, to)
    if move.action is Action.REFUSE:
        return
    position, log = move.after, made.source_log
    mirrored = set() if made.map is None else set(range(10, 100))
    frontier = log.log_start if made.map is None else made.map.upstream_frontier
    assert move.skipped == len(set(range(max(frontier, log.log_start), position)) - mirrored)
    if move.action is Action.REPEAT:
        assert move.repeated == len([at for at in mirrored if at >= position])
    else:
        assert move.repeated == 0


def test_forward_back_and_where_it_stands_are_told_apart():
    moves = [seek(facts(), to) for to in (150, 50, 100)]
    assert [(m.action, m.skipped, m.repeated, m.downstream) for m in moves] == [
        (Action.SKIP, 50, 0, 90),
        (Action.REPEAT, 0, 50, 90),
        (Action.KEEP, 0, 0, 90),
    ]


def test_a_mirror_that_keeps_offsets_moves_forward_alone():
    made = facts()
    kept = replace(made, map=replace(made.map, tail=replace(made.map.tail, same_offsets=True)))
    moves = [seek(kept, to) for to in (150, 50)]
    assert [(m.action, m.reason) for m in moves] == [
        (Action.SKIP, ""),
        (Action.REFUSE, Reason.WOULD_REWIND),
    ]


def test_a_target_that_lost_its_tail_begins_anew_wherever_the_mirror_goes_on():
    move = seek(facts(target_end=80), 150)
    assert (move.action, move.skipped, move.downstream) == (Action.REPEAT, 50, 80)


def test_a_partition_that_was_never_mirrored_begins_there():
    move = seek(NEVER, 40)
    assert (move.action, move.before, move.after, move.downstream) == (Action.BEGIN, None, 40, None)
    assert move.skipped == 30


def test_a_partition_that_one_side_lacks_is_refused():
    gone = replace(facts(), target_log=UNKNOWN)
    moves = [seek(gone, 40), plan_seek(facts(), UNKNOWN), seek(replace(facts(), source_log=UNKNOWN), 40)]
    assert refused(moves) == {Reason.PARTITION_MISSING: moves}
    assert not changes(moves)


def test_forgetting_says_what_will_be_mirrored_again_from_where_the_next_start_begins():
    moves = [plan_forget(facts(), UpstreamOffset(at), shown=True) for at in (0, 60, 150)]
    assert [(m.repeated, m.skipped, m.before, m.after) for m in moves] == [
        (90, 0, 100, None),
        (40, 0, 100, None),
        (0, 50, 100, None),
    ]


def test_of_a_topic_that_is_gone_everything_is_forgotten():
    gone = PartitionFacts(*PLACES, facts().map, UNKNOWN, UNKNOWN)
    assert plan_forget(gone, UNKNOWN, shown=False).action is Action.FORGET
    left = [plan_forget(replace(gone, map=None), UNKNOWN, shown=shown).action for shown in (True, False)]
    assert left == [Action.FORGET, Action.KEEP]


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([seek(NEVER, 10)], "1 partition will be started at the new position by the next `mmtool replicate`"),
        (
            [seek(NEVER, 10)] * 2,
            "2 partitions will be started at the new position by the next `mmtool replicate`",
        ),
        ([seek(facts(), 101)], "1 partition will be moved forward: at most 1 record is never mirrored"),
        ([seek(facts(), 150)] * 2, "2 partitions will be moved forward: at most 100 records are never"),
        ([seek(facts(), 50)], "1 partition will be restarted: 50 records will be on west a second time"),
        ([seek(facts(), 50)] * 2, "2 partitions will be restarted: 100 records will be on west a second"),
        ([plan_forget(facts(), UpstreamOffset(0), shown=True)], "1 partition will be forgotten: the"),
        ([plan_forget(facts(), UpstreamOffset(0), shown=True)] * 2, "2 partitions will be forgotten: the"),
    ],
)
def test_each_action_is_told_as_what_will_happen(moves, said):
    (sentence,) = sentences(moves, "west")
    assert sentence.startswith(said)


def test_an_operator_is_told_where_a_forgotten_mirror_cannot_begin_a_second_time():
    kept = replace(facts(), map=map_of(ORDERS, [(0, 0, 90)], 100, same=True))
    _, told = sentences([plan_forget(kept, UpstreamOffset(0), shown=True)], "west")
    assert "halts there with offsets_differ; delete the topic on west first" in told
    is_deleted = replace(kept, target_log=UNKNOWN)
    assert len(sentences([plan_forget(is_deleted, UpstreamOffset(0), shown=True)], "west")) == 1


def test_a_row_has_both_names_and_all_that_is_known():
    row = seek(facts(), 50).row("east", "west")
    assert (row.topic, row.partition, row.target_topic) == ("orders", 7, "east.orders")
    assert (row.upstream_before, row.upstream_after, row.downstream_after) == (100, 50, DownstreamOffset(90))
