"""Move the ends of logs that keep the source's offsets: markers where the source has no record, filler for prefills."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.batches import SEQUENCES, ReadyBatch
from mmtool.kafka.batches.ready import MOST_FILLER, filler, is_filler
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster, retrying
from mmtool.kafka.wire.codes import DENIED, RETRIABLE, Code, name_of
from mmtool.kafka.wire.metadata import EARLIEST, LATEST, NO_REPLICA, DeleteRecordsRequest
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.scan import (
    active_producers,
    active_producers_of_all,
    list_offsets,
    offsets_now,
    read_range,
)
from mmtool.kafka.wire.transactions import (
    InitProducerIdRequest,
    Marker,
    ProducerState,
    WriteTxnMarkersRequest,
    markers_denied,
)
from mmtool.plan.records.documents import OffsetWritersRecord
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.batch_prep import FencedError, Fill, InDoubtError
from mmtool.replication.same_offsets.mirror import SameOffsetsMirror
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.pump.mirror import PartitionMirror


_MARKERS = 300
"""Of a request: it occupies one of the broker's request handlers until all are replicated."""
_LEADER_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
_LOOK_SECONDS = 0.2
_LATE_SECONDS = 5.0
"""Markers may arrive so long after their connection was lost: later ones move the end of a log that was read before."""
_REPLACED = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED})


async def replicated_ends(
    cluster: WireCluster, places: Collection[TopicPartition], seconds: float = _LEADER_SECONDS
) -> dict[TopicPartition, int]:
    """The ends of the leaders' logs, once all in-sync replicas have what is in them.

    A batch that is not acknowledged yet is behind the high watermark, and may still be appended for good. Left out are
    partitions whose leader does not answer for ``seconds``, or whose followers do not catch up.
    """
    found = await _replicated_now(cluster, places)
    until = time.monotonic() + seconds
    while len(found) < len(places) and time.monotonic() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        late = [place for place in places if place not in found]
        await cluster.refresh({place.topic for place in late})
        found |= await _replicated_now(cluster, late)
    return found


