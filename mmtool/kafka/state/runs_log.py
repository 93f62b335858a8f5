"""Read the offset-runs topic for ``flow rebuild``: damaged records are listed, not refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.kafka.state.log_reader import newest_records, read_log
from mmtool.kafka.state.state_log import take_block
from mmtool.translation.block_codec import decode_key
from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.partition_map import join_blocks

if TYPE_CHECKING:
    from mmtool.config import ClusterSettings
    from mmtool.kafka.state.log_reader import LogRecord
    from mmtool.kafka.state.state_log import Place
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.blocks import Block, BlockKey


@dataclass(slots=True)
class RunsLog:
    """The offset-runs topic as stored, damage included.

    Attributes:
        blocks: The readable blocks.
        keys: The record keys of a partition, readable or not, oldest block first.
        broken: Partitions whose map cannot be trusted, and why.
        strays: Record keys that are not mmtool's, by the topic's partition.
    """

    blocks: dict[BlockKey, Block] = field(default_factory=dict)
    keys: dict[Place, list[bytes]] = field(default_factory=dict)
    broken: dict[Place, str] = field(default_factory=dict)
    strays: dict[int, list[bytes]] = field(default_factory=dict)


def read_runs_log(cluster: ClusterSettings, identity: FlowIdentity) -> RunsLog:
    """Read the offset-runs topic for a repair: unreadable records are listed, not refused.

    Raises:
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    found = RunsLog()
    for record in newest_records(read_log(cluster, identity.runs_topic)):
        if record.value is not None:
            _take_whatever(found, record, identity)
    grouped: dict[Place, list[Block]] = {}
    for key, block in sorted(found.blocks.items()):
        grouped.setdefault((key.topic_id, key.partition), []).append(block)
    for place, of in grouped.items():
        try:
            join_blocks(of)
        except UnreadableStateError as error:
            found.broken.setdefault(place, str(error))
    return found


def _take_whatever(found: RunsLog, record: LogRecord, identity: FlowIdentity) -> None:
    try:
        key = decode_key(record.key)
    except UnreadableStateError:
        found.strays.setdefault(record.partition, []).append(record.key)
        return
    place = (key.topic_id, key.partition)
    found.keys.setdefault(place, []).append(record.key)
    try:
        take_block(found.blocks, record, identity)
    except RefusedError as error:
        found.broken[place] = error.message
