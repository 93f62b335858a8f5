"""List groups by their coordinators, each of which knows those that it has loaded; and read when groups committed."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import lru_cache

from mmtool.config import ClusterSettings
from mmtool.kafka.state.log_reader import read_log
from mmtool.kafka.wire.cluster import COMMITS, WireCluster
from mmtool.kafka.wire.codec import BROKEN, Cursor
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import DescribeGroupsRequest, ListedGroup, ListGroupsRequest
from mmtool.kafka.wire.metadata import PartitionLeader
from mmtool.translation.types import TopicPartition

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
    cursor = Cursor(key)
    try:
        if cursor.int16() not in _COMMIT_VERSIONS:
            return None
        group, topic, partition = cursor.string(), cursor.string(), cursor.int32()
    except BROKEN:
        return None
    return None if group is None or topic is None else (group, TopicPartition(topic, partition))


_STEM = "mmtool-is-anybody-there-"


async def all_groups(wire: WireCluster, check: Callable[[int], None]) -> list[ListedGroup]:
    """List the groups of every broker, or raise: with an answer missing, existing groups would look deleted.

    Groups also look deleted where a partition of ``__consumer_offsets`` has no leader, or a leader that does not know
    yet that it leads: a broker that was frozen reports itself as leader and lists no group, without an error, until its
    coordinator learns of it (a real broker's answer, tests/chaos/test_groups_outage.py). So each partition's
    coordinator is first asked to describe a group, which it answers with an error at such a moment. The leaders must be
    the same afterwards.

    Args:
        wire: The cluster.
        check: Raises the error for an error code: `RetriableError` for a retriable one.

    Raises:
        ConnectionLostError: a broker did not answer.
    """
    before = await _leaders(wire, check)
    names = names_by_partition(len(before))

    async def knows(node: int) -> None:
        asked = [names[partition.partition] for partition in before if partition.leader == node]
        for described in (await wire.send(node, DescribeGroupsRequest(asked))).values():
            if described.error_code not in _ANSWERS:
                check(described.error_code)

    await asyncio.gather(*(knows(node) for node in {p.leader for p in before if p.leader is not None}))
    found = await asyncio.gather(*(wire.send(node, ListGroupsRequest()) for node in wire.nodes))
    for answer in found:
        check(answer.error_code)
    if await _leaders(wire, check) != before:
        check(Code.NOT_COORDINATOR)
    return [group for answer in found for group in answer.groups]


async def _leaders(wire: WireCluster, check: Callable[[int], None]) -> list[PartitionLeader]:
    """The leaders of the partitions of ``__consumer_offsets``, with their epochs."""
    topics = (await wire.refresh([COMMITS])).values()
    leaders = sorted(partition for topic in topics for partition in topic.partitions)
    for partition in leaders:
        check(partition.error_code)
    return leaders


_ANSWERS = frozenset({Code.NONE, Code.GROUP_ID_NOT_FOUND, Code.GROUP_AUTHORIZATION_FAILED})
"""Error codes of a working coordinator.

Without DESCRIBE on a group the answer is GROUP_AUTHORIZATION_FAILED, whatever the coordinator knows."""


@lru_cache(maxsize=8)
def names_by_partition(count: int) -> tuple[str, ...]:
    """A group id for each of ``count`` partitions, whose commits it would hold; no real group has such an id."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == count:
            return tuple(found[partition] for partition in range(count))
        found.setdefault(partition_of(f"{_STEM}{number}", count), f"{_STEM}{number}")
    raise AssertionError("unreachable")
