"""What ``verify`` says of partitions: their verdicts, in which order, and why."""

from dataclasses import replace

import pytest

from mmtool.insight.verify.verdicts import ComparedRow, Difference, Findings, Mismatch, gate, severity
from mmtool.insight.verify.verification import Verification
from mmtool.translation.types import TopicPartition


def row(partition, *differences, problem="", **findings):
    found = Findings(compared=100, **findings)
    for difference in differences:
        found.add(difference)
    place = TopicPartition("orders", partition)
    return ComparedRow("east", "west", place, TopicPartition("east.orders", partition), found, 0, problem)


IDENTICAL = row(0)
DIFFERENT = row(1, Difference(Mismatch.VALUE, 7, 7))
INCOMPLETE = row(2, Difference(Mismatch.MISSING, 99, 99), ends_early=True)
DENIED = row(3, problem="READ on topic orders is denied")


def test_the_table_begins_with_what_is_wrong():
    documents = Verification(rows=[IDENTICAL, INCOMPLETE, DIFFERENT]).documents()
    assert [document["partition"] for document in sorted(documents, key=severity)] == [1, 2, 0]


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        (Mismatch.MISSING, "do not delete east.orders on west: it also holds records that were produced on"),
        (Mismatch.DUPLICATED, "nothing to do if the consumers on west accept a record twice; otherwise let"),
    ],
)
def test_a_topic_that_holds_the_targets_own_records_is_not_to_be_deleted(kind, start):
    remedy = gate([replace(row(1, Difference(kind, 12, 15)), is_shared=True)]).remedy
    assert remedy.startswith(start)


def test_the_summary_counts_partitions_by_verdict_and_the_records():
    found = Verification(rows=[IDENTICAL, INCOMPLETE, DENIED])
    assert found.summary == "3 partitions: 1 identical, 2 incomplete; 300 records compared"


def test_the_summary_says_how_much_is_not_mirrored_and_where_nobody_knows():
    behind = [replace(IDENTICAL, lag_records=637), replace(DENIED, lag_records=None)]
    assert Verification(rows=behind).summary.endswith("not mirrored; the lag of 1 partition is unknown")


def test_a_tail_that_the_flow_will_not_mirror_says_why_and_what_ends_that():
    left = replace(INCOMPLETE, stop="failed over by ann@east", cure="fail back")
    assert left.reason == "west lacks 1 record from offset 99 on: failed over by ann@east"
    assert gate([left]).remedy == f"fail back; then run `mmtool verify {FLOW}` again"
    assert gate([replace(left, cure="")]).remedy.startswith("start the flow if it does not run")


def test_what_the_flow_did_not_ship_on_purpose_is_told_and_changes_no_verdict():
    found = row(0, letters=1, in_gaps=2)
    assert (str(found.verdict), gate([found])) == ("identical", None)
    assert found.reason == "1 record is in east.orders.mmtool-dlq instead; an operator skipped 2 records"


def test_the_error_names_a_different_partition_before_one_that_is_only_incomplete():
    error = gate([IDENTICAL, INCOMPLETE, DIFFERENT, DENIED])
    assert error.message.startswith("3 of 4 partitions are not identical; orders-1: first difference")


def test_one_partition_is_not_counted():
    assert gate([DENIED]).message == "orders-3: READ on topic orders is denied"


FLOW = "-c FILE -s east -t west --topic orders"


@pytest.mark.parametrize(
    ("kind", "reason", "remedy"),
    [
        (Mismatch.MISSING, "west does not have the record at offset 12", "replace the mirror: stop `mm"),
        (Mismatch.FOREIGN, "west has a record that east does not have", "nothing to do if the producers of"),
        (Mismatch.DUPLICATED, "west has a record twice", "nothing to do if the consumers on west accept a"),
        (Mismatch.MAPPING, "mmtool's stored offset map leads from offset 12 on", "stop `mmtool replicat"),
    ],
)
def test_each_kind_of_difference_says_where_it_is_and_what_to_do(kind, reason, remedy):
    found = row(1, Difference(kind, 12, 15))
    assert found.reason.startswith(f"first difference: {reason}")
    assert "offset 15 on west" in found.reason
    said = gate([found]).remedy
    assert said.startswith(remedy)
    assert (f"flow forget {FLOW}" in said, f"flow rebuild {FLOW}" in said) == (
        kind is not Mismatch.MAPPING,
        kind is Mismatch.MAPPING,
    )


def test_what_is_not_different_is_mirrored_further_or_compared_again():
    assert gate([INCOMPLETE]).remedy.startswith("start the flow if it does not run; `mmtool status -c FILE")
    known = replace(DENIED, cure="grant READ, then run the same command again")
    assert gate([known]).remedy == f"grant READ; then run `mmtool verify {FLOW}` again"
    assert gate([DENIED]).remedy == f"run `mmtool verify {FLOW}` again"


def test_a_mirror_that_mirror_maker_made_is_replaced_by_mirror_maker():
    remedy = gate([replace(DIFFERENT, is_by_mm2=True)]).remedy
    assert remedy.startswith("replace the mirror: stop MirrorMaker 2")
