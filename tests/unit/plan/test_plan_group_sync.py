"""Where a group that is kept ready on the target is led: pure, so every case is a table of facts."""

from dataclasses import replace

from kit.maps import about_of, map_of
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.groups.sync import lead
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import Reason, SourceLog, TargetLog
from mmtool.translation.types import TopicId, TopicPartition

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 0)


def mirrored(count, *, source_end):
    """So many records of the source are on the target, one by one."""
    about = about_of(FlowIdentity("src", "tgt", "a", "b"), TopicId("id"), HERE, "orders", TopicId("there"))
    known = map_of(about, [(0, 0, count)], count)
    return PartitionFacts(HERE, THERE, known, SourceLog(0, source_end), TargetLog(0, count))


def led(commit, facts):
    return lead(GroupFacts("app", {HERE: Commit(commit)}), {HERE: facts})


def test_who_has_read_more_than_was_mirrored_stands_at_the_mirror_s_end():
    found = led(30, mirrored(20, source_end=40))
    assert (found.wanted, found.refused) == ({THERE: Commit(20)}, {})


def test_where_records_are_born_on_both_sides_the_mirror_s_end_may_be_behind_what_was_not_read():
    """Of those that were born on the target it has not seen all: it would never read them."""
    facts = mirrored(20, source_end=40)
    found = led(30, replace(facts, back=facts.map))
    assert (found.wanted, found.refused) == ({}, {THERE: Reason.BEYOND_MIRROR})
