"""A partition of an idempotent broker in memory, and mirrors to try on it.

The rules are those that `tests/integration/test_broker_rules_producers.py` tries on real brokers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.kafka.batches import SEQUENCES, Record, decode, view_of
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer, FetchedPartition
from mmtool.kafka.wire.metadata import EARLIEST, ListedOffset, PartitionLeader, TopicMetadata
from mmtool.kafka.wire.produce import ProducedPartition
from mmtool.replication.pump.mirror import PartitionMirror
from mmtool.replication.same_offsets.mirror import SameOffsetsMirror
from mmtool.replication.spark.assignment import PartitionAssignment, ShardAssignment
from mmtool.translation.blocks import MirroredPartition, MirrorStart
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicId, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from mmtool.kafka.batches import BatchHeader
    from mmtool.replication.pump.log_changes import Foreign
    from mmtool.translation.types import TopicPartition

_REMEMBERED = 5
_NOTHING_YET = -1

SOURCE_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
TARGET_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAg")
SHARD = ShardAssignment(shard=0, producer_id=4711, epoch=3, runs_sequence=0)


class _Appended(NamedTuple):
    first: int
    last: int
    base_offset: int


@dataclass
class _Writer:
    epoch: int
    newest_ms: float = math.inf
    recent: deque[_Appended] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    @property
    def last(self) -> int:
        return self.recent[-1].last if self.recent else _NOTHING_YET


@dataclass
class FakeLog:
    """One partition: what is in it, and whom it remembers (KIP-98, KIP-360).

    Attributes:
        records: By downstream offset.
        end: The log end; markers take an offset and hold no record.
        limit: ``max.message.bytes``.
        poison: Values that the broker refuses with INVALID_TIMESTAMP, for whatever reason.
    """

    records: dict[int, Record] = field(default_factory=dict)
    end: int = 0
    limit: int = 1 << 20
    poison: set[bytes] = field(default_factory=set)
    writers: dict[int, _Writer] = field(default_factory=dict)

    def append(self, batch: bytes) -> ProducedPartition:
        """The broker's answer to one batch."""
        view = view_of(batch)
        code, base = self._judge(view.header, list(decode(view)))
        return produced(code, base)

    def _judge(self, header: BatchHeader, records: list[Record]) -> tuple[int, int]:
        if header.size > self.limit:
            return Code.MESSAGE_TOO_LARGE, -1
        known = self.writers.get(header.producer_id)
        if known is not None and header.producer_epoch < known.epoch:
            return Code.INVALID_PRODUCER_EPOCH, -1
        last = (header.base_sequence + header.record_count - 1) % SEQUENCES
        for seen in known.recent if known is not None and known.epoch == header.producer_epoch else ():
            if (seen.first, seen.last) == (header.base_sequence, last):
                return Code.NONE, seen.base_offset
        if not self._in_sequence(known, header):
            return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if any(record.value in self.poison for record in records):
            return Code.INVALID_TIMESTAMP, -1
        base = self._keep(records)
        if known is None or known.epoch != header.producer_epoch:
            self.writers[header.producer_id] = known = _Writer(header.producer_epoch)
        known.recent.append(_Appended(header.base_sequence, last, base))
        known.newest_ms = header.max_timestamp
        return Code.NONE, base

    @staticmethod
    def _in_sequence(known: _Writer | None, header: BatchHeader) -> bool:
        if known is None:
            return True  # a producer that is not remembered may begin anywhere
        if known.epoch != header.producer_epoch:
            return header.base_sequence == 0
        return header.base_sequence == (known.last + 1) % SEQUENCES

    def _keep(self, records: Iterable[Record]) -> int:
        base = self.end
        for record in records:
            self.records[self.end] = record
            self.end += 1
        return base

    def forget(self, before_ms: int) -> None:
        """What a broker does every ten minutes: producers go whose last batch has no newer timestamp."""
        self.writers = {name: one for name, one in self.writers.items() if one.newest_ms > before_ms}

    def mark(self, producer_id: int, epoch: int) -> None:
        """A transaction marker: fences every older epoch, remembers no batch."""
        self.writers[producer_id] = _Writer(epoch)
        self.end += 1


def settle(mirror: PartitionMirror, log: FakeLog) -> None:
    """Sends and answers until there is nothing left to send."""
    while mirror.sendable:
        sent = mirror.next_to_send()
        mirror.answered(sent, log.append(bytes(sent.batch.payload)))


def produced(code: int, base_offset: int = -1, message: str = "") -> ProducedPartition:
    """One partition's answer."""
    return ProducedPartition("", TARGET_ID, 0, code, base_offset, 0, message)


def fetched(
    *batches: bytes,
    end: int,
    log_start: int = 0,
    aborted: Iterable[tuple[int, int]] = (),
    high_watermark: int | None = None,
) -> FetchedPartition:
    """One partition's fetch answer; ``end`` is the last stable offset."""
    high = end if high_watermark is None else high_watermark
    records = memoryview(b"".join(batches))
    return FetchedPartition("", SOURCE_ID, 0, Code.NONE, high, end, log_start, list(aborted), records)


