"""Move the end of one empty log to an offset, by the producers of mirrors with the source's own offsets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.batches.ready import MOST_FILLER, filler, is_filler
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import ConnectionLostError, retrying
from mmtool.kafka.wire.codes import DENIED, RETRIABLE, Code, name_of
from mmtool.kafka.wire.metadata import EARLIEST, DeleteRecordsRequest
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.scan import active_producers, list_offsets, read_range
from mmtool.kafka.wire.transactions import InitProducerIdRequest
from mmtool.plan.records.documents import OffsetWritersRecord
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.same_offsets.fills import next_number, replicated_ends
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mmtool.kafka.batches import ReadyBatch
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.context import FlowContext
    from mmtool.translation.types import TopicId, TopicPartition


async def offset_writers(flow: FlowContext) -> OffsetWritersRecord | None:
    """The flow's ids, taken at its first claim; None for a flow that translates offsets. Call it behind that claim.

    Raises:
        UnreachableError, NotAuthorisedError, RefusedError: The target does not answer, or denies a part.
    """
    if flow.settings.offsets != "same":
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


class LogFill:
    """Moves one log's end to ``goal``, and its start with it.

    A. Each batch goes on at the producer's last sequence number: of two processes that fill a log, one appends it, and
       both get its offset.
    B. After an unexpected answer the log is read: all that it holds must be filler.

    Args:
        cluster: The target.
        place: The partition.
        topic_id: Of the topic: nothing is appended to a recreated one.
        goal: The offset.
        writers: Of all owners of the flow.
        take: Waits until a number of bytes may be sent.
        max_bytes: Of a batch.

    Attributes:
        end: The log's end, as far as it is known.
    """

    def __init__(
        self,
        cluster: WireCluster,
        place: TopicPartition,
        topic_id: TopicId,
        goal: int,
        writers: OffsetWritersRecord,
        take: Callable[[int], Awaitable[None]],
        max_bytes: int,
    ) -> None:
        self._cluster = cluster
        self._place, self._topic_id = place, topic_id
        self._goal = goal
        self._producer = writers.data_producer, writers.epoch
        self._take = take
        self._most, self._max_bytes = MOST_FILLER, max_bytes
        self.end = self._sequence = 0

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
        while self.end < self._goal:
            batch = await self._batch()
            await self._take(batch.size)
            batch.stamp(*self._producer, self._sequence)
            code, base = await self._append(bytes(batch.payload), purpose)
            if code in _TOO_LARGE and batch.record_count > 1:
                self._most = batch.record_count // 2
            elif code == Code.NONE and base == self.end:
                self.end += batch.record_count
                self._sequence = (self._sequence + batch.record_count) % SEQUENCES
                await delete_to(self._cluster, self._place, self.end)
            elif code == Code.NONE or code in _LOOKED_AT_AGAIN:
                raise ConnectionLostError(f"{self._place} of {self._cluster.alias}: {name_of(code)}")
            else:
                self._cluster.check_denied(code, f"WRITE on topic {self._place.topic}")
                raise FillRefusedError(name_of(code))

    async def _look(self) -> None:
        """Read where the log ends, what is in it and how its producer goes on; delete what is in it."""
        cluster, place = self._cluster, self._place
        start = (await list_offsets(cluster, {place: EARLIEST}, read_committed=False)).get(place)
        end = (await replicated_ends(cluster, [place])).get(place)
        producers = await active_producers(cluster, place, purpose="scan")
        if start is None or end is None or producers is UNKNOWN:
            raise ConnectionLostError(f"the leader of {place} of {cluster.alias} does not tell its log")
        if end > self._goal or not await holds_filler(
            cluster, place, self._topic_id, start, end, self._producer[0]
        ):
            raise ForeignLogError
        self.end, self._sequence = end, next_number(producers, *self._producer)
        await delete_to(self._cluster, self._place, self.end)

    async def _batch(self) -> ReadyBatch:
        """The next batch, as large as the topic allows."""
        while True:
            batch = await in_thread(_cached, min(self._most, self._goal - self.end))
            if batch.size <= self._max_bytes or batch.record_count == 1:
                return batch
            self._most = max(batch.record_count * self._max_bytes // batch.size * 9 // 10, 1)

    async def _append(self, batch: bytes, purpose: str) -> tuple[int, int]:
        place = self._place
        entry = ProducePartition(place.topic, self._topic_id, place.partition, batch)
        answer = await self._cluster.send_to_leader(
            *place, ProduceRequest([entry], _TIMEOUT_MS), purpose=purpose
        )
        (part,) = answer.partitions
        return part.error_code, part.base_offset
