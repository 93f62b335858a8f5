"""Read commit times of groups from ``__consumer_offsets``; no broker request returns them."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.kafka.state.log_reader import read_log
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from mmtool.config import ClusterSettings

_NO_ABSOLUTE = -(1 << 31)
_COMMIT_VERSIONS = (0, 1)
"""Key versions of OffsetCommitKey; records with other keys describe groups (GroupMetadataKey is 2)."""


def read_commit_times(
    cluster: ClusterSettings, topic: str, partitions: Collection[int], groups: Collection[str]
) -> dict[str, dict[TopicPartition, int]]:
    """The time of each group's last commit of each partition, in ms since 1970, read from the commit records.

    Args:
        cluster: The groups' cluster.
        topic: ``__consumer_offsets``.
        partitions: The partitions that hold the groups' commits; each is read whole.
        groups: The groups' ids.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    wanted, found = set(groups), defaultdict[str, dict[TopicPartition, int]](dict)
    for record in read_log(cluster, topic, sorted(partitions)):
        named = commit_of(record.key)
        if named is None or named[0] not in wanted:
            continue
        group, place = named
        if record.value is None:
            found[group].pop(place, None)
        else:
            found[group][place] = record.timestamp_ms
    return dict(found)


def partition_of(group: str, count: int) -> int:
    """The partition of ``__consumer_offsets`` (of ``count``) that holds a group's commits.

    Kafka's ``Utils.abs(group.hashCode()) % count``.
    """
    found = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        found = (31 * found + unit) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >> 31 else found
    return (0 if signed == _NO_ABSOLUTE else abs(signed)) % count


def commit_of(key: bytes) -> tuple[str, TopicPartition] | None:
    """The group and partition of a commit record's key (OffsetCommitKey); None for other records."""
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
    if not 0 <= length <= len(key) - at - 2:
        raise struct.error
    return key[at + 2 : at + 2 + length].decode(), at + 2 + length
