"""Walking over a fetch answer, and read_committed over hand-made logs."""

import struct
from dataclasses import replace

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import (
    ABORT,
    CODECS,
    COMMIT,
    CONTROL,
    TRANSACTIONAL,
    PlainRecord,
    batch_of,
    data,
    marker,
    plain_logs,
)
from mmtool.kafka.batches import (
    AbortedFilter,
    BatchError,
    Codec,
    CorruptBatchError,
    decode,
    iter_batches,
    producer_ids,
    verify_crc,
)


@given(plain_logs())
def test_every_batch_is_found_where_it_lies_with_its_header(log):
    written = [batch.write() for batch in log]  # once: gzip puts the time of day into its header
    views = list(iter_batches(b"".join(written)))

    assert [bytes(view.memory) for view in views] == written
    assert [(view.header.base_offset, view.header.next_offset) for view in views] == [
        (batch.base_offset, batch.last_offset + 1) for batch in log
    ]
    assert [view.header.codec for view in views] == [Codec(CODECS[batch.codec]) for batch in log]


@given(plain_logs(max_batches=3), st.data())
def test_the_cut_tail_of_a_fetch_is_left_out(log, draw):
    written = [batch.write() for batch in log]
    cut = draw.draw(st.integers(0, sum(map(len, written))))
    whole = [sum(map(len, written[: i + 1])) <= cut for i in range(len(written))]

    views = list(iter_batches(b"".join(written)[:cut]))

    assert len(views) == sum(whole)


@given(plain_logs(max_batches=4), st.data())
def test_who_wrote_is_told_of_every_whole_batch_without_reading_it(log, draw):
    written = [replace(batch, producer=(draw.draw(st.integers(-1, 5)), 0, 0)).write() for batch in log]
    answer = b"".join(written)[: draw.draw(st.integers(0, sum(map(len, written))))]

    assert producer_ids(answer) == {view.header.producer_id for view in iter_batches(answer)}


def test_nothing_is_copied(view):
    answer = bytearray(data(0))
    found = view(answer)

    answer[-1] ^= 0xFF

    assert bytes(found.memory) == bytes(answer)


@pytest.mark.parametrize("length", [-1, 0, 13, 48, -(2**31)])
def test_a_length_that_no_batch_can_have_is_an_error(length):
    broken = bytearray(data(0))
    struct.pack_into(">i", broken, 8, length)

    with pytest.raises(BatchError, match=f"length {length}, magic 2"):
        list(iter_batches(broken))


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_an_unknown_magic_is_an_error_even_in_a_cut_tail(magic):
    broken = bytearray(data(0))
    broken[16] = magic

    with pytest.raises(BatchError, match=f"magic {magic}"):
        list(iter_batches(broken[:20]))


def test_zeros_are_an_error_and_no_endless_walk():
    with pytest.raises(BatchError):
        list(iter_batches(bytes(1000)))


@pytest.mark.parametrize("at", [23, 57])
def test_a_negative_count_or_last_offset_delta_is_an_error(at):
    broken = bytearray(data(7))
    struct.pack_into(">i", broken, at, -5)

    with pytest.raises(BatchError, match="the batch at offset 7 contradicts itself"):
        list(iter_batches(broken))


def test_an_unknown_codec_is_an_error_when_asked_for(view):
    broken = bytearray(data(7))
    broken[22] |= 0x07

    with pytest.raises(BatchError, match="the batch at offset 7"):
        _ = view(broken).header.codec


def test_the_flags_are_told_apart(view):
    control, plain = view(marker(3, 9, 0)).header, view(data(3)).header

    assert (control.is_control, control.is_transactional) == (True, True)
    assert (plain.is_control, plain.is_transactional, plain.is_log_append_time) == (False, False, False)


