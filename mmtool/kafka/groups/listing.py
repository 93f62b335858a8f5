"""List all groups of a cluster: each coordinator lists only the groups that it has loaded."""

from __future__ import annotations

import asyncio
import itertools
from functools import lru_cache
from typing import TYPE_CHECKING

from mmtool.kafka.groups.commit_log import partition_of
from mmtool.kafka.wire.cluster import COMMITS
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import DescribeGroupsRequest, ListGroupsRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.groups import ListedGroup
    from mmtool.kafka.wire.metadata import PartitionLeader

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
    await asyncio.gather(*(_knows(wire, node, before, check) for node in {p.leader for p in before}))
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


async def _knows(
    wire: WireCluster, node: int, leaders: Sequence[PartitionLeader], check: Callable[[int], None]
) -> None:
    names = names_by_partition(len(leaders))
    asked = [names[partition.partition] for partition in leaders if partition.leader == node]
    for described in (await wire.send(node, DescribeGroupsRequest(asked))).values():
        if described.error_code not in _ANSWERS:
            check(described.error_code)


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
