"""The ports through which services use a cluster. ``kit.clusters`` has fakes that pass the same tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar

from mmtool.plan.groups.facts import ONLY_CONSUMERS, Commit, GroupKind, GroupStanding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.errors import MmtoolError
    from mmtool.kafka.batches import BatchView, ReadyBatch
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.failover.acl_rules import AclFacts, Binding
    from mmtool.plan.failover.fence_plan import ActiveProducer, FenceFacts, OpenTransaction
    from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.records.documents import ProducerRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.plan.topics.retention import Retention
    from mmtool.translation.blocks import Block
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import OffsetPair, SyncMap
    from mmtool.translation.types import ClusterId, TopicId, TopicPartition, Unknown


K = TypeVar("K")
V = TypeVar("V")


class Answers(dict[K, V]):
    """A cluster's answers about several items, each with its own result.

    Attributes:
        failed: Why an item has no answer. An item in neither mapping does not exist.
    """

    def __init__(self, found: Mapping[K, V] | None = None) -> None:
        """Take the answers that were found; ``failed`` starts empty."""
        super().__init__(found or {})
        self.failed: dict[K, MmtoolError] = {}

    def complete(self) -> Self:
        """Return these answers if no item failed; raise the first failure otherwise.

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
    """Why a request failed for one partition or topic: Kafka's name for it, perhaps empty, and its sentence."""

    name: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.sentence} ({self.name})"

    @property
    def by_name(self) -> str:
        """The sentence behind its name, as the reasons of topics have it; alone where there is no name."""
        return f"{self.name}: {self.sentence}" if self.name else self.sentence


