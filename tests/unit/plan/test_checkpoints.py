"""Checkpoints, and what of them is committed: MM2's rules, as tables of facts and as laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import about_of, map_of
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts, GroupStanding, Member
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.groups.sync import checkpoint_of, is_news, is_settled, plan_group_sync
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import Reason, Refused, SourceLog, TargetLog
from mmtool.translation.mm2_records import Checkpoint
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

HERE, THERE = TopicPartition("orders", 0), TopicPartition("a.orders", 0)
ABOUT = about_of(FlowIdentity("src", "tgt", "a", "b"), TopicId("id"), HERE, "a.orders", TopicId("there"))
KNOWN = map_of(ABOUT, [(0, 0, 10), (11, 10, 10)], 21)  # 10 is a marker on the source
FACTS = PartitionFacts(HERE, THERE, KNOWN, SourceLog(0, 40), TargetLog(0, 25))
EMPTY = GroupStanding("Empty")
BUSY = GroupStanding("Stable", (Member("app", "10.0.0.7"),))


def checkpoint(upstream, downstream):
    return Checkpoint("app", THERE, UpstreamOffset(upstream), DownstreamOffset(downstream), "")


@pytest.mark.parametrize(
    ("commit", "downstream", "settled"),
    [(0, 0, True), (10, 10, True), (11, 10, True), (21, 20, True), (22, 20, False), (40, 20, False)],
)
def test_a_commit_leads_to_its_record_or_to_the_mirror_s_end(commit, downstream, settled):
    """A group that has read more than was mirrored is looked at again: its place moves on with the mirror."""
    found = checkpoint_of("app", Commit(commit, "m"), FACTS)
    assert found == replace(checkpoint(commit, downstream), metadata="m")
    assert is_settled(found, FACTS) is settled


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (replace(FACTS, map=None), Reason.NEVER_RAN),
        (replace(FACTS, target_log=UNKNOWN), Reason.PARTITION_MISSING),
        (replace(FACTS, target_log=TargetLog(15, 25)), Reason.TARGET_LOG_START_PASSED),
        (replace(FACTS, source_log=SourceLog(0, 4)), Reason.BEYOND_SOURCE_END),
    ],
)
def test_what_cannot_be_told_is_no_checkpoint(facts, reason):
    assert checkpoint_of("app", Commit(5), facts) == Refused(reason)


@pytest.mark.parametrize(
    ("last", "now", "news"),
    [
        (None, checkpoint(5, 5), True),
        (checkpoint(5, 5), checkpoint(5, 5), False),
        (checkpoint(5, 5), checkpoint(6, 6), True),
        (checkpoint(9, 5), checkpoint(5, 5), True),
        (checkpoint(22, 20), checkpoint(22, 21), True),
        (checkpoint(5, 5), checkpoint(6, 5), False),
    ],
)
def test_a_checkpoint_is_written_when_it_leads_further_or_the_group_went_back(last, now, news):
    assert is_news(now, last) is news


offsets = st.dictionaries(
    st.integers(0, 3).map(lambda n: TopicPartition("a.orders", n)), st.integers(0, 50).map(Commit), max_size=4
)


@given(offsets, offsets, st.sampled_from([ABSENT, EMPTY, BUSY]), st.booleans())
def test_commits_on_the_target_never_move_back_and_never_under_a_member(before, wanted, standing, renew):
    group = GroupFacts("app", {}, before, there=standing)
    planned = plan_group_sync(group, wanted, renew=renew)
    assert planned.items() <= wanted.items()
    assert all(before[place].offset <= commit.offset for place, commit in planned.items() if place in before)
    assert not (planned and standing is BUSY)


@given(offsets, offsets)
def test_every_partition_that_is_behind_or_has_no_commit_is_committed(before, wanted):
    group = GroupFacts("app", {}, before, there=EMPTY)
    planned = plan_group_sync(group, wanted, renew=False)
    behind = {p for p, c in wanted.items() if p not in before or before[p].offset < c.offset}
    assert planned.keys() == behind


def test_what_stands_there_already_is_committed_again_before_kafka_forgets_it():
    group = GroupFacts("app", {}, {THERE: Commit(7, "m")}, there=EMPTY)
    assert plan_group_sync(group, {THERE: Commit(7, "m")}, renew=True) == {THERE: Commit(7, "m")}
    assert plan_group_sync(group, {THERE: Commit(7, "m")}, renew=False) == {}


def test_what_stands_there_with_other_metadata_is_committed_again_as_well():
    """MirrorMaker 2 put it there, or the group has committed the same offset anew since."""
    group = GroupFacts("app", {}, {THERE: Commit(7, "older")}, there=EMPTY)
    assert plan_group_sync(group, {THERE: Commit(7, "m")}, renew=True) == {THERE: Commit(7, "m")}
