"""One partition that two clusters share, in memory: logs of real batches, to fetch from, to compact and to cut."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.batches import ABORT, TRANSACTIONAL, PlainBatch, PlainRecord, batch_of, marker
from kit.mirror import FakeLog, fetched
from kit.pairs import MARKER
from mmtool.kafka.batches import decode, view_of
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import EARLIEST, ListedOffset, TopicMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kit.pairs import Record
    from mmtool.kafka.batches import Record as StoredRecord
    from mmtool.kafka.wire.fetch import FetchedPartition, FetchRequest
    from mmtool.kafka.wire.metadata import ListOffsetsRequest
    from mmtool.kafka.wire.produce import ProducedPartition
    from mmtool.translation.types import TopicId, TopicPartition

_BASE_OFFSET, _LEADER_EPOCH = struct.Struct(">q"), struct.Struct(">i")  # a broker's, not under the checksum
_ACTIVE = 2
"""The last batches, which no cleaner touches: they are in the active segment."""
_TRANSACTIONS = 1000  # their producer ids begin here


def known_as(record: Record) -> bytes:
    """The value of a record: where it was born, and its offset there."""
    return b"%d:%d" % record


def named(record: StoredRecord) -> Record:
    """Which one it is."""
    assert record.value is not None
    side, offset = record.value.split(b":")
    return int(side), int(offset)


class _Kept(NamedTuple):
    base: int
    stop: int
    payload: bytes


@dataclass
class PairedLog(FakeLog):
    """The partition on one side.

    Attributes:
        side: Which one; records that are born here say so.
        start: The log start.
        kept: The batches, as they lie there.
        history: What each offset ever held, whatever became of it.
        aborted: Transactions: producer id, first offset, the marker's offset.
    """

    side: int = 0
    start: int = 0
    kept: list[_Kept] = field(default_factory=list)
    history: dict[int, Record] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)

    # --- what is written ----------------------------------------------------------------------------------

    def append(self, batch: bytes) -> ProducedPartition:
        base = self.end
        answer = super().append(batch)
        if self.end > base:
            self._keep_batch(base, batch)
            self.history |= {at: named(self.records[at]) for at in range(base, self.end)}
        return answer

    def mark(self, producer_id: int, epoch: int) -> None:
        self._keep_batch(self.end, marker(self.end, producer_id, ABORT), 1)
        super().mark(producer_id, epoch)

    def _keep_batch(self, base: int, batch: bytes, count: int = 0) -> None:
        payload = _BASE_OFFSET.pack(base) + batch[8:12] + _LEADER_EPOCH.pack(0) + batch[16:]
        self.kept.append(_Kept(base, base + count if count else self.end, payload))

    def _write(self, count: int, key: bytes = b"key", *, alike: bool = False, **batch: Any) -> None:
        born = {at: (self.side, 0 if alike else at) for at in range(self.end, self.end + count)}
        records = [PlainRecord(at, 1000 + named[1], key, known_as(named)) for at, named in born.items()]
        payload = batch_of(records, **batch).write()
        base = self._keep(list(decode(view_of(payload))))
        self._keep_batch(base, payload)
        self.history |= born

    def born(self, count: int, codec: str = "none", key: bytes = b"key", *, alike: bool = False) -> None:
        """Producers write so many records, each like the first one where they are ``alike``."""
        self._write(count, key, alike=alike, codec=codec)

    def abort(self, count: int) -> None:
        """A producer aborts a transaction of so many records."""
        producer_id, first = _TRANSACTIONS + len(self.aborted), self.end
        self._write(count, flags=TRANSACTIONAL, producer=(producer_id, 0, 0))
        self.aborted.append((producer_id, first, self.end))
        self._keep_batch(self.end, marker(self.end, producer_id, ABORT), 1)
        self.end += 1

    # --- what goes ----------------------------------------------------------------------------------------

    def compact(self, dropped: Collection[int]) -> None:
        """A newer record of its key has come for each of these offsets, and the cleaner has been here."""
        last = {view_of(kept.payload).header.producer_id: kept.base for kept in self.kept}
        cleaned = [self._cleaned(kept, dropped) for kept in self.kept[:-_ACTIVE]]
        left = [kept for kept in cleaned if _count(kept) or last[_producer(kept)] == kept.base]
        self.kept[:-_ACTIVE] = left

    def _cleaned(self, kept: _Kept, dropped: Collection[int]) -> _Kept:
        view = view_of(kept.payload)
        head = view.header
        records = [] if head.is_control else list(decode(view))
        stay = [record for record in records if record.offset not in dropped]
        if len(stay) == len(records):
            return kept  # markers, too, which tell the end of a transaction
        for at in {record.offset for record in records}.intersection(dropped):
            self.records.pop(at, None)
        left = PlainBatch(
            head.base_offset,
            head.next_offset - 1,
            tuple(PlainRecord(record.offset, record.timestamp, record.key, record.value) for record in stay),
            flags=TRANSACTIONAL if head.is_transactional else 0,
            base_timestamp=head.base_timestamp,
            max_timestamp=head.max_timestamp,
            producer=(head.producer_id, head.producer_epoch, head.base_sequence),
        )
        return _Kept(kept.base, kept.stop, left.write())

    def trim(self, start: int) -> None:
        """Retention, or DeleteRecords: nothing below is left."""
        self.start = max(self.start, min(start, self.end))
        self.kept = [kept for kept in self.kept if kept.stop > self.start]
        for at in [at for at in self.records if at < self.start]:
            del self.records[at]

    def lose(self, batches: int) -> None:
        """An unclean leader election: the new leader never had the last so many, and remembers no producer."""
        self.kept = self.kept[: len(self.kept) - batches]
        self.end = self.kept[-1].stop if self.kept else self.start
        for held in (self.records, self.history):
            for at in [at for at in held if at >= self.end]:
                del held[at]
        self.writers.clear()

    # --- what is read -------------------------------------------------------------------------------------

    def fetch(self, offset: int, most: int = 1 << 20) -> FetchedPartition:
        """The answer to a fetch from there, of so many batches."""
        if not self.start <= offset <= self.end:
            return fetched(end=self.end, log_start=self.start)._replace(error_code=Code.OFFSET_OUT_OF_RANGE)
        found = [kept.payload for kept in self.kept if kept.stop > offset][:most]
        aborted = [(pid, first) for pid, first, ended in self.aborted if ended >= offset]
        return fetched(*found, end=self.end, log_start=self.start, aborted=aborted)

    def entries(self) -> list[Record | tuple[str, int]]:
        """What a consumer finds at each offset from 0 on; a marker where it finds nothing."""
        return [self.history[at] if at in self.records else MARKER for at in range(self.end)]


def _producer(kept: _Kept) -> int:
    return view_of(kept.payload).header.producer_id


def _count(kept: _Kept) -> int:
    return view_of(kept.payload).header.record_count


@dataclass(frozen=True, slots=True)
class LogOnWire:
    """As much of a `WireCluster` as reading one partition's log takes."""

    log: PairedLog
    alias: str
    identity: TopicId

    async def send_to_leader(self, topic: str, partition: int, request: FetchRequest, **_: str) -> Any:
        """One fetch, answered at once."""
        del topic, partition
        return _Answer([self.log.fetch(request.partitions[0].offset)])

    async def refresh(self, topics: Collection[str]) -> dict[str, TopicMetadata]:
        """Nothing ever moves."""
        return {topic: TopicMetadata(topic, self.identity, Code.NONE, []) for topic in topics}

    def check_denied(self, code: int, what: str) -> None:
        """Everything is allowed."""

    def leader(self, topic: str, partition: int) -> int:
        """There is one broker."""
        del topic, partition
        return 0

    def topic_id(self, topic: str) -> TopicId:
        """Every topic is there."""
        del topic
        return self.identity

    async def send(
        self, node: int, request: ListOffsetsRequest, **_: str
    ) -> dict[TopicPartition, ListedOffset]:
        """Where the log begins and ends, of whatever is asked."""
        del node
        return {
            place: ListedOffset(Code.NONE, self.log.start if when == EARLIEST else self.log.end)
            for place, when in request.timestamps.items()
        }


class _Answer(NamedTuple):
    partitions: list[FetchedPartition]
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True)
class Brought:
    """What of a log somebody else's flow brought, by its producer id: an `Origins` that knows."""

    left_out: frozenset[int]

    async def leaves_out(self, topic: str, producer_id: int) -> bool:
        del topic
        return producer_id in self.left_out


def disturb(log: PairedLog, count: int, trouble: Callable[[], FetchedPartition]) -> None:
    """The next so many reads of the log end in trouble."""
    answer, left = log.fetch, [count]

    def fetch(*asked: int) -> FetchedPartition:
        left[0] -= 1
        return trouble() if left[0] >= 0 else answer(*asked)

    log.fetch = fetch  # type: ignore[method-assign, assignment]  # of this log alone


def lose_answers(log: PairedLog, count: int) -> None:
    """The next so many reads of the log are answered by nobody."""

    def lost() -> FetchedPartition:
        raise ConnectionLostError("broker 1 does not answer")

    disturb(log, count, lost)
