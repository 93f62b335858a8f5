"""Batches written anew: what goes in comes out, densely, whatever the records look like."""

from dataclasses import replace
from itertools import pairwise

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.batches import (
    CODECS,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    PlainRecord,
    batch_of,
    data,
    marker,
    plain_batches,
    plain_logs,
)
from mmtool.kafka.batches import (
    BatchError,
    Codec,
    CorruptBatchError,
    OversizeRecordError,
    RebuildReason,
    Segment,
    as_is,
    coalesce,
    decode,
    iter_batches,
    raw_records,
    rebuild,
    rebuild_reason,
    split,
    verify_crc,
    view_of,
)

PLENTY = 1 << 30


def views_of(log):
    return list(iter_batches(b"".join(batch.write() for batch in log)))


def meant(log, position=0):
    """What a consumer reads from the log: offset, time, and the rest."""
    return [
        (
            record.offset,
            batch.max_timestamp if batch.flags & LOG_APPEND_TIME else record.timestamp,
            record.attributes,
            record.key,
            record.value,
            record.headers,
        )
        for batch in log
        for record in batch.records
        if record.offset >= position
    ]


def held(batches):
    """What the batches hold, at the upstream offsets that their segments tell."""
    found = []
    for batch in batches:
        view = view_of(batch.payload)
        places = [s.upstream_start + i for s in batch.segments for i in range(s.count)]
        for place, raw, record in zip(places, raw_records(view), decode(view), strict=True):
            found.append((place, raw.timestamp, raw.attributes, record.key, record.value, record.headers))
    return found


def check(batches, limit=PLENTY):
    """The invariants of `ReadyBatch` that every batch keeps, however it was made."""
    for batch in batches:
        header = view_of(batch.payload).header
        assert sum(s.count for s in batch.segments) == batch.record_count == header.record_count > 0  # A
        offsets = [raw.offset for raw in raw_records(view_of(batch.payload))]
        assert offsets == list(range(header.last_offset_delta + 1))  # B
        verify_crc(view_of(batch.payload))  # C
        ends = [(s.upstream_start, s.upstream_start + s.count) for s in batch.segments]
        assert all(stop < start for (_, stop), (start, _) in pairwise(ends))  # D: and maximal
        assert ends[-1][1] <= batch.upstream_next
        assert header.attributes in set(Codec)
        assert header.size == batch.size <= limit
    assert all(one.upstream_next == two.upstream_start for one, two in pairwise(batches))


@given(plain_logs(), st.integers(0, 10))
def test_every_record_survives_bit_for_bit_in_order_at_its_offset(log, ahead):
    position = log[0].base_offset + ahead

    batches = rebuild(views_of(log), position=position, max_batch_bytes=PLENTY)

    assert held(batches) == meant(log, position)
    check(batches)
    if batches:
        assert batches[-1].upstream_next == log[-1].last_offset + 1


@given(plain_batches(base_offset=5))
def test_the_header_says_what_the_records_say(batch):
    (ready,) = rebuild(views_of([batch]), position=0, max_batch_bytes=PLENTY)

    header = view_of(ready.payload).header
    times = [record[1] for record in meant([batch])]
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
    assert header.codec == CODECS[batch.codec]
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)


def readable(batch, codec):
    """What aiokafka's reader can read: no record attributes, times of our century, header names in UTF-8."""
    records = [
        replace(record, timestamp=1_700_000_000_000 + i * 7 % 5, attributes=0, headers=READABLE_HEADERS)
        for i, record in enumerate(batch.records)
    ]
    return replace(batch_of(records, codec=codec), last_offset=batch.last_offset)


READABLE_HEADERS = ((b"name", b"\xff"), (b"null", None), (b"name", b""))


