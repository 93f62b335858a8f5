"""A transaction that nobody ends on the source keeps what is committed behind it: named, and no lag."""

import os
import time

import pytest
from confluent_kafka import Producer

from kit.bench import Bench
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
THREE_HOURS_MS = 3 * 3_600_000


def transaction(bootstrap, topic):
    """One that its producer began three hours ago, by its clock; records of others lie behind it.

    The broker lets it stand for as long as it lets any, so that it outlives the start of a busy machine's Spark.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"hangs-{topic}",
            "transaction.timeout.ms": 900_000,
            "log_level": 2,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"held", partition=0, timestamp=int(time.time() * 1000) - THREE_HOURS_MS)
    producer.flush(20)
    other = Producer({"bootstrap.servers": bootstrap})
    for _ in range(5):
        other.produce(topic, b"behind", partition=0)
    other.flush(20)
    return producer


def test_who_holds_a_partition_is_said_and_taken_back_when_the_transaction_ends(fleet, tmp_path):
    bench, topic = Bench(fleet, tmp_path), f"held-{os.getpid()}"
    source, target = fleet["source"].bootstrap, fleet["target"].bootstrap
    create_topic(source, topic, 1)
    holder = transaction(source, topic)
    properties = bench.properties(topic)

    def row():
        rows = bench.ask(properties, "status").rows
        (found,) = [row for row in rows if row["topic"] == topic]  # another file's heartbeats may be there
        return found

    with bench.start(properties) as process:
        process.wait_line(
            rf"{topic}-0 is held at offset 0: producer \d+, which wrote last at", PATIENCE_SECONDS
        )
        found = row()
        assert (found["state"], found["lag_records"]) == ("caught_up", 0)
        assert found["reason"].startswith("held at offset 0: producer")
        holder.commit_transaction(20)
        wait_until(lambda: end_offsets(target, f"source.{topic}") == {0: 6}, "all six", PATIENCE_SECONDS)
        wait_until(lambda: row()["reason"] == "", "nothing is held any more", PATIENCE_SECONDS)
        assert process.stop().code == 143
