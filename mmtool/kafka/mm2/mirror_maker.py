"""Read what MirrorMaker 2 has stored about a flow: its progress, and its offset syncs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.config.mm2_names import positions_topics
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.state.log_reader import read_log
from mmtool.translation.connect_offsets import SourcePosition, decode_position
from mmtool.translation.known import UNKNOWN
from mmtool.translation.mm2_records import OffsetSync, decode_offset_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.translation.types import TopicPartition, UpstreamOffset


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
        self._next: dict[int, int] = {}
        self._positions: dict[TopicPartition, UpstreamOffset] = {}
        self._read_at = float("-inf")

    def syncs(self) -> dict[TopicPartition, OffsetSync]:
        """MM2's last offset sync of each source partition, with new records read first; empty without READ."""
        with suppress(NotAuthorisedError):
            for record in read_log(*syncs_place(self._flow), start=self._next):
                self._next[record.partition] = record.offset + 1
                sync = None if record.is_ours else decode_offset_sync(record.key, record.value)
                if isinstance(sync, OffsetSync):
                    self._syncs[sync.topic_partition] = sync
        return self._syncs

    def positions(self) -> dict[TopicPartition, UpstreamOffset]:
        """The last replicated offset of each partition, as MM2 stored it, read at most 30 s ago; empty without READ."""
        if self._clock() - self._read_at > _POSITIONS_SECONDS:
            with suppress(NotAuthorisedError):
                self._positions = latest_positions(self._flow)
            self._read_at = self._clock()
        return self._positions
