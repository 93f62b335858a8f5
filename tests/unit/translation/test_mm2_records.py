"""MirrorMaker 2's records, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.mm2_records import (
    Checkpoint,
    Heartbeat,
    MalformedRecord,
    OffsetSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
)
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

SYNC = OffsetSync(TopicPartition("orders", 3), UpstreamOffset(258), DownstreamOffset(2**63 - 1))
CHECKPOINT = Checkpoint(
    "billing", TopicPartition("east.orders", 1), UpstreamOffset(5), DownstreamOffset(7), "é"
)
HEARTBEAT = Heartbeat("east", "west", 1_700_000_000_000)

GOLDEN = [
    (
        SYNC,
        decode_offset_sync,
        b"\x00\x06orders\x00\x00\x00\x03",
        b"\x00\x00\x00\x00\x00\x00\x01\x02\x7f\xff\xff\xff\xff\xff\xff\xff",
    ),
    (
        CHECKPOINT,
        decode_checkpoint,
        b"\x00\x07billing\x00\x0beast.orders\x00\x00\x00\x01",
        b"\x00\x00" + b"\x00" * 7 + b"\x05" + b"\x00" * 7 + b"\x07" + b"\x00\x02\xc3\xa9",
    ),
    (
        HEARTBEAT,
        decode_heartbeat,
        b"\x00\x04east\x00\x04west",
        b"\x00\x00\x00\x00\x01\x8b\xcf\xe5\x68\x00",
    ),
]
DECODERS = [decode_offset_sync, decode_checkpoint, decode_heartbeat]
golden = pytest.mark.parametrize(("record", "decode", "key", "value"), GOLDEN)

names = st.text(st.characters(codec="utf-8"), max_size=30)
int64s = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**63 - 1)
partitions = st.builds(TopicPartition, names, st.integers(-(2**31), 2**31 - 1))


@golden
def test_a_record_has_mm2s_bytes_and_trailing_ones_are_ignored_as_mm2_does(record, decode, key, value):
    assert (record.key(), record.value()) == (key, value)
    assert decode(key, value) == decode(key + b"more", value + b"more") == record


@golden
def test_any_cut_is_malformed(record, decode, key, value):
    cuts = [(key[:at], value) for at in range(len(key))] + [(key, value[:at]) for at in range(len(value))]
    assert {type(decode(*cut)) for cut in cuts} == {MalformedRecord}


@golden
def test_a_tombstone_and_a_record_without_key_are_malformed(record, decode, key, value):
    assert decode(key, None) == MalformedRecord("a tombstone, which MM2 never writes")
    assert decode(None, value) == MalformedRecord("no key")


SYNCS = st.builds(OffsetSync, partitions, offsets, offsets)
CHECKPOINTS = st.builds(Checkpoint, names, partitions, offsets, offsets, names)
HEARTBEATS = st.builds(Heartbeat, names, names, int64s)


@given(st.tuples(SYNCS, CHECKPOINTS, HEARTBEATS))
def test_each_record_comes_back(records):
    found = [decode(record.key(), record.value()) for decode, record in zip(DECODERS, records, strict=True)]
    assert tuple(found) == records


@pytest.mark.parametrize(
    ("decode", "key", "value", "reason"),
    [
        (decode_offset_sync, b"\xff\xff", b"", "a string of length -1"),
        (decode_offset_sync, b"\x00\x01\xff\x00\x00\x00\x00", b"\x00" * 16, "a string that is not UTF-8"),
        (decode_heartbeat, b"\x00\x00\x00\x00", b"\x00\x01" + b"\x00" * 8, "version 1: MM2 knows 0"),
        (decode_offset_sync, b"\x00\x00\x00", b"", "cut off: 3 bytes of key, 0 of value"),
        (decode_offset_sync, b"\x00" * 6, b"\x00" * 8 + b"\xff" * 8, "offset -1"),
        (decode_checkpoint, b"\x00" * 8, b"\x00\x00" + b"\xff" * 8 + b"\x00" * 10, "offset -1"),
    ],
)
def test_a_malformed_record_says_why(decode, key, value, reason):
    assert decode(key, value) == MalformedRecord(reason)


def test_a_string_longer_than_an_int16_says_so():
    too_long = Heartbeat("e" * 32_768, "west", 0)
    with pytest.raises(ValueError, match="32768 bytes"):
        too_long.key()
    assert len(Heartbeat("e" * 32_767, "", 0).key()) == 32_771
