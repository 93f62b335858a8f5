"""Read a small topic once, from its beginning or from the last read offset to its current end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import MmtoolError, RefusedError, is_away
from mmtool.kafka.batches.records import fields_of, read_columns
from mmtool.kafka.clients import blocking_wire, shared
from mmtool.kafka.errors import check_code
from mmtool.kafka.state.own_log import MARK
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import Patience, offsets_each, read_range
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mmtool.config import ClusterSettings
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.state.own_log import Headers
    from mmtool.kafka.wire.blocking_client import BlockingWireClient
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.types import TopicId

FOREIGN_RECORD = (
    "run the mmtool release that wrote the record; if another program wrote it, stop that program and write a"
    " tombstone (the same key, a null value), after which compaction removes the record"
)
"""The remedy where a record of another internal topic cannot be read: it cannot be derived from the logs."""

_PATIENCE_SECONDS = 10.0
_STALL_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_FETCH_BYTES = 1 << 20
"""Bytes of one fetch of a partition; as many are in memory of each partition of a topic."""
_FROM_THE_START: Mapping[int, int] = MappingProxyType({})


class LogRecord(NamedTuple):
    """One record of an internal topic; a null value is a tombstone."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()

    @property
    def is_ours(self) -> bool:
        """Whether it has mmtool's mark."""
        return any(name == MARK[0][0] for name, _ in self.headers)


def read_log(
    cluster: ClusterSettings,
    topic: str,
    partitions: list[int] | None = None,
    start: Mapping[int, int] = _FROM_THE_START,
    *,
    committed: bool = False,
    patience_seconds: float = _PATIENCE_SECONDS,
    stall_seconds: float = _STALL_SECONDS,
) -> Iterator[LogRecord]:
    """Read a topic's records up to its present end, in order within a partition; records without a key are left out.

    Args:
        cluster: The topic's cluster.
        topic: The topic's name.
        partitions: The partitions to read; None for all.
        start: Offsets to begin at, by partition; one that the log does not hold means the log start.
        committed: Leave out records of aborted and open transactions; internal topics hold none, only markers.
        patience_seconds: How long to wait for the cluster, and for the leader of each partition.
        stall_seconds: How long to wait for the next records.

    A topic that does not exist has no records.

    Raises:
        UnreachableError: the cluster does not answer, or stops answering.
        NotAuthorisedError: without READ on the topic.
        BatchError: records cannot be read.
    """
    # all readers of a cluster share their connections: a login takes several round trips
    connect = partial(blocking_wire, cluster, "reader", "consumer", stall_seconds, patience_seconds)
    wire = shared(cluster, f"log reader, {patience_seconds} s, {stall_seconds} s", connect)
    log = _Log(cluster, topic, committed)
    left = log.open(wire, partitions, start, patience_seconds)
    while left:
        pieces = wire.ask(partial(log.pieces, left=left), f"reading {topic}")
        for (partition, offsets), (views, position) in zip(list(left.items()), pieces, strict=True):
            yield from _records(partition, offsets, views)
            left[partition] = range(position, offsets.stop)
        left = {partition: offsets for partition, offsets in left.items() if offsets}


def _records(partition: int, offsets: range, views: list[BatchView]) -> Iterator[LogRecord]:
    for columns in map(read_columns, views):
        for offset, timestamp_ms, body in zip(
            columns.offsets, columns.timestamps, columns.bodies, strict=True
        ):
            key, value, headers = fields_of(body)
            if key is not None and offset in offsets:
                yield LogRecord(partition, offset, key, value, timestamp_ms, headers)


