"""The consumer groups of a real cluster, over the batch wire.

librdkafka's admin client, which is used for everything else of the kind, ends the whole process when a broker goes
away while it asks a coordinator (its issue 4605: any group request, hung or killed broker, within one outage), and
when it asks for the commits of a cluster that never had a group. See docs/decisions/0019.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError

from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import failure_of, is_passing, problem_of, unreachable
from mmtool.kafka.group_listing import all_groups
from mmtool.kafka.patience import AT_ONCE, NotNowError, again, handfuls
from mmtool.kafka.ports import GroupListing, Problem
from mmtool.kafka.wire.beside import WireBeside
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.group_offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchOfGroupsRequest,
    OffsetFetchRequest,
)
from mmtool.kafka.wire.groups import (
    OTHER_KINDS,
    ConsumerGroupDescribeRequest,
    Coordinated,
    DeleteGroupRequest,
    DescribeGroupsRequest,
    OtherKindsRequest,
)
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.plan.group_facts import ABSENT, Commit, GroupStanding, Member
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from mmtool.config import ClusterSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.group_offsets import DeletedOffsets, FetchedOffsets
    from mmtool.kafka.wire.groups import DescribedGroup, ListedGroup
    from mmtool.kafka.wire.metadata import TopicMetadata
    from mmtool.kafka.wire.request import WireRequest
    from mmtool.kafka.wire.rights import Rights
    from mmtool.translation.types import TopicPartition

A = TypeVar("A")
B = TypeVar("B")

_SPARE_SECONDS = 5.0
_PER_REQUEST = 100
"""Groups whose commits are in one answer: at 1,000 partitions each some 4 MB."""
_PER_QUESTION = 1_000
"""Groups that have the time of one question together, however many there are."""
_OF_CONSUMERS = frozenset({"", "consumer"})
"""Protocol types: a group that only ever had commits has none; Connect's, share and streams groups have others."""
_DEAD = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})


class UnstableOffsetError(RefusedError):
    """A transaction is open over a group's offset: what is committed is not its last word (KIP-447)."""

    code = "unstable_offset"


