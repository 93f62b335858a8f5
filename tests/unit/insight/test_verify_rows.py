"""What ``verify`` says of partitions: their verdicts, in which order, and why."""

from mmtool.insight.verify.findings import Difference, Findings, Kind
from mmtool.insight.verify.verdicts import ComparedRow, gate, severity
from mmtool.insight.verify.verification import Verification
from mmtool.translation.types import TopicPartition


def row(partition, *differences, problem="", **findings):
    found = Findings(compared=100, **findings)
    for difference in differences:
        found.add(difference)
    place = TopicPartition("orders", partition)
    return ComparedRow("east", "west", place, TopicPartition("east.orders", partition), found, 0, problem)


IDENTICAL = row(0)
DIFFERENT = row(1, Difference(Kind.VALUE, 7, 7))
INCOMPLETE = row(2, Difference(Kind.MISSING, 99, 99), ends_early=True)
DENIED = row(3, problem="READ on topic orders is denied")


def test_the_table_begins_with_what_is_wrong():
    documents = Verification(rows=[IDENTICAL, INCOMPLETE, DIFFERENT]).documents()
    assert [document["partition"] for document in sorted(documents, key=severity)] == [1, 2, 0]


def test_the_summary_counts_partitions_by_verdict_and_the_records():
    found = Verification(rows=[IDENTICAL, INCOMPLETE, DENIED])
    assert found.summary == "3 partitions: 1 identical, 2 incomplete; 300 records compared"


def test_what_the_flow_did_not_ship_on_purpose_is_told_and_changes_no_verdict():
    found = row(0, letters=1, in_gaps=2)
    assert (str(found.verdict), gate([found])) == ("identical", None)
    assert found.reason == "1 record in east.orders.mmtool-dlq; 2 records skipped by an operator"


def test_the_error_names_a_different_partition_before_one_that_is_only_incomplete():
    error = gate([IDENTICAL, INCOMPLETE, DIFFERENT, DENIED])
    assert error.message.startswith(
        "3 of 4 partitions are not identical; orders-1: first difference: a record has another"
    )