@given(plain_logs(max_batches=1), st.data())
def test_any_flipped_bit_under_the_checksum_is_noticed(log, draw):
    written = bytearray(log[0].write())
    at = draw.draw(st.integers(21 * 8, len(written) * 8 - 1))
    (found,) = iter_batches(bytes(written))
    verify_crc(found)

    written[at // 8] ^= 1 << at % 8

    with pytest.raises(CorruptBatchError, match=f"offsets {found.header.base_offset} to"):
        verify_crc(found._replace(memory=memoryview(written)))


def legacy(magic, codec, *records):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, timestamp, key, value in records:
        builder.append(offset, timestamp=timestamp, key=key, value=value)
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_compressed_old_message_shows_the_offsets_and_times_of_what_it_wraps(codec, view):
    wrapper = bytearray(legacy(1, codec, (0, 50, b"a", b"1"), (1, 70, None, b""), (2, 60, b"c", None)))
    struct.pack_into(">q", wrapper, 0, 102)  # brokers put the last inner offset there

    found = view(wrapper)

    assert (found.header.base_offset, found.header.last_offset, found.header.record_count) == (100, 102, 3)
    assert (found.header.base_timestamp, found.header.max_timestamp) == (50, 70)
    assert [tuple(record)[:4] for record in decode(found)] == [
        (100, 50, b"a", b"1"),
        (101, 70, None, b""),
        (102, 60, b"c", None),
    ]


def test_ten_thousand_old_messages_in_one_answer_are_walked():
    answer = b"".join(legacy(1, 0, (at, 5, None, b"v")) for at in range(10_000)) + data(10_000, 2)

    views = list(iter_batches(answer))

    assert [view.header.next_offset for view in views[-2:]] == [10_000, 10_002]
    assert len(views) == 10_001


def test_an_old_message_without_time_gets_kafkas_no_timestamp(view):
    assert [record.timestamp for record in decode(view(legacy(0, 0, (4, None, b"k", b"v"))))] == [-1]


def test_a_corrupt_old_message_is_noticed(view):
    broken = bytearray(legacy(1, 0, (4, 9, b"k", b"value")))
    broken[-1] ^= 1

    with pytest.raises(CorruptBatchError, match="offsets 4 to 4"):
        verify_crc(view(broken))


def test_an_old_message_that_ends_within_a_field_is_named_by_its_offset(view):
    """A key whose length takes all but two bytes leaves too few for the length of the value."""
    broken = bytearray(legacy(1, 0, (4, 9, b"k", b"value")))
    at_length = 26  # after offset, length, CRC-32, magic, attributes and timestamp
    struct.pack_into(">i", broken, at_length, len(broken) - at_length - 4 - 2)

    with pytest.raises(BatchError, match="message at offset 4 cannot be read: it ends within a field"):
        list(decode(view(broken)))


def test_an_empty_batch_that_compaction_left_is_seen_as_empty(view):
    emptied = replace(batch_of([PlainRecord(5)]), records=(), last_offset=9)

    header = view(emptied.write()).header

    assert (header.is_empty, header.next_offset) == (True, 10)


def admitted(aborted, *log):
    admits = AbortedFilter(aborted).admits
    return [view.header.base_offset for view in iter_batches(b"".join(log)) if admits(view)]


def txn(offset, pid, count=1):
    return data(offset, count, pid=pid, transactional=True)


WIDENED = replace(
    batch_of([PlainRecord(2)], flags=TRANSACTIONAL, producer=(7, 0, 0)), base_offset=0, last_offset=5
)
EMPTIED = replace(batch_of([PlainRecord(1)], flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1)), records=())
READ_COMMITTED = {
    "no transaction was aborted": ([], [data(0), txn(1, 7), marker(2, 7, COMMIT), data(3)], [0, 1, 3]),
    "aborted until its marker": (
        [(7, 0)], [txn(0, 7), txn(1, 7), marker(2, 7, ABORT), txn(3, 7), marker(4, 7, COMMIT)], [3],
    ),
    "interleaved producers": (
        [(3, 2), (1, 0), (2, 9)],
        [
            txn(0, 1), txn(1, 2), txn(2, 3), data(3), txn(4, 1),
            marker(5, 2, COMMIT), txn(6, 3), marker(7, 1, ABORT), txn(8, 1),
            txn(9, 2), marker(10, 3, ABORT), marker(11, 1, COMMIT), marker(12, 2, ABORT), txn(13, 3),
        ],
        [1, 3, 8, 13],
    ),
    "a committed one between two aborted ones": (
        [(7, 0), (7, 4)],
        [
            txn(0, 7), marker(1, 7, ABORT), txn(2, 7), marker(3, 7, COMMIT),
            txn(4, 7), marker(5, 7, ABORT), txn(6, 7),
        ],
        [2, 6],
    ),
    "began before the fetch": (
        [(7, 3)], [txn(100, 7), data(101), marker(102, 7, ABORT), txn(103, 7)], [101, 103],
    ),
    "a plain batch of an aborting producer": ([(7, 0)], [data(0, pid=7), txn(1, 7)], [0]),
    "starts inside a compacted batch": ([(7, 1)], [WIDENED.write()], []),
    "a commit marker of another one": (
        [(7, 0)], [txn(0, 7), marker(1, 8, ABORT), marker(2, 7, COMMIT), txn(3, 7)], [],
    ),
    "an emptied marker ends nothing": (
        [(7, 0)], [txn(0, 7), EMPTIED.write(), txn(2, 7), marker(3, 7, ABORT), txn(4, 7)], [4],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("aborted", "log", "passing"), READ_COMMITTED.values(), ids=READ_COMMITTED)
def test_batches_of_aborted_transactions_and_markers_are_left_out(aborted, log, passing):
    assert admitted(aborted, *log) == passing


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_marker_without_a_type_is_an_error(key):
    unreadable = batch_of([PlainRecord(1, key=key)], flags=CONTROL | TRANSACTIONAL, producer=(7, 0, -1))

    with pytest.raises(BatchError, match="the control batch at offset 1"):
        admitted([(7, 0)], txn(0, 7), unreadable.write())
