"""The `GroupsPort` of a real cluster, over the batch wire.

librdkafka's admin client, which mmtool uses for other admin requests, ends the whole process when a broker goes away
while it asks a coordinator (its issue 4605: any group request, hung or killed broker, within one outage), and when it
asks for the commits of a cluster that never had a group. See docs/decisions/0019.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.errors import check_code, is_passing, problem_of
from mmtool.kafka.groups.coordinators import all_groups
from mmtool.kafka.groups.share_groups import positions
from mmtool.kafka.patience import RetriableError, handfuls, seconds_for_each, seconds_of_a_try
from mmtool.kafka.ports import Answers, GroupListing, Problem
from mmtool.kafka.wire.acls import AclOperation, Rights
from mmtool.kafka.wire.answers import Question
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.groups import (
    ConsumerGroupDescribeRequest,
    Coordinated,
    DeletedOffsets,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    FetchedOffsets,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchOfGroupsRequest,
    OffsetFetchRequest,
    OtherKindsRequest,
)
from mmtool.kafka.wire.metadata import LATEST, AlterGroupConfigsRequest, DescribeGroupConfigsRequest
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.scan import Patience, offsets_each
from mmtool.kafka.wire.share_groups import (
    AlteredStarts,
    AlterShareGroupOffsetsRequest,
    DeletedStarts,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareStart,
    ShareStarts,
)
from mmtool.plan.groups.facts import ABSENT, Commit, GroupKind, GroupStanding, Member
from mmtool.plan.groups.names import GroupNames
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown

A = TypeVar("A")
B = TypeVar("B")
Sending: TypeAlias = "Callable[[WireCluster, int, list[str]], Awaitable[dict[str, A]]]"
"""Sends a request about some groups to a broker, and returns the answer about each."""

DESCRIBE, READ, DELETE = "DESCRIBE", "READ", "DELETE"
"""Rights on a group."""
_SPARE_SECONDS = 5.0
_END_SECONDS = 2.0
"""For the end of a share partition's log, without which the answer is less exact."""
_PER_REQUEST = 100
"""Groups whose commits are in one response: about 4 MB at 1,000 partitions each."""
_PER_QUESTION = 1_000
"""Groups that share the timeout of one call, however many groups the call is about."""
_WITH_POSITIONS = frozenset({"", *GroupKind})
"""Protocol types of groups that have positions; empty for a group that only ever had commits made for it."""
_DEAD = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})


class UnstableOffsetError(RefusedError):
    """A group's offset is part of an open transaction: the committed offset may still change (KIP-447)."""

    code = "unstable_offset"


