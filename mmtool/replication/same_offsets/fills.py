"""Fill the offsets at which the source has no record with markers, so that the next record gets its own offset."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.admin.active_producers import active_producers_of_all
from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.wire.cluster import ConnectionLostError, retrying
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.kafka.wire.markers import Marker, WriteTxnMarkersRequest
from mmtool.kafka.wire.placement import EARLIEST, LATEST, NO_REPLICA
from mmtool.kafka.wire.scan import list_offsets
from mmtool.replication.pump.errors import FencedError, InDoubtError
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.pump.batch_prep import Fill
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.spark.assignment import OffsetWriters
    from mmtool.translation.types import TopicPartition

_MARKERS = 300
"""Of a request: it occupies one of the broker's request handlers until all are replicated."""
_LEADER_SECONDS = 60.0
_REPLACED = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.TRANSACTION_COORDINATOR_FENCED})


async def replicated_ends(
    cluster: WireCluster, places: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The ends of the leaders' logs, once all in-sync replicas have what is in them.

    A batch that is not acknowledged yet is behind the high watermark, and may still be appended for good.

    Raises:
        UnreachableError: A leader does not answer for a minute, or its followers do not catch up.
    """

    async def attempt() -> tuple[int, dict[TopicPartition, int]]:
        latest = dict.fromkeys(places, LATEST)
        ends = await list_offsets(cluster, latest, read_committed=False, replica=NO_REPLICA)
        marks = await list_offsets(cluster, latest, read_committed=False)
        if late := sorted(place for place in ends if ends[place] != marks.get(place)):
            raise ConnectionLostError(f"{late[0]} of {cluster.alias} waits for its followers")
        return Code.NONE, ends

    if not places:
        return {}
    _, ends = await retrying(attempt, what="reading log ends", alias=cluster.alias, seconds=_LEADER_SECONDS)
    return ends  # type: ignore[no-any-return]  # what `attempt` gave


class Fills:
    """Opens the mirrors that keep the source's offsets, and writes their markers.

    Args:
        cluster: The target.
        mirrors: All mirrors of the task's flow; those that translate offsets are passed over.
        wake: Called for a mirror whose next batch may be sent.
        failed: Called once with the error after which the worker must stop.

    A. One request to a leader at a time, with the fills of many partitions; a mirror has nothing else in flight.
    B. After any answer but success it is unknown how many markers were appended: the worker stops, and the recovery
       reads the log.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        wake: Callable[[PartitionMirror], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._cluster = cluster
        self._mirrors = {m.assignment.block.about.downstream: m for m in mirrors if m.same is not None}
        self._wake = wake
        self._failed = failed
        self._waiting: dict[int, dict[TopicPartition, Fill]] = defaultdict(dict)
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def open(self) -> None:
        """Check that each log ends where its mirror does, and continue its producer's numbers.

        Raises:
            InDoubtError: A log has another end: another producer has appended to it since it was read.
            UnreachableError, NotAuthorisedError, ConnectionLostError: A leader does not answer.
        """
        if not self._mirrors:
            return
        new = [place for place, mirror in self._mirrors.items() if not mirror.assignment.stored]
        starts = await list_offsets(self._cluster, dict.fromkeys(new, EARLIEST), read_committed=False)
        ends = await replicated_ends(self._cluster, self._mirrors)
        numbers = await self._next_numbers()
        for place, end in ends.items():
            is_empty = place not in starts or starts[place] == end
            self._mirrors[place].begin(DownstreamOffset(end), numbers.get(place, 0), is_empty=is_empty)

    async def _next_numbers(self) -> dict[TopicPartition, int]:
        """The sequence number that each leader expects; left out where it remembers none and takes any.

        Raises:
            ConnectionLostError: A leader does not tell.
        """
        told = await active_producers_of_all(self._cluster, self._mirrors, purpose="scan")
        if silent := sorted(self._mirrors.keys() - told.keys()):
            raise ConnectionLostError(f"{silent[0]} of {self._cluster.alias} does not tell its producers")
        return {
            place: (one.last_sequence + 1) % SEQUENCES
            for place, producers in told.items()
            for one in producers
            if one.producer_id == _writers(self._mirrors[place]).data_producer and one.last_sequence >= 0
        }

    def begin(self, mirror: PartitionMirror) -> None:
        """Write the mirror's next fill, which is `PartitionMirror.fillable`; its partition has a leader."""
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
                for place in [place for place, fill in waiting.items() if not fill.left]:
                    mirror = self._mirrors[place]
                    mirror.filled(waiting.pop(place))
                    self._wake(mirror)
        except Exception as error:  # noqa: BLE001  whatever it is, the pump cannot go on
            self._failed(error)

    async def _send(self, leader: int, fills: Mapping[TopicPartition, Fill]) -> None:
        share = max(1, _MARKERS // len(fills))
        wanted = {place: min(share, fill.left) for place, fill in fills.items()}
        writers = _writers(self._mirrors[next(iter(fills))])
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
            raise InDoubtError(f"{self._cluster.alias} did not answer for markers: {error}") from error
        codes = {code for answer in answers for code in answer.values()} - {Code.NONE}
        told = {place for answer in answers for place in answer}
        if codes & DENIED:
            raise NotAuthorisedError(
                f"cluster {self._cluster.alias} denies ALTER on the cluster, by which mmtool writes the markers of"
                " mmtool.offsets = same",
                remedy="grant ALTER on the cluster to mmtool's principal (CLUSTER_ACTION on brokers before 3.8)",
            )
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


def _writers(mirror: PartitionMirror) -> OffsetWriters:
    assert mirror.same is not None
    return mirror.same
