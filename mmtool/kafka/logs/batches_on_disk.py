"""The `BatchesPort` of a real cluster: blocking iteration over a log's batches, a piece of the log at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.errors import unreachable
from mmtool.kafka.state.append_count import count_unbooked
from mmtool.kafka.state.state_log import read_producers
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.scan import read_range
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.config import ClusterSettings
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.records.documents import ProducerRecord
    from mmtool.translation.known import Unknown
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId, TopicPartition

_PIECE_BYTES = 8 << 20
"""Bytes of batches that are in memory at a time; one batch may be larger."""


class KafkaBatches:
    """A `BatchesPort`.

    Args:
        cluster: Which one.
        seconds: How long one piece may take.
    """

    def __init__(self, cluster: ClusterSettings, seconds: float) -> None:
        self._settings = cluster
        self._wire = blocking_wire(cluster, "batches", "consumer", seconds)

    def batches(
        self, place: TopicPartition, topic_id: TopicId, offsets: range, *, committed: bool
    ) -> Iterator[BatchView]:
        position = offsets.start
        while position < offsets.stop:
            views, following = self._piece(
                place, topic_id, range(position, offsets.stop), committed=committed
            )
            yield from views
            if following <= position:
                return
            position = following

    def _piece(
        self, place: TopicPartition, topic_id: TopicId, offsets: range, *, committed: bool
    ) -> tuple[list[BatchView], int]:
        """Read some batches of a range; return them with the offset at which the next piece starts.

        Every caller knows that the log reaches the end of the range.
        """

        async def read(cluster: WireCluster) -> tuple[list[BatchView], int]:
            await cluster.refresh([place.topic])
            views: list[BatchView] = []
            held = 0
            reading = read_range(
                cluster, place.topic, topic_id, place.partition, offsets.start, offsets.stop,
                read_committed=committed, fetch_bytes=_PIECE_BYTES,
            )  # fmt: skip
            async for view in reading:
                views.append(view)
                held += view.header.size
                if held >= _PIECE_BYTES // 2:
                    return views, view.header.next_offset
            return views, offsets.stop

        try:
            return self._wire.ask(read, f"reading {place}")
        except ConnectionLostError as lost:
            raise unreachable(self._settings.alias, f"reading {place}", lost) from lost

    def producers(self) -> dict[int, ProducerRecord]:
        return read_producers(self._settings)

    def unbooked(self, known: PartitionMap) -> int | Unknown:
        async def count(cluster: WireCluster) -> int | Unknown:
            await cluster.refresh([known.about.target_topic])
            return await count_unbooked(cluster, known)

        try:
            return self._wire.ask(count, f"listing the producers of {known.about.target_topic}")
        except ConnectionLostError:
            return UNKNOWN
