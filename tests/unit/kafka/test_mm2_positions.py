"""How far MirrorMaker 2 says it is, and what it has taken back."""

from __future__ import annotations

import json
from types import SimpleNamespace

from mmtool.config import ClusterSettings
from mmtool.kafka import mirror_maker
from mmtool.kafka.log_reader import LogRecord, reader_config
from mmtool.kafka.mirror_maker import read_positions
from mmtool.translation.naming import TopicAliases
from mmtool.translation.types import TopicPartition

WEST = ClusterSettings(alias="west", bootstrap_servers="nowhere:1")
FLOW = SimpleNamespace(
    source=SimpleNamespace(alias="main"), target=WEST, topic_aliases=TopicAliases("east", "west")
)


def position(at, offset):
    place = {"cluster": "east", "partition": 0, "topic": "orders"}
    key = json.dumps(["MirrorSourceConnector", place]).encode()
    return LogRecord(0, at, key, json.dumps({"offset": offset}).encode(), 0)


def test_a_position_of_a_transaction_that_was_aborted_is_none(monkeypatch):
    """With exactly-once MM2 was killed in the middle of one: none of its records is on the target."""
    stands, aborted = position(0, 40), position(2, 90)

    def read_log(_, topic, *, committed=False):
        assert topic == "mm2-offsets.main.internal"
        return [stands] if committed else [stands, aborted]

    monkeypatch.setattr(mirror_maker, "read_log", read_log)
    assert read_positions(FLOW) == {TopicPartition("orders", 0): 40}


def test_a_log_is_read_with_or_without_what_was_aborted():
    levels = [reader_config(WEST, committed=committed)["isolation.level"] for committed in (True, False)]
    assert levels == ["read_committed", "read_uncommitted"]