@pytest.mark.parametrize("codec", sorted(CODECS))
@settings(max_examples=30)
@given(batch=plain_batches(), producer=st.tuples(st.integers(0, 99), st.integers(0, 9), st.integers(0, 99)))
def test_aiokafkas_reader_reads_what_was_written(codec, batch, producer):
    plain = readable(batch, codec)
    (ready,) = rebuild(views_of([plain]), position=0, max_batch_bytes=PLENTY)
    ready.stamp(*producer)

    read = MemoryRecords(bytes(ready.payload)).next_batch()

    assert read.validate_crc()
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == producer
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in read] == [
        (i, r.timestamp, r.key, r.value, [(name.decode(), value) for name, value in r.headers])
        for i, r in enumerate(plain.records)
    ]


def test_a_rebuilt_dense_batch_is_the_batch_that_its_producer_wrote(view):
    written = data(0, 50)

    (ready,) = rebuild([view(written)], position=0, max_batch_bytes=PLENTY)

    as_it_is = as_is(view(written))
    ready.stamp(1, 2, 3)
    as_it_is.stamp(1, 2, 3)
    assert ready.payload == as_it_is.payload


@pytest.mark.parametrize(
    "record",
    [
        PlainRecord(0, key=None, value=None),
        PlainRecord(0, key=b"", value=b""),
        PlainRecord(0, headers=((b"a", b"1"), (b"a", b"2"), (b"a", b"1"))),
        PlainRecord(0, headers=((b"null", None), (b"empty", b""))),
        PlainRecord(0, headers=((b"\xff\xfe\x00", b"not utf-8"), (b"", b"no name"), ("é".encode(), b""))),
        PlainRecord(0, headers=tuple((b"h%d" % i, b"x") for i in range(1000))),
        PlainRecord(0, timestamp=0),
        PlainRecord(0, timestamp=-1),
        PlainRecord(0, timestamp=-(2**63)),
        PlainRecord(0, timestamp=2**63 - 1),
        PlainRecord(0, timestamp=1_700_000_000_000_000_000),
        PlainRecord(0, value=bytes(1 << 20)),
        PlainRecord(0, attributes=0xA5),
    ],
    ids=[
        "null key and value", "empty key and value", "repeated headers", "null and empty header",
        "header names that are no utf-8", "1000 headers", "time 0", "time -1", "first long", "last long",
        "nanoseconds", "1 MiB of value", "record attributes",
    ],
)  # fmt: skip
@pytest.mark.parametrize("codec", sorted(CODECS))
def test_an_odd_record_comes_through(record, codec):
    plain = [PlainRecord(0), replace(record, offset=2), PlainRecord(3, timestamp=5)]
    log = [batch_of(plain, codec=codec)]

    batches = rebuild(views_of(log), position=0, max_batch_bytes=PLENTY)

    assert held(batches) == meant(log)
    check(batches)


def reason_of(view, position=0, limit=PLENTY):
    return rebuild_reason(view, position=position, max_batch_bytes=limit)


HOLED = replace(batch_of([PlainRecord(at) for at in (10, 11, 14, 20)]), last_offset=25)
APPENDED = replace(
    batch_of([PlainRecord(at, 900 - at) for at in range(3)], flags=LOG_APPEND_TIME), max_timestamp=7
)
HORIZON = replace(batch_of([PlainRecord(0, 5), PlainRecord(1, 6)], flags=DELETE_HORIZON), base_timestamp=99)
IN_PART = batch_of([PlainRecord(0), PlainRecord(4)], flags=TRANSACTIONAL, producer=(8, 1, 0))


