"""Encode blocks as bytes: record keys and values of ``mmtool-offset-runs.<source>.internal``.

Both begin with a version byte and a CRC-32 (big-endian) over version and body, so that unreadable data
is refused and not guessed. Numbers are unsigned LEB128 varints (as in KIP-107's records, without zigzag),
texts UTF-8 behind a varint length. Runs are three varints each: the gap to the end of the run before on the
source, the same on the target, and the count; they are read and written by the column.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from mmtool.translation.blocks import (
    MAX_RUNS,
    Block,
    BlockKey,
    Follows,
    Gap,
    MadeFrom,
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
from mmtool.translation.types import UNKNOWN, ClusterId, DownstreamOffset, TopicId, UpstreamOffset

KEY_VERSION: Final = 1
BLOCK_VERSION: Final = 2  # 1, of before the first release, did not know the target topic's id
_HEADER = struct.Struct(">BI")
_KEY, _VALUE = "offset-runs key", "offset-runs block"

# The flags say which optional parts follow.
_SEALED, _MIRRORED, _FOLLOWS, _END_SEEN, _START_SEEN, _WRITER, _EPOCH, _CHECKED, _GAPS, _SAME, _MADE = (
    1 << bit for bit in range(11)
)
_ALL_FLAGS = (1 << 11) - 1

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
    about, tail, body = block.about, block.tail, bytearray()
    for text in (about.source_cluster_id, about.target_cluster_id, about.source_topic, about.target_topic):
        _put_text(body, text)
    _put_text(body, about.topic_id)
    put_varint(body, about.partition)
    _put_text(body, about.target_topic_id)
    numbers: list[int] = [_flags(block), block.block_start]
    numbers += (block.mirror_start.upstream, block.mirror_start.downstream)
    if block.previous is not None:
        numbers += (block.previous.block_start, block.previous.upstream_end)
    numbers += (tail.upstream_frontier, tail.downstream_end.position)
    for seen in (tail.source_end, tail.source_log_start):
        if seen is not UNKNOWN:
            numbers += (seen.offset, seen.at_ms)
    if tail.writer is not UNKNOWN:
        numbers += (tail.writer.producer_id, tail.writer.epoch, tail.writer.next_sequence)
    numbers += (number for number in (tail.source_leader_epoch, tail.checked_to) if number is not UNKNOWN)
    if block.gaps:
        numbers.append(len(block.gaps))
        numbers += (offset for gap in block.gaps for offset in (gap.start, gap.end))
    for number in numbers:
        put_varint(body, number)
    if block.made:
        put_varint(body, len(block.made))
        for start, version in block.made:
            put_varint(body, start)
            _put_text(body, version)
    put_varint(body, len(block.runs))
    body += _encode_runs(block.runs)
    return _framed(BLOCK_VERSION, bytes(body))


def decode_block(data: bytes) -> Block:
    """The block in the bytes of a record value.

    Raises:
        UnreadableStateError: Unknown version, wrong checksum, cut off, or parts that contradict each other.
    """
    head = read_head(data)
    block = head.block(decode_runs(head.octets, head.runs))
    block.check()
    return block


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
        | _FOLLOWS * (block.previous is not None)
        | _END_SEEN * (tail.source_end is not UNKNOWN)
        | _START_SEEN * (tail.source_log_start is not UNKNOWN)
        | _WRITER * (tail.writer is not UNKNOWN)
        | _EPOCH * (tail.source_leader_epoch is not UNKNOWN)
        | _CHECKED * (tail.checked_to is not UNKNOWN)
        | _GAPS * bool(block.gaps)
        | _SAME * tail.same_offsets  # refused by releases that would append fences to such a mirror
        | _MADE * bool(block.made)  # refused by releases that would compare such records as they are
    )


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


def decode_runs(octets: bytes, count: int) -> RunMap:
    """The runs of one block.

    Raises:
        UnreadableStateError: ``octets`` do not hold exactly ``count`` runs, or the runs break an invariant.
    """
    gaps = decode_column(octets, 3 * count).reshape(-1, 3)
    number = np.ascontiguousarray(gaps[:, 2])
    upstream, downstream = (np.cumsum(gaps[:, side] + number) - number for side in (0, 1))
    runs = RunMap(upstream, downstream, number)
    try:
        runs.check_invariants()
    except InvariantError as broken:
        raise UnreadableStateError(_VALUE, str(broken)) from broken
    return runs


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


_mirrored_partition = lru_cache(maxsize=8192)(MirroredPartition)
"""The same object for all blocks of a partition: months of them are kept, and each names it."""


class Head(NamedTuple):
    """A block whose ``runs`` (so many) are still ``octets``."""

    block: Callable[[RunMap], Block]
    tail: Tail
    runs: int
    octets: bytes


def read_head(data: bytes) -> Head:
    """All of a record value but its runs.

    Raises:
        UnreadableStateError: Unknown version, wrong checksum, or cut off.
    """
    reader = _Reader(_VALUE, _unframed(_VALUE, BLOCK_VERSION, data))
    return reader.whole(lambda: _take_head(reader))


def _take_head(reader: _Reader) -> Head:
    source_id, target_id = ClusterId(reader.text()), ClusterId(reader.text())
    source_topic, target_topic = reader.text(), reader.text()
    topic_id, partition, target_topic_id = TopicId(reader.text()), reader.number(), TopicId(reader.text())
    about = _mirrored_partition(
        source_id, target_id, topic_id, partition, source_topic, target_topic, target_topic_id
    )
    flags = reader.number()
    if flags & ~_ALL_FLAGS:
        raise ValueError(f"a newer mmtool release wrote it (unknown flags {flags:#x})")
    block_start = reader.upstream()
    start = MirrorStart(reader.upstream(), reader.downstream())
    previous = Follows(reader.upstream(), reader.upstream()) if flags & _FOLLOWS else None
    tail = _take_tail(reader, flags)
    number = reader.number() if flags & _GAPS else 0
    gaps = tuple(Gap(reader.upstream(), reader.upstream()) for _ in range(number))
    number = reader.number() if flags & _MADE else 0
    made = tuple(MadeFrom(reader.upstream(), reader.text()) for _ in range(number))
    sealed = bool(flags & _SEALED)
    count = reader.number()
    if count > MAX_RUNS:
        raise ValueError(f"{count} runs, more than {MAX_RUNS}")

    def block(runs: RunMap) -> Block:
        return Block(about, block_start, start, previous, runs, tail, sealed, gaps, made)

    return Head(block, tail, count, reader.rest())


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


# --- varints ----------------------------------------------------------------------------------------------

_LONGEST = 9  # 63 bits: what a signed int64 offset can hold
_COLUMN_PAYS = 48  # values from which numpy beats the loop [measured]


def put_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 to 2^63 - 1) to ``out``."""
    if value < 0:
        raise ValueError(f"{value} is negative: a varint here has no sign")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def take_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at index ``at``, and the index after it.

    Raises IndexError at the end of ``data``, ValueError when over-long.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 7 * _LONGEST:
            raise ValueError("a varint longer than 63 bits")


