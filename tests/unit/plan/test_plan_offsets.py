"""Verdicts on committed offsets: pure, so every case is a table of facts."""

from dataclasses import replace

import pytest

from kit.maps import about_of, map_of
from mmtool.plan.groups.facts import Commit, GroupFacts, GroupStanding, Member
from mmtool.plan.groups.offsets import (
    Direction,
    GroupPlan,
    OffsetVerdict,
    PartitionFacts,
    Rules,
    plan_group,
    unknown_groups,
)
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import Bounded, Exact, Reason, Skipping, SourceLog, TargetLog
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition

FLOW = FlowIdentity("src", "tgt", "a", "b")
ORDERS = [TopicPartition("orders", n) for n in range(3)]
REMOTE = [TopicPartition("a.orders", n) for n in range(3)]
RUNS = [(0, 0, 10), (11, 10, 10)]  # 10 is a control record; 20 mirrored records, frontier 21


def partition(
    number=0, *, runs=RUNS, frontier=21, mirrored=True, start=(0, 0), source=(0, 21), target=(0, 20)
):
    """Partition ``number`` of orders; a None log is one that is not there."""
    about = about_of(FLOW, TopicId("id"), ORDERS[number], "a.orders", TopicId("id-there"))
    known = map_of(about, runs, frontier, start=start) if mirrored else None
    return PartitionFacts(
        ORDERS[number],
        REMOTE[number],
        known,
        SourceLog(*source) if source else UNKNOWN,
        TargetLog(*target) if target else UNKNOWN,
    )


def planned(commits, *facts, rules=None, **others):
    """The plan of a group with these commits over these partitions."""
    rules = rules or Rules()
    group = GroupFacts("app", {at: Commit(offset, "m") for at, offset in commits.items()}, **others)
    return plan_group(group, {fact.place(rules.direction): fact for fact in facts}, rules)


def only(plan):
    (verdict,) = plan.verdicts
    return verdict


def test_a_commit_on_a_record_leads_to_that_record():
    verdict = only(planned({ORDERS[0]: 12}, partition()))
    assert (verdict.answer, verdict.refusal, verdict.blocks) == (Exact(11), None, False)


def test_what_is_written_carries_the_metadata_of_the_source():
    plan = planned({ORDERS[0]: 12}, partition())
    assert plan.to_write() == {REMOTE[0]: Commit(11, "m")}


def test_a_commit_past_the_mirror_blocks_its_whole_group():
    plan = planned({ORDERS[0]: 12, ORDERS[1]: 30}, partition(), partition(1, source=(0, 40)))
    assert [verdict.refusal for verdict in plan.verdicts] == [None, Reason.BEYOND_MIRROR]
    assert (plan.blocked, plan.to_write()) == (True, {})


def test_a_commit_on_a_partition_that_the_source_has_not_is_beyond_its_end():
    verdict = next(v for v in planned({ORDERS[2]: 5}, partition()).verdicts if v.source == ORDERS[2])
    assert (verdict.refusal, verdict.blocks) == (Reason.BEYOND_SOURCE_END, True)


def test_commits_outside_the_flow_are_listed_and_block_nothing():
    elsewhere = TopicPartition("logs", 4)
    plan = planned({ORDERS[0]: 12, elsewhere: 7}, partition())
    outside = next(verdict for verdict in plan.verdicts if verdict.source == elsewhere)
    assert (outside.refusal, outside.blocks, plan.blocked) == (Reason.NOT_MIRRORED, False, False)
    assert plan.to_write() == {REMOTE[0]: Commit(11, "m")}


def test_partitions_without_a_commit_are_listed_where_their_topic_is_consumed():
    plan = planned({ORDERS[0]: 12}, partition(), partition(1))
    assert [verdict.refusal for verdict in plan.verdicts] == [None, Reason.NO_COMMIT]
    assert plan.to_write().keys() == {REMOTE[0]}


def test_a_group_without_any_commit_has_one_line_and_blocks_nothing():
    verdict = only(planned({}, partition()))
    assert (verdict.source, verdict.refusal, verdict.blocks) == (None, Reason.NO_COMMIT, False)


