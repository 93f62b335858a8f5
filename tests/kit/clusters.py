"""Clusters in memory that answer what a real one answers, as far as groups and logs go.

``tests/contract/test_groups_contract.py`` runs the same promises on these and on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from mmtool.kafka.ports import (
    Answers,
    Bounds,
    GroupListing,
    Mm2State,
    Problem,
    StoredCheckpoint,
    StoredCheckpoints,
)
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.wire.scan import impossible
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.groups.facts import ABSENT, Commit, GroupKind, GroupStanding, Member
from mmtool.plan.topics.facts import TopicFacts, name_problem
from mmtool.translation.sync_map import SyncMap
from mmtool.translation.types import ClusterId, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import FirstMissing, LogPart
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.records.documents import Document
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.retention import Retention
    from mmtool.translation.blocks import Block
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import OffsetPair
    from mmtool.translation.types import Unknown

A = TypeVar("A")


@dataclass
class Mortal:
    """What answers until it is gone.

    Attributes:
        failure: Raised by every call from then on.
    """

    failure: MmtoolError | None = field(default=None, kw_only=True)

    def answer(self) -> None:
        if self.failure is not None:
            raise self.failure


@dataclass
class FakeGroups(Mortal):
    """A `GroupsPort`. Groups come to be by a commit or by joining, as on a broker.

    Attributes:
        committed: Group to partition to commit.
        members: Group to who is in it.
        exists: Which partitions the cluster has; a commit for another one fails.
        denied: Partitions for which a commit is refused, as by a broker that does not tell rights beforehand.
        rights_missing: What a broker tells beforehand.
        others: Groups that are no consumer groups, and what they are.
        hidden: Groups that cannot be asked, and why.
        knows_share_groups: Whether the brokers do.
        configured: Each group's own configs.
        freezes: It takes one more commit, and answers neither that nor anything after it, for this reason.
        before_reading_back: Called when a fresh client is made, for what happens between write and check.
    """

    exists: Callable[[TopicPartition], bool]
    committed: dict[str, dict[TopicPartition, Commit]] = field(default_factory=dict)
    members: dict[str, tuple[Member, ...]] = field(default_factory=dict)
    denied: set[TopicPartition] = field(default_factory=set)
    rights_missing: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, MmtoolError] = field(default_factory=dict)
    knows_share_groups: bool = True
    configured: dict[str, dict[str, str]] = field(default_factory=dict)
    freezes: MmtoolError | None = None
    before_reading_back: Callable[[], None] = lambda: None

    def fresh(self) -> FakeGroups:
        self.before_reading_back()
        return self

    def listing(self) -> GroupListing:
        self.answer()
        names = dict.fromkeys([*self.committed, *self.members])
        kinds = {name: GroupKind(kind) for name, kind in self.others.items() if kind in set(GroupKind)}
        others = {name: kind for name, kind in self.others.items() if name not in kinds}
        states = {name: self._standing(name).state for name in {**names, **kinds}}
        return GroupListing(states, others, kinds=kinds)

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, Commit]]:
        return self.commits_each(groups, stable=stable).complete()

    def commits_each(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        del stable  # no transactions in here
        return self._each(groups, lambda group: dict(self.committed.get(group, {})))

    def describe(self, groups: Collection[str]) -> dict[str, GroupStanding]:
        return self.describe_each(groups).complete()

    def describe_each(self, groups: Collection[str]) -> Answers[str, GroupStanding]:
        return self._each(groups, self._standing)

    def _each(self, groups: Collection[str], answer: Callable[[str], A]) -> Answers[str, A]:
        self.answer()
        found = Answers({group: answer(group) for group in groups if group not in self.hidden})
        found.failed.update({group: self.hidden[group] for group in groups if group in self.hidden})
        return found

    def has_share_groups(self) -> bool:
        self.answer()
        return self.knows_share_groups

    def configs(self, groups: Collection[str]) -> Answers[str, dict[str, str]]:
        return self._each(groups, lambda group: dict(self.configured.get(group, {})))

    def configure(self, group: str, configs: Mapping[str, str]) -> Problem | None:
        self.answer()
        self.configured.setdefault(group, {}).update(configs)
        return None

    def missing_rights(self, wanted: Mapping[str, Collection[TopicPartition]]) -> list[str]:
        self.answer()
        del wanted
        return self.rights_missing

    def alter(
        self, group: str, offsets: Mapping[TopicPartition, Commit], kind: GroupKind | None = None
    ) -> dict[TopicPartition, Problem]:
        self.answer()
        there = self._standing(group)
        if kind is GroupKind.SHARE and there == ABSENT:
            self.others[group] = kind
        if kind is not None and not there.fits(kind):
            return dict.fromkeys(offsets, Problem("GROUP_ID_NOT_FOUND", "The group id does not exist"))
        if self.members.get(group):
            return dict.fromkeys(offsets, Problem("UNKNOWN_MEMBER_ID", "Broker: Unknown member"))
        failed = {place: problem for place in offsets if (problem := self._problem(place)) is not None}
        taken = {place: commit for place, commit in offsets.items() if place not in failed}
        if taken:
            self.committed.setdefault(group, {}).update(taken)
        if self.freezes is not None:
            self.failure = self.freezes
            return dict.fromkeys(offsets, Problem(self.freezes.code, self.freezes.message))
        return failed

    def forget(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Problem]:
        if self.failure is not None:
            return dict.fromkeys(places, Problem(self.failure.code, self.failure.message))
        if self.members.get(group):
            return dict.fromkeys(
                places, Problem("GROUP_SUBSCRIBED_TO_TOPIC", "Broker: The group is subscribed to it")
            )
        failed = {place: problem for place in places if (problem := self._problem(place)) is not None}
        for place in places:
            if place not in failed:
                self.committed.get(group, {}).pop(place, None)
        return failed

    def delete(self, groups: Collection[str]) -> dict[str, Problem]:
        self.answer()
        for group in groups:
            if not self.members.get(group):
                self.committed.pop(group, None)
        full = Problem("NON_EMPTY_GROUP", "Broker: The group is not empty")
        return {group: full for group in groups if self.members.get(group)}

    def _problem(self, place: TopicPartition) -> Problem | None:
        if place in self.denied:
            return Problem("TOPIC_AUTHORIZATION_FAILED", "Broker: Topic authorization failed")
        if not self.exists(place):
            return Problem("UNKNOWN_TOPIC_OR_PART", "Broker: Unknown topic or partition")
        return None

    def _standing(self, group: str) -> GroupStanding:
        members = self.members.get(group, ())
        if not members and group not in self.committed and group not in self.others:
            return ABSENT
        kind = GroupKind(self.others.get(group, GroupKind.CONSUMER))
        return GroupStanding("Stable" if members else "Empty", members, kind)


@dataclass
class FakeCluster(Mortal):
    """A `ClusterPort`: topics with ids, logs with bounds, groups.

    Attributes:
        unanswered: Partitions whose bounds cannot be asked, and why.
        unreadable: Partitions whose records cannot be read, and why.
    """

    alias: str
    cluster_id: ClusterId
    ids: dict[str, TopicId] = field(default_factory=dict)
    logs: dict[TopicPartition, Bounds] = field(default_factory=dict)
    contents: dict[TopicPartition, list[Seen]] = field(default_factory=dict)
    times: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    metadata_max: int = 4096
    hidden: set[str] = field(default_factory=set)
    unanswered: dict[TopicPartition, MmtoolError] = field(default_factory=dict)
    unreadable: dict[TopicPartition, MmtoolError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.groups = FakeGroups(self.logs.__contains__)

    def add_topic(self, name: str, topic_id: str, *ends: int) -> None:
        """A topic with one partition for each log end, from 0."""
        self.ids[name] = TopicId(topic_id)
        self.logs |= {TopicPartition(name, number): Bounds(0, end) for number, end in enumerate(ends)}

    def forget_topic(self, name: str) -> None:
        """The topic is deleted."""
        del self.ids[name]
        self.logs = {place: log for place, log in self.logs.items() if place.topic != name}
        self.groups.exists = self.logs.__contains__

    def go_away(self, failure: MmtoolError) -> None:
        """From now on every call fails like that."""
        self.failure = self.groups.failure = failure

    def probe(self) -> ClusterId:
        self.answer()
        return self.cluster_id

    def topics(self) -> dict[str, TopicFacts]:
        self.answer()
        counts = {name: sum(place.topic == name for place in self.logs) for name in self.ids}
        return {name: TopicFacts(name, self.ids[name], count) for name, count in counts.items()}

    def lacks(self, topics: Collection[str]) -> frozenset[str]:
        self.answer()
        return frozenset(topics) - self.ids.keys() - self.hidden

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, Bounds]:
        possible = [place for place in partitions if not name_problem(place.topic)]
        return self.bounds_each(possible, committed=committed).complete()

    def bounds_each(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Answers[TopicPartition, Bounds]:
        self.answer()
        del committed  # no transactions in here
        problems = {place: name_problem(place.topic) for place in partitions}
        failed: dict[TopicPartition, MmtoolError] = {
            place: impossible(self.alias, problem) for place, problem in problems.items() if problem
        }
        failed |= {place: self.unanswered[place] for place in partitions if place in self.unanswered}
        there = [place for place in partitions if place in self.logs and place not in failed]
        answers = Answers({place: replace(self.logs[place]) for place in there})
        answers.failed.update(failed)
        return answers

    def commit_times(self, groups: Collection[str]) -> dict[str, dict[TopicPartition, int]]:
        self.answer()
        return {group: self.times[group] for group in groups if group in self.times}

    def longest_metadata(self) -> int:
        self.answer()
        return self.metadata_max

    def longest_transaction_seconds(self) -> float:
        self.answer()
        return 900.0

    def records(self, parts: Collection[LogPart], *, committed: bool) -> dict[LogPart, list[Seen]]:
        return self.records_each(parts, committed=committed).complete()

    def records_each(self, parts: Collection[LogPart], *, committed: bool) -> Answers[LogPart, list[Seen]]:
        self.answer()
        del committed  # no transactions in here
        found: Answers[LogPart, list[Seen]] = Answers()
        for part in parts:
            if part.place in self.unreadable:
                found.failed[part] = self.unreadable[part.place]
                continue
            seen = [seen for seen in self.contents.get(part.place, []) if seen.offset in part.offsets]
            found[part] = seen[: part.most]
        return found

    def offsets_retention_seconds(self) -> float:
        self.answer()
        return 7 * 86_400.0

    def known_offsets_retention(self) -> float | Unknown:
        return self.offsets_retention_seconds()


@dataclass
class FakeFlowState:
    """A `FlowStatePort`: what the flow has stored, as maps, and its control topic."""

    stored: dict[tuple[TopicId, int], PartitionMap] = field(default_factory=dict)
    clash: MmtoolError | None = None
    view: ControlView = field(default_factory=ControlView)

    def marked(self, *marks: Document) -> None:
        """A failover has written these."""
        for mark in marks:
            self.view.apply(mark.key, mark.encode(), self.view.end)

    def control(self, identity: FlowIdentity) -> ControlView:
        del identity
        return self.view

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> ControlView:
        del topics
        if self.clash is not None:
            raise self.clash
        return self.control(identity)

    def maps(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], PartitionMap]:
        del identity
        return dict(self.stored)


@dataclass
class FakeSynced:
    """A `SyncedPort`: what MM2 has told, as pairs of offsets by partition of the source.

    Attributes:
        points: Of checkpoints, whichever group they are of.
        from_start: As for `SyncMap`.
    """

    syncs: dict[TopicPartition, list[OffsetPair]] = field(default_factory=dict)
    points: dict[TopicPartition, list[OffsetPair]] = field(default_factory=dict)
    from_start: bool = False
    held: dict[str, dict[TopicPartition, StoredCheckpoint]] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)

    def synced(self) -> Mm2State:
        found = {
            at: SyncMap.of(pairs, self.points.get(at, ()), from_start=self.from_start)
            for at, pairs in self.syncs.items()
        }
        return Mm2State({at: known for at, known in found.items() if known is not None}, self.unreadable)

    def checkpoints(self) -> StoredCheckpoints:
        return StoredCheckpoints(self.held, self.unreadable)


@dataclass
class FakeFlowWatch(FakeFlowState):
    """A `FlowWatchPort`: who is in the ownership group, and what the control topic and the books hold.

    Attributes:
        heard: Called before each look at the control topic, for what pumps write between two looks.
        times: Timestamps of source records, by topic, partition and offset.
        keeps: What the source keeps, by topic.
        mm2: What MirrorMaker 2 has stored.
        faults: What is missing or differs of the flow's internal topics.
    """

    present: tuple[FlowMember, ...] = ()
    blocks: dict[tuple[TopicId, int], Block] = field(default_factory=dict)
    times: dict[tuple[str, int, int], int] = field(default_factory=dict)
    keeps: dict[str, Retention] = field(default_factory=dict)
    groups: int = 0
    faults: str = ""
    mm2: MirrorMakerProgress = field(default_factory=MirrorMakerProgress)
    heard: Callable[[], None] = lambda: None

    def members(self, identity: FlowIdentity) -> tuple[FlowMember, ...]:
        del identity
        return self.present

    def topic_faults(self, identity: FlowIdentity) -> str:
        del identity
        return self.faults

    def control(self, identity: FlowIdentity) -> ControlView:
        del identity
        self.heard()
        return self.view

    def newest_blocks(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], Block]:
        del identity
        return dict(self.blocks)

    def first_missing_times(self, places: Collection[FirstMissing]) -> dict[FirstMissing, int]:
        found = {place: self.times.get((place.topic, place.partition, place.offset)) for place in places}
        return {place: ms for place, ms in found.items() if ms is not None}

    def retention(self, topics: Collection[str]) -> dict[str, Retention]:
        return {topic: self.keeps[topic] for topic in topics if topic in self.keeps}

    def checkpointed_groups(self) -> int:
        return self.groups

    def mirror_maker(self) -> MirrorMakerProgress:
        return self.mm2
