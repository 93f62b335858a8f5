"""Positions that no group has committed are translated as commits are; without the source, never to another offset."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.pairs import HERE, ModelPair
from kit.runs import ORDERS, ModelMirror, live, lives, mirrors, slots
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.imports import connector_offsets
from mmtool.plan.groups.offsets import Direction, PartitionFacts, Rules, answer_of
from mmtool.plan.groups.positions import plan_positions
from mmtool.translation.answers import Exact, Reason, Refused, TargetLog
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
AWAY = Rules(source_asked=False)
directions = st.sampled_from(Direction)
offsets = st.integers(0, 120)


def facts_of(mirror):
    return PartitionFacts(SOURCE, TARGET, mirror.partition_map(), mirror.source_log(), mirror.target_log())


def planned(positions, facts, rules, *, may_mirror=True):
    known = {one.place(rules.direction): one for one in facts}
    return plan_positions(positions, known, rules, lambda _: may_mirror)


def verdict_at(offset, facts, rules):
    (verdict,) = planned({facts.place(rules.direction): offset}, [facts], rules).verdicts
    return verdict


@st.composite
def unmirrored(draw):
    """Mirrors that began at some record, of which the source may still hold earlier ones, or has deleted them."""
    start = MirrorStart(UpstreamOffset(draw(st.integers(0, 30))), DownstreamOffset(draw(st.integers(0, 9))))
    before = draw(st.integers(0, start.upstream))
    mirror = ModelMirror(draw(slots()), start, unmirrored=before)
    live(mirror, draw(lives()))
    return mirror


@given(mirrors() | unmirrored(), directions, offsets)
def test_the_translation_of_a_position_is_that_of_a_commit_at_it(mirror, direction, offset):
    facts, rules = facts_of(mirror), Rules(direction)
    answer, knowledge = answer_of(facts, Commit(offset), rules)
    verdict = verdict_at(offset, facts, rules)
    refusal = answer.reason if isinstance(answer, Refused) else None
    assert (verdict.answer, verdict.refusal) == (None if refusal else answer, refusal)
    assert (verdict.commit, verdict.knowledge, verdict.blocks) == (
        Commit(offset),
        knowledge,
        refusal is not None,
    )


ONLY_THE_SOURCE_KNOWS = {Reason.BEYOND_SOURCE_END, Reason.TARGET_LOG_START_PASSED}
"""Refusals of an offset that the target alone translates: the source has lost its records."""


@given(mirrors() | unmirrored(), directions, offsets, st.booleans())
def test_without_the_source_a_position_has_the_same_answer_or_needs_the_source(
    mirror, direction, offset, skip
):
    facts, rules = facts_of(mirror), Rules(direction, allow_skip=skip)
    known = verdict_at(offset, facts, rules)
    alone = verdict_at(offset, replace(facts, source_log=UNKNOWN), replace(rules, source_asked=False))
    if alone.answer is not None:
        assert known.answer == alone.answer or known.refusal in ONLY_THE_SOURCE_KNOWS
    elif known.answer is not None:
        assert alone.refusal is Reason.SOURCE_UNREACHABLE


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 9)), max_size=9), directions, offsets)
def test_with_producers_on_both_clusters_no_half_of_the_runs_gives_an_answer(life, direction, offset):
    pair = ModelPair()
    for side, number in life:
        pair.born(side, number)
        pair.mirror(side, number)
    facts = PartitionFacts(SOURCE, SOURCE, pair.map(HERE), UNKNOWN, pair.target_log(), has_others=True)
    verdict = verdict_at(offset, facts, replace(AWAY, direction=direction))
    assert (verdict.answer, verdict.refusal) == (None, Reason.SOURCE_UNREACHABLE)


@given(st.integers(0, 20), directions)
def test_with_the_same_offsets_on_both_clusters_a_position_that_was_mirrored_is_itself(offset, direction):
    known = map_of(ORDERS, [(0, 0, 5), (6, 6, 4)], 10, same=True)
    target = TargetLog(DownstreamOffset(0), DownstreamOffset(12))
    facts = PartitionFacts(SOURCE, SOURCE, known, UNKNOWN, target, has_others=True)
    verdict = verdict_at(offset, facts, replace(AWAY, direction=direction))
    expected = (Exact(offset), None) if offset <= 10 else (None, Reason.SOURCE_UNREACHABLE)
    assert (verdict.answer, verdict.refusal) == expected


places = st.builds(TopicPartition, st.sampled_from(["orders", "logs"]), st.integers(0, 3))


@given(st.dictionaries(places, offsets, min_size=1), st.booleans(), st.booleans())
def test_each_position_has_one_verdict_in_the_files_order(positions, asked, may_mirror):
    mirror = ModelMirror([], MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    plan = planned(positions, [facts_of(mirror)], Rules(source_asked=asked), may_mirror=may_mirror)
    assert [plan.read_from(verdict) for verdict in plan.verdicts] == list(positions)
    assert all(plan.why(verdict) for verdict in plan.verdicts if verdict.refusal is not None)


@pytest.mark.parametrize(
    ("place", "asked", "may_mirror", "reason"),
    [
        (TopicPartition("orders", 7), True, True, Reason.PARTITION_MISSING),
        (TopicPartition("logs", 0), True, True, Reason.NOT_MIRRORED),
        (TopicPartition("orders", 7), False, True, Reason.SOURCE_UNREACHABLE),
        (TopicPartition("logs", 0), False, True, Reason.SOURCE_UNREACHABLE),
        (TopicPartition("logs", 0), False, False, Reason.NOT_MIRRORED),
    ],
)
def test_a_partition_that_is_not_known_is_missing_outside_the_flow_or_for_the_source_to_say(
    place, asked, may_mirror, reason
):
    mirror = ModelMirror([], MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    plan = planned({place: 0}, [facts_of(mirror)], Rules(source_asked=asked), may_mirror=may_mirror)
    (verdict,) = plan.verdicts
    assert (verdict.refusal, verdict.blocks) == (reason, reason is not Reason.NOT_MIRRORED)


def test_the_topics_other_partitions_are_added_for_who_needs_them_all():
    mirror = ModelMirror([], MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    facts = facts_of(mirror)
    other = replace(facts, source=TopicPartition("orders", 1), target=TopicPartition("east.orders", 1))
    known = {one.source: one for one in (facts, other)}
    plan = plan_positions({SOURCE: 0}, known, Rules(), lambda _: True, every_partition=True)
    assert [(v.source, v.answer, v.refusal) for v in plan.verdicts] == [
        (SOURCE, Exact(0), None),
        (other.source, None, Reason.NO_COMMIT),
    ]


@given(st.dictionaries(places, st.integers(0, 2**63 - 1), min_size=1))
def test_the_body_for_connect_has_each_offset_once(wanted):
    found = json.loads(connector_offsets(wanted))["offsets"]
    assert [(*one["partition"].values(), one["offset"]["kafka_offset"]) for one in found] == [
        (*place, offset) for place, offset in sorted(wanted.items())
    ]
    assert {tuple(one["partition"]) for one in found} == {("kafka_topic", "kafka_partition")}
