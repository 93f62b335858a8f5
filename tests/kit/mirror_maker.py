"""What MirrorMaker 2 writes, written by hand: its records in the mirrored topics, and all that it keeps beside them."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.batches import PlainRecord, batch_of
from kit.raw_producer import append_batches
from mmtool.config.aliases import positions_topic
from mmtool.errors import MmtoolError
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.lab.topics import create_topic
from mmtool.translation.connect_offsets import CONNECTOR
from mmtool.translation.mm2_records import Heartbeat, OffsetSync
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import FlowSettings
    from mmtool.lab.topics import Record

_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True)
class MirrorMakerByHand:
    """MM2 of one flow, as far as its topics can tell."""

    flow: FlowSettings

    def copies(self, records: Iterable[Record], topic: str, partition: int) -> None:
        """Records of the source, in the target's partition, as MM2's connector writes them: without a producer id."""
        copied = [
            PlainRecord(
                at,
                record.timestamp_ms,
                record.key,
                record.value,
                tuple((name.encode(), value) for name, value in record.headers),
            )
            for at, record in enumerate(records)
        ]
        bootstrap = self.flow.target.bootstrap_servers
        append_batches(bootstrap, self.flow.remote_topic(topic), partition, [batch_of(copied)])

    def stores_position(
        self, topic: str, partition: int, last: int, *, connector: str = CONNECTOR, into: str | None = None
    ) -> None:
        """What Connect stores at a flush, in its own topic or another: the last replicated record."""
        place = {"cluster": self.flow.source.alias, "partition": partition, "topic": topic}
        key, value = json.dumps([connector, place]), json.dumps({"offset": last})
        where = into or positions_topic(self.flow.source.alias)
        self._write(self.flow.target.bootstrap_servers, where, key.encode(), value.encode())

    def syncs(self, topic: str, partition: int, upstream: int, downstream: int) -> None:
        """An offset sync: that record is there."""
        cluster, where = syncs_place(self.flow)
        pair = UpstreamOffset(upstream), DownstreamOffset(downstream)
        sync = OffsetSync(TopicPartition(topic, partition), *pair)
        self._write(cluster.bootstrap_servers, where, sync.key(), sync.value())

    def beats(self, timestamp_ms: int = 0) -> None:
        """A heartbeat, now or at a time."""
        beat = Heartbeat(self.flow.source.alias, self.flow.target.alias, timestamp_ms)
        where = self.flow.policy.heartbeats_topic()
        self._write(self.flow.target.bootstrap_servers, where, beat.key(), beat.value(), timestamp_ms)

    def _write(self, bootstrap: str, topic: str, key: bytes, value: bytes, timestamp_ms: int = 0) -> None:
        with suppress(MmtoolError):  # it is there already
            create_topic(bootstrap, topic, 1, 1, **_COMPACTED)
        record = PlainRecord(0, timestamp_ms or int(time.time() * 1000), key, value)
        append_batches(bootstrap, topic, 0, [batch_of([record])])
