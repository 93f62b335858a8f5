"""Commit metadata that is a map of processed records is recognised; other strings are not."""

import base64
import struct

import pytest

from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.outside_offsets import is_of_streams, is_position_map, position_map_warnings
from mmtool.translation.types import TopicPartition


def encoded(kind, body):
    return base64.b64encode(kind.encode("latin-1") + body).decode()


MAPS = {
    "bit set": encoded("l", struct.pack(">h", 10) + b"\x05\x02"),
    "bit set, version 2": encoded("o", struct.pack(">i", 100_000) + bytes(12_501)),
    "run lengths": encoded("n", struct.pack(">hhh", 1, 5, 2)),
    "run lengths, version 2": encoded("e", struct.pack(">ii", 3, 70_000)),
    "byte array": encoded("L", b"\x00\x01\x01\x00"),
    "compressed bit set": encoded("a", b"\x28\xb5\x2f\xfd\x20\x01"),
    "compressed bit set, version 2": encoded("s", b"\x28\xb5\x2f\xfd\x20\x01"),
    "compressed run lengths": encoded("J", b"\x28\xb5\x2f\xfd\x20\x01"),
    "compressed run lengths, version 2": encoded("p", b"\x28\xb5\x2f\xfd\x20\x01"),
    "compressed byte array": encoded("\xee", b"\x28\xb5\x2f\xfd\x20\x01"),
}
OTHERS = {
    "nothing": "",
    "Kafka Streams": base64.b64encode(b"\x01" + struct.pack(">q", 1_700_000_000_000)).decode(),
    "Kafka Streams, version 2": base64.b64encode(b"\x02" + struct.pack(">qi", 1_700_000_000_000, 0)).decode(),
    "Kafka Streams 4.4, without metadata of processors": "AgAAAYvP5WgA",
    "a host": "worker01",
    "words that are Base64 as well": "bookings",
    "longer ones": "bookings-done/eu",
    "even longer ones": "ZebraZebraZebraZebra",
    "JSON": '{"offset": 12}',
    "one bit": encoded("l", b""),
    "too many bits": encoded("l", struct.pack(">h", 8) + bytes(9)),
    "not ASCII": "é",
}


@pytest.mark.parametrize("name", MAPS)
def test_a_position_map_is_recognised(name):
    assert is_position_map(MAPS[name])


@pytest.mark.parametrize("name", OTHERS)
def test_other_metadata_is_not_taken_for_one(name):
    assert not is_position_map(OTHERS[name])


def test_a_group_is_warned_of_once():
    commits = {TopicPartition("orders", n): Commit(n, MAPS["run lengths"]) for n in range(5)}
    plain = GroupFacts("plain", {TopicPartition("orders", 0): Commit(1, "host-1")})
    (told,) = position_map_warnings([GroupFacts("app", commits), plain], "east", "west")
    assert told.startswith("the commit metadata of app (orders-0, orders-1, orders-2 and 2 more) looks like")
    assert "offsets of east" in told


@pytest.mark.parametrize("name", OTHERS)
def test_metadata_of_kafka_streams_is_recognised(name):
    assert is_of_streams(OTHERS[name]) is name.startswith("Kafka Streams")
