"""Claim a flow's shards, recover each partition's position, and record the claims on the control topic.

What a crash leaves at each step:
- before the claims are recorded: the shards still read as their last owner left them, and the next owner does
  the same again;
- after: they read as open, so the next owner fences and reads the target's log.
No record is mirrored before the claims are recorded and their producer ids are registered.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mmtool.errors import MmtoolError
from mmtool.kafka.errors import NO_LEADER
from mmtool.kafka.state.claims import Claim, all_or_none, take_shards
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.flow_state import count_unbooked, unbooked_of
from mmtool.kafka.state.state_log import read_control, read_newest_blocks, read_producers
from mmtool.kafka.wire.cluster import ConnectionLostError, retrying
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import active_producers_of_all, list_offsets, log_bounds
from mmtool.plan.records.documents import OffsetWritersRecord, PositionRecord, ProducerRecord, ShardRecord
from mmtool.plan.records.identity import PRODUCERS_TOPIC, runs_partition_of, shard_of
from mmtool.plan.topics.facts import BEGIN_AGAIN, HaltReason
from mmtool.plan.words import flow_options
from mmtool.replication.control.control_follower import position_by_books
from mmtool.replication.driver.context import FlowContext, OwnedState, Place
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.log_changes import target_cut
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.recovery.recover_partition import (
    DivergedError,
    GoneError,
    MirrorLog,
    Resumed,
    SourceAwayError,
    Upstream,
    resume,
)
from mmtool.replication.same_offsets.fills import offset_writers, replicated_ends
from mmtool.replication.spark.assignment import ShardAssignment
from mmtool.replication.topics.origins import Origins
from mmtool.replication.topics.presence import gone_for_good
from mmtool.runtime.threads import in_thread
from mmtool.translation.answers import TargetLog
from mmtool.translation.blocks import Block, WriterState
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, TopicPartition, Unknown


async def claim_and_recover(
    flow: FlowContext, shards: Collection[int], in_doubt: Collection[int], count: int, owner: str
) -> OwnedState:
    """Claim ``shards``, and fence and recover those ``in_doubt``; returns the owned state.

    Args:
        flow: The flow of the shards.
        shards: The shards to claim: all of them for an owner, a task's own for a task that starts again.
        in_doubt: Shards whose last owner may still write, or did not record where it stopped.
        count: How many shards the flow has.
        owner: The id of the owner, for the records.

    Raises:
        ClaimLostError: another process claimed a shard meanwhile.
        NotAuthorisedError, UnreachableError, RefusedError: a cluster refuses a request or does not answer, or stored
            state cannot be read.
    """
    ids = {shard: flow.identity.transactional_id(shard) for shard in shards}
    blocks = await _blocks(flow, shards, count)
    fenced = _writable(flow, blocks, in_doubt, count)
    unbooked = await ask_unbooked(flow, [b for p, b in blocks.items() if shard_of(*p, count) in in_doubt])
    claims = await take_shards(flow.target, ids, fenced)
    while in_doubt:
        # behind the fence: what the last owner stored meanwhile is read, and what it began meanwhile is fenced too
        blocks = await _blocks(flow, shards, count)
        begun = _writable(flow, blocks, in_doubt, count)
        if begun == fenced:
            break
        fenced, claims = begun, await take_shards(flow.target, ids, begun)
    writers = await offset_writers(flow)
    ours = await _register(flow, claims, writers)
    standing = OwnedState(_assignments(claims), blocks, offset_writers=writers)
    if in_doubt:
        await resume_all(flow, standing, claims, ours, in_doubt, count, unbooked)
    closed = {place: block for place, block in blocks.items() if shard_of(*place, count) not in in_doubt}
    shorter = set[int]()
    for place, reason in (await _cut(flow, closed)).items():
        if flow.settings.keeps_offsets(closed[place].about.source_topic):
            shorter.add(shard_of(*place, count))
        else:
            standing.halt(place, reason)
    if shorter:  # they may go on from there, which only their logs tell
        await resume_all(flow, standing, claims, ours, shorter, count, {})
    await _put_on_record(flow, claims, owner)
    return standing


async def claim_blindly(
    flow: FlowContext, in_doubt: Mapping[int, set[TopicPartition]], count: int, owner: str
) -> dict[int, ShardAssignment]:
    """Claim every shard without recovering any partition. Sequences start at 0 again.

    For a rebuild, because the stored offset runs cannot be read; and for an owner between two rounds, when nothing is
    in flight. Brokers forget a transactional id that was not used for a week: a flow that ran longer on one claim could
    not be fenced by its next owner, who would get another producer id.

    Args:
        flow: The flow of the shards.
        in_doubt: The shards whose last owner may still write, each with all target partitions to which it may.
        count: How many shards the flow has.
        owner: The id of the owner, for the records.
    """
    ids = {shard: flow.identity.transactional_id(shard) for shard in range(count)}
    runs = {s: {TopicPartition(flow.identity.runs_topic, runs_partition_of(s))} for s in in_doubt}
    claims = await take_shards(flow.target, ids, {s: of | runs[s] for s, of in in_doubt.items()})
    await _register(flow, claims)
    await _put_on_record(flow, claims, owner)
    return _assignments(claims)


async def _cut(flow: FlowContext, closed: Mapping[Place, Block]) -> dict[Place, HaltReason]:
    """The closed partitions whose target log has lost recorded records, each with the reason to halt it.

    Partitions in doubt are checked when they are recovered. Where foreign records have made the log grow again, the
    leader's producer state of the last writer shows the loss; brokers keep it for a day by default.
    """
    if not closed:
        return {}
    await flow.target.refresh({b.about.target_topic for b in closed.values()})
    led = {
        place: block
        for place, block in closed.items()
        if flow.target.leader(*block.about.downstream) is not None
        and flow.target.topic_id(block.about.target_topic) == block.about.target_topic_id
    }
    tps = [block.about.downstream for block in led.values()]
    ends, producers = await asyncio.gather(
        list_offsets(flow.target, dict.fromkeys(tps, LATEST), read_committed=False),
        active_producers_of_all(flow.target, tps, purpose="scan"),
    )
    cut: dict[Place, HaltReason] = {}
    for (place, block), tp in zip(led.items(), tps, strict=True):
        tail = block.tail
        end = min(tail.target_verified_end, ends.get(tp, tail.target_verified_end))
        left = UNKNOWN if tail.writer is UNKNOWN else unbooked_of(tail.writer, producers.get(tp, ()))
        if left is not UNKNOWN and left < 0:
            end = min(end, tail.downstream_end.position + left)
        if end < tail.target_verified_end:
            now = DownstreamOffset(end)
            cut[place] = target_cut(block.about, now, tail.target_verified_end, flow.identity.options)
    return cut


async def _put_on_record(flow: FlowContext, claims: Mapping[int, Claim], owner: str) -> None:
    records = [
        ShardRecord(shard, claim.producer_id, claim.epoch, open=True, owner=owner)
        for shard, claim in claims.items()
    ]
    await write_documents(flow, flow.identity.control_topic, records)


def doubtful(control: ControlView) -> set[int]:
    """Shards that the last owner did not close; a late record of an earlier owner closes none."""
    if control.flow is None or control.owner is None:
        return {shard for shard, record in control.shards.items() if record.open}
    last = control.owner.owner
    closed = {shard for shard, record in control.shards.items() if not record.open and record.owner == last}
    return set(range(control.flow.shards)) - closed


async def _blocks(flow: FlowContext, shards: Collection[int], count: int) -> dict[Place, Block]:
    partitions = sorted({runs_partition_of(shard) for shard in shards})
    stored = await in_thread(read_newest_blocks, flow.settings.target, flow.identity, partitions)
    return {place: block for place, block in stored.items() if shard_of(*place, count) in shards}


def _writable(
    flow: FlowContext, blocks: Mapping[Place, Block], in_doubt: Iterable[int], count: int
) -> dict[int, set[TopicPartition]]:
    """Target partitions to which a vanished owner may still append, by shard: mirrors, and offset runs.

    Mirrors with the source's own offsets are left out, whatever the flow's file says now: their producer is another one
    (`PartitionMirror`), and a fence is a marker, which would take the next record's offset.
    """
    fenced = {
        shard: {TopicPartition(flow.identity.runs_topic, runs_partition_of(shard))} for shard in in_doubt
    }
    for place, block in blocks.items():
        shard = shard_of(*place, count)
        keeps = flow.settings.keeps_offsets(block.about.source_topic) or block.tail.same_offsets
        if shard in fenced and not keeps:
            fenced[shard].add(block.about.downstream)
    return fenced


async def _register(
    flow: FlowContext, claims: Mapping[int, Claim], writers: OffsetWritersRecord | None = None
) -> frozenset[int]:
    """Register the producer ids on the target before their first batch; returns all ids of the flow."""
    known = await in_thread(read_producers, flow.settings.target)
    shards = {claim.producer_id: shard for shard, claim in claims.items()}
    if writers is not None:
        shards |= dict.fromkeys((writers.data_producer, writers.fill_producer), 0)
    whose = flow.identity.flow, flow.identity.source_id, flow.identity.target_id
    if missing := shards.keys() - known.keys():
        records = [ProducerRecord(number, *whose, shards[number]) for number in sorted(missing)]
        await write_documents(flow, PRODUCERS_TOPIC, records)
        known = await in_thread(read_producers, flow.settings.target)
    if not missing <= known.keys():
        raise MmtoolError(
            f"topic {PRODUCERS_TOPIC} on {flow.target.alias} lacks the producer ids that mmtool has just written to it;"
            " no record was mirrored",
            remedy=f"check that {PRODUCERS_TOPIC} has cleanup.policy=compact, then run the same command again",
        )
    return frozenset(
        number
        for number, one in known.items()
        if (one.flow, one.source_cluster_id, one.target_cluster_id) == whose
    )


def _assignments(claims: Mapping[int, Claim]) -> dict[int, ShardAssignment]:
    return {
        shard: ShardAssignment(shard, claim.producer_id, claim.epoch, runs_sequence=0)
        for shard, claim in claims.items()
    }


async def told_of_others(
    flow: FlowContext, blocks: Mapping[Place, Block], others: Mapping[Place, list[range]]
) -> dict[Place, PositionRecord]:
    """Add new foreign records to the positions on the control topic; returns the changed positions.

    Flows that keep topic names are left out: there other producers may write.

    Args:
        flow: The flow, whose shards are claimed.
        blocks: The last blocks, extended to all that the target holds.
        others: By partition, offsets of foreign records after the stored offset runs.

    Raises:
        UnreachableError, NotAuthorisedError, MmtoolError: the control topic cannot be read, or not be written.
    """
    found = {place: ranges for place, ranges in others.items() if ranges}
    if not found or flow.settings.keeps_names:
        return {}
    control = await in_thread(read_control, flow.settings.target, flow.identity)
    before = {place: control.written_position(*place) or position_by_books(blocks[place]) for place in found}
    told = {place: with_others(before[place], ranges) for place, ranges in found.items()}
    told = {place: position for place, position in told.items() if position != before[place]}
    await write_documents(flow, flow.identity.control_topic, told.values())
    return told


def with_others(position: PositionRecord, others: Iterable[range]) -> PositionRecord:
    """The position with its count of foreign records raised by those after its last counted offset."""
    counted, end = position.foreign, position.foreign_end
    for one in others:
        counted += max(one.stop - max(one.start, end), 0)
        end = max(end, one.stop)
    return replace(position, foreign=counted, foreign_end=end)


_RESUMES_AT_ONCE = 8
_LEADER_SECONDS = 60.0
"""Long enough for a new leader to be elected if the old one died with the last owner."""
_SOURCE_SECONDS = 15.0
"""The total wait for source partitions without a leader, so that the other partitions continue."""
COMPARED_LATER = (
    "mmtool continues the partition by itself when it can read the source partition again: restart nothing"
)


async def ask_unbooked(flow: FlowContext, blocks: Collection[Block]) -> dict[TopicPartition, int | Unknown]:
    """The leader's count of unrecorded records, for partitions whose log start has passed the stored runs."""
    ends = {b.about.downstream: b for b in blocks}
    starts = await list_offsets(flow.target, dict.fromkeys(ends, EARLIEST), read_committed=False)
    return {
        tp: await count_unbooked(flow.target, block)
        for tp, block in ends.items()
        if starts.get(tp, 0) > block.tail.target_verified_end
    }


