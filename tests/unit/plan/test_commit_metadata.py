"""Commit metadata that Kafka Streams wrote is recognised; of all other metadata a group is warned."""

import base64
import struct

import pytest

from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.outside_offsets import copied_metadata_warnings, is_of_streams
from mmtool.translation.types import TopicPartition

ORDERS = TopicPartition("orders", 0)
STREAMS = {
    "version 1": base64.b64encode(b"\x01" + struct.pack(">q", 1_700_000_000_000)).decode(),
    "version 2": base64.b64encode(b"\x02" + struct.pack(">qi", 1_700_000_000_000, 0)).decode(),
    "Kafka 4.4, without metadata of processors": "AgAAAYvP5WgA",
}
OTHERS = {
    "run lengths of parallel-consumer": base64.b64encode(b"n" + struct.pack(">hhh", 1, 5, 2)).decode(),
    "a host": "worker01",
    "words that are Base64 as well": "bookings",
    "JSON": '{"offset": 12}',
    "not ASCII": "\u00e9",
}


def warned(metadata):
    return list(copied_metadata_warnings([GroupFacts("app", {ORDERS: Commit(1, metadata)})], "east", "west"))


@pytest.mark.parametrize("name", STREAMS)
def test_metadata_of_kafka_streams_is_recognised_and_not_warned_of(name):
    assert is_of_streams(STREAMS[name])
    assert warned(STREAMS[name]) == []


@pytest.mark.parametrize("name", OTHERS)
def test_other_metadata_is_warned_of(name):
    assert not is_of_streams(OTHERS[name])
    assert len(warned(OTHERS[name])) == 1


def test_no_metadata_is_not_warned_of():
    assert warned("") == []


def test_a_group_is_warned_of_once():
    commits = {TopicPartition("orders", n): Commit(n, OTHERS["a host"]) for n in range(5)}
    plain = GroupFacts("plain", {ORDERS: Commit(1)})
    (told,) = copied_metadata_warnings([GroupFacts("app", commits), plain], "east", "west")
    named = "app (orders-0, orders-1, orders-2 and 2 more)"
    assert told.startswith(f"mmtool copies the commit metadata of {named} unchanged")
