"""What Kafka Connect stores of MirrorMaker 2's progress, read as Connect writes it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.connect_offsets import SourcePosition, decode_position
from mmtool.translation.mm2_records import MalformedRecord
from mmtool.translation.types import UNKNOWN, TopicPartition

KEY = b'["MirrorSourceConnector",{"cluster":"east","partition":3,"topic":"orders"}]'
PLACE = TopicPartition("orders", 3)


def test_the_offset_is_the_last_replicated_record_s():
    assert decode_position(KEY, b'{"offset":41}', "east", "west") == SourcePosition(PLACE, 41)


@pytest.mark.parametrize("name", ["east->west.MirrorSourceConnector", "mirror-orders"])
def test_the_connector_may_have_strimzi_s_name_or_any_other(name):
    assert decode_position(
        KEY.replace(b"MirrorSourceConnector", name.encode()), b'{"offset":41}', "east", "west"
    ) == (SourcePosition(PLACE, 41))


@pytest.mark.parametrize("value", [None, b"null", b'{"offset":-1}', b'{"offset":null}', b"{}"])
def test_a_position_that_was_deleted_or_says_nothing_is_unknown(value):
    assert decode_position(KEY, value, "east", "west") == SourcePosition(PLACE, UNKNOWN)


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"east","targetClusterAlias":"west"}]',
        b'["MirrorCheckpointConnector",{"group":"g","topic":"orders","partition":3}]',
        b'["MirrorSourceConnector",{"cluster":"north","partition":3,"topic":"orders"}]',
        b'["east->south.MirrorSourceConnector",{"cluster":"east","partition":3,"topic":"orders"}]',
        b'["jdbc",{"cluster":"east","table":"orders"}]',
        b'["file",["east"]]',
    ],
)
def test_positions_of_other_connectors_and_other_sources_are_somebody_else_s(key):
    assert decode_position(key, b'{"offset":41}', "east", "west") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b'["MirrorSourceConnector"]', b"{}"),
        (KEY.replace(b"3", b'"3"'), b'{"offset":1}'),
        (KEY.replace(b'"orders"', b"7"), b'{"offset":1}'),
        (KEY, b"[]"),
        (KEY, b'{"offset":true}'),
        (KEY, b'{"offset":"41"}'),
    ],
)
def test_what_is_no_position_is_told_and_never_guessed(key, value):
    assert isinstance(decode_position(key, value, "east", "west"), MalformedRecord)


@given(st.text(min_size=1), st.integers(0, 1000), st.integers(0, 1 << 62))
def test_whatever_connect_writes_is_read_back(topic, partition, offset):
    place = {"cluster": "east", "partition": partition, "topic": topic}
    key = json.dumps(["MirrorSourceConnector", place]).encode()
    found = decode_position(key, json.dumps({"offset": offset}).encode(), "east", "west")
    assert found == SourcePosition(TopicPartition(topic, partition), offset)