class OneBroker:
    """The source as a reader sees it, with one broker that leads all of it; who derives from it answers fetches."""

    alias = "source"

    def leader(self, topic: str, partition: int) -> int:
        """Of every partition."""
        del topic, partition
        return 1

    async def refresh(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """Every topic is there."""
        return {name: TopicMetadata(name, SOURCE_ID, Code.NONE, []) for name in set(topics)}


class LogBroker:
    """A cluster whose topics are on one broker, each with these batches in its partitions.

    Attributes:
        ends: What the leader says of a partition's end, in turn, the last one for ever; else the end of its batches.
        led: The partitions that have a leader.
        code: Of the topic.
    """

    alias = "west"

    def __init__(self, *partitions: list[bytes], log_start: int = 0) -> None:
        self.partitions, self.log_start = dict(enumerate(partitions)), log_start
        self.ends: dict[int, list[int]] = {}
        self.led, self.code = set(self.partitions), Code.NONE

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to close."""

    def topic_id(self, _topic: str) -> TopicId:
        """Of every topic."""
        return SOURCE_ID

    async def refresh(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """The topics, with the same partitions each."""
        partitions = [PartitionLeader(p, 0, 1 if p in self.led else None, 0) for p in self.partitions]
        return {name: TopicMetadata(name, SOURCE_ID, self.code, partitions) for name in topics}

    def leader(self, _topic: str, partition: int) -> int | None:
        """The broker, where the partition has a leader."""
        return 1 if partition in self.led else None

    def check_denied(self, code: int, what: str) -> None:
        """Nothing is denied but whole topics."""

    async def send(self, _node: int, request: Any, **_purpose: str) -> dict[TopicPartition, ListedOffset]:
        """The answer to ListOffsets."""
        return {place: self._listed(place.partition, when) for place, when in request.timestamps.items()}

    def _listed(self, partition: int, when: int) -> ListedOffset:
        told = self.ends.get(partition, [self._end(partition)])
        if when == EARLIEST:
            return ListedOffset(Code.NONE, self.log_start)
        end = told.pop(0) if len(told) > 1 else told[0]
        return ListedOffset(end, -1) if isinstance(end, Code) else ListedOffset(Code.NONE, end)

    def _end(self, partition: int) -> int:
        return max((view_of(batch).header.next_offset for batch in self.partitions[partition]), default=0)

    async def send_to_leader(self, _topic: str, partition: int, request: Any, **_purpose: str) -> FetchAnswer:
        """The answer to a fetch: one batch."""
        (wanted,) = request.partitions
        some = [b for b in self.partitions[partition] if view_of(b).header.next_offset > wanted.offset][:1]
        answer = fetched(*some, end=self._end(partition))._replace(partition=partition)
        return FetchAnswer(0, Code.NONE, [answer])


def assigned(
    *, upstream: int = 0, downstream: int = 0, partition: int = 0, **changes: Any
) -> PartitionAssignment:
    """A partition that begins at these two offsets."""
    about = MirroredPartition(
        ClusterId("source"), ClusterId("target"), SOURCE_ID, partition, "orders", "source.orders", TARGET_ID
    )
    start = MirrorStart(UpstreamOffset(upstream), DownstreamOffset(downstream))
    (block,) = MapRecorder.begin(about, start).take()
    told: dict[str, Any] = {
        "topic": "orders",
        "topic_id": SOURCE_ID,
        "partition": partition,
        "target_topic": "source.orders",
        "target_topic_id": TARGET_ID,
        "shard": SHARD.shard,
        "block": block,
        "next_sequence": 0,
        "stored": False,
        "max_batch_bytes": 1 << 20,
    }
    return PartitionAssignment(**told | changes)


def mirror_of(
    assignment: PartitionAssignment | None = None,
    *,
    read_committed: bool = True,
    left_out: Container[int] = (),
    with_letters: bool = False,
    foreign: Foreign | None = None,
) -> PartitionMirror:
    """A mirror at its beginning."""
    kind = PartitionMirror if assignment is None or assignment.same is None else SameOffsetsMirror
    return kind(
        assignment or assigned(),
        SHARD,
        read_committed=read_committed,
        left_out=left_out,
        with_letters=with_letters,
        foreign=foreign,
    )


def mirrored(
    answer: FetchedPartition, assignment: PartitionAssignment | None = None, **options: Any
) -> tuple[PartitionMirror, FakeLog]:
    """A mirror that was offered one answer, and the log that holds all that it makes of that."""
    mirror, log = mirror_of(assignment, **options), FakeLog()
    mirror.offer(answer, now_ms=1)
    settle(mirror, log)
    return mirror, log