async def resume_all(
    flow: FlowContext,
    standing: OwnedState,
    claims: Mapping[int, Claim],
    ours: Container[int],
    in_doubt: Collection[int],
    count: int,
    unbooked: Mapping[TopicPartition, int | Unknown],
) -> None:
    """Extend and store the offset runs of every partition in doubt, up to the end of its target log.

    A failed read is repeated here: a restart of the recovery would leave another marker in every mirror. A source
    partition whose leader stays unavailable while other brokers of its cluster answer is deferred.
    """
    doubtful = {p: b for p, b in standing.blocks.items() if shard_of(*p, count) in in_doubt}
    abouts = [block.about for block in doubtful.values()]
    gone = await gone_for_good(flow.target, {(a.target_topic, a.target_topic_id) for a in abouts})
    bounds = await _bounds(flow, doubtful.values())
    await flow.source.refresh({a.source_topic for a in abouts})
    origins = Origins.of(flow.settings, flow.identity, flow.source, was_seen=flow.shows_register)
    until = asyncio.get_running_loop().time() + _SOURCE_SECONDS
    same = flow.settings.offsets == "same"
    transforms = flow.transforms
    source = Upstream(
        flow.source, flow.settings.reads_committed, origins, until=until, same=same, transforms=transforms
    )
    recovery = _Recovery(flow, source, ours, unbooked, gone, bounds)

    others: dict[Place, list[range]] = {}

    async def one(place: Place, block: Block) -> tuple[int, list[Block]]:
        shard = shard_of(*place, count)
        try:
            recorder, others[place] = await recovery.resumed(block)
        except GoneError as error:
            standing.halted[place] = error.reason
        except DivergedError as error:
            standing.halt(place, error.reason)
        except _PutOffError as error:
            standing.put_off(place, HaltReason(str(error), COMPARED_LATER))
        else:
            if not flow.settings.keeps_offsets(block.about.source_topic):
                recorder.claimed(WriterState(claims[shard].producer_id, claims[shard].epoch, 0))
            return shard, recorder.take()
        return shard, []

    changed: dict[int, list[Block]] = defaultdict(list)
    try:
        resumed = await all_or_none([one(*item) for item in doubtful.items()])
    finally:
        await transforms.close()
    for shard, blocks in resumed:
        changed[shard] += blocks
        for block in blocks:
            standing.blocks[block.about.topic_id, block.about.partition] = block
    standing.others = await told_of_others(flow, standing.blocks, others)
    for shard, blocks in changed.items():
        await store_owned(flow, standing, shard, blocks)