ACTIVE = GroupStanding("Stable", (Member("app-1", "/10.0.0.7"),))
JUDGED = {
    "past the source's end: it was made anew": ((22, partition(), {}), None, Reason.BEYOND_SOURCE_END),
    "never mirrored": ((5, partition(mirrored=False), {}), None, Reason.NEVER_RAN),
    "the target has no such partition": ((5, partition(target=None), {}), None, Reason.PARTITION_MISSING),
    "members on the target": ((12, partition(), {"there": ACTIVE}), Exact(11), Reason.ACTIVE_ON_TARGET),
    "a state that we do not know counts as active": (
        (12, partition(), {"there": GroupStanding("Unknown")}),
        Exact(11),
        Reason.ACTIVE_ON_TARGET,
    ),
    "nobody is moved back unasked": (
        (12, partition(), {"before": {REMOTE[0]: Commit(12)}}),
        Exact(11),
        Reason.WOULD_REWIND,
    ),
    "the same offset again is no rewind": (
        (12, partition(), {"before": {REMOTE[0]: Commit(11)}}),
        Exact(11),
        None,
    ),
    "deleted on the target": ((3, partition(target=(5, 20)), {}), None, Reason.TARGET_LOG_START_PASSED),
    "deleted on the target, and allowed to skip": (
        (3, partition(target=(5, 20)), {"rules": Rules(allow_skip=True)}),
        Skipping(5, 2),
        None,
    ),
}


@pytest.mark.parametrize(("case", "answer", "refusal"), JUDGED.values(), ids=JUDGED)
def test_a_commit_has_its_answer_and_its_refusal(case, answer, refusal):
    commit, facts, others = case
    verdict = only(planned({ORDERS[0]: commit}, facts, **others))
    assert (verdict.answer, verdict.refusal, verdict.blocks) == (answer, refusal, refusal is not None)
    assert verdict.before == others.get("before", {}).get(REMOTE[0])


def test_a_rewind_that_is_allowed_is_written():
    plan = planned(
        {ORDERS[0]: 12}, partition(), before={REMOTE[0]: Commit(12)}, rules=Rules(allow_rewind=True)
    )
    assert (plan.to_write(), plan.before()) == ({REMOTE[0]: Commit(11, "m")}, {REMOTE[0]: Commit(12)})


def test_back_from_the_target_a_commit_leads_to_the_record_it_came_from():
    plan = planned({REMOTE[0]: 11}, partition(), rules=Rules(Direction.REVERSE))
    assert (only(plan).answer, plan.to_write()) == (Exact(12), {ORDERS[0]: Commit(12, "m")})


def test_back_from_past_the_mirror_is_bounded_by_what_the_target_holds():
    plan = planned({REMOTE[0]: 23}, partition(target=(0, 23)), rules=Rules(Direction.REVERSE))
    assert only(plan).answer == Bounded(21, 3)


def test_back_from_a_topic_that_was_born_on_the_target_is_outside_the_flow():
    plan = planned({TopicPartition("local", 0): 9}, partition(), rules=Rules(Direction.REVERSE))
    verdict = only(plan)
    assert (verdict.source, verdict.target) == (None, TopicPartition("local", 0))
    assert (verdict.refusal, verdict.blocks) == (Reason.NOT_MIRRORED, False)


@pytest.mark.parametrize(
    ("direction", "places", "said"),
    [
        (Direction.FORWARD, (ORDERS[0], REMOTE[0]), "the records after the group's commit on the source"),
        (Direction.FORWARD, (ORDERS[0], None), "the flow from the source to the target does not mirror"),
        (Direction.REVERSE, (ORDERS[0], REMOTE[0]), "records after the group's commit on the target are"),
        (Direction.REVERSE, (None, REMOTE[0]), "this topic on the target is not a mirror of a topic on the"),
    ],
)
def test_a_topic_is_outside_the_flow_only_where_it_has_no_counterpart(direction, places, said):
    verdict = OffsetVerdict("app", *places, Commit(2), refusal=Reason.NOT_MIRRORED)
    why = GroupPlan("app", direction, (verdict,)).why(verdict)
    assert (why.startswith(said), "; or the records" in why) == (True, False)


def test_an_unknown_group_is_one_refusal_that_blocks():
    (plan,) = unknown_groups({"typo": "typed"}, Direction.FORWARD)
    assert (only(plan).refusal, plan.blocked) == (Reason.UNKNOWN_GROUP, True)
    assert plan.why(only(plan)).endswith("; did you mean typed?")


def test_where_a_third_cluster_s_records_are_among_those_read_nothing_is_claimed_either_way():
    known = replace(partition(), back=partition().map, has_others=True)
    for rules in (Rules(), Rules(Direction.REVERSE)):
        place = known.place(rules.direction)
        assert only(planned({place: 5}, known, rules=rules)).refusal is Reason.AMBIGUOUS
