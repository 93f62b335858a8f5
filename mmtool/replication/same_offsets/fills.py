"""Fill the offsets at which the source has no record with markers, so that the next record gets its own offset."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.kafka.wire.metadata import EARLIEST, LATEST, NO_REPLICA
from mmtool.kafka.wire.scan import active_producers_of_all, offsets_now
from mmtool.kafka.wire.transactions import Marker, WriteTxnMarkersRequest, markers_denied
from mmtool.replication.pump.in_flight import FencedError, InDoubtError
from mmtool.replication.same_offsets.mirror import SameOffsetsMirror
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.replication.pump.batch_prep import Fill
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.translation.types import TopicPartition

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
