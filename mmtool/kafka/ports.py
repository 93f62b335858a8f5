"""The ports through which services use a cluster. ``kit.clusters`` has fakes that pass the same tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.errors import MmtoolError
    from mmtool.kafka.batches import BatchView, ReadyBatch
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.failover.acl_fence import Binding, FenceFacts, OpenTransaction, Writer
    from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.groups.facts import Commit, GroupStanding
    from mmtool.plan.records.documents import ProducerRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.plan.topics.retention import Retention
    from mmtool.translation.blocks import Block
    from mmtool.translation.known import Unknown
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import OffsetPair, SyncMap
    from mmtool.translation.types import ClusterId, TopicId, TopicPartition


K = TypeVar("K")
V = TypeVar("V")


class Answers(dict[K, V]):
    """A cluster's answers about several items, each with its own result.

    Attributes:
        failed: Why an item has no answer. An item in neither mapping does not exist.
    """

    def __init__(self, found: Mapping[K, V] | None = None) -> None:
        """Begin with ``found``, and with no failure."""
        super().__init__(found or {})
        self.failed: dict[K, MmtoolError] = {}

    def complete(self) -> Self:
        """The same, where no item failed.

        Raises:
            MmtoolError: why the first item that failed has no answer.
        """
        for error in self.failed.values():
            raise error
        return self


@dataclass(frozen=True, slots=True)
class Bounds:
    """A partition's log: its start offset, and its end offset (or the last stable offset)."""

    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request failed for one partition: Kafka's name for it, and its sentence."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.sentence} ({self.name})"


class FirstMissing(NamedTuple):
    """The offset at which a mirror continues: that of the first record that it lacks, or one before that record."""

    topic: str
    topic_id: TopicId
    partition: int
    offset: int


class LogPart(NamedTuple):
    """Some records of a log.

    Attributes:
        offsets: Their offsets; offsets without a record (any more) are left out.
        most: How many of them at the most, from the first on.
    """

    place: TopicPartition
    topic_id: TopicId
    offsets: range
    most: int


@dataclass(frozen=True, slots=True)
class Mm2State:
    """The content of MM2's topics.

    Attributes:
        maps: By the partition on the source.
        unreadable: Records that are not in MM2's format, by their topic; they are skipped.
        newest: The last offset sync of each partition.
    """

    maps: Mapping[TopicPartition, SyncMap]
    unreadable: Mapping[str, int]
    newest: Mapping[TopicPartition, OffsetPair] = field(default_factory=dict)


class StoredCheckpoint(NamedTuple):
    """A group's last checkpoint in a partition.

    Attributes:
        pair: Its offsets on both sides, and when they were written.
        metadata: The metadata of the commit on the source.
        is_ours: mmtool wrote it, not MirrorMaker 2.
    """

    pair: OffsetPair
    metadata: str = ""
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class StoredCheckpoints:
    """The content of the checkpoints topic.

    Attributes:
        checkpoints: The last one of each group and partition of the source, by mmtool or MM2.
        unreadable: As for `Mm2State`.
    """

    checkpoints: Mapping[str, Mapping[TopicPartition, StoredCheckpoint]]
    unreadable: Mapping[str, int]


class GroupListing(NamedTuple):
    """The groups of a cluster, by name.

    Attributes:
        consumers: Classic and KIP-848 groups, and Kafka's word for each one's state.
        others: Groups of other types, with Kafka's name for each one's type (share, streams, connect).
        simple: Those of the consumers that never had a member: they exist through commits alone.
    """

    consumers: Mapping[str, str]
    others: Mapping[str, str]
    simple: frozenset[str] = frozenset()


class GroupsPort(Protocol):
    """The consumer groups of one cluster.

    Every call raises `UnreachableError` or `NotAuthorisedError` when the cluster does not answer, or not us.
    """

    def list_groups(self) -> Mapping[str, str]:
        """Of `listing` the consumer groups alone."""

    def listing(self) -> GroupListing:
        """Every group, of whatever kind."""

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Mapping[str, Mapping[TopicPartition, Commit]]:
        """All committed offsets of each group; a group that does not exist has none.

        Args:
            groups: Whose.
            stable: Refuse a group with an open transaction over its offsets (KIP-447) instead of telling what
                was committed before it.

        Raises:
            RefusedError: With ``stable``, such a transaction is open.
        """

    def commits_each(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        """`commits`, where a group that cannot be asked costs no other group its answer."""

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupStanding]:
        """Each group's state and members; one that does not exist is `ABSENT`."""

    def describe_each(self, groups: Collection[str]) -> Answers[str, GroupStanding]:
        """`describe`, where a group that cannot be asked costs no other group its answer."""

    def missing_rights(self, wanted: Mapping[str, Collection[TopicPartition]]) -> Sequence[str]:
        """What commits of these groups would be refused for, as ``READ on topic orders``; asked, and nothing tried.

        Of what a broker does not tell beforehand (before 2.3) nothing is said.
        """

    def alter(self, group: str, offsets: Mapping[TopicPartition, Commit]) -> Mapping[TopicPartition, Problem]:
        """Commit for a group without members, never with a leader epoch; what failed, by partition.

        A group with members fails in all partitions (UNKNOWN_MEMBER_ID).
        """

    def forget(self, group: str, places: Collection[TopicPartition]) -> Mapping[TopicPartition, Problem]:
        """Delete what a group without members has committed (KIP-496); what failed, by partition.

        A group without any commit is forgotten some time later. One with members that read the topic fails
        (GROUP_SUBSCRIBED_TO_TOPIC).
        """

    def delete(self, group: str) -> Problem | None:
        """End a group without members, and forget what it has committed; why it could not be.

        One that does not exist is no problem. One with members is (NON_EMPTY_GROUP).
        """

    def fresh(self) -> GroupsPort:
        """The same groups through a client that has not been used: for reading back what was written."""


