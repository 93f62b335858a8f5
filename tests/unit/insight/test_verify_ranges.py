"""Which parts of two logs ``verify`` compares with each other."""

from dataclasses import replace
from itertools import pairwise

from kit.maps import ORDERS
from mmtool.insight.verify.ranges import ComparedPartition, Joint, plan_ranges
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.blocks import Gap, MirroredTo, MirrorStart, Tail
from mmtool.translation.partition_map import PartitionMap
from mmtool.translation.runs import Run, RunMap
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition

START = MirrorStart(100, 110)
RUNS = RunMap.from_runs([Run(100, 110, 500), Run(605, 610, 395)])
TAIL = Tail(1_000, MirroredTo(1_005), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
KNOWN = PartitionMap(
    ORDERS,
    START,
    100,
    100,
    RUNS,
    TAIL,
    (Gap(600, 605),),
)


def planned(known=KNOWN, *, source_start=0, target_start=0, size=300, earlier=False, **partition):
    place = TopicPartition("orders", 0)
    facts = PartitionFacts(
        place, place, known, SourceLog(source_start, 1_200), TargetLog(target_start, 1_010)
    )
    ids = TopicId("here"), TopicId("there")
    ranges = plan_ranges(ComparedPartition(facts, *ids, 1_000, **partition), size)
    return [part for part in ranges if part.is_earlier is earlier]


def joints(ranges):
    return [ranges[0].start, *(part.stop for part in ranges)]


def test_ranges_follow_each_other_from_the_mirror_s_start_to_its_frontier():
    ranges = planned()
    assert joints(ranges) == [(100, 110), (400, 410), (700, 705), (1_000, 1_005)]
    assert all(one.stop == two.start for one, two in pairwise(ranges))
    assert [part.tail_end for part in ranges] == [410, 705, 1_010]


def test_a_gap_is_known_to_the_range_that_it_lies_in():
    assert [part.gaps for part in planned()] == [(), ((600, 605),), ()]


def test_what_either_side_has_deleted_is_not_compared():
    assert planned(source_start=200)[0].start == Joint(200, 210)
    assert planned(target_start=310)[0].start == Joint(300, 310)


def test_a_compacted_partition_is_cut_as_others_are_and_knows_where_its_logs_end():
    ranges = planned(compacted=True)
    assert joints(ranges) == joints(planned())
    assert {part.ends for part in ranges} == {(1_200, 1_010)}


def test_a_point_behind_the_frontier_leaves_nothing_to_compare():
    assert planned(since=Joint(1_000, 1_005)) == []
    assert planned(since=Joint(700, 705))[0].start == Joint(700, 705)


def test_a_map_whose_first_blocks_are_gone_begins_where_it_is_known():
    later = replace(KNOWN, known_from=605, runs=RunMap.from_runs([Run(605, 610, 395)]))
    assert planned(later)[0].start == Joint(605, 610)


def test_what_the_target_held_before_the_mirror_began_is_looked_through_for_earlier_copies():
    found = planned(source_start=50, target_start=20, size=60, earlier=True)
    assert [(part.start, part.stop) for part in found] == [((50, 20), (100, 80)), ((50, 80), (100, 110))]
    assert {part.whole_to for part in found} == {1_000}
    assert planned(target_start=110, earlier=True) == []


def test_whoever_says_since_when_to_compare_accepts_earlier_copies():
    assert planned(since=Joint(100, 110), earlier=True) == []
    assert planned(since=100, earlier=True) == []


def test_a_stopped_partition_is_compared_up_to_the_end_of_the_source():
    ranges = planned(is_stopped=True, size=150)
    assert joints(ranges)[-3:] == [(1_000, 1_005), (1_150, 1_005), (1_200, 1_005)]
    assert [part.is_last for part in ranges[-2:]] == [False, True]
    assert ranges[-1].whole_to is None
    assert joints(planned(is_stopped=True, since=Joint(1_000, 1_005))) == [(1_000, 1_005), (1_200, 1_005)]
