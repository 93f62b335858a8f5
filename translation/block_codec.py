"""Encode blocks as bytes: record keys and values of ``mmtool-offset-runs.<source>.internal``.

Both begin with a version byte and a CRC-32 (big-endian) over version and body, so that unreadable data
is refused and not guessed. Numbers are unsigned varints, texts UTF-8 behind a varint length. Runs are three
varints each: the gap to the end of the run before on the source, the same on the target, and the count.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, assert_never
from zlib import crc32

import numpy as np

from mmtool.translation.blocks import (
    FIRST_BLOCK,
    MAX_RUNS,
    Block,
    BlockKey,
    FirstBlock,
    Follows,
    Gap,
    MirroredPartition,
    MirroredTo,
    MirrorStart,
    NothingMirrored,
    SeenOffset,
    Tail,
    WriterState,
)
from mmtool.translation.errors import InvariantError, UnreadableStateError
from mmtool.translation.runs import Offsets, RunMap
from mmtool.translation.types import UNKNOWN, ClusterId, DownstreamOffset, TopicId, Unknown, UpstreamOffset
from mmtool.translation.varints import decode_columns, encode_column, put_varint, take_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KEY_VERSION: Final = 1
BLOCK_VERSION: Final = 2  # 1, of before the first release, did not know the target topic's id
_TOGETHER_BYTES: Final = 40_000
"""Bytes of values that are decoded together: few enough to stay in the processor's cache [measured]."""
_HEADER = struct.Struct(">BI")
_KEY, _VALUE = "offset-runs key", "offset-runs block"

# The flags say which optional parts follow.
_SEALED, _MIRRORED, _FOLLOWS, _END_SEEN, _START_SEEN, _WRITER, _EPOCH, _CHECKED, _GAPS, _SAME = (
    1 << bit for bit in range(10)
)
_ALL_FLAGS = (1 << 10) - 1

_T = TypeVar("_T")


def encode_key(key: BlockKey) -> bytes:
    """The bytes of a record key: always the same for the same block, as compaction needs."""
    body = bytearray()
    _put_text(body, key.topic_id)
    put_varint(body, key.partition)
    put_varint(body, key.block_start)
    return _framed(KEY_VERSION, bytes(body))


def decode_key(data: bytes) -> BlockKey:
    """The block key in the bytes of a record key.

    Raises:
        UnreadableStateError: Unknown version, wrong checksum, cut off, or longer than a key.
    """
    reader = _Reader(_KEY, _unframed(_KEY, KEY_VERSION, data))
    return reader.whole(
        lambda: BlockKey(TopicId(reader.text()), reader.number(), UpstreamOffset(reader.number()))
    )


def encode_block(block: Block) -> bytes:
    """The bytes of the record value for ``block``.

    Raises:
        UnreadableStateError: The block contradicts itself; it is not written.
    """
    block.check()
    body = bytearray()
    _put_about(body, block.about)
    put_varint(body, _flags(block))
    for number in (block.block_start, block.mirror_start.upstream, block.mirror_start.downstream):
        put_varint(body, number)
    _put_previous(body, block.previous)
    _put_tail(body, block.tail)
    _put_gaps(body, block.gaps)
    put_varint(body, len(block.runs))
    body += _encode_runs(block.runs)
    return _framed(BLOCK_VERSION, bytes(body))


def decode_block(data: bytes) -> Block:
    """The block in the bytes of a record value.

    Raises:
        UnreadableStateError: Unknown version, wrong checksum, cut off, or parts that contradict each other.
    """
    (block,) = decode_blocks([data])
    return block


def decode_blocks(values: Sequence[bytes]) -> list[Block]:
    """The blocks in several record values, in their order, at half the cost of decoding each alone.

    Raises:
        UnreadableStateError: As `decode_block`, for any of them.
    """
    return [block for few in _handfuls(values) for block in _decoded_together(few)]


