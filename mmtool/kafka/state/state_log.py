"""Read a flow's stored state: claims, positions and control from one topic, offset runs from another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import RefusedError
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.log_reader import newest_records, read_log, unreadable
from mmtool.plan.flow.positions import PositionTrails
from mmtool.plan.records.documents import ProducerRecord, UnreadableDocumentError
from mmtool.plan.records.identity import PRODUCERS_TOPIC
from mmtool.translation.answers import Reason
from mmtool.translation.block_codec import decode_block, decode_key
from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.stored_runs import stored_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mmtool.config import ClusterSettings
    from mmtool.kafka.state.log_reader import LogRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.blocks import Block, BlockKey
    from mmtool.translation.types import DownstreamOffset, TopicId, UpstreamOffset

    Place = tuple[TopicId, int]


def read_control(
    cluster: ClusterSettings, identity: FlowIdentity, view: ControlView | None = None
) -> ControlView:
    """Read the control topic up to its present end; an empty view when the flow never ran.

    Args:
        cluster: The flow's target.
        identity: The flow.
        view: An earlier view: only later records are read, and applied to it; to a new one if the topic was recreated.

    Only the last value under a key counts, as compaction will have it: a busy flow writes thousands a second.

    Raises:
        RefusedError: a record cannot be read.
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    view = view or ControlView()
    end = view.end
    last: dict[bytes, LogRecord] = {}
    for record in read_log(cluster, identity.control_topic, start={0: end} if end else {}):
        if record.offset < end:  # the topic was recreated
            return read_control(cluster, identity, ControlView(trails=view.trails and PositionTrails()))
        if view.trails is not None:
            view.trails.note(record.key, record.value, record.timestamp_ms)
        last.pop(record.key, None)  # back in at the end: values are taken in in the order of the log
        last[record.key] = record
    for record in last.values():
        try:
            view.apply(record.key, record.value, record.offset)
        except UnreadableDocumentError as error:
            raise unreadable(
                f"{identity.control_topic} on {identity.target_alias}",
                record.partition,
                record.offset,
                str(error),
            ) from error
    return view


def read_control_of_run(cluster: ClusterSettings, identity: FlowIdentity, nothing_to: str) -> ControlView:
    """Read the control topic, as `read_control`, of a flow that must have run.

    Raises:
        RefusedError: the flow never ran (``nothing_to`` is the verb of the message); or as `read_control`.
    """
    control = read_control(cluster, identity)
    if control.flow is None:
        raise RefusedError(
            f"flow {identity.name} never ran: there is nothing to {nothing_to}",
            remedy="run `mmtool replicate -c FILE` first, or choose another flow with -s and -t",
            code=Reason.NEVER_RAN,
        )
    return control


def read_block_keys(cluster: ClusterSettings, identity: FlowIdentity) -> set[BlockKey]:
    """Read the keys of all stored blocks of offset runs.

    Raises:
        RefusedError: a key cannot be read.
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    keys: set[BlockKey] = set()
    for key, record in _with_keys(read_log(cluster, identity.runs_topic), identity):
        (keys.discard if record.value is None else keys.add)(key)
    return keys


def read_maps(cluster: ClusterSettings, identity: FlowIdentity) -> dict[Place, PartitionMap]:
    """Read every mirrored partition's map, by source topic id and partition.

    Raises:
        RefusedError: a block cannot be read, belongs to another flow, or contradicts another one.
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    return maps_of(read_log(cluster, identity.runs_topic), identity)


def maps_of(records: Iterable[LogRecord], identity: FlowIdentity) -> dict[Place, PartitionMap]:
    """Decode the offset-runs topic's records into every partition's map.

    Runs stay encoded: they are decoded where an offset is looked up.

    Raises:
        RefusedError: as `read_maps`.
    """
    blocks: dict[BlockKey, Block] = {}
    left = newest_records(records)
    while left:  # a record is let go once its block is taken
        take_block(blocks, left.pop(), identity, stored_block)
    return partition_maps(blocks.values(), identity)


