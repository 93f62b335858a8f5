"""Ask coordinators about groups: each lists those that it has loaded, and one without an answer blocks no other."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.errors import MmtoolError
from mmtool.kafka.errors import check_code, unreachable
from mmtool.kafka.patience import AT_ONCE, RetriableError, handfuls, seconds_of_a_try
from mmtool.kafka.ports import Answers
from mmtool.kafka.state.log_reader import read_log
from mmtool.kafka.wire.cluster import COMMITS, ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.groups import Coordinated, DescribeGroupsRequest, ListGroupsRequest
from mmtool.runtime.threads import within
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.groups import ListedGroup
    from mmtool.kafka.wire.metadata import PartitionLeader


A = TypeVar("A")
B = TypeVar("B")

_PAUSE_SECONDS = 0.1
DESCRIBE, READ, DELETE = "DESCRIBE", "READ", "DELETE"
"""Rights on a group."""


@dataclass(frozen=True, slots=True)
class Question(Generic[A, B]):
    """One kind of request about groups.

    Attributes:
        what: What the request does, as ``describing group``; the group's name follows.
        send: Sends the request about some groups to one broker, and returns the answer about each.
        take: Decodes a group's answer; raises `RetriableError` where a later answer may replace it.
        at_once: How many groups share a request.
        moves: A broker that does not answer is given up before the timeout: another broker may be the coordinator by
            then.
        operation: The right on the group that the request needs.
    """

    what: str
    send: Callable[[WireCluster, int, list[str]], Awaitable[Mapping[str, A]]]
    take: Callable[[str, A], B]
    at_once: int
    moves: bool
    operation: str = DESCRIBE


class Coordinators:
    """The known coordinators of groups."""

    def __init__(self, cluster: ClusterSettings) -> None:
        """Take the settings of the groups' cluster."""
        self.cluster = cluster
        self._nodes: dict[str, int] = {}

    async def ask(
        self, wire: WireCluster, groups: Collection[str], question: Question[A, B], seconds: float
    ) -> Answers[str, B]:
        """Ask each group's coordinator, repeatedly for at most ``seconds``; return answers, and errors in ``failed``.

        Raises:
            UnsupportedByBrokerError: a broker does not know the request.
        """
        now = asyncio.get_running_loop().time
        a_try = seconds_of_a_try(seconds) if question.moves else seconds
        turn, until = _Turn(self, wire, question, a_try), now() + seconds
        left = list(groups)
        while left:
            await turn.ask(left)
            left = [group for group in left if group in turn.waits]
            if left and now() > until:
                turn.found.failed |= turn.waits
                break
            if left:
                await asyncio.sleep(_PAUSE_SECONDS)
        return turn.found

    def forget(self, groups: Iterable[str]) -> None:
        """Forget the known coordinators of some groups, which may have moved."""
        for group in groups:
            self._nodes.pop(group, None)

    async def locate(self, wire: WireCluster, groups: list[str]) -> dict[str, int]:
        """Find the coordinators that are unknown; return the error codes of groups without one now.

        Raises:
            ConnectionLostError: no broker answers.
        """
        unknown = [group for group in groups if group not in self._nodes]
        if not unknown:
            return {}
        answers = await wire.find_coordinators(unknown, Coordinated.GROUP)
        found = {group: answer for group, answer in answers.items() if answer.error_code == Code.NONE}
        self._nodes |= {group: answer.node for group, answer in found.items()}
        return {group: answers[group].error_code for group in unknown if group not in found}

    def by_node(self, groups: Iterable[str]) -> dict[int, list[str]]:
        """Group ids by the broker id of their known coordinator; groups without one are left out."""
        led: dict[int, list[str]] = defaultdict(list)
        for group in groups:
            if group in self._nodes:
                led[self._nodes[group]].append(group)
        return led


class _Turn(Generic[A, B]):
    """One question, asked again and again of those groups that wait for an answer.

    Attributes:
        found: Final answers and failures.
        waits: Groups that have no final answer after the last try, and why.
    """

    def __init__(
        self, coordinators: Coordinators, wire: WireCluster, question: Question[A, B], seconds: float
    ) -> None:
        self._coordinators = coordinators
        self._wire = wire
        self._question = question
        self._seconds = seconds
        self.found: Answers[str, B] = Answers()
        self.waits: dict[str, MmtoolError] = {}

    async def ask(self, groups: list[str]) -> None:
        self.waits = {}
        try:
            moving = await within(self._seconds, self._coordinators.locate(self._wire, groups))
        except (ConnectionLostError, TimeoutError) as error:
            self._lose(groups, error)
            return
        for group, code in moving.items():
            self._judge(group, partial(self._check, code, group))
        few = asyncio.Semaphore(AT_ONCE)
        led = self._coordinators.by_node(group for group in groups if group not in moving)
        asked = [
            self._ask(node, some, few) for node in led for some in handfuls(led[node], self._question.at_once)
        ]
        await asyncio.gather(*asked)

    def _check(self, code: int, group: str) -> None:
        question = self._question
        right = f"{question.operation} on group {group}"
        check_code(self._coordinators.cluster, code, f"{question.what} {group}", right)

    async def _ask(self, node: int, groups: list[str], few: asyncio.Semaphore) -> None:
        try:
            async with few:
                answers = await within(self._seconds, self._question.send(self._wire, node, groups))
        except (ConnectionLostError, TimeoutError) as error:
            self._lose(groups, error)
            return
        for group in groups:
            if group not in answers:  # of a request that is answered for some of them alone
                continue
            self._judge(group, partial(self._take, group, answers))

    def _take(self, group: str, answers: Mapping[str, A]) -> None:
        self.found[group] = self._question.take(group, answers[group])

    def _judge(self, group: str, judge: Callable[[], None]) -> None:
        """Run a check of a group's answer; note its error as the group's failure, or as a reason to ask again."""
        try:
            judge()
        except RetriableError as passing:
            self._coordinators.forget([group])
            self.waits[group] = passing.final
        except MmtoolError as error:
            self.found.failed[group] = error

    def _lose(self, groups: list[str], why: object) -> None:
        self._coordinators.forget(groups)
        for group in groups:
            what = f"{self._question.what} {group}"
            self.waits[group] = unreachable(self._coordinators.cluster.alias, what, why)


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
