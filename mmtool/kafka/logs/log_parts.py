"""Read parts of logs, blocking: batch by batch, or record by record for comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256

from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError
from mmtool.kafka.batches import BatchView, raw_records
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.errors import unreachable
from mmtool.kafka.patience import AT_ONCE, handfuls
from mmtool.kafka.ports import Answers, LogPart, TransformsPort
from mmtool.kafka.state.flow_state import count_unbooked
from mmtool.kafka.state.state_log import read_producers
from mmtool.kafka.wire.cluster import ConnectionLostError, OutOfRangeError, WireCluster
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.kafka.wire.scan import AtMost, list_offsets, read_range
from mmtool.plan.records.documents import ProducerRecord
from mmtool.runtime.threads import within
from mmtool.translation.lockstep import Seen
from mmtool.translation.partition_map import PartitionMap
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, Unknown

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

        async def read(cluster: WireCluster) -> tuple[list[BatchView], int]:
            """Read some batches, and the offset at which the next piece starts; the log reaches the range's end."""
            await cluster.refresh([place.topic])
            views: list[BatchView] = []
            held = 0
            reading = read_range(
                cluster, place.topic, topic_id, place.partition, position, offsets.stop,
                read_committed=committed, fetch_bytes=_PIECE_BYTES,
            )  # fmt: skip
            async for view in reading:
                views.append(view)
                held += view.header.size
                if held >= _PIECE_BYTES // 2:
                    return views, view.header.next_offset
            return views, offsets.stop

        while position < offsets.stop:
            views, following = self._wire.ask(read, f"reading {place}")
            yield from views
            if following <= position:
                return
            position = following

    def producers(self) -> dict[int, ProducerRecord]:
        return read_producers(self._settings)

    def unbooked(self, known: PartitionMap) -> int | Unknown:
        async def count(cluster: WireCluster) -> int | Unknown:
            try:
                await cluster.refresh([known.about.target_topic])
            except ConnectionLostError:
                return UNKNOWN
            return await count_unbooked(cluster, known)

        return self._wire.ask(count, f"listing the producers of {known.about.target_topic}")


_SPARE_SECONDS = 5.0
_FETCH_BYTES = 256 << 10
"""Bytes of one fetch: parts between two offset syncs are small (about 100 records), and there may be thousands."""


def read_parts(
    cluster: ClusterSettings,
    parts: Collection[LogPart],
    seconds: float,
    *,
    read_committed: bool,
    transforms: Callable[[], TransformsPort],
) -> Answers[LogPart, list[Seen]]:
    """Read parts of logs as `ClusterPort.records_each` does; ``seconds`` is the time limit of one part.

    ``transforms`` makes those of the flow, for parts with a version.

    Raises:
        UnreachableError: the cluster does not answer.
    """
    wire = blocking_wire(cluster, "records", "consumer", seconds + _SPARE_SECONDS)
    found: Answers[LogPart, list[Seen]] = Answers()
    for some in handfuls(list(dict.fromkeys(parts)), AT_ONCE):

        async def read(there: WireCluster, some: list[LogPart] = some) -> None:
            await there.refresh({part.place.topic for part in some})
            changes = transforms() if any(part.version for part in some) else None
            try:
                await asyncio.gather(*(read_one(there, part, changes) for part in some))
            finally:
                if changes is not None:
                    await changes.close()

        async def read_one(there: WireCluster, part: LogPart, changes: TransformsPort | None) -> None:
            try:
                reading = _read(there, part, changes, read_committed=read_committed)
                found[part] = await within(seconds, reading)
            except ConnectionLostError as lost:
                found.failed[part] = unreachable(cluster.alias, f"reading {part.place}", lost)
            except TimeoutError:
                late = f"no answer within {seconds:g} s"
                found.failed[part] = unreachable(
                    cluster.alias, f"reading {part.place}", late, "REQUEST_TIMED_OUT"
                )
            except MmtoolError as error:
                found.failed[part] = error

        wire.ask(read, "reading records")
    return found


async def _read(
    cluster: WireCluster, part: LogPart, changes: TransformsPort | None, *, read_committed: bool
) -> list[Seen]:
    """The records of a part that the log still holds."""
    start = part.offsets.start
    try:
        return await _read_from(cluster, part, changes, start, read_committed=read_committed)
    except OutOfRangeError:
        starts = await list_offsets(cluster, {part.place: EARLIEST}, read_committed=False)
        log_start = starts.get(part.place, start)
        if log_start <= start:  # it is not that what the part begins with was deleted
            raise
        return await _read_from(cluster, part, changes, log_start, read_committed=read_committed)


async def _read_from(
    cluster: WireCluster, part: LogPart, changes: TransformsPort | None, start: int, *, read_committed: bool
) -> list[Seen]:
    (topic, partition), stop, found = part.place, part.offsets.stop, list[Seen]()
    views = read_range(
        cluster,
        topic,
        part.topic_id,
        partition,
        start,
        AtMost(stop),
        read_committed=read_committed,
        fetch_bytes=_FETCH_BYTES,
    )
    async for view in views:
        if changes is not None and part.version and not view.header.is_control:
            view = await changes.made(part.place, view, range(start, stop), part.version)  # noqa: PLW2901  as mirrored
        found += (seen for seen in _seen(view) if start <= seen.offset < stop)
        if len(found) >= part.most:
            break
    return found[: part.most]


def _seen(view: BatchView) -> Iterator[Seen]:
    if view.header.is_control:
        return
    keeps_time = not view.header.is_log_append_time
    for record in raw_records(view):
        told = keeps_time and record.timestamp >= 0
        yield Seen(record.offset, sha256(record.body).digest(), record.timestamp if told else UNKNOWN)
