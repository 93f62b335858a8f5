"""Read what MirrorMaker 2 has stored about a flow: its progress, and its offset syncs."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.state.log_reader import read_log
from mmtool.translation.connect_offsets import SourcePosition, decode_position
from mmtool.translation.known import UNKNOWN
from mmtool.translation.mm2_records import OffsetSync, decode_offset_sync
from mmtool.translation.names import topic_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.translation.types import TopicPartition, UpstreamOffset


STRIMZI_GROUP = "mirrormaker2-cluster"
"""The group of the Connect workers that Strimzi's operator runs for a KafkaMirrorMaker2 resource, by its default."""

STRIMZI_POSITIONS = "mirrormaker2-cluster-offsets"
"""Where these keep their positions."""

_POSITIONS_SECONDS = 30.0


def positions_topics(flow: FlowSettings) -> list[str]:
    """Where Connect may keep MM2's positions of a flow, on the target; the likeliest first.

    The file's own name, dedicated MM2's (whose dots follow no separator: MirrorMakerConfig), and Strimzi's.
    """
    own = [] if flow.mm2_offsets_topic is None else [flow.mm2_offsets_topic]
    return list(dict.fromkeys([*own, positions_topic(flow.source.alias), STRIMZI_POSITIONS]))


def positions_topic(source_alias: str) -> str:
    """Where dedicated MM2 keeps them when its file says nothing."""
    return f"mm2-offsets.{topic_part(source_alias)}.internal"


def workers_groups(flow: FlowSettings) -> list[str]:
    """The groups that MM2's workers for a flow may be members of, on its target; the likeliest first.

    The file's own name, dedicated MM2's (`MirrorMakerConfig.workerConfig`), the same by the alias of the target,
    as the other site's file may call this cluster's source, and Strimzi's.
    """
    own = [] if flow.mm2_group is None else [flow.mm2_group]
    names = [f"{flow.source.alias}-mm2", f"{flow.target.alias}-mm2", STRIMZI_GROUP]
    return list(dict.fromkeys([*own, *names]))


def syncs_place(flow: FlowSettings) -> tuple[ClusterSettings, str]:
    """The cluster and the topic of a flow's offset syncs, by ``offset-syncs.topic.location``."""
    here = flow.target if flow.offset_syncs_location == "target" else flow.source
    return here, flow.offset_syncs_topic


def read_positions(flow: FlowSettings) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
    """The last replicated record of each partition, by MM2's own account, in each topic that holds any.

    A topic of a guessed name that may not be read is passed over: a broker denies what is not there as well.
    Records that cannot be read are passed over: the partition then has the position before, or none. So are those of a
    transaction that was aborted: with ``exactly.once.source.support`` positions are written in the transaction of the
    records that they are about.

    The topic is named by the file's alias; its keys hold the alias by which topics are named.

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
    """The last offset sync of MM2's for each partition, by its name on the source; mmtool's own are passed over.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    records = (record for record in read_log(*syncs_place(flow)) if not record.is_ours)
    syncs = (decode_offset_sync(record.key, record.value) for record in records)
    return {sync.topic_partition: sync for sync in syncs if isinstance(sync, OffsetSync)}


def latest_positions(flow: FlowSettings) -> dict[TopicPartition, UpstreamOffset]:
    """`read_positions` of all topics together: of several positions of a partition the furthest counts.

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
        """The newest of each partition, by its name on the source; none where they may not be read."""
        with suppress(NotAuthorisedError):
            for record in read_log(*syncs_place(self._flow), start=self._next):
                self._next[record.partition] = record.offset + 1
                sync = None if record.is_ours else decode_offset_sync(record.key, record.value)
                if isinstance(sync, OffsetSync):
                    self._syncs[sync.topic_partition] = sync
        return self._syncs

    def positions(self) -> dict[TopicPartition, UpstreamOffset]:
        """The last copied record of each partition, by MM2's own account; none where it may not be read."""
        if self._clock() - self._read_at > _POSITIONS_SECONDS:
            with suppress(NotAuthorisedError):
                self._positions = latest_positions(self._flow)
            self._read_at = self._clock()
        return self._positions