async def _replicated_now(
    cluster: WireCluster, places: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    asked = dict.fromkeys(places, LATEST)
    ends = await offsets_now(cluster, asked, _ANSWER_SECONDS, replica=NO_REPLICA)
    marks = await offsets_now(cluster, asked, _ANSWER_SECONDS)
    return {place: end for place, end in ends.items() if marks.get(place) == end}


class Fills:
    """Opens the mirrors that keep the source's offsets, and writes their markers.

    Args:
        cluster: The target.
        mirrors: All mirrors of the task's flow; those that translate offsets are passed over.
        wake: Called with the mirrors whose next batches may be sent.
        failed: Called once with the error after which the worker must stop.

    A. One request to a leader at a time, with the fills of many partitions; a mirror has nothing else in flight.
    B. After any answer but success it is unknown how many markers were appended: the worker stops, and the recovery
       reads the log.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        wake: Callable[..., None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._mirrors = {
            m.assignment.block.about.downstream: m for m in mirrors if isinstance(m, SameOffsetsMirror)
        }
        self._unbegun = set(self._mirrors)
        self._wake = wake
        self._failed = failed
        self._waiting: dict[int, dict[TopicPartition, Fill]] = defaultdict(dict)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Begin each mirror once its leader has told the end of its log; then wait for ever.

        Raises:
            InDoubtError: A log has another end than its mirror: another producer has appended to it since it was read.
            NotAuthorisedError: A leader tells the end of a log, and not its producers.
        """
        until = time.monotonic() + _LEADER_SECONDS
        while self._unbegun:
            silent = await self._begin_some()
            if silent and time.monotonic() > until:
                raise NotAuthorisedError(
                    f"cluster {self._cluster.alias} does not tell who produced to {silent[0]}",
                    remedy=f"grant READ on topic {silent[0].topic} to mmtool's principal",
                )
            if self._unbegun:
                await asyncio.sleep(_LOOK_SECONDS)
                await self._cluster.refresh({place.topic for place in self._unbegun})
        await asyncio.Event().wait()

    async def _begin_some(self) -> list[TopicPartition]:
        """Begin the mirrors whose leaders answer; return those of them that do not tell their producers."""
        new = [place for place in self._unbegun if not self._mirrors[place].assignment.stored]
        starts = await offsets_now(self._cluster, dict.fromkeys(new, EARLIEST), _ANSWER_SECONDS)
        ends = await _replicated_now(self._cluster, self._unbegun)
        told = await active_producers_of_all(self._cluster, list(ends), purpose="scan")
        for place, producers in told.items():
            mirror = self._mirrors[place]
            if mirror.assignment.stored or place in starts:
                self._unbegun.discard(place)
                is_empty = starts.get(place) in (None, ends[place])
                number = next_number(producers, mirror.writers.data_producer, mirror.writers.epoch)
                mirror.begin(DownstreamOffset(ends[place]), number, is_empty=is_empty)
                self._wake(mirror)
        return sorted(ends.keys() - told.keys())

    def begin(self, mirror: PartitionMirror) -> None:
        """Write the mirror's next fill, which is `PartitionMirror.fillable`; its partition has a leader."""
        assert isinstance(mirror, SameOffsetsMirror)
        place = mirror.assignment.block.about.downstream
        leader = self._cluster.leader(*place)
        assert leader is not None
        self._waiting[leader][place] = mirror.next_fill()
        if leader not in self._tasks or self._tasks[leader].done():
            self._tasks[leader] = asyncio.create_task(self._write(leader))

    async def _write(self, leader: int) -> None:
        waiting = self._waiting[leader]
        try:
            while waiting:
                await self._send(leader, dict(waiting))
                written = [place for place, fill in waiting.items() if not fill.left]
                for place in written:
                    self._mirrors[place].filled(waiting.pop(place))
                self._wake(*(self._mirrors[place] for place in written))
        except Exception as error:  # noqa: BLE001  whatever it is, the pump cannot go on
            self._failed(error)

    async def _send(self, leader: int, fills: Mapping[TopicPartition, Fill]) -> None:
        share = max(1, _MARKERS // len(fills))
        wanted = {place: min(share, fill.left) for place, fill in fills.items()}
        writers = self._mirrors[next(iter(fills))].writers
        markers = [
            Marker(
                writers.fill_producer,
                0,
                writers.generation,
                [place for place, count in wanted.items() if count > number],
            )
            for number in range(max(wanted.values()))
        ]
        try:
            answers = await self._cluster.send(leader, WriteTxnMarkersRequest(markers), purpose="fill")
        except ConnectionLostError as error:
            await asyncio.sleep(_LATE_SECONDS)
            raise InDoubtError(f"{self._cluster.alias} did not answer for markers: {error}") from error
        codes = {code for answer in answers for code in answer.values()} - {Code.NONE}
        told = {place for answer in answers for place in answer}
        if codes & DENIED:
            raise markers_denied(self._cluster.alias)
        if codes & _REPLACED:
            raise FencedError(f"markers: {name_of(min(codes))}")
        if codes or told != fills.keys():
            raise InDoubtError(f"markers: {', '.join(map(name_of, sorted(codes))) or 'no answer'}")
        for place, count in wanted.items():
            fills[place].left -= count

    async def close(self) -> None:
        """End the requests under way; it is unknown then what they wrote."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def next_number(producers: Iterable[ProducerState], producer_id: int, epoch: int) -> int:
    """The sequence number that a leader expects; 0, and any other, where it remembers none of the epoch."""
    for one in producers:
        if (one.producer_id, one.epoch) == (producer_id, epoch) and one.last_sequence >= 0:
            return (one.last_sequence + 1) % SEQUENCES
    return 0


async def offset_writers(flow: FlowContext) -> OffsetWritersRecord | None:
    """The flow's ids, taken at its first claim; None for a flow that writes no such mirror. Call it behind that claim.

    Raises:
        UnreachableError, NotAuthorisedError, RefusedError: The target does not answer, or denies a part.
    """
    if not flow.settings.writes_same_offsets:
        return None
    control = await in_thread(read_control, flow.settings.target, flow.identity)
    if control.offset_writers is not None:
        return control.offset_writers
    record = OffsetWritersRecord(await _new_id(flow.target), await _new_id(flow.target))
    await write_documents(flow, flow.identity.control_topic, [record])
    return record


async def _new_id(cluster: WireCluster) -> int:
    async def attempt() -> tuple[int, int]:
        answer = await cluster.ask_any(InitProducerIdRequest(None, 0))
        cluster.check_denied(answer.error_code, "IDEMPOTENT_WRITE on the cluster")
        return answer.error_code, answer.producer_id

    code, found = await retrying(attempt, what="asking for a producer id", alias=cluster.alias)
    assert code == Code.NONE, code
    return int(found)


_TIMEOUT_MS = 15_000
_FETCH_BYTES = 1 << 20
_TOO_LARGE = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE})
_LOOKED_AT_AGAIN = RETRIABLE | {
    Code.OFFSET_OUT_OF_RANGE,
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Code.DUPLICATE_SEQUENCE_NUMBER,
    Code.UNKNOWN_PRODUCER_ID,
}
"""Codes after which the log tells how to go on: another process may have filled it, or its leader has changed."""
_cached = lru_cache(maxsize=4)(filler)


class ForeignLogError(Exception):
    """The log holds other records, or ends behind the offset."""


class FillRefusedError(Exception):
    """The leader refuses the records, or their deletion; the message names its error code."""


async def holds_filler(
    cluster: WireCluster, place: TopicPartition, topic_id: TopicId, start: int, end: int, producer_id: int
) -> bool:
    """Whether a log holds nothing but filler of a producer from ``start`` to ``end``.

    Raises:
        NotAuthorisedError: READ on the topic is denied.
        ConnectionLostError: The log cannot be read.
    """
    views = read_range(
        cluster,
        place.topic,
        topic_id,
        place.partition,
        start,
        end,
        read_committed=False,
        fetch_bytes=_FETCH_BYTES,
    )
    async for view in views:
        if not await in_thread(is_filler, view, producer_id):
            return False
    return True


async def delete_to(cluster: WireCluster, place: TopicPartition, end: int) -> None:
    """Let all replicas' logs begin at ``end``; of an empty log it shows whether this is allowed.

    Raises:
        NotAuthorisedError: DELETE on the topic is denied.
        FillRefusedError, ConnectionLostError: The leader refuses, or does not answer.
    """
    request = DeleteRecordsRequest({place: end}, _TIMEOUT_MS)
    code = (await cluster.send_to_leader(*place, request, purpose="delete")).get(
        place, Code.UNKNOWN_SERVER_ERROR
    )
    if code in DENIED:
        raise NotAuthorisedError(
            f"cluster {cluster.alias} denies DELETE on topic {place.topic}, by which mmtool deletes the empty"
            " records of a prefill",
            remedy=f"grant mmtool's principal DELETE on topic {place.topic}",
        )
    if code in _LOOKED_AT_AGAIN:
        raise ConnectionLostError(f"{place} of {cluster.alias}: {name_of(code)}")
    if code != Code.NONE:
        raise FillRefusedError(name_of(code))


@dataclass(slots=True)
class LogFill:
    """Moves one log's end to ``goal``, and its start with it.

    A. Each batch goes on at the producer's last sequence number: of two processes that fill a log, one appends it, and
       both get its offset.
    B. After an unexpected answer the log is read: all that it holds must be filler.

    Attributes:
        cluster: The target.
        place: The partition.
        topic_id: Of the topic: nothing is appended to a recreated one.
        goal: The offset.
        writers: Of all owners of the flow.
        take: Waits until a number of bytes may be sent.
        max_bytes: Of a batch.
        end: The log's end, as far as it is known.
    """

    cluster: WireCluster
    place: TopicPartition
    topic_id: TopicId
    goal: int
    writers: OffsetWritersRecord
    take: Callable[[int], Awaitable[None]]
    max_bytes: int
    end: int = 0
    _sequence: int = 0
    _most: int = MOST_FILLER

    async def run(self, purpose: str) -> None:
        """Fill the log; call it again after a lost connection.

        Args:
            purpose: Of the connection.

        Raises:
            ForeignLogError, FillRefusedError: As they say; the log is left as it is.
            NotAuthorisedError: WRITE, READ or DELETE on the topic is denied.
            ConnectionLostError, UnreachableError: The leader does not answer.
        """
        await self._look()
        while self.end < self.goal:
            batch = await self._batch()
            await self.take(batch.size)
            batch.stamp(self.writers.data_producer, self.writers.epoch, self._sequence)
            place = self.place
            entry = ProducePartition(place.topic, self.topic_id, place.partition, bytes(batch.payload))
            request = ProduceRequest([entry], _TIMEOUT_MS)
            answer = await self.cluster.send_to_leader(*place, request, purpose=purpose)
            (part,) = answer.partitions
            code, base = part.error_code, part.base_offset
            if code in _TOO_LARGE and batch.record_count > 1:
                self._most = batch.record_count // 2
            elif code == Code.NONE and base == self.end:
                self.end += batch.record_count
                self._sequence = (self._sequence + batch.record_count) % SEQUENCES
                await delete_to(self.cluster, self.place, self.end)
            elif code == Code.NONE or code in _LOOKED_AT_AGAIN:
                raise ConnectionLostError(f"{self.place} of {self.cluster.alias}: {name_of(code)}")
            else:
                self.cluster.check_denied(code, f"WRITE on topic {self.place.topic}")
                raise FillRefusedError(name_of(code))

    async def _look(self) -> None:
        """Read where the log ends, what is in it and how its producer goes on; delete what is in it."""
        cluster, place = self.cluster, self.place
        start = (await list_offsets(cluster, {place: EARLIEST}, read_committed=False)).get(place)
        end = (await replicated_ends(cluster, [place])).get(place)
        producers = await active_producers(cluster, place, purpose="scan")
        if start is None or end is None or producers is UNKNOWN:
            raise ConnectionLostError(f"the leader of {place} of {cluster.alias} does not tell its log")
        if end > self.goal or not await holds_filler(
            cluster, place, self.topic_id, start, end, self.writers.data_producer
        ):
            raise ForeignLogError
        self.end, self._sequence = end, next_number(producers, self.writers.data_producer, self.writers.epoch)
        await delete_to(self.cluster, self.place, self.end)

    async def _batch(self) -> ReadyBatch:
        """The next batch, as large as the topic allows."""
        while True:
            batch = await in_thread(_cached, min(self._most, self.goal - self.end))
            if batch.size <= self.max_bytes or batch.record_count == 1:
                return batch
            self._most = max(batch.record_count * self.max_bytes // batch.size * 9 // 10, 1)
