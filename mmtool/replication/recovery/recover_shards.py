"""Recover every partition of the shards in doubt from its target log, and count the foreign records found there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.kafka.errors import NO_LEADER
from mmtool.kafka.state.claims import all_or_none
from mmtool.kafka.state.flow_state import count_unbooked
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import ConnectionLostError, retrying
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.kafka.wire.scan import list_offsets, log_bounds
from mmtool.plan.records.identity import shard_of
from mmtool.plan.topics.facts import BEGIN_AGAIN, HaltReason
from mmtool.plan.words import flow_options
from mmtool.replication.control.control_follower import position_by_books
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.recovery.mirror_log import DivergedError, MirrorLog
from mmtool.replication.recovery.recover_partition import GoneError, SourceAwayError, Upstream, resume
from mmtool.replication.same_offsets.fills import replicated_ends
from mmtool.replication.topics.origins import Origins
from mmtool.replication.topics.presence import gone_for_good
from mmtool.runtime.threads import in_thread
from mmtool.translation.answers import TargetLog
from mmtool.translation.blocks import WriterState
from mmtool.translation.types import UNKNOWN, DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from mmtool.kafka.state.claims import Claim
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.replication.driver.context import FlowContext, OwnedState, Place
    from mmtool.replication.recovery.recover_partition import Resumed
    from mmtool.translation.blocks import Block
    from mmtool.translation.types import TopicId, TopicPartition, Unknown


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
    source = Upstream(flow.source, flow.settings.reads_committed, origins, until=until, same=same)
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
    for shard, blocks in await all_or_none([one(*item) for item in doubtful.items()]):
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
