"""MirrorMaker 2's three internal records as values and as bytes, byte for byte (MM2's Schema types).

Everything is big-endian: INT16, INT32 and INT64 are signed; STRING is a signed int16 byte length and UTF-8,
not nullable. Keys carry no version; the *values* of checkpoints and heartbeats begin with INT16 version 0;
the value of an offset sync has none. Trailing bytes are ignored on reading, as MM2 does.

An unreadable record is a `MalformedRecord` value and never an exception: MM2 itself stops on a tombstone or
drops the rest of the polled batch, mmtool counts it and reads on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

VERSION: Final = 0
"""The only version of checkpoint and heartbeat values that exists."""

_LONGEST_STRING = 0x7FFF
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The *record* at ``upstream`` was written at ``downstream``. Topic by its name on the source."""

    topic_partition: TopicPartition
    upstream: UpstreamOffset
    downstream: DownstreamOffset

    def key(self) -> bytes:
        return _partition_key(self.topic_partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's *position* (next offset to read) on both sides. Topic by its name on the target.

    ``metadata`` is the upstream commit's; a null one is "".
    """

    group: str
    topic_partition: TopicPartition
    upstream: UpstreamOffset
    downstream: DownstreamOffset
    metadata: str

    def key(self) -> bytes:
        return _string(self.group) + _partition_key(self.topic_partition)

    def value(self) -> bytes:
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _string(self.metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow between these aliases was alive at ``timestamp_ms`` (epoch)."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source_alias) + _string(self.target_alias)

    def value(self) -> bytes:
        return struct.pack(">hq", VERSION, self.timestamp_ms)


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A record that is not in MM2's format, and why: tombstone, cut off, unknown version, offset -1, not UTF-8."""

    reason: str


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | MalformedRecord:
    """Decode a record of ``mm2-offset-syncs.<alias>.internal``."""

    def read(key: _Buffer, value: _Buffer) -> OffsetSync:
        return OffsetSync(
            key.topic_partition(), UpstreamOffset(value.offset()), DownstreamOffset(value.offset())
        )

    return _decoded(read, key, value)


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint | MalformedRecord:
    """Decode a record of ``<source>.checkpoints.internal``."""

    def read(key: _Buffer, value: _Buffer) -> Checkpoint:
        value.version()
        group, topic_partition = key.string(), key.topic_partition()
        upstream, downstream = UpstreamOffset(value.offset()), DownstreamOffset(value.offset())
        return Checkpoint(group, topic_partition, upstream, downstream, value.string())

    return _decoded(read, key, value)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat | MalformedRecord:
    """Decode a record of ``heartbeats``."""

    def read(key: _Buffer, value: _Buffer) -> Heartbeat:
        value.version()
        return Heartbeat(key.string(), key.string(), value.int64())

    return _decoded(read, key, value)


def _decoded(
    read: Callable[[_Buffer, _Buffer], _T], key: bytes | None, value: bytes | None
) -> _T | MalformedRecord:
    if key is None or value is None:
        return MalformedRecord("no key" if key is None else "a tombstone, which MM2 never writes")
    try:
        return read(_Buffer(key), _Buffer(value))
    except struct.error:
        return MalformedRecord(f"cut off: {len(key)} bytes of key, {len(value)} of value")
    except UnicodeDecodeError:
        return MalformedRecord("a string that is not UTF-8")
    except ValueError as wrong:
        return MalformedRecord(str(wrong))


def _string(text: str) -> bytes:
    octets = text.encode()
    if len(octets) > _LONGEST_STRING:
        raise ValueError(f"a string of {len(octets)} bytes: MM2's records hold at most {_LONGEST_STRING}")
    return struct.pack(">h", len(octets)) + octets


def _partition_key(topic_partition: TopicPartition) -> bytes:
    return _string(topic_partition.topic) + struct.pack(">i", topic_partition.partition)


class _Buffer:
    """Takes fields from the front of some bytes; raises struct.error at their end, ValueError on nonsense."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, layout: str) -> tuple[int, ...]:
        fields = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return fields

    def int64(self) -> int:
        return self._take(">q")[0]

    def offset(self) -> int:
        offset = self.int64()
        if offset < 0:
            raise ValueError(f"offset {offset}")
        return offset

    def string(self) -> str:
        (length,) = self._take(">h")
        if length < 0:
            raise ValueError(f"a string of length {length}")
        octets = self._data[self._at : self._at + length]
        if len(octets) < length:
            raise struct.error
        self._at += length
        return octets.decode()

    def topic_partition(self) -> TopicPartition:
        topic = self.string()
        return TopicPartition(topic, self._take(">i")[0])

    def version(self) -> None:
        # MM2 checks it in a Java assert, which is off, and would read anything as version 0.
        (version,) = self._take(">h")
        if version != VERSION:
            raise ValueError(f"version {version}: MM2 knows {VERSION}")
