"""When groups committed: by the records of ``__consumer_offsets``, because no broker's answer tells."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.kafka.log_reader import read_log
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from mmtool.config import ClusterSettings

_COMMIT_VERSIONS = (0, 1)
"""Of keys; others are about the groups themselves (GroupMetadataKey is 2)."""


def read_commit_times(
    cluster: ClusterSettings, topic: str, partitions: Collection[int], groups: Collection[str]
) -> dict[str, dict[TopicPartition, int]]:
    """Milliseconds since 1970 of each group's last commits.

    Args:
        cluster: Whose groups.
        topic: ``__consumer_offsets``.
        partitions: Those that the groups are in; they are read whole.
        groups: Which.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    wanted, found = set(groups), defaultdict[str, dict[TopicPartition, int]](dict)
    for record in read_log(cluster, topic, sorted(partitions)):
        named = _commit_of(record.key)
        if named is None or named[0] not in wanted:
            continue
        group, place = named
        if record.value is None:
            found[group].pop(place, None)
        else:
            found[group][place] = record.timestamp_ms
    return dict(found)


def partition_of(group: str, count: int) -> int:
    """Which of ``count`` partitions a group's commits are in: Java's ``String.hashCode``, without its sign."""
    found = 0
    units = group.encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", units):
        found = (31 * found + unit) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % count


def _commit_of(key: bytes) -> tuple[str, TopicPartition] | None:
    """The group and the partition that a record is about (OffsetCommitKey); None for other records."""
    try:
        (version,) = struct.unpack_from(">h", key)
        if version not in _COMMIT_VERSIONS:
            return None
        group, at = _text(key, 2)
        topic, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
    except (struct.error, UnicodeDecodeError):
        return None
    return group, TopicPartition(topic, partition)


def _text(key: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", key, at)
    return key[at + 2 : at + 2 + length].decode(), at + 2 + length
