"""What MirrorMaker 2 has stored about a flow: how far it is, and which record went where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.log_reader import read_log
from mmtool.translation.connect_offsets import SourcePosition, decode_position
from mmtool.translation.known import UNKNOWN
from mmtool.translation.mm2_records import OffsetSync, decode_offset_sync

if TYPE_CHECKING:
    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.translation.types import TopicPartition, UpstreamOffset


def positions_topic(source_alias: str) -> str:
    """Where Connect keeps MM2's positions, on the target; its dots follow no separator (MirrorMakerConfig)."""
    return f"mm2-offsets.{source_alias}.internal"


def workers_group(source_alias: str) -> str:
    """The group of dedicated MM2's workers for a flow, on its target (MirrorMakerConfig)."""
    return f"{source_alias}-mm2"


def syncs_place(flow: FlowSettings) -> tuple[ClusterSettings, str]:
    """The cluster and the topic of a flow's offset syncs, by ``offset-syncs.topic.location``."""
    here = flow.target if flow.offset_syncs_location == "target" else flow.source
    return here, flow.offset_syncs_topic


def read_positions(flow: FlowSettings) -> dict[TopicPartition, UpstreamOffset]:
    """The last replicated record of each partition, by MM2's own account; empty where it has none.

    Records that cannot be read are passed over: the partition then has the position before, or none. So are those of a
    transaction that was aborted: with ``exactly.once.source.support`` positions are written in the transaction of the
    records that they are about.

    The topic is named by the file's alias; its keys hold the alias by which topics are named.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    found: dict[TopicPartition, UpstreamOffset] = {}
    for record in read_log(flow.target, positions_topic(flow.source.alias), committed=True):
        position = decode_position(record.key, record.value, flow.topic_aliases.source)
        if not isinstance(position, SourcePosition):
            continue
        if position.last is UNKNOWN:
            found.pop(position.topic_partition, None)
        else:
            found[position.topic_partition] = position.last
    return found


def read_syncs(flow: FlowSettings) -> dict[TopicPartition, OffsetSync]:
    """The last offset sync of each partition, by its name on the source.

    Raises:
        UnreachableError, NotAuthorisedError: as `read_log`.
    """
    syncs = (decode_offset_sync(record.key, record.value) for record in read_log(*syncs_place(flow)))
    return {sync.topic_partition: sync for sync in syncs if isinstance(sync, OffsetSync)}
