"""Blocks survive their bytes, and bytes that are not a block are refused."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ORDERS, ModelMirror, mirrors
from mmtool.translation.block_codec import (
    decode_block,
    decode_key,
    encode_block,
    encode_key,
)
from mmtool.translation.blocks import (
    MAX_RUNS,
    Block,
    BlockKey,
    MirroredTo,
    MirrorStart,
    NothingMirrored,
    SeenOffset,
    WriterState,
)
from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.runs import RunMap
from mmtool.translation.types import UNKNOWN, ClusterId, DownstreamOffset, TopicId, UpstreamOffset

START = MirrorStart(UpstreamOffset(3), DownstreamOffset(40))


def block(runs: int = 1, gap: int = 1) -> Block:
    """A block with everything known, and that many runs."""
    recorder = MapRecorder.begin(ORDERS, START)
    seen = SeenOffset(UpstreamOffset(10_000_000), 1_780_000_000_000)
    recorder.saw_source(seen, SeenOffset(UpstreamOffset(0), 1_780_000_000_000))
    for i in range(runs):
        up, down = UpstreamOffset(3 + i * (10 + gap)), DownstreamOffset(40 + i * 10)
        recorder.appended(up, down, 10, writer=WriterState(4000, 2, 10 * i))
        recorder.passed(UpstreamOffset(up + 10), leader_epoch=11)
    return recorder.take()[-1]


def framed(version: int, body: bytes) -> bytes:
    return struct.pack(">BI", version, zlib.crc32(body, version)) + body


@given(st.lists(mirrors(), max_size=3))
def test_blocks_of_any_chains_come_back_from_their_bytes(several: list[ModelMirror]):
    for mirror in several:
        mirror.flush()
    blocks = [block for mirror in several for block in mirror.stored.values()]
    assert [decode_block(encode_block(one)) for one in blocks] == blocks


def test_a_block_with_a_run_too_few_or_too_many_is_refused():
    short, long = bytearray(encode_block(block(2))[5:]), bytearray(encode_block(block(2))[5:])
    long += short[-3:]
    del short[-3:]
    for octets in (short, long):
        with pytest.raises(UnreadableStateError):
            decode_block(framed(2, bytes(octets)))


@given(mirrors())
def test_each_key_comes_back_from_its_bytes(mirror: ModelMirror):
    mirror.flush()
    assert [decode_key(encode_key(key)) for key in mirror.stored] == list(mirror.stored)


def test_what_is_not_known_comes_back_as_not_known():
    fresh = MapRecorder.begin(ORDERS, START).take()[0]
    again = decode_block(encode_block(fresh))
    assert again.tail == fresh.tail
    assert again.tail.writer is UNKNOWN
    assert again.tail.downstream_end == NothingMirrored(DownstreamOffset(40))


@pytest.mark.parametrize(
    ("count", "gap", "below"),
    [(1, 1, 250), (MAX_RUNS, 1, 21_000), (MAX_RUNS, 100, 21_000), (MAX_RUNS, 10_000, 21_000)],
)
def test_a_block_of_one_run_or_with_small_deltas_is_small_and_a_full_one_comes_back(count, gap, below):
    octets = encode_block(block(count, gap))
    assert len(octets) < below
    assert decode_block(octets) == block(count, gap)


def test_the_key_has_golden_bytes():
    key = BlockKey(TopicId("AB"), 1, UpstreamOffset(300))
    body = b"\x02AB" + b"\x01" + b"\xac\x02"
    assert encode_key(key) == framed(1, body)


def test_the_block_has_golden_bytes():
    about = replace(
        ORDERS,
        source_cluster_id=ClusterId("S"),
        target_cluster_id=ClusterId("T"),
        topic_id=TopicId("I"),
        partition=7,
        source_topic="a",
        target_topic="S.a",
        target_topic_id=TopicId("J"),
    )
    recorder = MapRecorder.begin(about, START)
    recorder.saw_source(SeenOffset(UpstreamOffset(9), 128), SeenOffset(UpstreamOffset(3), 129))
    recorder.appended(UpstreamOffset(4), DownstreamOffset(41), 2, writer=WriterState(5, 6, 7))
    recorder.passed(UpstreamOffset(6), leader_epoch=8)
    body = (
        b"\x01S\x01T\x01a\x03S.a\x01I\x07\x01J"  # about
        b"\x7a"  # flags: mirrored, end, start, writer, epoch
        b"\x03\x03\x28"  # block start, mirror start
        b"\x06\x2b"  # frontier, downstream end
        b"\x09\x80\x01\x03\x81\x01"  # source end and log start
        b"\x05\x06\x07\x08"  # producer id, epoch, next sequence; leader epoch
        b"\x01\x04\x29\x02"  # one run
    )
    assert encode_block(recorder.take()[0]) == framed(2, body)


def test_a_block_knows_its_flow_by_cluster_ids():
    one = block()
    source, target = ORDERS.source_cluster_id, ORDERS.target_cluster_id
    assert one.belongs_to(source, target)
    assert not one.belongs_to(target, source)


@given(st.data())
def test_any_changed_byte_is_noticed(data):
    octets = bytearray(encode_block(block(3)))
    at = data.draw(st.integers(0, len(octets) - 1))
    octets[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(UnreadableStateError):
        decode_block(bytes(octets))


@given(st.integers(0, 200))
def test_any_cut_is_noticed(length):
    octets = encode_block(block(3))
    with pytest.raises(UnreadableStateError):
        decode_block(octets[: min(length, len(octets) - 1)])


@given(st.binary(max_size=80), st.sampled_from([(decode_block, 2), (decode_key, 1)]))
def test_a_body_that_is_nonsense_with_a_right_checksum_is_refused(body, read):
    decode, version = read
    with pytest.raises(UnreadableStateError):
        decode(framed(version, body + b"\x80"))


def test_an_unknown_version_says_so():
    octets = encode_block(block())
    with pytest.raises(UnreadableStateError, match="it has version 3, and this mmtool reads version 2"):
        decode_block(framed(3, octets[5:]))


def test_flags_of_a_newer_version_are_refused():
    octets = bytearray(encode_block(block())[5:])
    at = octets.index(b"\x7a\x03\x03\x28")  # flags, block start, mirror start
    octets[at : at + 1] = b"\xfa\x10"
    with pytest.raises(UnreadableStateError, match="newer"):
        decode_block(framed(2, bytes(octets)))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda b: replace(b, runs=block(2).runs), "its last run ends at"),
        (lambda b: replace(b, runs=RunMap.from_runs(())), "contradict each other"),
        (
            lambda b: replace(b, tail=replace(b.tail, upstream_frontier=UpstreamOffset(12))),
            "frontier 12 is below its last mapped offset, 13",
        ),
        (
            lambda b: replace(b, tail=replace(b.tail, downstream_end=MirroredTo(DownstreamOffset(7)))),
            "its target end is 7",
        ),
        (lambda b: replace(b, runs=RunMap.from_runs(list(b.runs) * (MAX_RUNS + 1))), "more than 4096"),
    ],
)
def test_a_block_that_contradicts_itself_is_not_written(broken, why):
    with pytest.raises(UnreadableStateError, match=why):
        encode_block(broken(block()))
