"""Read MirrorMaker 2's offset-syncs and checkpoints topics of a flow as a whole.

Records that mmtool wrote there itself are skipped: its stored state has more of them, or they were forgotten by
command.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from mmtool.kafka.mm2.mirror_maker import syncs_place
from mmtool.kafka.ports import Mm2State, StoredCheckpoint, StoredCheckpoints
from mmtool.kafka.state.log_reader import read_log
from mmtool.translation.mm2_records import Checkpoint, OffsetSync, decode_checkpoint, decode_offset_sync
from mmtool.translation.sync_map import OffsetPair, SyncMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.config import FlowSettings
    from mmtool.kafka.state.log_reader import LogRecord
    from mmtool.translation.types import TopicPartition


class Mm2Topics:
    """A `SyncedPort`.

    Args:
        flow: Of which flow.
        target_only: The source is not to be asked: offset syncs that are kept there tell nothing.
    """

    def __init__(self, flow: FlowSettings, *, target_only: bool = False) -> None:
        self._flow = flow
        self._target_only = target_only

    def synced(self) -> Mm2State:
        unreadable: Counter[str] = Counter()
        pairs: dict[TopicPartition, list[OffsetPair]] = defaultdict(list)
        from_start: dict[TopicPartition, bool] = {}
        for sync, at_ms, none_is_gone in self._syncs(unreadable):
            pairs[sync.topic_partition].append(OffsetPair(sync.upstream, sync.downstream, at_ms))
            from_start.setdefault(sync.topic_partition, none_is_gone and self._flow.start == "earliest")
        held: dict[TopicPartition, list[OffsetPair]] = defaultdict(list)
        read = read_log(self._flow.target, self._checkpoints_topic)
        records = (record for record in read if not record.is_ours)
        for last, record in self._checkpoints(records, unreadable):
            at = source_partition(self._flow, last.topic_partition)
            held[at].append(OffsetPair(last.upstream, last.downstream, record.timestamp_ms))
        once = self._flow.mm2_exactly_once
        found = {
            at: SyncMap.of(pairs[at], held[at], exactly_once=once, from_start=from_start.get(at, False))
            for at in {*pairs, *held}
        }
        newest = {at: of[-1] for at, of in pairs.items() if of}
        return Mm2State(
            {at: known for at, known in found.items() if known is not None}, dict(unreadable), newest
        )

    def checkpoints(self) -> StoredCheckpoints:
        found: dict[str, dict[TopicPartition, StoredCheckpoint]] = defaultdict(dict)
        unreadable: Counter[str] = Counter()
        records = read_log(self._flow.target, self._checkpoints_topic)
        for last, record in self._checkpoints(records, unreadable):
            pair = OffsetPair(last.upstream, last.downstream, record.timestamp_ms)
            at = source_partition(self._flow, last.topic_partition)
            found[last.group][at] = StoredCheckpoint(pair, last.metadata, record.is_ours)
        return StoredCheckpoints(dict(found), dict(unreadable))

    @property
    def _checkpoints_topic(self) -> str:
        return self._flow.checkpoints_topic

    def _syncs(self, unreadable: Counter[str]) -> Iterator[tuple[OffsetSync, int, bool]]:
        """Read MM2's offset syncs, each with its time, and whether no earlier record of the topic was removed."""
        cluster, topic = syncs_place(self._flow)
        if self._target_only and cluster is not self._flow.target:
            return
        for number, record in enumerate(read_log(cluster, topic)):
            if record.is_ours:
                continue
            sync = decode_offset_sync(record.key, record.value)
            if isinstance(sync, OffsetSync):
                yield sync, record.timestamp_ms, record.offset == number
            else:
                unreadable[topic] += 1

    def _checkpoints(
        self, records: Iterable[LogRecord], unreadable: Counter[str]
    ) -> Iterator[tuple[Checkpoint, LogRecord]]:
        for record in records:
            checkpoint = decode_checkpoint(record.key, record.value)
            if isinstance(checkpoint, Checkpoint):
                yield checkpoint, record
            else:
                unreadable[self._checkpoints_topic] += 1


def source_partition(flow: FlowSettings, remote: TopicPartition) -> TopicPartition:
    """The source partition of a mirror's partition; the same one where no source topic has such a mirror."""
    return remote._replace(topic=flow.source_topic(remote.topic) or remote.topic)
