"""A batch that is small and claims to be large, or is: it is refused before it fills the memory."""

import gzip
import struct
import zlib

import cramjam
import pytest

from kit.batches import CODECS, PlainBatch, PlainRecord, packed
from kit.resident import resident_growth
from mmtool.kafka.batches import BatchError, decode, iter_batches, raw_records
from mmtool.kafka.batches.compression import MOST_BYTES
from mmtool.kafka.batches.header import MOST_RECORDS, LargeBatchError

SPARE = 16 << 20


def bomb(codec, section, count=1):
    """A batch whose records are these compressed bytes."""
    checked = struct.pack(">hiqqqhii", CODECS[codec], 0, 0, 0, -1, -1, -1, count) + section
    body = struct.pack(">ibI", 0, 2, 0) + checked
    return struct.pack(">qi", 0, len(body)) + body


def section_of(codec, size):
    if codec == "gzip":
        squeezed = zlib.compressobj(level=1, wbits=31)
        piece = bytes(1 << 20)
        return b"".join(squeezed.compress(piece) for _ in range(size >> 20)) + squeezed.flush()
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(bytes(size)))
    return packed(codec, bytes(size))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_inflate_beyond_the_limit_are_refused(codec):
    (view,) = iter_batches(bomb(codec, section_of(codec, MOST_BYTES + (1 << 20))))
    with pytest.raises(LargeBatchError, match=f"more than {MOST_BYTES >> 20} MiB") as refused:
        raw_records(view)
    assert refused.value.next_offset == view.header.next_offset


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_below_the_limit_are_read_however_well_they_compress(codec):
    """A log of constant values shrinks a thousand times and is no attack."""
    batch = PlainBatch(0, 0, (PlainRecord(0, 0, None, bytes(32 << 20)),), codec=codec).write()
    (view,) = iter_batches(batch)
    assert [len(record.value) for record in decode(view)] == [32 << 20]


def test_snappy_that_claims_four_gigabytes_is_refused_before_they_are_reserved():
    (view,) = iter_batches(bomb("snappy", b"\xff\xff\xff\xff\x0f\x00"))
    with pytest.raises(BatchError, match=f"more than {MOST_BYTES >> 20} MiB"):
        raw_records(view)


def test_a_batch_that_claims_two_billion_records_is_refused_at_once():
    (view,) = iter_batches(bomb("none", bytes(1000), count=(1 << 31) - 1))
    with pytest.raises(LargeBatchError, match=f"has 2147483647 records; .* at most {MOST_RECORDS} of one"):
        raw_records(view)


@pytest.mark.parametrize("length", [-12, -1, 0, 13, 1 << 30, -(1 << 31)])
def test_a_wrapped_message_of_an_impossible_length_is_refused(length):
    """On a length of -12 a reader that trusts it stands still for ever."""
    inner = struct.pack(">qiIbbq", 0, length, 0, 1, 0, 5) + bytes(40)
    value = gzip.compress(inner)
    body = struct.pack(">bbqi", 1, 1, 5, -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">qiI", 3, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(BatchError, match=f"a wrapped message of {length + 12} bytes"):
        list(iter_batches(message))


def test_the_memory_of_a_bomb_is_given_back():
    """Python does not count it: it is the codec's."""
    views = [next(iter_batches(bomb("zstd", section_of("zstd", MOST_BYTES + 1)))) for _ in range(2)]
    with resident_growth() as growth:
        for view in views:
            with pytest.raises(BatchError):
                raw_records(view)
    assert growth.most < MOST_BYTES + SPARE
    assert growth.left < SPARE