@dataclass(slots=True)
class _Log:
    """A topic that is read once."""

    cluster: ClusterSettings
    topic: str
    committed: bool
    topic_id: TopicId | None = None

    def open(
        self,
        wire: BlockingWireClient,
        partitions: list[int] | None,
        start: Mapping[int, int],
        seconds: float,
    ) -> dict[int, range]:
        """The offsets to read of each partition; a cluster that is away is asked again for ``seconds``."""

        async def look(there: WireCluster) -> dict[int, range]:
            metadata = (await there.refresh([self.topic]))[self.topic]
            if metadata.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                return {}
            what, right = f"reading {self.topic}", f"READ on topic {self.topic}"
            check_code(self.cluster, metadata.error_code, what, right)
            self.topic_id = metadata.topic_id
            numbers = sorted(p.partition for p in metadata.partitions)
            places = [TopicPartition(self.topic, p) for p in numbers if partitions is None or p in partitions]
            bounds = (
                offsets_each(
                    there,
                    dict.fromkeys(places, when),
                    Patience(seconds, seconds, unknown=None),
                    read_committed=self.committed,
                )
                for when in (EARLIEST, LATEST)
            )
            starts, ends = (found.complete() for found in await asyncio.gather(*bounds))
            whole = {place: range(starts[place], ends[place] + 1) for place in places if place in ends}
            begins = {place: start.get(place.partition, log.start) for place, log in whole.items()}
            return {
                place.partition: range(begins[place] if begins[place] in log else log.start, log.stop - 1)
                for place, log in whole.items()
            }

        deadline = time.monotonic() + seconds
        while True:
            try:
                found = wire.ask(look, f"reading {self.topic}")
            except MmtoolError as error:
                if not is_away(error) or time.monotonic() > deadline:
                    raise
            else:
                return {partition: offsets for partition, offsets in found.items() if offsets}
            time.sleep(_PAUSE_SECONDS)

    async def pieces(
        self, there: WireCluster, left: Mapping[int, range]
    ) -> list[tuple[list[BatchView], int]]:
        """Some batches of each partition, and the offset behind them."""
        return await asyncio.gather(*(self._piece(there, *of) for of in left.items()))

    async def _piece(self, there: WireCluster, partition: int, offsets: range) -> tuple[list[BatchView], int]:
        assert self.topic_id is not None
        views: list[BatchView] = []
        held = 0
        reading = read_range(
            there, self.topic, self.topic_id, partition, offsets.start, offsets.stop,
            read_committed=self.committed, fetch_bytes=_FETCH_BYTES,
        )  # fmt: skip
        async for view in reading:
            held += view.header.size
            if not view.header.is_control:
                views.append(view)
            if held >= _FETCH_BYTES // 2:
                return views, view.header.next_offset
        return views, offsets.stop


def newest_records(records: Iterable[LogRecord]) -> list[LogRecord]:
    """The last record of each key, as compaction leaves it; tombstones stay."""
    return list({record.key: record for record in records}.values())


class StoredTopic:
    """A compacted topic that is read repeatedly, each time only what is new. Not safe for threads."""

    def __init__(self, cluster: ClusterSettings, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Take the topic's cluster, and ``patience_seconds`` as of `read_log`."""
        self._cluster = cluster
        self._patience = patience_seconds
        self._next: dict[int, int] = {}
        self._read_to: dict[int, int] = {}

    def follow(self, topic: str, forget: Callable[[], None]) -> list[LogRecord]:
        """The last record of each key among those that were not `taken` yet.

        Calls ``forget`` and returns all of them where the topic was recreated, or its log was cut.

        Raises:
            UnreachableError, NotAuthorisedError: as `read_log`.
        """
        found: dict[bytes, LogRecord] = {}
        self._read_to = dict(self._next)
        for record in read_log(self._cluster, topic, start=self._next, patience_seconds=self._patience):
            if record.offset < self._next.get(record.partition, 0):
                break
            found[record.key] = record
            self._read_to[record.partition] = record.offset + 1
        else:
            return list(found.values())
        forget()
        self._next = {}
        return self.follow(topic, forget)

    def taken(self) -> None:
        """Read on behind the returned records from now on; otherwise the next call returns them again."""
        self._next = self._read_to


def unreadable(
    where: str, partition: int, offset: int, why: str, remedy: str = FOREIGN_RECORD
) -> RefusedError:
    """The refusal for a stored record that cannot be read (``unreadable_state``); ``where`` names its topic."""
    return RefusedError(
        f"the record at offset {offset} in partition {partition} of {where} cannot be read: {why}",
        remedy=remedy,
        code="unreadable_state",
    )
