"""Follow a flow's control topic from a given offset by long polls; in a worker, for the record that ends its round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mmtool.kafka.batches import decode, iter_batches
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.plan.records.documents import (
    Command,
    ControlRecord,
    Document,
    SharesRecord,
    UnreadableDocumentError,
)
from mmtool.plan.records.identity import decode_control

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.spark.assignment import FlowAssignment
    from mmtool.translation.types import TopicId


_MAX_WAIT_MS = 1000
_FETCH_BYTES = 1 << 20
_PAUSE_SECONDS = 0.2


class ControlFeed:
    """Yields documents as they are written; skips unreadable ones, which a starting owner refuses instead."""

    def __init__(self, cluster: WireCluster, topic: str, topic_id: TopicId, offset: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._topic_id = topic_id
        self._offset = offset

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def offset(self) -> int:
        """The offset of the next record to read: records yet to be written are at or after it."""
        return self._offset

    async def next(self) -> list[Document]:
        """The documents written since the last call; empty if none is written within a second."""
        try:
            return await self._fetch()
        except ConnectionLostError:
            await asyncio.sleep(_PAUSE_SECONDS)
            return []

    async def _fetch(self) -> list[Document]:
        place = FetchPartition(self._topic, self._topic_id, 0, self._offset, _FETCH_BYTES)
        request = FetchRequest([place], _MAX_WAIT_MS, 1, _FETCH_BYTES, read_committed=False)
        answer = await self._cluster.send_to_leader(self._topic, 0, request, purpose="control")
        if not answer.partitions:  # so answers whoever keeps a quota (KIP-219)
            raise ConnectionLostError(f"{self._topic}: throttled by a quota")
        part = answer.partitions[0]
        if part.error_code == Code.OFFSET_OUT_OF_RANGE:
            self._offset = max(part.log_start_offset, 0)
            return []
        if part.error_code != Code.NONE:
            await self._cluster.refresh([self._topic])
            raise ConnectionLostError(f"{self._topic}: {name_of(part.error_code)}")
        documents: list[Document] = []
        for view in iter_batches(part.records):
            self._offset = view.header.next_offset
            if not view.header.is_control:
                found = (_document(record.key, record.value) for record in decode(view))
                documents += [document for document in found if document is not None]
        return documents


def _document(key: bytes | None, value: bytes | None) -> Document | None:
    if key is None or value is None:
        return None
    try:
        return decode_control(key, value)
    except UnreadableDocumentError:
        return None


async def until_told(
    cluster: WireCluster, flow: FlowAssignment, throttled: Callable[[SharesRecord], None]
) -> Command:
    """Wait for the owner's control record that ends this round, and return its command: STOP or REPLAN.

    Records of another owner or about an earlier round are ignored. Meanwhile ``throttled`` gets each new division of
    the throttle.
    """
    feed = ControlFeed(cluster, flow.identity.control_topic, flow.control_topic_id, flow.control_offset)
    ours = (flow.owner, flow.round)
    while True:
        for document in await feed.next():
            if isinstance(document, ControlRecord) and _ends_round(document, flow):
                return Command(document.command)
            if isinstance(document, SharesRecord) and (document.owner, document.round) == ours:
                throttled(document)


def _ends_round(word: ControlRecord, flow: FlowAssignment) -> bool:
    return word.owner == flow.owner and word.round >= flow.round and word.command != Command.RUN