class ClusterPort(Protocol):
    """One cluster: its id, its topics, its logs, its groups. Errors as in `GroupsPort`."""

    @property
    def alias(self) -> str: ...

    @property
    def groups(self) -> GroupsPort: ...

    def probe(self) -> ClusterId:
        """The cluster's own id, asked now.

        Raises:
            RefusedError: It is not the one that ``ALIAS.mmtool.cluster.id`` names.
        """

    def topics(self) -> Mapping[str, TopicFacts]:
        """Every topic that we may see, with its id; configs are left out."""

    def lacks(self, topics: Collection[str]) -> frozenset[str]:
        """Those of some topics that the cluster does not have; what it only hides from us is none of them."""

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Mapping[TopicPartition, Bounds]:
        """Each partition's first and next offset; partitions that are not there are left out.

        Args:
            partitions: Of which.
            committed: The end is the last stable offset, as a read_committed reader sees it, not the log end.

        Raises:
            MmtoolError: One partition has no leader, or is denied.
        """

    def bounds_each(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Answers[TopicPartition, Bounds]:
        """`bounds`, where a partition that cannot be asked costs no other partition its answer."""

    def commit_times(self, groups: Collection[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        """When each group committed last, in ms since 1970; nothing where that cannot be told without effort.

        By ``__consumer_offsets``: it needs READ there, and is not read where it is large.
        """

    def longest_metadata(self) -> int:
        """How many characters a commit's metadata may have (``offset.metadata.max.bytes``)."""

    def longest_transaction_seconds(self) -> float:
        """For how long a transaction may be open at most (``transaction.max.timeout.ms``)."""

    def records(self, parts: Collection[LogPart], *, committed: bool) -> Mapping[LogPart, list[Seen]]:
        """What is in some parts of logs, told by digests.

        Args:
            parts: Which.
            committed: Without the records of aborted transactions.

        Raises:
            BatchError: A batch that cannot be read.
            MmtoolError: A part that cannot be read.
        """

    def records_each(self, parts: Collection[LogPart], *, committed: bool) -> Answers[LogPart, list[Seen]]:
        """`records`, where a part that cannot be read costs no other part its records."""

    def offsets_retention_seconds(self) -> float:
        """After how long the cluster forgets a commit that nobody repeats (``offsets.retention.minutes``, KIP-211)."""

    def known_offsets_retention(self) -> float | Unknown:
        """`offsets_retention_seconds` as a broker states it; UNKNOWN where the cluster does not show it."""


class BatchesPort(Protocol):
    """One cluster's logs, batch by batch as stored, and its producer register. Errors as in `GroupsPort`."""

    def batches(
        self, place: TopicPartition, topic_id: TopicId, offsets: range, *, committed: bool
    ) -> Iterator[BatchView]:
        """Each batch that holds any of these offsets, in order, read as they are asked for.

        Args:
            place: Which partition.
            topic_id: Of the topic that is meant: one that was made anew under its name has none of these.
            offsets: Where; the first batch may begin before, and the last one end behind.
            committed: Without control batches and without those of aborted transactions.

        Raises:
            BatchError: A batch that cannot be read.
        """

    def producers(self) -> Mapping[int, ProducerRecord]:
        """The producer ids under which flows have mirrored to this cluster.

        A batch that was appended before this is asked was mirrored by one of these, or by nobody of mmtool.

        Raises:
            RefusedError: A registration that cannot be read.
        """

    def unbooked(self, known: PartitionMap) -> int | Unknown:
        """How many records behind a map's the partition's leader has taken from the map's writer.

        UNKNOWN where the leader has forgotten, or cannot tell (before 2.8, KIP-664).
        """


class AppendPort(Protocol):
    """Appends batches under one producer id that outlives the process. Errors as in `GroupsPort`."""

    def appended(self, place: TopicPartition, since: int) -> int:
        """How many records of ours the log holds from the offset ``since`` on, whoever of us wrote them.

        To be asked before the first batch is appended there, and where we have appended behind ``since`` alone since we
        began (again): what is there is told by its numbers.
        """

    def begin_again(self) -> None:
        """Batches are numbered anew, under the same producer id: what was appended before is done."""

    def append(self, place: TopicPartition, batch: ReadyBatch) -> None:
        """The batch is on all in-sync replicas, once.

        Raises:
            RefusedError: The topic will not take it, as it is.
            MmtoolError: The cluster refuses it, or somebody else goes on in our place.
        """


class FencePort(Protocol):
    """The ACLs and the active producers of some topics of one cluster. Errors as in `GroupsPort`."""

    @property
    def alias(self) -> str: ...

    @property
    def servers(self) -> str:
        """The cluster's bootstrap servers, for commands that an operator runs."""

    def facts(self, topics: Collection[str]) -> FenceFacts:
        """All that a fence's plan is made from."""

    def bindings(self, topics: Collection[str]) -> frozenset[Binding]:
        """The rules that speak of these topics, as one broker has them now."""

    def deny(self, bindings: Collection[Binding]) -> Mapping[Binding, Problem]:
        """Make these rules; returns when every broker goes by them. What failed, by rule."""

    def remove(self, bindings: Collection[Binding]) -> Mapping[Binding, Problem]:
        """Delete exactly these, if they are there; returns when no broker goes by them. What failed, by rule."""

    def own_writes(self, topics: Collection[str]) -> frozenset[str]:
        """Which of the topics mmtool itself may write."""

    def writers(self, places: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[Writer, ...]]:
        """Who has produced with a producer id, as far as the leaders remember (``producer.id.expiration.ms``).

        Raises:
            NotAuthorisedError: Without READ on a topic.
            RefusedError: Brokers before 2.8 do not tell.
        """

    def open_transactions(self, places: Collection[TopicPartition]) -> Sequence[OpenTransaction]:
        """Transactions with records in these partitions that have not ended. Errors as above."""


class FlowStatePort(Protocol):
    """A flow's stored state on its target."""

    def control(self, identity: FlowIdentity) -> ControlView:
        """The control topic as it stands now; empty when there is none.

        Raises:
            RefusedError: Stored state that cannot be read (``unreadable_state``).
        """

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> None:
        """Refuse an identity that contradicts what the flow's first start wrote down.

        Args:
            identity: The flow, as configured and as the clusters answer.
            topics: What the target has: a flow under another alias is seen by its topics.

        Raises:
            UsageError: The alias stands for another cluster there, or another alias for these clusters.
        """

    def maps(self, identity: FlowIdentity) -> Mapping[tuple[TopicId, int], PartitionMap]:
        """Every mirrored partition's map, by the source topic's id; empty when the flow never ran.

        Raises:
            RefusedError: Stored state that cannot be read (``unreadable_state``).
        """


class SyncedPort(Protocol):
    """A flow's offset syncs and checkpoints, written by MirrorMaker 2, or by mmtool in its place."""

    def synced(self) -> Mm2State:
        """Every partition that MM2's offset-syncs and checkpoints topics speak of.

        Raises:
            UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a topic.
        """

    def checkpoints(self) -> StoredCheckpoints:
        """What groups were told last. Errors as above."""


class FlowWatchPort(FlowStatePort, Protocol):
    """A flow's status, for repeated reads. Errors as in `GroupsPort` and `FlowStatePort.maps`."""

    def members(self, identity: FlowIdentity) -> tuple[FlowMember, ...]:
        """Who is in the flow's ownership group: its owner, and who waits to take over."""

    def newest_blocks(self, identity: FlowIdentity) -> Mapping[tuple[TopicId, int], Block]:
        """The last block of offset runs of every mirrored partition."""

    def first_missing_times(self, places: Collection[FirstMissing]) -> Mapping[FirstMissing, int]:
        """Timestamps (ms) of the source's first records at or after one offset of each partition, if they are told."""

    def retention(self, topics: Collection[str]) -> Mapping[str, Retention]:
        """What the source keeps, of topics that it deletes from; where it tells."""

    def checkpointed_groups(self) -> int:
        """How many groups of the source have checkpoints on the target."""

    def mirror_maker(self) -> MirrorMakerProgress:
        """How far MirrorMaker 2 says it is with the flow; nothing where it never ran it."""


class CanaryRecord(NamedTuple):
    """A record of the canary topic, on either side.

    Attributes:
        timestamp_ms: Milliseconds since 1970, as the log has it.
        offset: Its offset; None before it was written.
    """

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int
    offset: int | None = None


class CanaryPort(Protocol):
    """The canary topic of a flow: written on the source, read on the target. Errors as in `GroupsPort`."""

    def create(self) -> None:
        """Makes it on the source, if it is not there: one partition, and nothing is kept for longer than a day.

        Raises:
            RefusedError: The source refuses it.
        """

    def produce(self, records: Sequence[CanaryRecord]) -> list[CanaryRecord]:
        """The records as they are in the first partition on the source, acknowledged by all in-sync replicas.

        Raises:
            RefusedError: The source does not take them.
        """

    def read(self, topic: str, start: int) -> list[CanaryRecord]:
        """What a consumer of the target finds in the topic's first partition, from an offset to the end."""
