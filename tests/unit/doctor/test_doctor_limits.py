"""What is made of sizes and timestamps that a target does not take."""

from dataclasses import replace

import pytest

from mmtool.doctor.finding import Check, judge_hidden, unasked
from mmtool.doctor.limits import (
    RefusedTimes,
    SizeFacts,
    TimeFacts,
    TopicSizes,
    judge_sizes,
    judge_times,
)
from mmtool.errors import UnreachableError
from mmtool.kafka.logs.samples import SizeSample
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 3)
DAY_MS = 86_400_000


def sizes(samples=(), letters=(), is_made=True, **of):
    narrow = [TopicSizes("orders", "A.orders", 2000, 1000, is_made)]
    return SizeFacts("A->B", "B", narrow, dict(samples), dict(letters), of.get("is_lettered", False))


def test_limits_that_do_not_differ_are_fine():
    (finding,) = judge_sizes(SizeFacts("A->B", "B", [], {}, {}, is_lettered=False))
    assert (finding.severity, finding.subject) == ("ok", "A->B")


def test_a_lower_limit_is_a_warning_that_says_how_much_was_looked_at():
    (finding,) = judge_sizes(sizes({PLACE: SizeSample(3 << 20, 99, False)}))
    assert (finding.severity, finding.subject) == ("warning", "A.orders")
    assert "a sample of 3.0 MiB" in finding.message
    assert "max.message.bytes=2000" in finding.remedy


def test_a_limit_that_the_config_sync_would_remove_is_to_be_set_on_the_source_topic():
    facts = sizes(letters={"A.orders.mmtool-dlq": 1})
    facts = replace(facts, narrower=[facts.narrower[0]._replace(is_reset=True)])
    letter, limit = judge_sizes(facts)
    assert letter.remedy.startswith(
        "set max.message.bytes = 2000 on source topic orders itself (the config sync copies it to A.orders), so that"
    )
    assert limit.remedy.startswith(
        "on the source, set max.message.bytes of topic orders to 2000, its present value: config sync copies only"
    )


def test_a_lower_limit_under_which_everything_fits_says_that():
    (finding,) = judge_sizes(sizes({PLACE: SizeSample(100, 99, True)}))
    assert "all records that are still to be mirrored are small enough" in finding.message


@pytest.mark.parametrize(
    ("is_lettered", "then"), [(False, "the partition halts"), (True, "goes to A.orders.mmtool-dlq")]
)
def test_a_record_that_does_not_fit_is_a_problem_with_its_place_and_its_fate(is_lettered, then):
    sample = SizeSample(100, 8, False, 7, 1500)
    (finding,) = judge_sizes(sizes({PLACE: sample}, is_lettered=is_lettered))
    assert finding.severity == "problem"
    assert "offset 7 of orders-3 needs 1500 bytes" in finding.message
    assert then in finding.message


def test_a_topic_that_is_to_be_made_is_helped_at_its_brokers():
    (finding,) = judge_sizes(sizes(is_made=False))
    assert (
        "for A.orders on B (the topic does not exist yet, and gets the brokers' default): " in finding.message
    )
    assert "--entity-type brokers --entity-default --add-config message.max.bytes=2000" in finding.remedy


def test_sizes_that_could_not_be_compared_are_not_called_fine():
    (finding,) = judge_sizes(SizeFacts("A->B", "B", [], {}, {}, is_lettered=False, unsure=["new"]))
    assert (
        finding.severity,
        "not checked for new: its mirror does not exist yet, and the brokers of B" in finding.message,
    ) == ("ok", True)


def test_dead_letters_are_a_problem():
    facts = SizeFacts("A->B", "B", [], {}, {"A.orders.mmtool-dlq": 2}, is_lettered=True)
    (finding,) = judge_sizes(facts)
    assert (finding.severity, finding.subject) == ("problem", "A.orders.mmtool-dlq")


def test_a_partition_that_could_not_be_read_is_not_called_fine():
    narrower = [TopicSizes("orders", "A.orders", 2_000, 1_000, True)]
    unread = {PLACE: UnreachableError("A does not answer")}
    (finding,) = judge_sizes(SizeFacts("A->B", "B", narrower, {}, {}, is_lettered=False, unread=unread))
    assert f"{PLACE} could not be read: A does not answer" in finding.message
    assert "small enough" not in finding.message, finding.message


def test_a_partition_whose_times_could_not_be_asked_is_a_warning_and_not_called_fine():
    failed = {PLACE: UnreachableError("A does not answer", remedy="start it")}
    rows = list(unasked(Check.TIMESTAMPS, "A", failed))
    (finding,) = judge_times(TimeFacts("A->B", "B", [], [], is_raised=False, unasked=rows))
    assert (finding.severity, finding.subject, finding.remedy) == ("warning", "orders", "start it")
    assert finding.message == f"{PLACE} could not be checked: A does not answer"


def test_partitions_that_could_not_be_asked_for_different_reasons_have_a_row_each():
    away, denied = UnreachableError("A does not answer"), UnreachableError("A denies READ")
    failed = {PLACE._replace(partition=number): error for number, error in enumerate([away, denied, away])}
    assert [row.message for row in unasked(Check.TIMESTAMPS, "A", failed)] == [
        "orders-0, orders-2 could not be checked: A does not answer",
        "orders-1 could not be checked: A denies READ",
    ]


def times(*, is_ahead=False, is_certain=True, is_raised=False, stamped=()):
    refused = [
        RefusedTimes(
            "orders", "A.orders", "message.timestamp.before.max.ms", DAY_MS, is_ahead, {PLACE: 5}, is_certain
        )
    ]
    return TimeFacts("A->B", "B", stamped, [] if stamped else refused, is_raised)


@pytest.mark.parametrize(
    ("facts", "severity", "said"),
    [
        (times(), "problem", "older than 1d"),
        (times(is_ahead=True), "problem", "ahead of now"),
        (times(is_raised=True), "warning", "`mmtool replicate` raises the limit"),
        (times(is_certain=False), "warning", "MirrorMaker 2 may have copied these records"),
        (times(stamped=["A.orders"]), "warning", "LogAppendTime"),
    ],
)
def test_refused_records_are_a_problem_and_overwritten_times_a_warning(facts, severity, said):
    (finding,) = judge_times(facts)
    assert (finding.severity, said in finding.message) == (severity, True), finding.message


def test_the_first_offset_is_said_of_the_partition_that_has_it():
    one = times().refused[0]
    several = one._replace(places={TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 7})
    (finding,) = judge_times(TimeFacts("A->B", "B", [], [several], is_raised=False))
    assert finding.message.startswith(
        "orders-0 (from offset 12 on) and 1 more partition hold records older than"
    )
    assert "each partition halts at its first such record" in finding.message


def test_the_command_for_times_names_the_mirror_or_the_brokers_of_one_that_is_not_there_yet():
    said = [
        judge_times(TimeFacts("A->B", "B", ["A.orders"], [], is_raised=False, absent=absent))
        for absent in ((), ("A.orders",))
    ]
    remedies = [finding.remedy for (finding,) in said]
    assert "topics --entity-name A.orders --add-config message.timestamp.type=CreateTime" in remedies[0]
    assert "brokers --entity-default --add-config log.message.timestamp.type=CreateTime" in remedies[1]


def test_topics_that_hide_their_configuration_are_not_called_fine():
    (finding,) = judge_hidden(Check.TIMESTAMPS, {"A": [], "B": ["A.orders"]})
    assert (finding.severity, finding.cluster, finding.check) == ("warning", "B", "timestamps")
    assert "A.orders" in finding.message
