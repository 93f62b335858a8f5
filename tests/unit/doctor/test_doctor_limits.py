"""What is made of sizes and timestamps that a target does not take."""

import pytest

from mmtool.doctor.finding import judge_hidden, unasked
from mmtool.doctor.limits import RefusedTimes, TopicSizes, judge_sizes, judge_times
from mmtool.errors import UnreachableError
from mmtool.kafka.logs.samples import SizeSample
from mmtool.kafka.ports import Answers
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 3)
DAY_MS = 86_400_000


NARROWER = TopicSizes("orders", "A.orders", 2000, 1000, is_made=True)


@pytest.fixture
def sizes(flow):
    """``sizes({PLACE: sample}, letters)``: what is found where A.orders takes smaller records than orders."""

    def judged(samples=(), letters=(), *lines, narrower=(NARROWER,), failed=(), unsure=()):
        answers = Answers(dict(samples))
        answers.failed |= dict(failed)
        return list(judge_sizes(flow(*lines), narrower, answers, dict(letters), unsure))

    return judged


def test_limits_that_do_not_differ_are_fine(sizes):
    assert [finding.severity for finding in sizes(narrower=[])] == ["ok"]


def test_a_lower_limit_is_a_warning_that_says_how_much_was_looked_at(sizes):
    (finding,) = sizes({PLACE: SizeSample(3 << 20, 99, False)})
    assert (finding.severity, finding.subject) == ("warning", "A.orders")
    assert "a sample of 3.0 MiB" in finding.message
    assert "max.message.bytes=2000" in finding.remedy


def test_a_limit_that_the_config_sync_would_remove_is_to_be_set_on_the_source_topic(sizes):
    letter, limit = sizes(letters={"A.orders.mmtool-dlq": 1}, narrower=[NARROWER._replace(is_reset=True)])
    assert letter.remedy.startswith("set max.message.bytes = 2000 on source topic orders itself")
    assert limit.remedy.startswith("on the source, set max.message.bytes of topic orders to 2000")


@pytest.mark.parametrize(
    ("lines", "then"),
    [([], "the partition halts"), (["mmtool.on.oversize = dead-letter"], "goes to A.orders.mmtool-dlq")],
)
def test_a_record_that_does_not_fit_is_a_problem_with_its_place_and_its_fate(sizes, lines, then):
    (finding,) = sizes({PLACE: SizeSample(100, 8, False, 7, 1500)}, {}, *lines)
    assert finding.severity == "problem"
    assert "offset 7 of orders-3 needs 1500 bytes" in finding.message
    assert then in finding.message


def test_a_topic_that_is_to_be_made_is_helped_at_its_brokers(sizes):
    (finding,) = sizes(narrower=[NARROWER._replace(is_made=False)])
    assert "for A.orders on B (the topic does not exist yet" in finding.message
    assert "--entity-type brokers --entity-default --add-config message.max.bytes=2000" in finding.remedy


def test_sizes_that_could_not_be_compared_are_not_called_fine(sizes):
    (finding,) = sizes(narrower=[], unsure=["new"])
    assert (finding.severity, "not checked for new: its mirror does not exist" in finding.message) == (
        "ok",
        True,
    )


def test_a_partition_that_could_not_be_read_is_not_called_fine(sizes):
    (finding,) = sizes(failed={PLACE: UnreachableError("A does not answer")})
    assert f"{PLACE} could not be read: A does not answer" in finding.message
    assert "small enough" not in finding.message, finding.message


def test_a_partition_whose_times_could_not_be_asked_is_a_warning_and_not_called_fine(flow):
    failed = {PLACE: UnreachableError("A does not answer", remedy="start it")}
    (finding,) = judge_times(flow(), {}, [], unasked("A", failed))
    assert (finding.severity, finding.subject, finding.remedy) == ("warning", "orders", "start it")
    assert finding.message == f"{PLACE} could not be checked: A does not answer"


def test_partitions_that_could_not_be_asked_for_different_reasons_have_a_row_each():
    away, denied = UnreachableError("A does not answer"), UnreachableError("A denies READ")
    failed = {PLACE._replace(partition=number): error for number, error in enumerate([away, denied, away])}
    assert [row.message for row in unasked("A", failed)] == [
        "orders-0, orders-2 could not be checked: A does not answer",
        "orders-1 could not be checked: A denies READ",
    ]


REFUSED = RefusedTimes(
    "orders", "A.orders", "message.timestamp.before.max.ms", DAY_MS, False, {PLACE: 5}, is_certain=True
)


@pytest.mark.parametrize(
    ("lines", "refused", "severity", "said"),
    [
        ([], REFUSED, "problem", "older than 1d"),
        ([], REFUSED._replace(is_ahead=True), "problem", "ahead of now"),
        (["mmtool.on.timestamp.refused = raise-limit"], REFUSED, "warning", "`mmtool replicate` raises the"),
        ([], REFUSED._replace(is_certain=False), "warning", "MirrorMaker 2 may have copied these records"),
    ],
)
def test_records_that_will_be_refused_are_a_problem(flow, lines, refused, severity, said):
    (finding,) = judge_times(flow(*lines), {}, [refused])
    assert (finding.severity, said in finding.message) == (severity, True), finding.message


def test_the_first_offset_is_said_of_the_partition_that_has_it(flow):
    several = REFUSED._replace(places={TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 7})
    (finding,) = judge_times(flow(), {}, [several])
    assert finding.message.startswith("orders-0 (from offset 12 on) and 1 more partition hold")
    assert "each partition halts at its first such record" in finding.message


@pytest.mark.parametrize(
    ("is_made", "said"),
    [
        (True, "topics --entity-name A.orders --add-config message.timestamp.type=CreateTime"),
        (False, "brokers --entity-default --add-config log.message.timestamp.type=CreateTime"),
    ],
)
def test_overwritten_times_are_a_warning_with_the_command_for_the_mirror_or_for_the_brokers(
    flow, is_made, said
):
    (finding,) = judge_times(flow(), {"A.orders": is_made}, [])
    assert (finding.severity, "LogAppendTime" in finding.message) == ("warning", True)
    assert said in finding.remedy


def test_topics_that_hide_their_configuration_are_not_called_fine():
    (finding,) = judge_hidden({"A": [], "B": ["A.orders"]})
    assert (finding.severity, finding.cluster) == ("warning", "B")
    assert "A.orders" in finding.message