def encode_column(values: Offsets) -> bytes:
    """The varints of all values, one after the other."""
    if len(values) < _COLUMN_PAYS:
        out = bytearray()
        for value in values.tolist():
            put_varint(out, value)
        return bytes(out)
    lengths = np.ones(len(values), dtype=np.int64)
    for going, _ in _septets_after_the_first(values):
        lengths[going] += 1
    starts = np.cumsum(lengths) - lengths
    octets = np.empty(int(lengths.sum()), dtype=np.uint8)
    octets[starts] = _octets(values)
    for place, (going, rest) in enumerate(_septets_after_the_first(values), 1):
        octets[starts[going] + place] = _octets(rest)
    return octets.tobytes()


def _septets_after_the_first(values: Offsets) -> Iterator[tuple[Offsets, Offsets]]:
    """For each further septet the indexes of the values that have it, and their remaining bits."""
    going = np.flatnonzero(values > 0x7F)
    rest = values[going] >> 7
    while len(going):
        yield going, rest
        further = rest > 0x7F
        going, rest = going[further], rest[further] >> 7


def _octets(values: Offsets) -> Offsets:
    """The lowest septet of each value, with its high bit set where more septets follow."""
    return (values & 0x7F) | ((values > 0x7F) << 7)


def decode_column(data: bytes, count: int) -> Offsets:
    """The values of a column of varints, which has exactly ``count`` of them.

    Raises:
        UnreadableStateError: It has not.
    """
    octets = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(ends) != count or (ends[-1] + 1 if count else 0) != len(octets):
        raise UnreadableStateError(
            "varint column", f"it should hold {count} numbers as its header says, and does not"
        )
    return _gathered(octets, ends) if count else np.zeros(0, dtype=np.int64)


def _gathered(octets: np.typing.NDArray[np.uint8], ends: Offsets) -> Offsets:
    """The values whose varints end at the indexes ``ends``.

    It adds the first septet of each value, then the next one of those that have one, and so forth: soon these are few.
    """
    starts = np.concatenate([[0], ends[:-1] + 1])
    longest = int((ends - starts).max()) + 1
    if longest > _LONGEST:
        raise UnreadableStateError("varint column", f"a value of {longest} bytes")
    septets = (octets & 0x7F).astype(np.int64)
    values = septets.take(starts)
    going = np.flatnonzero(starts != ends)
    at = starts.take(going)
    for place in range(1, longest):
        at += 1
        values[going] |= septets.take(at) << (7 * place)
        further = at < ends.take(going)
        going, at = going[further], at[further]
    return values