class KafkaGroups:
    """A `GroupsPort`, connected at the first request. Requests about many groups are under way together."""

    def __init__(self, cluster: ClusterSettings, timeout_seconds: float) -> None:
        """Say whose groups, and how long one request may take."""
        self._cluster = cluster
        self._seconds = timeout_seconds
        self._wire = WireBeside(
            wire_cluster(cluster, "groups", role="admin"), timeout_seconds + _SPARE_SECONDS
        )
        self._coordinators: dict[str, int] = {}

    def fresh(self) -> KafkaGroups:
        return KafkaGroups(self._cluster, self._seconds)

    # --- listing ------------------------------------------------------------------------------------------

    def list_groups(self) -> dict[str, str]:
        return dict(self.listing().consumers)

    def listing(self) -> GroupListing:
        async def listed(wire: WireCluster) -> list[ListedGroup]:
            return await self._patiently("listing groups", lambda: all_groups(wire, check))

        def check(code: int) -> None:
            self._check(code, "listing groups")

        groups = self._wire.ask(listed, "listing groups")
        return GroupListing(
            {g.group: g.state or "Unknown" for g in groups if g.protocol_type in _OF_CONSUMERS},
            {g.group: g.protocol_type for g in groups if g.protocol_type not in _OF_CONSUMERS},
        )

    # --- commits ------------------------------------------------------------------------------------------

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, Commit]]:
        what = "reading the commits of group"
        try:
            return self._of_all(
                groups, what, lambda some: OffsetFetchOfGroupsRequest(some, stable), self._commits_of
            )
        except UnsupportedByBrokerError:  # before Kafka 3.0
            return self._of_each(
                groups, what, lambda group: OffsetFetchRequest(group, stable), self._commits_of
            )

    def _commits_of(self, group: str, answer: FetchedOffsets) -> dict[TopicPartition, Commit]:
        self._check(answer.error_code, f"reading the commits of group {group}")
        for place, partition in answer.partitions.items():
            if partition.error_code != Code.NONE:
                self._refuse_commit(group, f"{place.topic}-{place.partition}", partition.error_code)
        return {
            place: Commit(partition.offset, partition.metadata)
            for place, partition in answer.partitions.items()
            if partition.offset >= 0  # Kafka's own word for "no commit" in this answer is -1
        }

    def _refuse_commit(self, group: str, place: str, code: int) -> None:
        if code == Code.UNSTABLE_OFFSET_COMMIT:  # one that has just been committed is open for a moment more
            raise NotNowError(self._unstable(group, place))
        self._check(code, f"reading group {group}'s commit of {place}")

    def _unstable(self, group: str, place: str) -> UnstableOffsetError:
        return UnstableOffsetError(
            f"group {group} has a transaction open over its offset of {place} on {self._cluster.alias}",
            remedy="let its producer commit or abort, or wait for transaction.timeout.ms",
        )

    # --- standing -----------------------------------------------------------------------------------------

    def describe(self, groups: Collection[str]) -> dict[str, GroupStanding]:
        found = self._described(groups, DescribeGroupsRequest)
        unknown = [group for group, standing in found.items() if standing == ABSENT]
        # what the classic protocol calls dead may be a group of the new one, or of another kind
        for request in (ConsumerGroupDescribeRequest, OtherKindsRequest) if unknown else ():
            with suppress(UnsupportedByBrokerError):
                found |= self._described(unknown, request)
        return found

    def _described(
        self, groups: Collection[str], request: Callable[[list[str]], WireRequest[dict[str, DescribedGroup]]]
    ) -> dict[str, GroupStanding]:
        return self._of_all(groups, "describing group", request, self._standing_of)

    def _standing_of(self, group: str, described: DescribedGroup) -> GroupStanding:
        if described.error_code in _DEAD:
            return ABSENT
        self._check(described.error_code, f"describing group {group}")
        members = tuple(Member(m.client_id, m.host) for m in described.members)
        kind = described.protocol_type if described.protocol_type in OTHER_KINDS else ""
        return GroupStanding(described.state, members, kind)

    # --- writing ------------------------------------------------------------------------------------------

    def missing_rights(self, wanted: Mapping[str, Collection[TopicPartition]]) -> list[str]:
        described = self._of_all(
            wanted,
            "asking for the rights on group",
            lambda groups: DescribeGroupsRequest(groups, with_rights=True),
            self._rights_of,
        )
        topics = {place.topic for places in wanted.values() for place in places}
        found = self._wire.ask(lambda wire: self._topic_rights(wire, topics), "asking for rights")
        return [
            *(f"READ on group {name}" for name, of in sorted(described.items()) if _may_not_read(of)),
            *(
                f"READ on topic {name}"
                for name, topic in sorted(found.items())
                if _may_not_read(topic.rights)
            ),
        ]

    def _rights_of(self, group: str, described: DescribedGroup) -> Rights | Unknown:
        """A coordinator that has moved, or still loads, answers without them."""
        if is_passing(KafkaError(described.error_code)):
            self._check(described.error_code, f"asking for the rights on group {group}")
        return described.rights

    async def _topic_rights(self, wire: WireCluster, topics: Collection[str]) -> dict[str, TopicMetadata]:
        return await self._patiently("asking for rights", lambda: wire.refresh(topics, with_rights=True))

    def alter(self, group: str, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, Problem]:
        wanted = {place: (commit.offset, commit.metadata) for place, commit in offsets.items()}
        try:
            return self._of_each(
                [group],
                "writing the offsets of group",
                lambda name: OffsetCommitRequest(name, wanted),
                self._refused_of,
            )[group]
        except _RefusedError as refused:
            return refused.problems
        except (UnreachableError, NotAuthorisedError) as error:
            return dict.fromkeys(offsets, Problem(error.code, error.message))

    def forget(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Problem]:
        try:
            return self._of_each(
                [group],
                "deleting offsets of group",
                lambda name: OffsetDeleteRequest(name, places),
                lambda name, answer: self._undeleted(name, answer, places),
            )[group]
        except MmtoolError as error:
            return dict.fromkeys(places, Problem(error.code, error.message))

    def delete(self, group: str) -> Problem | None:
        try:
            return self._of_each([group], "deleting group", DeleteGroupRequest, self._still_there)[group]
        except MmtoolError as error:
            return Problem(error.code, error.message)

    def _still_there(self, group: str, code: int) -> Problem | None:
        if code == Code.NON_EMPTY_GROUP:
            return problem_of(code)
        is_gone = code == Code.GROUP_ID_NOT_FOUND  # by a request whose answer was lost, or it has expired
        self._check(Code.NONE if is_gone else code, f"deleting group {group}")
        return None

    def _undeleted(
        self, group: str, answer: DeletedOffsets, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, Problem]:
        if answer.error_code == Code.GROUP_ID_NOT_FOUND:
            return {}
        if answer.error_code == Code.NON_EMPTY_GROUP:
            return dict.fromkeys(places, problem_of(Code.NON_EMPTY_GROUP))
        self._check(answer.error_code, f"deleting offsets of group {group}")
        return {place: problem_of(code) for place, code in answer.partitions.items() if code != Code.NONE}

    def _refused_of(self, _: str, answer: dict[TopicPartition, int]) -> dict[TopicPartition, Problem]:
        """What was refused; the same commit again does no harm, so a passing answer is asked again."""
        problems = {place: _not_taken(code) for place, code in answer.items() if code != Code.NONE}
        if any(is_passing(KafkaError(code)) for code in answer.values()):
            raise NotNowError(_RefusedError(problems))
        return problems

    # --- asking -------------------------------------------------------------------------------------------

    def _of_all(
        self,
        groups: Collection[str],
        what: str,
        request: Callable[[list[str]], WireRequest[dict[str, A]]],
        take: Callable[[str, A], B],
    ) -> dict[str, B]:
        """Each group's part of its coordinator's answer, made into a value; many groups share a request.

        Raises:
            UnsupportedByBrokerError: a broker does not know of such a request.
        """
        found: dict[str, B] = {}
        for some in handfuls(list(dict.fromkeys(groups)), _PER_QUESTION):

            async def asked(wire: WireCluster, some: list[str] = some) -> dict[str, B]:
                return await self._together(wire, some, what, request, take)

            found |= self._wire.ask(asked, f"{what}s")
        return found

    async def _together(
        self,
        wire: WireCluster,
        groups: list[str],
        what: str,
        request: Callable[[list[str]], WireRequest[dict[str, A]]],
        take: Callable[[str, A], B],
    ) -> dict[str, B]:
        """Asked again is only who has had no final answer."""
        found: dict[str, B] = {}

        async def attempt() -> dict[str, B]:
            left = [group for group in groups if group not in found]
            try:
                answers = await self._answers(wire, left, request)
            except ConnectionLostError as error:
                self._forget(left)
                raise NotNowError(unreachable(self._cluster.alias, f"{what}s", str(error))) from error
            passing = self._taken(answers, take, found)
            if passing is not None:
                raise passing
            return found

        return await again(attempt, self._seconds)

    async def _answers(
        self,
        wire: WireCluster,
        groups: list[str],
        request: Callable[[list[str]], WireRequest[dict[str, A]]],
    ) -> dict[str, A]:
        """A request for every handful of groups with one coordinator, all of them under way together."""
        unknown = [group for group in groups if group not in self._coordinators]
        if unknown:
            self._coordinators |= await wire.coordinators(unknown, Coordinated.GROUP, self._seconds)
        of: dict[int, list[str]] = {}
        for group in groups:
            of.setdefault(self._coordinators[group], []).append(group)
        asked = [(node, request(some)) for node in of for some in handfuls(of[node], _PER_REQUEST)]
        answers = await asyncio.gather(*(wire.send(node, one) for node, one in asked))
        return {group: part for answer in answers for group, part in answer.items()}

    def _taken(
        self, answers: Mapping[str, A], take: Callable[[str, A], B], found: dict[str, B]
    ) -> NotNowError | None:
        """Puts each final answer into ``found``; one of those that are not final."""
        passing: NotNowError | None = None
        for group, answer in answers.items():
            try:
                found[group] = take(group, answer)
            except NotNowError as error:
                self._forget([group])
                passing = error
        return passing

    def _forget(self, groups: Iterable[str]) -> None:
        """Their coordinators may have moved."""
        for group in groups:
            self._coordinators.pop(group, None)

    def _of_each(
        self,
        groups: Collection[str],
        what: str,
        request: Callable[[str], WireRequest[A]],
        take: Callable[[str, A], B],
    ) -> dict[str, B]:
        """The answer of each group's coordinator, made into a value."""
        names = list(dict.fromkeys(groups))

        async def asked(wire: WireCluster) -> dict[str, B]:
            few = asyncio.Semaphore(AT_ONCE)

            async def one(group: str) -> B:
                async def attempt() -> B:
                    return take(group, await self._coordinated(wire, group, request(group)))

                async with few:
                    return await self._patiently(f"{what} {group}", attempt, group)

            return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

        return self._wire.ask(asked, f"{what} {names[0]}" if len(names) == 1 else f"{what}s") if names else {}

    async def _coordinated(self, wire: WireCluster, group: str, request: WireRequest[A]) -> A:
        node = self._coordinators.get(group)
        if node is None:
            node = self._coordinators[group] = await wire.coordinator(group, Coordinated.GROUP, self._seconds)
        return await wire.send(node, request)

    async def _patiently(self, what: str, attempt: Callable[[], Awaitable[B]], group: str = "") -> B:
        async def tried() -> B:
            try:
                return await attempt()
            except (NotNowError, ConnectionLostError) as error:
                self._forget([group])
                if isinstance(error, NotNowError):
                    raise
                raise NotNowError(unreachable(self._cluster.alias, what, str(error))) from error

        return await again(tried, self._seconds)

    def _check(self, code: int, what: str) -> None:
        """Raises our error for a broker's; NotNowError for one that passes."""
        if code == Code.NONE:
            return
        error = KafkaError(code)
        failure = failure_of(self._cluster, error, what)
        raise NotNowError(failure) if is_passing(error) else failure


class _RefusedError(Exception):
    """What a commit was refused for; an answer rather than a failure."""

    def __init__(self, problems: dict[TopicPartition, Problem]) -> None:
        super().__init__(str(next(iter(problems.values()))))
        self.problems = problems


def _not_taken(code: int) -> Problem:
    """A passing answer leaves open what became of the commit: replicas may have it, of this attempt or another."""
    problem = problem_of(code)
    return Problem(UnreachableError.code, str(problem)) if is_passing(KafkaError(code)) else problem


def _may_not_read(rights: Rights | Unknown) -> bool:
    return rights is not UNKNOWN and not rights.may_read
