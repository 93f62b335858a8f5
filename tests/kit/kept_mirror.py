"""A mirror that another system keeps with the source's offsets, as a link between brokers does; in small.

Where the source has no committed record, the mirror has transaction markers, which no consumer sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.wire.transactions import Marker, write_markers
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.replication.same_offsets.fills import _new_id
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.lab.topics import Record


@dataclass
class KeptMirror:
    """The mirror of one topic, which `catch_up` brings to its source's end.

    Attributes:
        flow: The flow of the two clusters; mmtool itself does not run it.
        leaves_out: Partitions and offsets of records that the mirror loses: markers take their offsets.
        shift: By how much the mirror's offsets are too high.
    """

    flow: FlowSettings
    topic: str
    partitions: int = 2
    leaves_out: Collection[tuple[int, int]] = ()
    shift: int = 0
    _ends: dict[int, int] = field(default_factory=dict)

    @property
    def mirror(self) -> str:
        """The name of the mirror."""
        return self.flow.remote_topic(self.topic)

    def create(self) -> None:
        """Create the mirror, empty."""
        create_topic(self.flow.target.bootstrap_servers, self.mirror, self.partitions)

    def catch_up(self) -> None:
        """Copy everything that the source has and the mirror has not."""
        source, target = self.flow.source.bootstrap_servers, self.flow.target.bootstrap_servers
        records, until = read_topic(source, self.topic), end_offsets(source, self.topic)
        self._ends = end_offsets(target, self.mirror)
        kept = [r for r in records if (r.partition, r.offset) not in self.leaves_out]
        for partition, of in groupby(
            sorted(kept, key=lambda r: (r.partition, r.offset)), lambda r: r.partition
        ):
            new = [r for r in of if r.offset + self.shift >= self._ends[partition]]
            # runs of records without a hole between them
            for _, run in groupby(enumerate(new), lambda pair: pair[1].offset - pair[0]):
                self._copy(partition, [record for _, record in run])
        for partition, end in until.items():
            self._fill(partition, end + self.shift)

    def _copy(self, partition: int, records: Sequence[Record]) -> None:
        self._fill(partition, records[0].offset + self.shift)
        producer = Producer(
            {
                "bootstrap.servers": self.flow.target.bootstrap_servers,
                "acks": "all",
                "max.in.flight": 1,
                "log_level": 2,
            }
        )
        for one in records:
            producer.produce(
                self.mirror,
                one.value,
                one.key,
                partition,
                timestamp=one.timestamp_ms,
                headers=list(one.headers),
            )
        assert producer.flush(60) == 0
        self._ends[partition] = records[-1].offset + 1 + self.shift

    def _fill(self, partition: int, end: int) -> None:
        """Write markers up to an offset."""
        count = end - self._ends[partition]
        place = TopicPartition(self.mirror, partition)

        async def write(cluster: WireCluster) -> None:
            number = await _new_id(cluster)
            for _ in range(count):
                await write_markers(cluster, Marker(number, 0, 0, [place]))

        if count > 0:
            blocking_wire(self.flow.target, "kept-mirror", "producer", 60.0).ask(write, "writing markers")
        self._ends[partition] = end
