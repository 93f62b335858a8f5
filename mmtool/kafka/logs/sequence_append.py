"""Append batches such that a later process can tell after a crash which of them are in the log.

Each process claims a transactional id, as workers do: it gets the same producer id, with a higher epoch. All batches
in a log with that producer id were therefore written by this operation, by whichever process, and need not be written
again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from mmtool.config import ClusterSettings
from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError
from mmtool.kafka.batches import SEQUENCES, BatchHeader, ReadyBatch
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.errors import remedy_of_refusal
from mmtool.kafka.state.claims import Claim, ClaimLostError, claim, fence
from mmtool.kafka.state.own_log import append, topic_id_of
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.codes import DENIED, FENCED, Code, name_of
from mmtool.kafka.wire.produce import ProducePartition
from mmtool.kafka.wire.scan import log_bounds, read_range
from mmtool.translation.types import TopicPartition

T = TypeVar("T")

_SECONDS_OF_A_LOOK = 600.0
_ONE_PROCESS = (
    "another process has continued this operation, and completes it: `mmtool failover list -c FILE` shows its"
    " state"
)
_NEVER = frozenset({Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE, Code.INVALID_RECORD})
"""Error codes of batches that the broker will never accept."""


def numbered(headers: Iterable[BatchHeader], producer_id: int) -> int:
    """How many records were appended under a producer id, by the sequence numbers of the batches that are left.

    Compaction keeps at least the header of a producer's last batch, whose sequence counts all before it. The sequences
    of each epoch begin at 0.
    """
    ends: dict[int, int] = {}
    for header in headers:
        if header.producer_id == producer_id and not header.is_control:
            ends[header.producer_epoch] = header.base_sequence + header.last_offset_delta + 1
    return sum(ends.values())


class KafkaAppender:
    """An `AppendPort`.

    The producer id is registered nowhere: its records count as written on this cluster, not mirrored to it.

    Args:
        cluster: Where to.
        transactional_id: Begins with ``mmtool.``, and is the same for a process that resumes.
        seconds: How long one batch may take.
        way_on: The remedy when another process claims the id.
    """

    def __init__(
        self, cluster: ClusterSettings, transactional_id: str, seconds: float, way_on: str = _ONE_PROCESS
    ) -> None:
        self._alias = cluster.alias
        self._id = transactional_id
        self._way_on = way_on
        self._wire = blocking_wire(cluster, "append", "producer", seconds)
        # a look at what is there reads as much as was written
        self._looks = blocking_wire(cluster, "append-look", "consumer", _SECONDS_OF_A_LOOK)
        self._claimed: Claim | None = None
        self._fenced: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}

    def appended(self, place: TopicPartition, since: int) -> int:
        self._shut_out(place)
        writer = self._claim()

        async def count(cluster: WireCluster) -> int:
            topic_id = (await cluster.refresh([place.topic]))[place.topic].topic_id
            bounds = (await log_bounds(cluster, [place])).get(place)
            if bounds is None:
                return 0
            views = read_range(
                cluster, place.topic, topic_id, place.partition, since, bounds[1], read_committed=False
            )
            return numbered([view.header async for view in views], writer.producer_id)

        return self._looks.ask(count, f"reading {place}")

    def append(self, place: TopicPartition, batch: ReadyBatch) -> None:
        writer, sequence = self._claim(), self._next.get(place, 0)
        batch.stamp(writer.producer_id, writer.epoch, sequence)

        async def send(cluster: WireCluster) -> int:
            topic_id = await topic_id_of(cluster, place.topic)
            return await append(
                cluster, ProducePartition(place.topic, topic_id, place.partition, batch.payload)
            )

        code = self._wire.ask(send, f"writing to {place}")
        if code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            raise self._refusal(place, code)
        self._next[place] = (sequence + batch.record_count) % SEQUENCES

    def landed(self, place: TopicPartition, records: int) -> None:
        """Count the last batch as appended, since the log holds it though no answer came: its sequences are used."""
        self._next[place] = (self._next.get(place, 0) + records) % SEQUENCES

    def begin_again(self) -> None:
        """Take a new epoch for the next batch: sequences begin at 0, and no older batch is accepted after it."""
        self._claimed = None
        self._next.clear()

    def _refusal(self, place: TopicPartition, code: int) -> MmtoolError:
        if code in FENCED:
            return MmtoolError(
                f"another process claimed transactional id {self._id} on {self._alias}; this process writes"
                " nothing more",
                remedy=self._way_on,
            )
        if code in DENIED:
            return NotAuthorisedError(
                f"cluster {self._alias} denies WRITE on topic {place.topic}: {name_of(code)}",
                remedy=f"grant WRITE on topic {place.topic} to mmtool's principal",
            )
        said = f"cluster {self._alias} refuses a batch of {place}: {name_of(code)}"
        remedy = remedy_of_refusal(name_of(code), self._alias, f"topic {place.topic}")
        return RefusedError(said, remedy=remedy) if code in _NEVER else MmtoolError(said, remedy=remedy)

    def _claim(self) -> Claim:
        if self._claimed is None:
            self._claimed = self._claimed_by(
                lambda cluster: claim(cluster, self._id), f"claiming transactional id {self._id}"
            )
        return self._claimed

    def _shut_out(self, place: TopicPartition) -> None:
        """Fence earlier processes: no batch that one of them has sent is appended later, even if a broker had hung.

        The first claim of a transactional id has no predecessor; later ones write a marker.
        """
        claimed = self._claim()
        if claimed.epoch == 0 or place in self._fenced:
            return
        self.begin_again()
        self._claimed = self._claimed_by(
            lambda cluster: fence(cluster, self._id, claimed, {place}),
            f"shutting out older producers of {place}",
        )
        self._fenced.add(place)

    def _claimed_by(self, question: Callable[[WireCluster], Awaitable[Claim]], what: str) -> Claim:
        try:
            return self._wire.ask(question, what)
        except ClaimLostError as lost:
            raise ClaimLostError(lost.message, remedy=self._way_on) from lost
