"""Read what MirrorMaker 2 has stored about a flow: its progress, its offset syncs and its checkpoints."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from mmtool.config import ClusterSettings, FlowSettings
from mmtool.config.aliases import positions_topics
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.ports import Mm2State, StoredCheckpoint, StoredCheckpoints
from mmtool.kafka.state.log_reader import LogRecord, StoredTopic, read_log
from mmtool.translation.connect_offsets import SourcePosition, decode_position
from mmtool.translation.mm2_records import Checkpoint, OffsetSync, decode_checkpoint, decode_offset_sync
from mmtool.translation.sync_map import OffsetPair, SyncMap
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

_POSITIONS_SECONDS = 30.0


def syncs_place(flow: FlowSettings) -> tuple[ClusterSettings, str]:
    """The cluster and the topic of a flow's offset syncs, by ``offset-syncs.topic.location``."""
    here = flow.target if flow.offset_syncs_location == "target" else flow.source
    return here, flow.offset_syncs_topic


def read_positions(flow: FlowSettings) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """Read the last replicated offset of each partition, as MM2 stored it, from each topic with such positions.

    A topic of a guessed name without READ is skipped: a broker denies topics that do not exist as well. Records that
    cannot be read are skipped: the partition then has the earlier position, or none. So are those of aborted
    transactions: with ``exactly.once.source.support`` positions are written in the transaction of their records.

    The topic's name has the alias of the properties file; its keys have the alias that is in topic names.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`, of the likeliest topic.
    """
    likeliest, *guessed = positions_topics(flow)
    found = {likeliest: _read_positions(flow, likeliest)}
    for topic in guessed:
        with suppress(NotAuthorisedError):
            found[topic] = _read_positions(flow, topic)
    return {topic: positions for topic, positions in found.items() if positions}


def _read_positions(flow: FlowSettings, topic: str) -> dict[TopicPartition, UpstreamOffset]:
    found: dict[TopicPartition, UpstreamOffset] = {}
    for record in read_log(flow.target, topic, committed=True):
        position = decode_position(
            record.key,
            record.value,
            flow.source.alias,
            flow.target.alias,
            cluster=flow.topic_aliases.source,
        )
        if not isinstance(position, SourcePosition):
            continue
        if position.last is UNKNOWN:
            found.pop(position.topic_partition, None)
        else:
            found[position.topic_partition] = position.last
    return found


def read_syncs(flow: FlowSettings) -> dict[TopicPartition, OffsetSync]:
    """Read MM2's last offset sync of each source partition; mmtool's own syncs are skipped.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    records = (record for record in read_log(*syncs_place(flow)) if not record.is_ours)
    syncs = (decode_offset_sync(record.key, record.value) for record in records)
    return {sync.topic_partition: sync for sync in syncs if isinstance(sync, OffsetSync)}


def latest_positions(flow: FlowSettings) -> dict[TopicPartition, UpstreamOffset]:
    """Read the last replicated offset of each partition, as `read_positions`, the highest of all topics.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_positions`.
    """
    found: dict[TopicPartition, UpstreamOffset] = {}
    for positions in read_positions(flow).values():
        for place, last in positions.items():
            found[place] = max(last, found.get(place, last))
    return found


class FollowedMirrorMaker:
    """MM2's stored state of a flow, for repeated reads.

    Of offset syncs only what is new is read. Positions, which Connect stores once a minute, are read each half minute.

    Args:
        flow: Which flow.
        clock: Seconds that only go forward.
    """

    def __init__(self, flow: FlowSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._flow = flow
        self._clock = clock
        self._syncs: dict[TopicPartition, OffsetSync] = {}
        cluster, self._topic = syncs_place(flow)
        self._stored = StoredTopic(cluster)
        self._positions: dict[TopicPartition, UpstreamOffset] = {}
        self._read_at = float("-inf")

    def syncs(self) -> dict[TopicPartition, OffsetSync]:
        """MM2's last offset sync of each source partition, with new records read first; empty without READ."""
        with suppress(NotAuthorisedError):
            for record in self._stored.follow(self._topic, self._syncs.clear):
                sync = None if record.is_ours else decode_offset_sync(record.key, record.value)
                if isinstance(sync, OffsetSync):
                    self._syncs[sync.topic_partition] = sync
            self._stored.taken()
        return self._syncs

    def positions(self) -> dict[TopicPartition, UpstreamOffset]:
        """The last replicated offset of each partition, as MM2 stored it, read at most 30 s ago; empty without READ."""
        if self._clock() - self._read_at > _POSITIONS_SECONDS:
            with suppress(NotAuthorisedError):
                self._positions = latest_positions(self._flow)
            self._read_at = self._clock()
        return self._positions


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
        read = read_log(self._flow.target, self._flow.checkpoints_topic)
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
        records = read_log(self._flow.target, self._flow.checkpoints_topic)
        for last, record in self._checkpoints(records, unreadable):
            pair = OffsetPair(last.upstream, last.downstream, record.timestamp_ms)
            at = source_partition(self._flow, last.topic_partition)
            found[last.group][at] = StoredCheckpoint(pair, last.metadata, record.is_ours)
        return StoredCheckpoints(dict(found), dict(unreadable))

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
                unreadable[self._flow.checkpoints_topic] += 1


def source_partition(flow: FlowSettings, remote: TopicPartition) -> TopicPartition:
    """The source partition of a mirror's partition; the same one where no source topic has such a mirror."""
    return remote._replace(topic=flow.source_topic(remote.topic) or remote.topic)
