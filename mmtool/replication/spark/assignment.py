"""The work of one task in one round, and its report: frozen values, pickled, secrets of the clusters included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.replication.spark.log import executor_name
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, Unknown

if TYPE_CHECKING:
    from mmtool.config import FlowSettings
    from mmtool.plan.flow.transforms import TransformSpec
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.blocks import Block


class Tally(NamedTuple):
    """Counters of a partition, kept from round to round.

    Attributes:
        records, mirrored_bytes: Mirrored by this owner.
        dead_letters: Records in the dead-letter topic instead of the target topic, over all owners.
        foreign, foreign_end: Offsets of the mirror that another producer wrote, and the offset behind the last one.
        gaps, gaps_end: Offsets that the source deleted before they were mirrored and that the operator chose to skip,
            and the offset behind the last one; over all owners.
        latency, latency_ms: As `mmtool.runtime.latency.Latency`, of this owner.
        unreadable: Values that were no JSON for a ready-made function, and were copied or left out; over all owners.
    """

    records: int = 0
    mirrored_bytes: int = 0
    dead_letters: int = 0
    foreign: int = 0
    foreign_end: int = 0
    gaps: int = 0
    gaps_end: int = 0
    latency: tuple[int, ...] = ()
    latency_ms: int = 0
    unreadable: int = 0


NOTHING_YET = Tally()


class OffsetWriters(NamedTuple):
    """By what the records and the markers of a flow's mirrors are written; the same ids for every owner.

    A batch is then accepted only if the log ends where its writer believes, as the leader remembers the last number.

    Attributes:
        generation: Of the owner and its round: markers of an older one are refused.
        epoch: Of the data producer: it rises with each promotion of the target, and shuts out writers of before.
        shared: The flow of the other direction writes into the same topic on the source: what it wrote there comes from
            the target, at the same offsets.
    """

    data_producer: int
    fill_producer: int
    generation: int
    epoch: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """One partition to mirror.

    Attributes:
        block: The open block of its offset runs: where to continue, on both sides.
        next_sequence: The sequence number of the next batch under the shard's claim.
        stored: Whether ``block`` is stored on the target already. No batch is sent before it is.
        max_batch_bytes: The target topic's ``max.message.bytes``.
        tally: The counters of earlier rounds.
        halted: Why this partition is halted; empty when it is not.
        for_good: This owner does not try it again: the target does not hold what the offset runs say.
        at_end_ms, behind_since_ms: As in its last position.
        flow_options: The options that select the flow in a command, for remedies.
        same: By what it is written, where its records have the source's own offsets; None where offsets are translated.
        transform: What is done to its records; None where they are copied as they are.
    """

    topic: str
    topic_id: TopicId
    partition: int
    target_topic: str
    target_topic_id: TopicId
    shard: int
    block: Block
    next_sequence: int
    stored: bool
    max_batch_bytes: int
    tally: Tally = NOTHING_YET
    halted: str = ""
    for_good: bool = False
    at_end_ms: int = 0
    behind_since_ms: int = 0
    flow_options: str = "-c FILE"
    same: OffsetWriters | None = None
    transform: TransformSpec | None = None

    @property
    def place(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """A claimed shard: its batches are numbered per partition under (producer id, epoch).

    Attributes:
        runs_sequence: The next sequence number on the shard's partition of the offset-runs topic.
    """

    shard: int
    producer_id: int
    epoch: int
    runs_sequence: int


@dataclass(frozen=True, slots=True)
class FlowAssignment:
    """The part of one task that belongs to one flow.

    Attributes:
        owner: The owner that planned this; the task ignores control records of other owners.
        control_offset: Where to read the control topic from.
        runs_topic_id, control_topic_id: For brokers that name topics by id.
        bytes_per_second: The task's share of the flow's throttle when the round starts; None is without limit.
        shows_register: As `FlowContext.shows_register`.
    """

    identity: FlowIdentity
    settings: FlowSettings
    shard_count: int
    owner: str
    round: int
    control_offset: int
    runs_topic_id: TopicId
    control_topic_id: TopicId
    shards: tuple[ShardAssignment, ...]
    partitions: tuple[PartitionAssignment, ...]
    bytes_per_second: float | None = None
    shows_register: bool = False


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    """One Spark task of one round."""

    index: int
    round_seconds: float
    buffer_bytes: int
    flows: tuple[FlowAssignment, ...]


class WorkerTimes(NamedTuple):
    """When a flow's part of a task began, got its first records and its first acknowledgement, in ms since 1970."""

    began_ms: int | Unknown = UNKNOWN
    fetched_ms: int | Unknown = UNKNOWN
    answered_ms: int | Unknown = UNKNOWN


class ReportRow(NamedTuple):
    """One partition at the end of a round.

    ``block`` is its open block, encoded; ``tally`` its counters, kept from round to round; ``told`` the command that
    ended the round, empty when time did; ``executor`` the worker; ``syncs_failure`` why the flow's offset syncs are not
    written, empty when they are; ``times`` those of the flow in this round.
    """

    flow: str
    shard: int
    topic_id: str
    topic: str
    partition: int
    state: str
    reason: str
    for_good: bool
    producer_id: int
    epoch: int
    next_sequence: int
    runs_sequence: int
    block: bytes
    tally: Tally
    told: str
    executor: str = ""
    syncs_failure: str = ""
    times: WorkerTimes = WorkerTimes()


FENCED = "fenced"
"""``told`` in the row of a flow whose shards another owner has claimed."""
AWAY = "away"
"""``told`` in the row of a flow that a task left in doubt, because one of its clusters did not answer."""


def nothing_known(flow: FlowAssignment, told: str) -> list[ReportRow]:
    """One row for a flow whose partitions the task cannot report on any more.

    ``told`` is the cause: `FENCED` or `AWAY`.
    """
    nothing = ("", "", -1, "", "", False, -1, -1, 0, 0, b"")
    return [ReportRow(flow.identity.flow, -1, *nothing, NOTHING_YET, told, executor_name())]
