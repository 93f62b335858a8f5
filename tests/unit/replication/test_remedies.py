"""What an operator reads to do about a halted partition, a refused move, and an error that mmtool retries."""

from types import SimpleNamespace

import pytest

from mmtool.errors import UnreachableError
from mmtool.kafka.batches import BatchError
from mmtool.kafka.batches.errors import CorruptBatchError, LargeBatchError
from mmtool.plan.flow.moves import Action
from mmtool.replication.driver.notices import retried
from mmtool.replication.flow_state.flow_moves import refusal_of
from mmtool.replication.pump.batch_prep import why
from mmtool.translation.types import TopicPartition

FLOW = "-c FILE -s east -t west"
PARTITION = SimpleNamespace(place=TopicPartition("orders", 3), target_topic="east.orders", flow_options=FLOW)
LEADER = "make another replica the leader of the source partition; if every replica has the same bytes, skip the batch:"


@pytest.mark.parametrize(
    ("error", "offset", "more"),
    [
        (CorruptBatchError("the checksum is wrong", 812), "812", ""),
        (
            BatchError("the checksum is wrong"),
            "OFFSET",
            "; OFFSET is the first offset after the batch, which kafka-dump-log.sh shows",
        ),
    ],
    ids=["its end is known", "its end is unknown"],
)
def test_a_damaged_batch_is_skipped_with_a_command_that_is_whole(error, offset, more):
    assert why(error, PARTITION) == (
        f"the checksum is wrong: {LEADER} stop `mmtool replicate`, write the line `orders,3,{offset}` to a file"
        " offsets.csv, run `mmtool flow seek -c FILE -s east -t west --csv offsets.csv --execute`, then start `mmtool"
        f" replicate` again{more}"
    )


def test_a_batch_that_is_only_too_large_to_decode_is_copied_under_a_higher_limit():
    """Its bytes are intact on every replica: another leader has the same."""
    said = why(LargeBatchError(4, "9 records", "5", 13), PARTITION)
    assert said.startswith(
        "the batch at offset 4 has 9 records; mmtool decodes at most 5 of one batch, and must decode this one to"
        " split or cut it: if the batch is larger than max.message.bytes of east.orders on the target, raise that limit"
    )
    assert "leader" not in said
    assert "write the line `orders,3,13` to a file" in said


def refused(*reasons):
    return [
        SimpleNamespace(
            action=Action.REFUSE,
            reason=reason,
            facts=SimpleNamespace(source=TopicPartition("orders", number)),
        )
        for number, reason in enumerate(reasons)
    ]


def test_a_refused_move_says_what_its_reason_means():
    error = refusal_of(refused("beyond_source_end", "beyond_source_end", "partition_missing"), FLOW)
    assert error.code == "refused"
    assert error.message == (
        "2 partitions cannot be moved, for example orders-0: beyond_source_end (the offset is after the end of the"
        " source's log); 1 partition cannot be moved, for example orders-2: partition_missing (a cluster does not have"
        " the partition)"
    )
    assert "`mmtool flow forget -c FILE -s east -t west --topic TOPIC --execute` deletes" in error.remedy
    assert refusal_of(refused("beyond_source_end"), FLOW).code == "beyond_source_end"


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("", "east is gone"),
        ("run the same command again", "east is gone"),
        ("check the brokers, then run the same command again", "east is gone; check the brokers"),
        ("grant READ; then run the same command again", "east is gone; grant READ"),
    ],
)
def test_what_mmtool_retries_by_itself_asks_for_no_second_run(remedy, said):
    assert retried(UnreachableError("east is gone", remedy=remedy)) == said
    assert retried(KeyError()) == "KeyError"