def _handfuls(values: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    first = size = 0
    for at, value in enumerate(values):
        if at > first and size + len(value) > _TOGETHER_BYTES:
            yield values[first:at]
            first, size = at, 0
        size += len(value)
    if values:
        yield values[first:]


def _decoded_together(values: Sequence[bytes]) -> list[Block]:
    heads = [_head(value) for value in values]
    try:
        maps = _decode_runs([head.octets for head in heads], [head.runs for head in heads])
    except InvariantError as broken:
        raise UnreadableStateError(_VALUE, str(broken)) from broken
    blocks = [head.block(runs) for head, runs in zip(heads, maps, strict=True)]
    for block in blocks:
        block.check()
    return blocks


def _framed(version: int, body: bytes) -> bytes:
    return _HEADER.pack(version, crc32(body, version)) + body


def _unframed(what: str, expected: int, data: bytes) -> bytes:
    if len(data) < _HEADER.size:
        raise UnreadableStateError(what, f"only {len(data)} bytes")
    version, checksum = _HEADER.unpack_from(data)
    if version != expected:
        raise UnreadableStateError(
            what, f"it has version {version}, and this mmtool reads version {expected}"
        )
    body = data[_HEADER.size :]
    if crc32(body, version) != checksum:
        raise UnreadableStateError(what, f"checksum {crc32(body, version):#010x} instead of {checksum:#010x}")
    return body


def _flags(block: Block) -> int:
    tail = block.tail
    return (
        _SEALED * block.sealed
        | _MIRRORED * isinstance(tail.downstream_end, MirroredTo)
        | _FOLLOWS * (block.previous is not FIRST_BLOCK)
        | _END_SEEN * (tail.source_end is not UNKNOWN)
        | _START_SEEN * (tail.source_log_start is not UNKNOWN)
        | _WRITER * (tail.writer is not UNKNOWN)
        | _EPOCH * (tail.source_leader_epoch is not UNKNOWN)
        | _CHECKED * (tail.checked_to is not UNKNOWN)
        | _GAPS * bool(block.gaps)
        | _SAME * tail.same_offsets  # refused by releases that would append fences to such a mirror
    )


def _put_about(out: bytearray, about: MirroredPartition) -> None:
    for text in (about.source_cluster_id, about.target_cluster_id, about.source_topic, about.target_topic):
        _put_text(out, text)
    _put_text(out, about.topic_id)
    put_varint(out, about.partition)
    _put_text(out, about.target_topic_id)


def _put_previous(out: bytearray, previous: Follows | FirstBlock) -> None:
    match previous:
        case FirstBlock():
            pass
        case Follows(block_start, upstream_end):
            put_varint(out, block_start)
            put_varint(out, upstream_end)
        case _:
            assert_never(previous)


def _put_tail(out: bytearray, tail: Tail) -> None:
    put_varint(out, tail.upstream_frontier)
    put_varint(out, tail.downstream_end.position)
    for number in (*_seen(tail.source_end), *_seen(tail.source_log_start), *_writer(tail.writer)):
        put_varint(out, number)
    if tail.source_leader_epoch is not UNKNOWN:
        put_varint(out, tail.source_leader_epoch)
    if tail.checked_to is not UNKNOWN:
        put_varint(out, tail.checked_to)


def _put_gaps(out: bytearray, gaps: tuple[Gap, ...]) -> None:
    if gaps:
        put_varint(out, len(gaps))
    for gap in gaps:
        put_varint(out, gap.start)
        put_varint(out, gap.end)


def _seen(seen: SeenOffset | Unknown) -> tuple[int, ...]:
    return () if seen is UNKNOWN else (seen.offset, seen.at_ms)


def _writer(writer: WriterState | Unknown) -> tuple[int, ...]:
    return () if writer is UNKNOWN else (writer.producer_id, writer.epoch, writer.next_sequence)


def _put_text(out: bytearray, text: str) -> None:
    octets = text.encode()
    put_varint(out, len(octets))
    out += octets


def _encode_runs(runs: RunMap) -> bytes:
    gaps = np.empty((len(runs), 3), dtype=np.int64)
    gaps[:, 0] = _gaps(runs.upstream, runs.counts)
    gaps[:, 1] = _gaps(runs.downstream, runs.counts)
    gaps[:, 2] = runs.counts
    return encode_column(gaps.ravel())


def _gaps(starts: Offsets, counts: Offsets) -> Offsets:
    gaps = starts.copy()
    gaps[1:] -= starts[:-1] + counts[:-1]
    return gaps


def _decode_runs(parts: Sequence[bytes], counts: Sequence[int]) -> list[RunMap]:
    """The runs of several blocks; the gaps of each block count from offset 0, not from the block before."""
    gaps = decode_columns(parts, [3 * count for count in counts]).reshape(-1, 3)
    number = np.ascontiguousarray(gaps[:, 2])
    firsts = np.cumsum([0, *counts])[:-1]
    upstream, downstream = (_starts(gaps[:, side], number, firsts, counts) for side in (0, 1))
    rows = [slice(first, first + count) for first, count in zip(firsts.tolist(), counts, strict=True)]
    maps = [RunMap(upstream[of], downstream[of], number[of]) for of in rows]
    if not _obey(gaps, firsts[np.array(counts, dtype=np.int64) > 0]):
        for runs in maps:
            runs.check_invariants()
    return maps


def _obey(gaps: Offsets, firsts: Offsets) -> bool:
    """Whether invariants A and D hold in every block; B and C hold for any gaps, which are unsigned."""
    moves = (gaps[:, 0] | gaps[:, 1]) > 0
    moves[firsts] = True
    return bool(moves.all() and (gaps[:, 2] > 0).all())


def _starts(gaps: Offsets, counts: Offsets, firsts: Offsets, lengths: Sequence[int]) -> Offsets:
    """The start of each run: after the gaps up to it and the runs before it, within its own block."""
    starts: Offsets = np.cumsum(gaps + counts) - counts
    if len(lengths) > 1:
        before = np.concatenate([[0], starts + counts])[firsts]
        starts -= np.repeat(before, lengths)
    return starts


class _Reader:
    """Takes values from the front of a body."""

    def __init__(self, what: str, body: bytes) -> None:
        self._what = what
        self._body = body
        self._at = 0

    def whole(self, read: Callable[[], _T]) -> _T:
        """The result of ``read``, which has to consume the whole body."""
        try:
            value = read()
        except (IndexError, ValueError, InvariantError) as broken:
            raise UnreadableStateError(self._what, str(broken) or "the record is cut off") from broken
        if self._at != len(self._body):
            raise UnreadableStateError(self._what, f"{len(self._body) - self._at} bytes too many")
        return value

    def number(self) -> int:
        byte = self._body[self._at]
        if byte < 0x80:  # most are: a call for each would take as long as all the rest of a block's head
            self._at += 1
            return byte
        value, self._at = take_varint(self._body, self._at)
        return value

    def text(self) -> str:
        length = self.number()
        return self._octets(length).decode()

    def rest(self) -> bytes:
        return self._octets(len(self._body) - self._at)

    def _octets(self, length: int) -> bytes:
        octets = self._body[self._at : self._at + length]
        if len(octets) != length:
            raise IndexError("the record is cut off")
        self._at += length
        return octets

    def upstream(self) -> UpstreamOffset:
        return UpstreamOffset(self.number())

    def downstream(self) -> DownstreamOffset:
        return DownstreamOffset(self.number())

    def seen(self) -> SeenOffset:
        return SeenOffset(self.upstream(), self.number())


class _Head(NamedTuple):
    """A block whose ``runs`` (so many) are still ``octets``."""

    block: Callable[[RunMap], Block]
    runs: int
    octets: bytes


def _head(data: bytes) -> _Head:
    reader = _Reader(_VALUE, _unframed(_VALUE, BLOCK_VERSION, data))
    return reader.whole(lambda: _take_head(reader))


def _take_head(reader: _Reader) -> _Head:
    about = _take_about(reader)
    flags = reader.number()
    if flags & ~_ALL_FLAGS:
        raise ValueError(f"a newer mmtool release wrote it (unknown flags {flags:#x})")
    block_start = reader.upstream()
    start = MirrorStart(reader.upstream(), reader.downstream())
    previous = Follows(reader.upstream(), reader.upstream()) if flags & _FOLLOWS else FIRST_BLOCK
    tail = _take_tail(reader, flags)
    number = reader.number() if flags & _GAPS else 0
    gaps = tuple(Gap(reader.upstream(), reader.upstream()) for _ in range(number))
    sealed = bool(flags & _SEALED)
    count = reader.number()
    if count > MAX_RUNS:
        raise ValueError(f"{count} runs, more than {MAX_RUNS}")

    def block(runs: RunMap) -> Block:
        return Block(about, block_start, start, previous, runs, tail, sealed, gaps)

    return _Head(block, count, reader.rest())


def _take_about(reader: _Reader) -> MirroredPartition:
    source_id, target_id = ClusterId(reader.text()), ClusterId(reader.text())
    source_topic, target_topic = reader.text(), reader.text()
    topic_id, partition, target_topic_id = TopicId(reader.text()), reader.number(), TopicId(reader.text())
    return MirroredPartition(
        source_id, target_id, topic_id, partition, source_topic, target_topic, target_topic_id
    )


def _take_tail(reader: _Reader, flags: int) -> Tail:
    return Tail(
        upstream_frontier=reader.upstream(),
        downstream_end=(MirroredTo if flags & _MIRRORED else NothingMirrored)(reader.downstream()),
        source_end=reader.seen() if flags & _END_SEEN else UNKNOWN,
        source_log_start=reader.seen() if flags & _START_SEEN else UNKNOWN,
        writer=WriterState(reader.number(), reader.number(), reader.number()) if flags & _WRITER else UNKNOWN,
        source_leader_epoch=reader.number() if flags & _EPOCH else UNKNOWN,
        checked_to=reader.downstream() if flags & _CHECKED else UNKNOWN,
        same_offsets=bool(flags & _SAME),
    )
