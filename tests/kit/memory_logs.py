"""The logs of a cluster in memory, batch by batch, as a `BatchesPort`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.kafka.batches import AbortedFilter, decode, iter_batches, view_of
from mmtool.plan.records.documents import ProducerRecord
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.kafka.batches import BatchView, ReadyBatch, Record
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId, TopicPartition, Unknown


@dataclass
class FakeBatches:
    """A `BatchesPort`.

    Attributes:
        logs: The stored bytes of each partition.
        aborted: As brokers list them: producer id and first offset of each aborted transaction.
        registered: Producer ids, and the id of the cluster whose records were mirrored under them.
        remembered: What leaders remember behind a map, by the target topic; forgotten where it is not here.
        read: Which ranges were asked for.
    """

    logs: dict[TopicPartition, bytes] = field(default_factory=dict)
    aborted: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    registered: dict[int, str] = field(default_factory=dict)
    remembered: dict[str, int] = field(default_factory=dict)
    read: list[tuple[TopicPartition, range]] = field(default_factory=list)

    def batches(
        self, place: TopicPartition, topic_id: TopicId, offsets: range, *, committed: bool
    ) -> Iterator[BatchView]:
        del topic_id
        if offsets:
            self.read.append((place, offsets))
        admitted = AbortedFilter(self.aborted.get(place, ()))
        for view in iter_batches(self.logs.get(place, b"")):
            wanted = admitted.admits(view) or not committed
            if wanted and offsets.start < view.header.next_offset and view.header.base_offset < offsets.stop:
                yield view

    def producers(self) -> dict[int, ProducerRecord]:
        return {pid: ProducerRecord(pid, "", source, "", 0) for pid, source in self.registered.items()}

    def unbooked(self, known: PartitionMap) -> int | Unknown:
        return self.remembered.get(known.about.target_topic, UNKNOWN)


@dataclass
class FakeAppender:
    """An `AppendPort` whose log outlives it.

    Attributes:
        log: What was appended, by partition.
        lives: After how many batches the process dies; forever where there is none.
    """

    log: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    lives: list[int] = field(default_factory=list)

    def appended(self, place: TopicPartition, since: int) -> int:
        return len(self.log.get(place, [])[since:])

    def begin_again(self) -> None:
        """Its log tells all by itself."""

    def append(self, place: TopicPartition, batch: ReadyBatch) -> None:
        if self.lives:
            self.lives[0] -= 1
            if self.lives[0] < 0:
                self.lives.pop(0)
                raise UnreachableError("killed")
        self.log.setdefault(place, []).extend(decode(view_of(batch.payload)))