class _PutOffError(Exception):
    """The message says what cannot be read."""


@dataclass(frozen=True, slots=True)
class _Recovery:
    """What the partitions in doubt have in common."""

    flow: FlowContext
    source: Upstream
    ours: Container[int]
    unbooked: Mapping[TopicPartition, int | Unknown]
    gone: Collection[tuple[str, TopicId]]
    bounds: dict[TopicPartition, tuple[int, int]]
    limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_RESUMES_AT_ONCE))

    async def resumed(self, block: Block) -> Resumed:
        """The result of `resume`, repeated while brokers do not answer.

        Raises:
            DivergedError, GoneError: as `resume`.
            _PutOffError: the source's partition had no leader for too long.
            UnreachableError: something else did not answer.
        """
        tp = block.about.downstream

        async def attempt() -> tuple[int, Resumed]:
            try:
                return Code.NONE, await self._resumed_now(block)
            except ConnectionLostError as away:
                self.bounds.update(await _bounds(self.flow, [block]))
                await self.flow.source.refresh([block.about.source_topic])
                if (
                    isinstance(away, SourceAwayError)
                    and asyncio.get_running_loop().time() > self.source.until
                ):
                    raise _PutOffError(str(away)) from away
                raise

        async with self.limit:
            _, resumed = await retrying(
                attempt,
                what=f"reading the last records of target partition {tp}",
                alias=self.flow.target.alias,
                seconds=_LEADER_SECONDS,
            )
        return resumed  # type: ignore[no-any-return]  # what `attempt` gave

    async def _resumed_now(self, block: Block) -> Resumed:
        tp, target, known = block.about.downstream, self.flow.target, block.about.target_topic_id
        bounds, topic_id = self.bounds.pop(tp, None), target.topic_id(tp.topic)
        if (tp.topic, known) in self.gone:
            what = "was deleted" if topic_id is None else "was deleted and created again"
            raise GoneError(HaltReason(f"target topic {tp.topic} {what}", BEGIN_AGAIN))
        if topic_id is None or known not in (topic_id, tp.topic):
            what = "does not list" if topic_id is None else "reports another topic id for"
            raise ConnectionLostError(
                f"{target.alias} {what} topic {tp.topic}", name_of(Code.UNKNOWN_TOPIC_OR_PARTITION)
            )
        if bounds is None:
            raise ConnectionLostError(f"{target.alias} reports no log end of {tp}", NO_LEADER)
        log = TargetLog(*map(DownstreamOffset, bounds))
        options = flow_options(self.flow.source.alias, target.alias)
        mirror = MirrorLog(target, block.about, topic_id, log, self.ours, options)
        unbooked, same = self.unbooked.get(tp, UNKNOWN), _kept(self.flow, block)
        return await resume(self.source, mirror, block, unbooked=unbooked, same=same)


async def _bounds(flow: FlowContext, blocks: Collection[Block]) -> dict[TopicPartition, tuple[int, int]]:
    """The bounds of the target's logs; without those of mirrors that keep offsets and are not replicated."""
    bounds = await log_bounds(flow.target, [b.about.downstream for b in blocks])
    kept = {b.about.downstream for b in blocks if _kept(flow, b)} & bounds.keys()
    ends = await replicated_ends(flow.target, kept)
    return {
        place: (start, ends.get(place, end))
        for place, (start, end) in bounds.items()
        if place in ends or place not in kept
    }


def _kept(flow: FlowContext, block: Block) -> bool:
    return flow.settings.keeps_offsets(block.about.source_topic)
