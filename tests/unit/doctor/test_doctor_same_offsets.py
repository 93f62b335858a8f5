"""What a flow with the source's own offsets is told before it starts."""

from types import SimpleNamespace

import pytest

from mmtool.doctor.same_offsets import judge_apis, judge_first_copy, judge_pace, judge_prefills, judge_targets
from mmtool.kafka.logs.samples import HoleSample
from mmtool.kafka.ports import Bounds
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
HOLE_SECONDS = 0.01


def broker(address, *lacking):
    spoken = {number: (0, 1) for number in (1, 21, 27, 61) if number not in lacking}
    return SimpleNamespace(address=address, apis=SimpleNamespace(versions=spoken))


def test_each_api_that_brokers_lack_is_named_with_these_brokers():
    away = SimpleNamespace(address="c:1", apis=None)
    found = list(judge_apis("B", [broker("a:1"), broker("b:1", 27, 61), away]))
    assert [(one.severity, one.cluster) for one in found] == [("problem", "B")] * 2
    assert "b:1 of B lacks the WriteTxnMarkers API" in found[0].message
    assert "DescribeProducers" in found[1].message
    assert list(judge_apis("B", [broker("a:1")])) == []


def test_only_target_topics_with_records_of_others_are_a_problem(flow):
    there = {
        TopicPartition("A.foreign", 0): Bounds(0, 5),
        TopicPartition("A.mirror", 0): Bounds(0, 5),
        TopicPartition("A.emptied", 0): Bounds(7, 7),
        TopicPartition("A.elsewhere", 0): Bounds(0, 5),
    }
    topics = ("foreign", "mirror", "emptied", "absent")
    found = list(judge_targets(flow(), topics, {TopicPartition("mirror", 0)}, there))
    assert [(one.severity, one.subject) for one in found] == [("problem", "A.foreign")]
    assert "delete topic A.foreign on B" in found[0].remedy


@pytest.mark.parametrize(
    ("start", "most", "is_told"),
    [("earliest", 1_500_000, False), ("earliest", 1_400_000, True), ("latest", 1_500_000, True)],
)
def test_a_prefill_above_the_limit_is_told_with_its_cost(flow, start, most, is_told):
    new = {
        PLACE: Bounds(2_000_000, 2_000_100),
        TopicPartition("orders", 1): Bounds(10_000, 10_001),  # markers
        TopicPartition("orders", 2): Bounds(0, 5),
    }
    there = {TopicPartition("A.orders", 0): Bounds(500_000, 500_000)}
    settings = flow(f"mmtool.prefill.max.offsets = {most}", f"mmtool.start = {start}")
    found = list(judge_prefills(settings, new, there))
    assert [one.severity for one in found] == ["problem"] * is_told
    assert all("offsets of" in one.message and "prefill.max.offsets = 15" in one.remedy for one in found)


@pytest.mark.parametrize(
    ("holes_a_second", "severity"),
    [(0, None), (49, None), (51, "warning"), (99, "warning"), (101, "problem")],
)
def test_holes_that_arise_faster_than_two_round_trips_each_allow_are_told(flow, holes_a_second, severity):
    sample = HoleSample(9_000, holes_a_second * 8, holes_a_second * 8, 8.0)
    found = list(judge_pace(flow(), PLACE, sample, HOLE_SECONDS))
    assert [one.severity for one in found] == ([severity] if severity else [])
    for one in found:
        assert f"gets {holes_a_second} holes a second" in one.message
        assert "at most 100 can be filled" in one.message


@pytest.mark.parametrize(
    ("sample", "offsets", "says"),
    [
        (HoleSample(1_000, 900, 1, 1.0), 10_000_000, None),
        (HoleSample(1_000, 900, 1, 1.0), 40_000_000, "90% of the offsets of orders-0"),
        (HoleSample(1_000, 500, 500, 1.0), 1_000_000, "50% of the offsets"),
        (HoleSample(0, 0, 0, 1.0), 40_000_000, None),
    ],
    ids=["under an hour", "many markers", "many waits", "no record"],
)
def test_a_first_copy_of_hours_is_told_from_a_sample(flow, sample, offsets, says):
    found = list(judge_first_copy(flow(), PLACE, sample, offsets, HOLE_SECONDS))
    assert [(one.severity, says in one.message, "take about" in one.message) for one in found] == (
        [("warning", True, True)] if says else []
    )