@pytest.mark.parametrize(
    ("plain", "position", "reason"),
    [
        (HOLED, 0, RebuildReason.HOLES),
        (IN_PART, 0, RebuildReason.HOLES),
        (batch_of([PlainRecord(at) for at in range(10, 20)]), 17, RebuildReason.STARTS_BEFORE_POSITION),
        (APPENDED, 0, RebuildReason.LOG_APPEND_TIME),
        (HORIZON, 0, RebuildReason.DELETE_HORIZON),
    ],
)
def test_what_cannot_move_as_it_is_is_rebuilt_for_its_reason(plain, position, reason, view):
    found = view(plain.write())

    batches = rebuild([found], position=position, max_batch_bytes=PLENTY)

    assert reason_of(found, position) is reason
    assert held(batches) == meant([plain], position)
    check(batches)


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_a_batch_above_the_limit_is_split_into_batches_within_it(codec, view):
    plain = [PlainRecord(at, value=bytes((at * 37 + i * i) % 256 for i in range(900))) for at in range(40)]
    written = batch_of(plain, codec=codec)
    limit = len(written.write()) // 3

    batches = rebuild(views_of([written]), position=0, max_batch_bytes=limit)

    assert reason_of(view(written.write()), limit=limit) is RebuildReason.TOO_LARGE
    assert held(batches) == meant([written])
    check(batches, limit)
    assert len(batches) > 2


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_old_formats_become_format_2_with_the_same_codec(magic, codec, view):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    builder.append(0, timestamp=77, key=b"k", value=None)
    found = view(bytes(builder.build()))

    (ready,) = rebuild([found], position=0, max_batch_bytes=PLENTY)

    rebuilt = view_of(ready.payload)
    assert reason_of(found) is RebuildReason.OLD_MAGIC
    assert [tuple(record) for record in decode(rebuilt)] == [(0, 77 if magic else -1, b"k", None, ())]
    assert rebuilt.header.codec == codec


def test_an_emptied_batch_gives_nothing_to_send(view):
    emptied = view(replace(batch_of([PlainRecord(3)]), records=(), last_offset=9).write())

    assert rebuild([emptied], position=0, max_batch_bytes=PLENTY) == []


@pytest.mark.parametrize(
    ("behind", "frontier"),
    [(replace(batch_of([PlainRecord(3)]), records=(), last_offset=9).write(), 10), (marker(3, 4, 1), 4)],
    ids=["emptied batch", "marker"],
)
def test_what_has_no_record_behind_data_moves_the_frontier(behind, frontier):
    views = [view_of(data(0, 3, pid=4, transactional=True)), view_of(behind)]

    (ready,) = rebuild(views, position=0, max_batch_bytes=PLENTY)

    assert (ready.record_count, ready.upstream_next) == (3, frontier)


def test_another_codec_begins_another_batch():
    views = [view_of(data(0, 3, codec=codec)) for codec in ("lz4",)] + [view_of(data(3, 3, codec="zstd"))]

    batches = rebuild(views, position=0, max_batch_bytes=PLENTY)

    assert [view_of(batch.payload).header.codec for batch in batches] == [Codec.LZ4, Codec.ZSTD]
    assert [batch.upstream_next for batch in batches] == [3, 6]


def test_a_record_too_large_for_the_target_is_named():
    views = [view_of(batch_of([PlainRecord(70), PlainRecord(71, value=bytes(5000))]).write())]

    with pytest.raises(OversizeRecordError, match="source offset 71 needs a batch of 50") as caught:
        rebuild(views, position=0, max_batch_bytes=4000)

    assert (caught.value.upstream_offset, caught.value.limit) == (71, 4000)


def test_a_dead_lettered_record_can_be_left_out():
    views = [
        view_of(batch_of([PlainRecord(70), PlainRecord(71, value=bytes(5000)), PlainRecord(72)]).write())
    ]

    (ready,) = rebuild(views, position=0, max_batch_bytes=4000, without={71})

    assert ready.segments == (Segment(70, 1), Segment(72, 1))