NOT_ON_EVERY_BROKER = "NOT_ON_EVERY_BROKER"
"""The name of the problem that a broker did not apply a changed ACL in time."""


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
        version: Of the transform by which they were mirrored: read as what was made of them; empty for as they are.
    """

    place: TopicPartition
    topic_id: TopicId
    offsets: range
    most: int
    version: str = ""


class TransformsPort(Protocol):
    """The transforms of a flow's topics."""

    async def made(self, place: TopicPartition, view: BatchView, offsets: range, version: str) -> BatchView:
        """What is mirrored of a batch's records at these offsets, by a version of the topic's transform.

        Raises:
            MmtoolError: The flow has another version, or the function does not take a record.
        """

    async def close(self) -> None:
        """End the process that runs them."""


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
        states: Groups that have positions (consumer, share and streams groups), and Kafka's word for each one's state.
        others: Groups of other types, with Kafka's name for each one's type (connect).
        simple: Those that never had a member: they exist through commits alone.
        kinds: The kinds of share and streams groups.
    """

    states: Mapping[str, str]
    others: Mapping[str, str]
    simple: frozenset[str] = frozenset()
    kinds: Mapping[str, GroupKind] = ONLY_CONSUMERS

    def kind(self, group: str) -> GroupKind:
        """The kind of a group that has positions."""
        return self.kinds.get(group, GroupKind.CONSUMER)


class GroupsPort(Protocol):
    """The consumer groups of one cluster.

    Every call raises `UnreachableError` or `NotAuthorisedError` when the cluster does not answer, or not us.
    """

    def listing(self) -> GroupListing:
        """List the cluster's groups of every type."""

    def commits(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Mapping[str, Mapping[TopicPartition, Commit]]:
        """Read all positions of each group; a group that does not exist has none.

        The position of a share group in a partition is where its share partition starts; behind the last record that
        was there, if all are acknowledged.

        Args:
            groups: The groups' ids.
            stable: Refuse a group with an open transaction over its offsets (KIP-447), instead of returning the offsets
            committed before it.

        Raises:
            RefusedError: With ``stable``, such a transaction is open.
        """

    def commits_each(
        self, groups: Collection[str], *, stable: bool = False
    ) -> Answers[str, dict[TopicPartition, Commit]]:
        """Read the groups' commits as `commits` does, but return errors in ``failed``, each for its group alone."""

    def describe(self, groups: Collection[str]) -> Mapping[str, GroupStanding]:
        """Each group's state and members; `ABSENT` for a group that does not exist."""

    def describe_each(self, groups: Collection[str]) -> Answers[str, GroupStanding]:
        """Describe the groups as `describe` does, but return errors in ``failed``, each for its group alone."""

    def has_share_groups(self) -> bool:
        """Whether the brokers know share groups' positions (KIP-932)."""

    def configs(self, groups: Collection[str]) -> Answers[str, dict[str, str]]:
        """The configs that are set on each group itself (KIP-848); errors in ``failed``, each for its group alone."""

    def configure(self, group: str, configs: Mapping[str, str]) -> Problem | None:
        """Set configs of a group, which need not exist; return why they were refused."""

    def missing_rights(self, wanted: Mapping[str, Collection[TopicPartition]]) -> Sequence[str]:
        """List the rights that commits of these groups lack, as ``READ on topic orders``; no commit is tried.

        Rights that a broker does not return (before 2.3) are not listed.
        """

    def alter(
        self, group: str, offsets: Mapping[TopicPartition, Commit], kind: GroupKind | None = None
    ) -> Mapping[TopicPartition, Problem]:
        """Write positions of a group without members, never with a leader epoch; return failures by partition.

        A group with members fails in all partitions (UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP).

        Args:
            group: A group that exists, or is to be.
            offsets: Its new positions.
            kind: Its kind; None for the kind that this port has seen it be.
        """

    def forget(self, group: str, places: Collection[TopicPartition]) -> Mapping[TopicPartition, Problem]:
        """Delete a memberless group's commits of some partitions (KIP-496); return failures by partition.

        A group without any commit is deleted by the broker some time later. A group with members that read the topic
        fails (GROUP_SUBSCRIBED_TO_TOPIC).
        """

    def delete(self, groups: Collection[str]) -> Mapping[str, Problem]:
        """Delete groups without members, and their commits; return failures by group.

        A group that does not exist is no failure; a group with members is one (NON_EMPTY_GROUP).
        """

    def fresh(self) -> GroupsPort:
        """The same groups through a new client, to read back what was written."""


class ClusterPort(Protocol):
    """One cluster: its id, its topics, its logs, its groups. Errors as in `GroupsPort`."""

    @property
    def alias(self) -> str: ...

    @property
    def groups(self) -> GroupsPort: ...

    def probe(self) -> ClusterId:
        """Read the cluster's id from its brokers now.

        Raises:
            RefusedError: ``ALIAS.mmtool.cluster.id`` names another id.
        """

    def topics(self) -> Mapping[str, TopicFacts]:
        """Every topic that mmtool may DESCRIBE, with its id and partition count, without configs."""

    def lacks(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that do not exist; a topic that exists without DESCRIBE is not among them."""

    def bounds(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Mapping[TopicPartition, Bounds]:
        """Each partition's first and next offset; partitions that do not exist are left out.

        Args:
            partitions: The partitions to read.
            committed: Take the last stable offset, as a read_committed consumer sees it, in place of the log end.

        Raises:
            MmtoolError: a partition has no leader, or is denied.
        """

    def bounds_each(
        self, partitions: Collection[TopicPartition], *, committed: bool = False
    ) -> Answers[TopicPartition, Bounds]:
        """Read the bounds as `bounds` does, but return errors in ``failed``, each for its partition alone."""

    def commit_times(self, groups: Collection[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        """The time of each group's last commit of each partition, in ms since 1970; empty where it is costly to read.

        Read from ``__consumer_offsets``: without READ there, or where the topic is large, nothing is returned.
        """

    def longest_metadata(self) -> int:
        """The largest number of characters in a commit's metadata (``offset.metadata.max.bytes``)."""

    def longest_transaction_seconds(self) -> float:
        """The longest time that a transaction may stay open, in seconds (``transaction.max.timeout.ms``)."""

    def records(self, parts: Collection[LogPart], *, committed: bool) -> Mapping[LogPart, list[Seen]]:
        """Read the records in parts of logs, as digests.

        Args:
            parts: The parts to read.
            committed: Leave out the records of aborted transactions.

        Raises:
            BatchError: a batch cannot be read.
            MmtoolError: a part cannot be read.
        """

    def records_each(self, parts: Collection[LogPart], *, committed: bool) -> Answers[LogPart, list[Seen]]:
        """Read the records as `records` does, but return errors in ``failed``, each for its part alone."""

    def offsets_retention_seconds(self) -> float:
        """Seconds until the cluster deletes a commit that is not repeated (``offsets.retention.minutes``, KIP-211)."""

    def known_offsets_retention(self) -> float | Unknown:
        """The cluster's `offsets_retention_seconds` as a broker returns it; UNKNOWN without DESCRIBE_CONFIGS."""


class BatchesPort(Protocol):
    """One cluster's logs, batch by batch as stored, and its producer register. Errors as in `GroupsPort`."""

    def batches(
        self, place: TopicPartition, topic_id: TopicId, offsets: range, *, committed: bool
    ) -> Iterator[BatchView]:
        """Iterate over the batches with any of these offsets, in order; fetches follow the iteration.

        Args:
            place: The partition to read.
            topic_id: The topic's id: a topic that was recreated under the name has none of these batches.
            offsets: The offsets to read; the first batch may begin before them, and the last one end after them.
            committed: Leave out control batches and those of aborted transactions.

        Raises:
            BatchError: a batch cannot be read.
        """

    def producers(self) -> Mapping[int, ProducerRecord]:
        """The producer ids under which flows have mirrored to this cluster, with their registrations.

        A batch that was appended before this call and has none of these ids was not mirrored by mmtool.

        Raises:
            RefusedError: a registration cannot be read.
        """

    def unbooked(self, known: PartitionMap) -> int | Unknown:
        """Count the records that a partition's leader has from the map's producer and the map lacks.

        UNKNOWN where the leader has forgotten the producer, or does not list producers (before 2.8, KIP-664).
        """


class AppendPort(Protocol):
    """Appends batches under one producer id that outlives the process. Errors as in `GroupsPort`."""

    def appended(self, place: TopicPartition, since: int) -> int:
        """Count the records from offset ``since`` on that were appended under this producer id, by any process.

        To be called before the first batch is appended to the partition, and only where all batches since the last
        `begin_again` are after ``since``: the count comes from their sequence numbers.
        """

    def begin_again(self) -> None:
        """Begin new sequence numbers under the same producer id; batches that were appended before are complete."""

    def append(self, place: TopicPartition, batch: ReadyBatch) -> None:
        """Append the batch exactly once; returns when it is on all in-sync replicas.

        Raises:
            RefusedError: the topic does not accept the batch as it is configured.
            MmtoolError: the cluster refuses the batch, or another process has claimed the transactional id.
        """


class FencePort(Protocol):
    """The ACLs of one cluster, and the active producers of its topics. Errors as in `GroupsPort`."""

    @property
    def alias(self) -> str: ...

    @property
    def servers(self) -> str:
        """The cluster's bootstrap servers, for commands that an operator runs."""

    def acls(self) -> AclFacts:
        """Read every rule that one broker has now, on whatever resource, and mmtool's rights over them."""

    def create(self, bindings: Collection[Binding]) -> Mapping[Binding, Problem]:
        """Create these ACLs; returns when every broker applies them, with failures by ACL."""

    def remove(self, bindings: Collection[Binding]) -> Mapping[Binding, Problem]:
        """Delete exactly these ACLs, if they exist; returns when no broker applies them, with failures by ACL."""

    def facts(self, topics: Collection[str]) -> FenceFacts:
        """Read everything that the plan of a fence depends on."""

    def bindings(self, topics: Collection[str]) -> frozenset[Binding]:
        """The ACLs that apply to these topics, as one broker has them now."""

    def own_writes(self, topics: Collection[str]) -> frozenset[str]:
        """The given topics that mmtool itself has the right to write."""

    def writers(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...]]:
        """The idempotent producers that the leaders remember (``producer.id.expiration.ms``), by partition.

        Raises:
            NotAuthorisedError: without READ on a topic.
            RefusedError: the brokers are older than 2.8.
        """

    def open_transactions(self, places: Collection[TopicPartition]) -> Sequence[OpenTransaction]:
        """Open transactions with records in these partitions. Errors as in `writers`."""


class FlowStatePort(Protocol):
    """A flow's stored state on its target."""

    def control(self, identity: FlowIdentity) -> ControlView:
        """Read the flow's control topic up to its present end; an empty view when there is none.

        Raises:
            RefusedError: stored state cannot be read (``unreadable_state``).
        """

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> ControlView:
        """Read the flow's control topic, as `control`, and refuse a flow that contradicts what its first start stored.

        Its aliases or cluster ids contradict it.

        Args:
            identity: The flow, as configured and as the clusters answer.
            topics: The target's topics, which show flows under other aliases.

        Raises:
            UsageError: the stored alias is another cluster's, or these clusters have another stored alias.
        """

    def maps(self, identity: FlowIdentity) -> Mapping[tuple[TopicId, int], PartitionMap]:
        """Every mirrored partition's map, by source topic id and partition; empty when the flow never ran.

        Raises:
            RefusedError: stored state cannot be read (``unreadable_state``).
        """


class SyncedPort(Protocol):
    """A flow's offset syncs and checkpoints, written by MirrorMaker 2, or by mmtool in its place."""

    def synced(self) -> Mm2State:
        """Read MM2's offset-syncs and checkpoints topics into a map for each partition that they contain.

        Raises:
            UnreachableError, NotAuthorisedError: a cluster does not answer, or denies a topic.
        """

    def checkpoints(self) -> StoredCheckpoints:
        """The last checkpoint of each group in each source partition. Errors as in `synced`."""


class FlowWatchPort(FlowStatePort, Protocol):
    """A flow's status, for repeated reads. Errors as in `GroupsPort` and `FlowStatePort.maps`."""

    def members(self, identity: FlowIdentity) -> tuple[FlowMember, ...]:
        """The members of the flow's ownership group: the owner, and its standbys."""

    def topic_faults(self, identity: FlowIdentity) -> str:
        """What is missing or differs of the flow's internal topics, as a sentence; empty for nothing."""

    def newest_blocks(self, identity: FlowIdentity) -> Mapping[tuple[TopicId, int], Block]:
        """The last block of offset runs of every mirrored partition, by source topic id and partition."""

    def first_missing_times(self, places: Collection[FirstMissing]) -> Mapping[FirstMissing, int]:
        """Timestamps (ms) of the source's first records at or after the given offsets; unknown ones are left out."""

    def retention(self, topics: Collection[str]) -> Mapping[str, Retention]:
        """The source's retention limits of topics; topics without DESCRIBE_CONFIGS are left out."""

    def checkpointed_groups(self) -> int:
        """How many groups of the source have checkpoints on the target."""

    def mirror_maker(self) -> MirrorMakerProgress:
        """MirrorMaker 2's progress on the flow, by its stored positions and syncs; empty where it never ran it."""


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
        """Create the canary topic on the source if it is missing: one partition, retention of a day.

        Raises:
            RefusedError: the source refuses the topic.
        """

    def produce(self, records: Sequence[CanaryRecord]) -> list[CanaryRecord]:
        """Write records to the canary topic's first partition; return them with their offsets and timestamps.

        Returns when they are on all in-sync replicas.

        Raises:
            RefusedError: the source refuses the records.
        """

    def read(self, topic: str, start: int) -> list[CanaryRecord]:
        """Read a target topic's first partition from an offset to its end, as a read_committed consumer does."""
