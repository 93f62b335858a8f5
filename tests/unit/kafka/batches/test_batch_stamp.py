"""Batches moved as they are, and batches of empty records."""

from dataclasses import replace

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.batches import (
    DELETE_HORIZON,
    TRANSACTIONAL,
    PlainRecord,
    batch_of,
    data,
    marker,
    plain_batches,
)
from mmtool.kafka.batches import (
    BatchError,
    Codec,
    CorruptBatchError,
    RebuildReason,
    Segment,
    as_is,
    decode,
    iter_batches,
    raw_records,
    rebuild_reason,
    verify_crc,
    view_of,
)
from mmtool.kafka.batches.checksum import crc32c, push
from mmtool.kafka.batches.ready import MOST_FILLER, filler, is_filler

producers = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1))


@given(plain_batches(base_offset=70, dense=True), producers)
def test_a_stamped_batch_holds_the_same_records_under_our_address(batch, producer):
    (view,) = iter_batches(batch.write())
    ready = as_is(view)

    ready.stamp(*producer)

    stamped = view_of(ready.payload).header
    assert (stamped.base_offset, stamped.leader_epoch) == (0, -1)
    assert (stamped.producer_id, stamped.producer_epoch, stamped.base_sequence) == producer
    assert bytes(ready.payload[61:]) == bytes(view.records)  # D, and everything inside
    assert stamped.last_offset_delta + 1 == stamped.record_count == ready.record_count  # B
    assert sum(segment.count for segment in ready.segments) == ready.record_count  # A
    verify_crc(view_of(ready.payload))  # C
    assert MemoryRecords(bytes(ready.payload)).next_batch().validate_crc()


@given(plain_batches(dense=True), producers, producers)
def test_stamping_again_gives_the_same_bytes_whatever_was_stamped_between(batch, producer, another):
    ready = as_is(view_of(batch.write()))
    ready.stamp(*producer)
    first = bytes(ready.payload)

    ready.stamp(*producer)
    assert bytes(ready.payload) == first  # E

    ready.stamp(*another)
    ready.stamp(*producer)
    assert bytes(ready.payload) == first


def test_the_bits_that_belong_to_the_source_are_cleared():
    batch = batch_of([PlainRecord(0)], flags=TRANSACTIONAL | DELETE_HORIZON, codec="lz4", producer=(5, 1, 9))
    ready = as_is(view_of(batch.write()))

    ready.stamp(77, 0, 0)

    assert view_of(ready.payload).header.attributes == 3
    verify_crc(view_of(ready.payload))


def test_a_bit_that_flipped_on_the_way_is_not_signed_away():
    flipped = bytearray(data(0, 10))
    flipped[-3] ^= 0x10
    ready = as_is(view_of(flipped))

    ready.stamp(77, 0, 0)

    with pytest.raises(CorruptBatchError):
        verify_crc(view_of(ready.payload))


def test_the_ready_batch_knows_where_its_records_come_from():
    ready = as_is(view_of(data(40, 3)))

    assert ready.segments == (Segment(40, 3),)
    assert (ready.upstream_start, ready.upstream_next, ready.size) == (40, 43, len(data(40, 3)))


def test_the_ready_batch_outlives_the_fetch_answer():
    answer = bytearray(data(0))
    ready = as_is(view_of(answer))

    answer[61:] = bytes(len(answer) - 61)

    assert bytes(ready.payload) == data(0)


def test_a_marker_cannot_be_made_ready():
    with pytest.raises(BatchError, match="offset 8"):
        as_is(view_of(marker(8, 1, 0)))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 300_000, 2**20, 2 * 2**20 + 4097])
def test_a_checksum_difference_is_pushed_through_any_number_of_bytes(size):
    one, two, tail = b"a" * 40, bytes(range(40)), bytes(i * 7 % 251 for i in range(997)) * (size // 997 + 1)

    expected = crc32c(one + tail[:size]) ^ crc32c(two + tail[:size])

    assert push(crc32c(one) ^ crc32c(two), size) == expected


def reason(batch, position=0, limit=1 << 20):
    return rebuild_reason(view_of(batch), position=position, max_batch_bytes=limit)


def test_a_dense_batch_moves_as_it_is():
    assert reason(data(10, 5), position=10) is None
    assert reason(data(10, 5, transactional=True, pid=4), position=3) is None


def test_a_batch_of_exactly_the_limit_moves_as_it_is():
    assert reason(data(0), limit=len(data(0))) is None


def test_a_batch_above_the_limit_is_rebuilt():
    assert reason(data(0), limit=len(data(0)) - 1) is RebuildReason.TOO_LARGE


def test_a_compacted_batch_is_rebuilt():
    holed = batch_of([PlainRecord(0), PlainRecord(2)])
    tail = replace(batch_of([PlainRecord(0)]), last_offset=1)

    assert [reason(holed.write()), reason(tail.write())] == [RebuildReason.HOLES, RebuildReason.HOLES]


@given(plain_batches(base_offset=100), st.integers(90, 120))
def test_without_a_reason_the_records_are_dense_and_keep_their_meaning(batch, position):
    (view,) = iter_batches(batch.write())

    if rebuild_reason(view, position=position, max_batch_bytes=1 << 20) is None:
        ready = as_is(view)
        ready.stamp(1, 1, 1)
        expected = [raw._replace(offset=raw.offset - 100) for raw in raw_records(view)]
        assert raw_records(view_of(ready.payload)) == expected
        assert [raw.offset for raw in expected] == list(range(len(expected)))


OWN, OTHER = 7, 8
WIDTHS = st.sampled_from([1, 63, 64, 65, 8191, 8192, 8193])


def stamped(count):
    batch = filler(count)
    batch.stamp(OWN, 0, 3)
    return view_of(batch.payload)


@settings(max_examples=20, deadline=None)
@given(WIDTHS | st.integers(1, 20_000))
def test_a_batch_has_that_many_empty_records_without_a_time(count):
    view = stamped(count)
    verify_crc(view)
    assert (view.header.codec, view.header.max_timestamp) == (Codec.ZSTD, -1)
    records = list(decode(view))
    assert [record.offset for record in records] == list(range(count))
    assert {(record.key, record.value, tuple(record.headers)) for record in records} == {(None, None, ())}
    assert is_filler(view, OWN)
    assert not is_filler(view, OTHER)


def test_the_largest_batch_fits_the_default_limit_of_a_topic():
    assert 0 < filler(MOST_FILLER).size < 1 << 20


@pytest.mark.parametrize("changed", [{"value": b"x"}, {"key": b""}, {"headers": ((b"h", None),)}])
def test_a_batch_with_one_other_record_is_no_filler(changed):
    empty = [PlainRecord(n, -1, None, None) for n in range(100)]
    others = [*empty[:70], replace(empty[70], **changed), *empty[71:]]
    found = [
        is_filler(view_of(batch_of(records, producer=(OWN, 0, 3)).write()), OWN)
        for records in (empty, others)
    ]
    assert found == [True, False]