def test_a_record_that_no_codec_shrinks_goes_plain_when_only_that_fits(view):
    noise = bytes((i * i * 31 + i // 7 * 13) % 256 for i in range(300))
    record = batch_of([PlainRecord(0, value=noise)])
    limit = len(record.write())

    (ready,) = rebuild(
        views_of(
            [replace(record, codec="snappy"), replace(record, records=(), base_offset=1, last_offset=1)]
        ),
        position=0,
        max_batch_bytes=limit,
    )

    assert view_of(ready.payload).header.codec is Codec.NONE


def test_a_corrupt_batch_is_not_given_a_fresh_checksum():
    broken = bytearray(data(5, 3))
    broken[-1] ^= 1

    with pytest.raises(CorruptBatchError, match="offsets 5 to 7"):
        rebuild([view_of(broken)], position=6, max_batch_bytes=PLENTY)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_cannot_be_decompressed_are_an_error(codec, view):
    written = bytearray(data(5, 30, codec=codec))
    written[70:] = bytes(len(written) - 70)

    with pytest.raises(BatchError, match="the batch at offset 5"):
        raw_records(view(written))


@given(plain_batches(codec="none"), st.data())
def test_a_damaged_records_section_never_reads_beyond_its_batch(batch, draw):
    written = bytearray(batch.write())
    at = draw.draw(st.integers(61, len(written) - 1))
    written[at] = draw.draw(st.integers(0, 255))

    try:
        records = list(decode(view_of(written)))
    except BatchError:
        return
    assert len(records) == len(batch.records)


@given(plain_logs(), st.integers(0, 4000), st.integers(0, 5))
def test_coalescing_changes_how_records_are_grouped_and_nothing_else(log, target_bytes, ahead):
    position = log[0].base_offset + ahead

    batches = coalesce(views_of(log), position=position, max_batch_bytes=PLENTY, target_bytes=target_bytes)

    for batch in batches:
        batch.stamp(1, 1, 1)
    assert held(batches) == meant(log, position)
    check(batches)


def test_small_neighbours_are_joined_up_to_the_target_size():
    views = [view_of(data(at)) for at in range(100, 200)]
    target_bytes = views[0].header.size * 10

    batches = coalesce(views, position=0, max_batch_bytes=PLENTY, target_bytes=target_bytes)

    assert [batch.record_count for batch in batches] == [10] * 10
    assert all(batch.size <= target_bytes for batch in batches)


def test_a_batch_of_half_the_target_moves_as_it_is():
    views = [view_of(data(0, 40)), view_of(data(40)), view_of(data(41))]

    batches = coalesce(views, position=0, max_batch_bytes=PLENTY, target_bytes=views[0].header.size * 2)

    assert [batch.record_count for batch in batches] == [40, 2]
    assert bytes(batches[0].payload) == bytes(views[0].memory)


def test_coalescing_leaves_dead_lettered_records_out():
    views = [view_of(data(0, 40)), view_of(data(40, 3))]

    batches = coalesce(views, position=0, max_batch_bytes=PLENTY, target_bytes=0, without={41})

    assert [batch.segments for batch in batches] == [(Segment(0, 40),), (Segment(40, 1), Segment(42, 1))]


def test_without_a_target_size_only_what_must_be_rebuilt_is():
    views = [view_of(data(at)) for at in range(5)]

    batches = coalesce(views, position=0, max_batch_bytes=PLENTY, target_bytes=0)

    assert [bytes(batch.payload) for batch in batches] == [data(at) for at in range(5)]


@given(plain_batches(max_records=8))
def test_a_split_batch_holds_the_same_records_in_halves(batch):
    (whole,) = rebuild(views_of([replace(batch, flags=0)]), position=0, max_batch_bytes=PLENTY)
    whole.stamp(4, 4, 4)
    if whole.record_count == 1:
        with pytest.raises(OversizeRecordError, match=f"source offset {whole.upstream_start} "):
            split(whole, max_batch_bytes=PLENTY)
        return

    halves = split(whole, max_batch_bytes=PLENTY)

    assert held(halves) == held([whole])
    assert halves[-1].upstream_next == whole.upstream_next
    check(halves)
    assert len(halves) == 2