class KafkaGroups:
    """A `GroupsPort`, connected at the first request. Requests about many groups are sent in parallel."""

    def __init__(
        self, cluster: ClusterSettings, timeout_seconds: float, names: GroupNames | None = None
    ) -> None:
        """Take the settings of the groups' cluster and the longest time of one request, in seconds.

        With ``names``, a flow's groups are named here as on its source, and in errors as on the cluster, its target.
        """
        self._cluster = cluster
        self._names = names or GroupNames()
        self._seconds = timeout_seconds
        seconds = timeout_seconds + _SPARE_SECONDS
        self._wire = blocking_wire(cluster, "groups", "admin", seconds, timeout_seconds)
        self._nodes: dict[str, int] = {}
        self._used: set[str] = set()
        self._share: set[str] = set()

    def fresh(self) -> KafkaGroups:
        return KafkaGroups(self._cluster, self._seconds, self._names)

    # --- listing ------------------------------------------------------------------------------------------

    def listing(self) -> GroupListing:
        what = "listing groups"

        def check(code: int) -> None:
            check_code(self._cluster, code, what)

        groups = self._wire.ask(lambda wire: all_groups(wire, check), what)
        known = self._names.here(g.group for g in groups)
        ours = [(known[g.group], g) for g in groups if g.group in known]
        return GroupListing(
            {name: g.state or "Unknown" for name, g in ours if g.protocol_type in _WITH_POSITIONS},
            {name: g.protocol_type for name, g in ours if g.protocol_type not in _WITH_POSITIONS},
            frozenset(name for name, g in ours if not g.protocol_type),
            {name: kind for name, g in ours if (kind := _kind_of(g.protocol_type)) is not GroupKind.CONSUMER},
        )

    # --- commits ------------------------------------------------------------------------------------------

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, Commit]]:
        return self._commits(groups, stable=stable).complete()

    def commits_each(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        return self._commits(groups, stable=stable, seconds=self._patience_for_each)

    def _commits(
        self, groups: Collection[str], *, stable: bool, seconds: float | None = None
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        what, take = "reading the commits of group", self._commits_of
        try:
            send = self._together(lambda some: OffsetFetchOfGroupsRequest(some, stable))
            found = self._asked(groups, what, send, take, seconds)
        except UnsupportedByBrokerError:  # before Kafka 3.0
            send = self._alone(lambda group: OffsetFetchRequest(group, stable))
            found = self._asked(groups, what, send, take, seconds, at_once=1)
        without = [group for group, commits in found.items() if not commits]
        if without:
            of_share = self._positions(without, seconds)
            found.update(of_share)
            found.failed |= of_share.failed
            for group in of_share.failed:
                found.pop(group, None)
        return found

    @property
    def _patience_for_each(self) -> float:
        return seconds_for_each(self._seconds)

    def _commits_of(self, group: str, answer: FetchedOffsets) -> dict[TopicPartition, Commit]:
        self._check(answer.error_code, "reading the commits of group", group)
        for place, partition in answer.partitions.items():
            if partition.error_code == Code.NONE:
                continue
            # what has just been committed is open for a moment more
            if partition.error_code == Code.UNSTABLE_OFFSET_COMMIT:
                raise RetriableError(self._unstable(group, f"{place}"))
            what, right = f"reading group {group}'s commit of {place}", f"DESCRIBE on topic {place.topic}"
            check_code(self._cluster, partition.error_code, what, right)
        return {
            place: Commit(partition.offset, partition.metadata)
            for place, partition in answer.partitions.items()
            if partition.offset >= 0  # Kafka's own word for "no commit" in this answer is -1
        }

    def _unstable(self, group: str, place: str) -> UnstableOffsetError:
        return UnstableOffsetError(
            f"group {group} has an open transaction that commits its offset of {place} on {self._cluster.alias}",
            remedy="wait until the producer commits or aborts that transaction (after the producer's"
            " transaction.timeout.ms the broker aborts it), then run the same command again",
        )

    # --- standing -----------------------------------------------------------------------------------------

    def describe(self, groups: Collection[str]) -> dict[str, GroupStanding]:
        return self._described(groups, self._seconds).complete()

    def describe_each(self, groups: Collection[str]) -> Answers[str, GroupStanding]:
        return self._described(groups, self._patience_for_each)

    def _described(self, groups: Collection[str], seconds: float) -> Answers[str, GroupStanding]:
        what, take = "describing group", self._standing_of
        found = self._asked(groups, what, self._together(DescribeGroupsRequest), take, seconds)
        unknown = [group for group, standing in found.items() if standing == ABSENT]
        # what the classic protocol calls dead may be a group of the new one, or of another kind
        for request in (ConsumerGroupDescribeRequest, OtherKindsRequest) if unknown else ():
            with suppress(UnsupportedByBrokerError):
                newer = self._asked(unknown, what, self._together(request), take, seconds)
                found.update({group: standing for group, standing in newer.items() if standing != ABSENT})
                found.failed |= newer.failed
        for group in found.failed:
            found.pop(group, None)
        self._share.update(group for group, standing in found.items() if standing.kind is GroupKind.SHARE)
        return found

    def _standing_of(self, group: str, described: DescribedGroup) -> GroupStanding:
        if described.error_code in _DEAD:
            return ABSENT
        self._check(described.error_code, "describing group", group)
        members = tuple(Member(m.client_id, m.host, m.instance_id, m.has_closed) for m in described.members)
        kind = _kind_of(described.protocol_type)
        return GroupStanding(described.state, members, kind)

    # --- writing ------------------------------------------------------------------------------------------

    def missing_rights(self, wanted: Mapping[str, Collection[TopicPartition]]) -> list[str]:
        what = "reading mmtool's rights on group"
        send = self._together(lambda groups: DescribeGroupsRequest(groups, with_rights=True))
        described = self._asked(wanted, what, send, self._rights_of).complete()
        topics = {place.topic for places in wanted.values() for place in places}
        found = self._wire.ask(lambda wire: wire.refresh(topics, with_rights=True), "reading mmtool's rights")
        return [
            *(
                f"READ on group {self._names.there(name)}"
                for name, of in sorted(described.items())
                if _may_not_read(of)
            ),
            *(
                f"READ on topic {name}"
                for name, topic in sorted(found.items())
                if _may_not_read(topic.rights)
            ),
        ]

    def _rights_of(self, group: str, described: DescribedGroup) -> Rights | Unknown:
        """mmtool's rights on a group, from its description; a retriable error raises, as its answer has no rights."""
        if is_passing(KafkaError(described.error_code)):
            self._check(described.error_code, "reading mmtool's rights on group", group)
        return described.rights

    def alter(
        self, group: str, offsets: Mapping[TopicPartition, Commit], kind: GroupKind | None = None
    ) -> dict[TopicPartition, Problem]:
        is_share = group in self._share if kind is None else kind is GroupKind.SHARE
        try:
            return self._moved(group, offsets) if is_share else self._committed(group, offsets)
        except _RefusedError as refused:
            return refused.problems
        except (UnreachableError, NotAuthorisedError, UnsupportedByBrokerError) as error:
            return dict.fromkeys(offsets, Problem(error.code, error.message))

    def _committed(
        self, group: str, offsets: Mapping[TopicPartition, Commit]
    ) -> dict[TopicPartition, Problem]:
        wanted = {place: commit.pair for place, commit in offsets.items()}
        send = self._alone(lambda name: OffsetCommitRequest(name, wanted))
        return self._write(group, "writing the offsets of group", send, self._refused_of)

    def _write(
        self, group: str, what: str, send: Sending[A], take: Callable[[str, A], B], operation: str = READ
    ) -> B:
        return self._asked([group], what, send, take, operation=operation, at_once=1).complete()[group]

    def forget(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Problem]:
        try:
            if group in self._share:
                return self._forgotten(group, places)
            return self._write(
                group,
                "deleting offsets of group",
                self._alone(lambda name: OffsetDeleteRequest(name, places)),
                lambda name, answer: self._undeleted(name, answer, places),
                DELETE,
            )
        except MmtoolError as error:
            return dict.fromkeys(places, Problem(error.code, error.message))

    def delete(self, groups: Collection[str]) -> dict[str, Problem]:
        try:
            send = self._together(DeleteGroupsRequest)
            asked = self._asked(groups, "deleting group", send, self._still_there, operation=DELETE)
        except MmtoolError as error:
            return dict.fromkeys(groups, Problem(error.code, error.message))
        failed = {group: Problem(error.code, error.message) for group, error in asked.failed.items()}
        return failed | {group: problem for group, problem in asked.items() if problem is not None}

    def _still_there(self, group: str, code: int) -> Problem | None:
        if code == Code.NON_EMPTY_GROUP:
            return problem_of(code)
        is_gone = code == Code.GROUP_ID_NOT_FOUND  # by a request whose answer was lost, or it has expired
        self._check(Code.NONE if is_gone else code, "deleting group", group, DELETE)
        return None

    def _undeleted(
        self, group: str, answer: DeletedOffsets, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, Problem]:
        if answer.error_code == Code.GROUP_ID_NOT_FOUND:
            return {}
        if answer.error_code == Code.NON_EMPTY_GROUP:
            return dict.fromkeys(places, problem_of(Code.NON_EMPTY_GROUP))
        self._check(answer.error_code, "deleting offsets of group", group, DELETE)
        return {place: problem_of(code) for place, code in answer.partitions.items() if code != Code.NONE}

    def _refused_of(self, group: str, answer: dict[TopicPartition, int]) -> dict[TopicPartition, Problem]:
        """The refused partitions of a commit; a retriable error raises, since the same commit can be sent again."""
        problems = {
            place: self._not_taken(group, place, code) for place, code in answer.items() if code != Code.NONE
        }
        if any(is_passing(KafkaError(code)) for code in answer.values()):
            raise RetriableError(_RefusedError(problems))
        return problems

    def _not_taken(self, group: str, place: TopicPartition, code: int) -> Problem:
        """The problem of a refused commit; after a retriable error some replicas may have the commit."""
        problem = problem_of(code)
        if code in DENIED:
            of_topic = code == Code.TOPIC_AUTHORIZATION_FAILED
            right = f"READ on topic {place.topic}" if of_topic else f"READ on group {group}"
            return Problem(problem.name, f"{self._cluster.alias} denies {right}: {problem.sentence}")
        return Problem(UnreachableError.code, str(problem)) if is_passing(KafkaError(code)) else problem

    # --- share groups -------------------------------------------------------------------------------------

    def _positions(
        self, groups: Collection[str], seconds: float | None
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        """The positions of those of ``groups`` that are share groups; others have none."""
        what, send = "reading the share partitions of group", self._together(DescribeShareGroupOffsetsRequest)
        try:
            known = self._asked(groups, what, send, self._starts_of, seconds)
        except UnsupportedByBrokerError:  # before Kafka 4.2
            return Answers()
        share = {group: starts for group, starts in known.items() if starts}
        if not share:
            found = Answers[str, dict[TopicPartition, Commit]]()
            found.failed = known.failed
            return found
        self._share.update(share)
        places = {place for starts in share.values() for place in starts}
        before = self._ends(places, committed=True)
        told = self._asked(share, what, send, self._starts_of, seconds)
        after = self._ends(places, committed=False)
        found = Answers({group: positions(starts, before, after) for group, starts in told.items()})
        found.failed = known.failed | told.failed
        return found

    def has_share_groups(self) -> bool:
        async def ask(wire: WireCluster) -> object:
            return await asyncio.gather(
                *(wire.send(node, DescribeShareGroupOffsetsRequest(())) for node in wire.nodes)
            )

        try:
            self._wire.ask(ask, "asking for share groups")
        except UnsupportedByBrokerError:
            return False
        return True

    def configs(self, groups: Collection[str]) -> Answers[str, dict[str, str]]:
        what, found = "reading the configs of group", Answers[str, dict[str, str]]()
        named = {self._names.there(group): group for group in groups}
        told = self._any(DescribeGroupConfigsRequest(list(named)), what) if groups else {}
        for name_there, described in told.items():
            group = named[name_there]
            try:
                self._check(described.error_code, what, name_there, "DESCRIBE_CONFIGS")
            except MmtoolError as error:
                found.failed[group] = error
            else:
                own = {name: entry.value for name, entry in described.entries.items() if entry.on_topic}
                found[group] = {name: value for name, value in own.items() if value is not None}
        return found

    def configure(self, group: str, configs: Mapping[str, str]) -> Problem | None:
        what, name = "setting configs of group", self._names.there(group)
        try:
            code = self._any(AlterGroupConfigsRequest(name, configs), what)
            self._check(code, what, name, "ALTER_CONFIGS")
        except MmtoolError as error:
            return Problem(error.code, error.message)
        return None

    def _any(self, request: WireRequest[A], what: str) -> A:
        """Send a request to any broker."""

        async def ask(wire: WireCluster) -> A:
            return await wire.send(next(iter(wire.nodes)), request)

        return self._wire.ask(ask, what)

    def _ends(self, places: Collection[TopicPartition], *, committed: bool) -> dict[TopicPartition, int]:
        """The log ends, without those of partitions that do not answer: what is acknowledged there is unknown."""
        ends, patience = dict.fromkeys(places, LATEST), Patience(_END_SECONDS, _END_SECONDS, unknown=None)
        ask = partial(offsets_each, timestamps=ends, patience=patience, read_committed=committed)
        return self._wire.ask(ask, "reading the log ends of share partitions")

    def _starts_of(self, group: str, answer: ShareStarts) -> dict[TopicPartition, ShareStart]:
        what = "reading the share partitions of group"
        self._check(Code.NONE if answer.error_code in _DEAD else answer.error_code, what, group)
        for place, start in answer.partitions.items():
            right = f"DESCRIBE on topic {place.topic}"
            check_code(
                self._cluster, start.error_code, f"reading where group {group} starts in {place}", right
            )
        return {place: start for place, start in answer.partitions.items() if start.start >= 0}

    def _moved(self, group: str, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, Problem]:
        starts = {place: commit.offset for place, commit in offsets.items()}

        def take(name: str, answer: AlteredStarts) -> dict[TopicPartition, Problem]:
            codes = answer.partitions or dict.fromkeys(starts, answer.error_code)
            return self._refused_of(name, codes)

        send = self._alone(lambda name: AlterShareGroupOffsetsRequest(name, starts))
        problems = self._write(group, "writing the share partitions of group", send, take)
        self._share.add(group)
        return problems

    def _forgotten(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Problem]:
        """Delete share partitions; Kafka deletes those of a whole topic, so the others of it are written again."""
        topics = {place.topic for place in places}
        stands = self.commits([group])[group]
        rest = {at: commit for at, commit in stands.items() if at.topic in topics and at not in places}

        def take(name: str, answer: DeletedStarts) -> dict[TopicPartition, Problem]:
            codes = {at: answer.topics.get(at.topic, answer.error_code) for at in places}
            is_gone = answer.error_code == Code.GROUP_ID_NOT_FOUND
            return {} if is_gone else self._refused_of(name, codes)

        try:
            send = self._alone(lambda name: DeleteShareGroupOffsetsRequest(name, topics))
            problems = self._write(group, "deleting share partitions of group", send, take, DELETE)
        except _RefusedError as refused:
            problems = refused.problems
        return problems | (self.alter(group, rest) if rest and not problems else {})

    # --- asking -------------------------------------------------------------------------------------------

    def _together(self, request: Callable[[list[str]], WireRequest[dict[str, A]]]) -> Sending[A]:
        """Send a request about many groups."""

        async def send(wire: WireCluster, node: int, some: list[str]) -> dict[str, A]:
            return await wire.send(node, request(some))

        return send

    def _alone(self, request: Callable[[str], WireRequest[A]]) -> Sending[A]:
        """Send one request for each group."""

        async def send(wire: WireCluster, node: int, some: list[str]) -> dict[str, A]:
            # a connection that no other request uses: a broker works on one of a connection at a time
            name = next(name for name in map(str, count()) if name not in self._used)
            self._used.add(name)
            try:
                return {group: await wire.send(node, request(group), purpose=name) for group in some}
            finally:
                self._used.discard(name)

        return send

    def _asked(
        self,
        groups: Collection[str],
        what: str,
        send: Sending[A],
        take: Callable[[str, A], B],
        seconds: float | None = None,
        operation: str = DESCRIBE,
        *,
        at_once: int = _PER_REQUEST,
    ) -> Answers[str, B]:
        """Ask the groups' coordinators, with ``at_once`` groups in a request; return each group's decoded answer.

        Raises:
            UnsupportedByBrokerError: a broker does not know the request.
        """
        named = {group: self._names.there(group) for group in groups}
        found: Answers[str, B] = Answers()
        patience = self._seconds if seconds is None else seconds
        codes: dict[str, int] = {}

        async def locate(wire: WireCluster, left: list[str]) -> None:
            unknown = [group for group in left if group not in self._nodes]
            answers = await wire.find_coordinators(unknown, Coordinated.GROUP) if unknown else {}
            codes.update({group: one.error_code for group, one in answers.items()})
            known = {group: one.node for group, one in answers.items() if one.error_code == Code.NONE}
            self._nodes |= known

        def node_of(group: str) -> int:
            if group not in self._nodes:
                self._check(codes[group], what, group, operation)
            return self._nodes[group]

        for some in handfuls(list(dict.fromkeys(named.values())), _PER_QUESTION):

            async def asked(wire: WireCluster, some: list[str] = some) -> Answers[str, B]:
                steps = (partial(locate, wire), node_of, partial(send, wire), take)
                question = Question(
                    *(self._cluster.alias, what, *steps, patience),
                    try_seconds=patience if at_once == 1 else seconds_of_a_try(patience),
                    at_once=at_once,
                    lost=self._forget,
                )
                return await question.ask(some)

            try:
                answers = self._wire.ask(asked, f"{what}s")
            except UnreachableError as error:
                if not found:
                    raise
                # what it told before it fell silent stands; each further question would wait as long
                rest = (group for group in named.values() if group not in found and group not in found.failed)
                found.failed |= dict.fromkeys(rest, error)
                break
            found.update(answers)
            found.failed |= answers.failed
        ours = Answers({group: found[name] for group, name in named.items() if name in found})
        ours.failed = {group: found.failed[name] for group, name in named.items() if name in found.failed}
        return ours

    def _forget(self, group: str) -> None:
        """Forget the coordinator of a group, which may have moved."""
        self._nodes.pop(group, None)

    def _check(self, code: int, what: str, group: str, operation: str = DESCRIBE) -> None:
        """Raise mmtool's error for a broker's error code; `RetriableError` for a retriable one."""
        check_code(self._cluster, code, f"{what} {group}", f"{operation} on group {group}")


class _RefusedError(MmtoolError):
    """What a commit was refused for; an answer rather than a failure, and caught here."""

    def __init__(self, problems: dict[TopicPartition, Problem]) -> None:
        super().__init__(str(next(iter(problems.values()))))
        self.problems = problems


def _kind_of(protocol_type: str) -> GroupKind:
    """The kind of a group by Kafka's name for its type; classic groups have any other name."""
    return GroupKind(protocol_type) if protocol_type in set(GroupKind) else GroupKind.CONSUMER


def _may_not_read(rights: Rights | Unknown) -> bool:
    return rights is not UNKNOWN and not rights.may(AclOperation.READ)
