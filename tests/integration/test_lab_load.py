"""What the load generator says it wrote is what readers find."""

from __future__ import annotations

from collections import defaultdict

import pytest

from mmtool.lab.load import Load, Transactions, numbered, produce
from mmtool.lab.topics import create_topic, read_topic


@pytest.fixture
def topic(fleet, topic_name):
    """A new topic of two partitions on the source cluster."""
    name = topic_name("load")
    create_topic(fleet["source"].bootstrap, name, partitions=2)
    return name


def sequences(records) -> dict[int, list[int]]:
    """Per partition, the numbers in the order of the log; each record knows its own partition."""
    found = defaultdict(list)
    for record in records:
        partition, sequence = numbered(record.value)
        assert partition == record.partition
        found[partition].append(sequence)
    return dict(found)


def test_records_are_complete_and_in_order_also_over_two_loads(fleet, topic):
    bootstrap = fleet["source"].bootstrap
    first = produce(bootstrap, Load(topic, count=3000, partitions=2, record_bytes=100))
    produce(bootstrap, Load(topic, count=1000, partitions=2, first_sequence=first.next_sequence[0]))
    assert sequences(read_topic(bootstrap, topic)) == {p: list(range(2000)) for p in (0, 1)}


def test_records_of_aborted_transactions_are_invisible_to_read_committed(fleet, topic):
    bootstrap = fleet["source"].bootstrap
    how = Transactions(f"{topic}-writer", records=100, abort_every=3)
    loaded = produce(bootstrap, Load(topic, count=1000, partitions=2, record_bytes=100, transactions=how))
    everything = {numbered(r.value) for r in read_topic(bootstrap, topic, isolation="read_uncommitted")}
    committed = {numbered(r.value) for r in read_topic(bootstrap, topic)}
    assert (len(everything), len(loaded.aborted), everything - committed) == (1000, 300, loaded.aborted)