def read_newest_blocks(
    cluster: ClusterSettings, identity: FlowIdentity, partitions: list[int] | None = None
) -> dict[Place, Block]:
    """Read the last block of each partition, which has its frontier; of other blocks nothing but the key is kept.

    Args:
        cluster: The flow's target.
        identity: The flow.
        partitions: Those of the offset-runs topic that are read; None for all.

    Raises:
        RefusedError: one of these blocks, or a key, cannot be read, or belongs to another flow.
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    newest, is_cut = _newest_of(read_log(cluster, identity.runs_topic, partitions), identity)
    if is_cut:  # which block is the last now, only all of them tell
        newest, _ = _newest_of(newest_records(read_log(cluster, identity.runs_topic, partitions)), identity)
    blocks: dict[BlockKey, Block] = {}
    for record in newest.values():
        take_block(blocks, record, identity)
    return {(key.topic_id, key.partition): block for key, block in blocks.items()}


def _newest_of(
    records: Iterable[LogRecord], identity: FlowIdentity
) -> tuple[dict[BlockKey, LogRecord], bool]:
    """The last block of each partition so far, and whether one was struck out that was the last."""
    last: dict[Place, BlockKey] = {}
    newest: dict[BlockKey, LogRecord] = {}
    is_cut = False
    for key, record in _with_keys(records, identity):
        place = (key.topic_id, key.partition)
        if record.value is None:
            is_cut |= newest.pop(key, None) is not None
        elif place not in last or key >= last[place]:
            newest.pop(last.get(place, key), None)
            last[place], newest[key] = key, record
    return newest, is_cut


class SealedBlock(NamedTuple):
    """A block that stays as it is, without its runs: no record of it is at or after these offsets."""

    key: BlockKey
    upstream_end: UpstreamOffset
    downstream_end: DownstreamOffset


def read_sealed_blocks(cluster: ClusterSettings, identity: FlowIdentity) -> dict[Place, list[SealedBlock]]:
    """Read all blocks that are sealed, of each partition in the order of its chain.

    Raises:
        RefusedError: a block or key cannot be read.
        UnreachableError, NotAuthorisedError: as ``read_log``.
    """
    sealed: dict[BlockKey, SealedBlock] = {}
    damaged: dict[BlockKey, LogRecord] = {}
    for key, record in _with_keys(read_log(cluster, identity.runs_topic), identity):
        sealed.pop(key, None)
        damaged.pop(key, None)
        if record.value is None:
            continue
        try:
            block = stored_block(record.value)
        except UnreadableStateError:
            damaged[key] = record  # refused unless another record of its key follows
            continue
        if block.sealed:
            end = block.tail.downstream_end.position
            sealed[key] = SealedBlock(key, block.tail.upstream_frontier, end)
    for record in damaged.values():
        take_block({}, record, identity, stored_block)
    chains: dict[Place, list[SealedBlock]] = {}
    for key in sorted(sealed):
        chains.setdefault((key.topic_id, key.partition), []).append(sealed[key])
    return chains


def _with_keys(records: Iterable[LogRecord], identity: FlowIdentity) -> Iterator[tuple[BlockKey, LogRecord]]:
    """Records with their decoded keys; at the end a stray record is refused, unless a tombstone followed it."""
    strays: dict[bytes, LogRecord] = {}
    for record in records:
        try:
            key = decode_key(record.key)
        except UnreadableStateError:
            strays[record.key] = record
        else:
            yield key, record
    for record in strays.values():
        _key_of(record, identity)


def _key_of(record: LogRecord, identity: FlowIdentity) -> BlockKey | None:
    """The key of a record of the offset-runs topic; None for a tombstone of a stray record, which was removed."""
    try:
        return decode_key(record.key)
    except UnreadableStateError as error:
        if record.value is None:
            return None
        raise _unreadable_run(identity, record, error.why) from error


def _unreadable_run(
    identity: FlowIdentity, record: LogRecord, why: str, remedy: str | None = None
) -> RefusedError:
    where = f"{identity.runs_topic} on {identity.target_alias}"
    return unreadable(where, record.partition, record.offset, why, remedy or _rebuild_runs(identity))


def _rebuild_runs(identity: FlowIdentity) -> str:
    """The remedy where a stored offset run cannot be read."""
    return (
        "if a newer mmtool release wrote the record, run that release; otherwise stop `mmtool replicate`, run `mmtool"
        f" flow rebuild {identity.options} --execute`, which derives the offset runs (the map of source offsets to"
        " target offsets) again from the topics of both clusters, and start `mmtool replicate`"
    )


def take_block(
    blocks: dict[BlockKey, Block],
    record: LogRecord,
    identity: FlowIdentity,
    decode: Callable[[bytes], Block] = decode_block,
) -> BlockKey | None:
    """Apply a record of the offset-runs topic to ``blocks``: add a block, or remove one; return its key.

    None for a tombstone under a key that is no block's: a stray record was removed.

    Raises:
        RefusedError: the block cannot be read, or belongs to another flow.
    """
    if (key := _key_of(record, identity)) is None:
        return None
    try:
        block = None if record.value is None else decode(record.value)
    except UnreadableStateError as error:
        raise _unreadable_run(identity, record, error.why) from error
    if block is None:
        blocks.pop(key, None)
    elif not block.belongs_to(identity.source_id, identity.target_id):
        why = f"it was written for other clusters than {identity.source_alias} and {identity.target_alias}"
        recreate = (  # a rebuild leaves records of other clusters in the topic
            f"stop `mmtool replicate`, delete topic {identity.runs_topic} on {identity.target_alias}, run `mmtool flow"
            f" rebuild {identity.options} --execute`, which recreates the topic and derives the offset runs again, and"
            " start `mmtool replicate`"
        )
        raise _unreadable_run(identity, record, why, recreate)
    elif block.key != key:
        raise _unreadable_run(identity, record, "the key of the record does not fit its value")
    else:
        blocks[key] = block
    return key


def partition_maps(blocks: Iterable[Block], identity: FlowIdentity) -> dict[Place, PartitionMap]:
    """Join blocks of a flow into every partition's map.

    Raises:
        RefusedError: blocks contradict each other.
    """
    grouped: dict[Place, list[Block]] = {}
    for block in blocks:
        grouped.setdefault((block.about.topic_id, block.about.partition), []).append(block)
    try:
        return {place: join_blocks(of) for place, of in grouped.items()}
    except UnreadableStateError as error:
        raise RefusedError(
            f"{error.what}: {error.why}",
            remedy=_rebuild_runs(identity),
            code="unreadable_state",
        ) from error


def read_producers(cluster: ClusterSettings) -> dict[int, ProducerRecord]:
    """Read every registered producer id of a target, with its flow.

    Raises:
        RefusedError: a registration cannot be read.
    """
    found = (registration(record.value, record.offset) for record in read_log(cluster, PRODUCERS_TOPIC))
    return {producer.producer_id: producer for producer in found if producer is not None}


def registration(value: bytes | None, offset: int) -> ProducerRecord | None:
    """Decode one record of the producers topic; None for a tombstone.

    Raises:
        RefusedError: a registration cannot be read.
    """
    if value is None:
        return None
    try:
        return ProducerRecord.decode(value)
    except UnreadableDocumentError as error:
        raise unreadable(PRODUCERS_TOPIC, 0, offset, str(error)) from error


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
        if record.value is None:
            continue
        try:
            key = decode_key(record.key)
        except UnreadableStateError:
            found.strays.setdefault(record.partition, []).append(record.key)
            continue
        place = (key.topic_id, key.partition)
        found.keys.setdefault(place, []).append(record.key)
        try:
            take_block(found.blocks, record, identity)
        except RefusedError as error:
            found.broken[place] = error.message
    grouped: dict[Place, list[Block]] = {}
    for key, block in sorted(found.blocks.items()):
        grouped.setdefault((key.topic_id, key.partition), []).append(block)
    for place, of in grouped.items():
        try:
            join_blocks(of)
        except UnreadableStateError as error:
            found.broken.setdefault(place, str(error))
    return found
