"""The writers beside which flows are tried: what they leave behind is whole, whatever became of their broker."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Producer

from kit import writers
from kit.writers import RunningWriter
from mmtool.errors import MmtoolError
from mmtool.lab.load import produce
from mmtool.lab.topics import create_topic, end_offsets, read_topic

pytestmark = pytest.mark.kafka


def left_open(bootstrap, load):
    """A load whose broker died between the records and the commit, as the broker sees it."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": load.transactions.transactional_id}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(load.topic, b"cut off", partition=0)
    producer.flush(30)
    raise MmtoolError("the load was cut off", code="load")


@pytest.mark.parametrize("which", ["one in the middle", "the last one"])
def test_a_transaction_that_a_failed_load_left_open_is_ended_by_the_next_load(fleet, monkeypatch, which):
    bootstrap, topic = fleet["source"].bootstrap, f"writers-{time.monotonic_ns()}"
    create_topic(bootstrap, topic, 2)
    calls, begun = [], threading.Event()

    def cut_off(bootstrap, load):
        calls.append(load)
        if len(calls) == 2:
            if which == "the last one":
                writer.ask_to_stop()
            begun.set()
            left_open(bootstrap, load)
        return produce(bootstrap, load)

    monkeypatch.setattr(writers, "produce", cut_off)
    writer = RunningWriter(bootstrap, topic, 2, 300.0, transactions=12, tolerant=True)
    with writer:
        assert begun.wait(30)

    assert (writer.failed, len(calls) >= 3) == (1, True)
    assert end_offsets(bootstrap, topic, isolation="read_committed") == end_offsets(bootstrap, topic)


def test_the_last_transaction_is_a_committed_one_in_every_partition(fleet):
    """It ends whatever a broker has forgotten to end in one of them."""
    bootstrap, topic = fleet["source"].bootstrap, f"writers-{time.monotonic_ns()}"
    create_topic(bootstrap, topic, 3)
    with RunningWriter(bootstrap, topic, 3, 50.0, transactions=12, tolerant=True):
        time.sleep(1)
    last = {
        isolation: {r.partition: r.offset for r in read_topic(bootstrap, topic, isolation=isolation)}
        for isolation in ("read_committed", "read_uncommitted")
    }
    assert last["read_committed"] == last["read_uncommitted"]
    assert set(last["read_committed"]) == {0, 1, 2}
