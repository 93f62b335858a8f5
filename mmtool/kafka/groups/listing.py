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
    """Of every broker: groups of one that does not answer would look deleted.

    So would those of a partition that nobody leads, or whose leader does not know that it is one: a broker that was
    frozen tells that it leads anew and lists no group, without an error, until its coordinator has heard of it (a real
    broker's answer, tests/chaos/test_groups_outage.py). So each partition's coordinator is asked about some group
    first, which it answers with an error in such a moment; and nobody may have come to lead meanwhile.

    Args:
        wire: The cluster.
        check: Raises for an error code, `RetriableError` for one that passes.

    Raises:
        ConnectionLostError: A broker did not answer.
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
    """Of the partitions of commits, with their epochs."""
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
"""A coordinator's; who may not describe groups of any name is told that, whatever the coordinator knows."""


@lru_cache(maxsize=8)
def names_by_partition(count: int) -> tuple[str, ...]:
    """A group's name for each of ``count`` partitions, which holds its commits; nobody's, as far as names can tell."""
    found: dict[int, str] = {}
    for number in itertools.count():
        if len(found) == count:
            return tuple(found[partition] for partition in range(count))
        found.setdefault(partition_of(f"{_STEM}{number}", count), f"{_STEM}{number}")
    raise AssertionError("unreachable")
