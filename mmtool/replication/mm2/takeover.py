"""Take a flow over from MirrorMaker 2: wait until it stops, and continue without copying a record twice."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.batches import BatchError, Comparison, raw_records, same_records
from mmtool.kafka.errors import BOTH_AWAY
from mmtool.kafka.mirror_maker import read_positions, read_syncs, syncs_place
from mmtool.kafka.wire.cluster import ConnectionLostError, UnreadableLogError, remedy_after
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import AtMost, list_offsets, log_bounds, read_range
from mmtool.plan.flow.mirror_maker import Cut, Traces, cut_of
from mmtool.plan.records.identity import shard_of
from mmtool.plan.words import counted, named_topics
from mmtool.replication.mm2.guard import MirrorMakerGuard
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.recovery.recover_partition import Upstream, surviving
from mmtool.replication.topics.start_offsets import partition_of
from mmtool.runtime.threads import in_thread
from mmtool.transforms.source import UnmadeError
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.blocks import Block, MirroredPartition, MirrorStart, WriterState
from mmtool.translation.names import DefaultPolicy
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mmtool.replication.driver.context import FlowContext, OwnedState
    from mmtool.replication.topics.mirror_topics import MirroredTopic
    from mmtool.translation.mm2_records import OffsetSync

    Place = tuple[MirroredTopic, int]
    Begun = list[tuple[MirroredTopic, int, Block]]


_LONGEST_TAIL = 200_000  # records that are held in memory to be compared


class ContradictionError(Exception):
    """The two records that a sync says are the same differ; the message names both."""


async def mm2_stop_point(
    flow: FlowContext, about: MirroredPartition, traces: Traces
) -> UpstreamOffset | Unknown:
    """The source offset after the target's last record; UNKNOWN where the records do not show it.

    Compares all records from the last sync on, the sync's own included; if that is inconclusive, whether the target's
    last record is the last one that MM2 says it replicated.

    Raises:
        ContradictionError: the sync belongs to other logs than the present ones.
        UnreachableError: a log cannot be read now.
    """
    sync, end = traces.sync, traces.target.log_end
    compared = [] if sync is UNKNOWN else await _compared(flow, about, sync.upstream, sync.downstream, traces)
    complete = next((found for found in compared if found.is_complete), None)
    if complete is None and sync is not UNKNOWN:
        both = sync.upstream, sync.downstream  # whose records exist, and differ from each other
        differences = [found.difference for found in compared]
        if compared and all(d and (d.upstream_offset, d.downstream_offset) == both for d in differences):
            raise ContradictionError(
                f"MirrorMaker 2 stored source offset {sync.upstream} with target offset {sync.downstream}, but the"
                " records at these offsets differ: one of the topics was recreated"
            )
    if complete is None and traces.last is not UNKNOWN:
        compared = await _compared(flow, about, traces.last, DownstreamOffset(end - 1), traces)
        complete = next((found for found in compared if found.is_complete), None)
    return UNKNOWN if complete is None else complete.upstream_end


async def _compared(
    flow: FlowContext,
    about: MirroredPartition,
    upstream: UpstreamOffset,
    downstream: DownstreamOffset,
    traces: Traces,
) -> list[Comparison]:
    """Comparisons of both logs from a pair of offsets to the target's end; empty if nothing can be compared.

    MM2 reads uncommitted records unless it is configured otherwise: both readings of the source are tried.
    """
    transforms = flow.mm2_transforms
    try:
        end = traces.target.log_end
        if end - downstream > _LONGEST_TAIL:
            return []
        place = about.target_topic, about.target_topic_id, about.partition
        reading = read_range(flow.target, *place, downstream, end, read_committed=True)
        tail = [view async for view in reading]
        count = sum(record.offset >= downstream for view in tail for record in raw_records(view))
        if count == 0:
            return []
        comparisons = []
        version = transforms.version(about.source_topic)
        for committed in (False, True):
            source = Upstream(flow.source, committed, transforms=transforms)
            # a transaction that is open there ends what is committed before the log does
            stop = AtMost(traces.source.log_end)
            views = await surviving(source, about, upstream, count, stop, version)
            comparisons.append(same_records(views, upstream, tail, count, target_position=downstream))
    except (BatchError, UnreadableLogError, UnmadeError):
        return []
    except ConnectionLostError as lost:
        raise UnreachableError(f"{about.upstream}: {lost}", remedy=remedy_after(lost, BOTH_AWAY)) from lost
    finally:
        await transforms.close()
    return comparisons


_COMPARES_AT_ONCE = 8
_OPEN_TRANSACTION_SECONDS = 120
_NAMED = 10


@dataclass(slots=True)
class Mm2Takeover:
    """MM2's part in a flow that this process starts to run.

    Attributes:
        take_over: Wait for MM2 to stop, and continue where it stopped. Without it MM2 must not run, and the records
            that it copied are not taken into the offset runs.
        warnings: The list that collects sentences for the operator.
    """

    flow: FlowContext
    take_over: bool
    warnings: list[str]
    _guard: MirrorMakerGuard = field(init=False)
    _left: tuple[Mapping[TopicPartition, UpstreamOffset], Mapping[TopicPartition, OffsetSync]] | None = None
    _cuts: dict[TopicPartition, Cut] = field(default_factory=dict)
    _begun: bool = False
    _again: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._guard = MirrorMakerGuard(self.flow, self.warnings)

    async def check(self, say: Callable[[str], None]) -> None:
        """Refuse the flow if MM2 runs it, before anything is written; does nothing in a take-over.

        Raises:
            OwnedElsewhereError: MM2 runs the flow, and this is not a take-over.
        """
        if not self.take_over:
            await self._guard.refuse(say)

    def check_later(self, say: Callable[[str], None]) -> None:
        """Make `check_again` repeat the check, for a standby that claims the flow much later."""
        self._again = say

    async def check_again(self) -> None:
        """Repeat the check that `check_later` asked for, until it has passed once.

        Raises:
            OwnedElsewhereError, UnreachableError: as `MirrorMakerGuard.refuse`.
        """
        if self._again is not None:
            await self.check(self._again)
            self._again = None

    async def wait(self, say: Callable[[str], None]) -> None:
        """In a take-over, wait until MM2 has stopped; otherwise do nothing."""
        if self.take_over:
            await self._guard.wait_until_stopped(say)

    async def starts(self, unknown: Collection[Place]) -> dict[TopicPartition, MirrorStart]:
        """Start offsets, by source partition, at which partitions that mmtool never mirrored continue after MM2.

        Partitions without traces of MM2 are left out. Without a take-over all are, and a warning says which records are
        mirrored again.

        Args:
            unknown: Topics and partition numbers whose target topics exist.

        Raises:
            RefusedError: at a start, MM2's stored offsets contradict the logs.
            UnreachableError, NotAuthorisedError: a cluster does not answer, or denies access.
        """
        written = await self._written(unknown)
        if not self.take_over:
            await self._warn_of_repeats(written)
            return {}
        found = await self._cuts_of(written) if written else {}
        self._cuts |= found
        self._say_what_follows(found, len(unknown) - len(found))
        return {up: cut.start for up, cut in found.items()}

    async def record(self, standing: OwnedState, begun: Begun, shards: int) -> Begun:
        """Store the first blocks of a start that continue after MM2; returns the other first blocks.

        They are stored at once, before the first round: whatever happens to this process then, no record that MM2
        copied is copied again.
        """
        at_start, self._begun = not self._begun, True
        if not at_start or not self._cuts:
            return begun
        cuts = {(t.topic_id, p): block for t, p, block in begun if TopicPartition(t.name, p) in self._cuts}
        by_shard: dict[int, list[Block]] = defaultdict(list)
        for place, block in cuts.items():
            shard = standing.shards[shard_of(*place, shards)]
            recorder = MapRecorder.resume(block)
            recorder.claimed(WriterState(shard.producer_id, shard.epoch, 0))
            by_shard[shard.shard] += recorder.take()
        for number, blocks in by_shard.items():
            await store_owned(self.flow, standing, number, blocks)
            standing.blocks |= {(block.about.topic_id, block.about.partition): block for block in blocks}
        return [(t, p, block) for t, p, block in begun if (t.topic_id, p) not in cuts]

    # --- what MM2 left ------------------------------------------------------------------------------------

    async def _written(self, unknown: Collection[Place]) -> dict[TopicPartition, Place]:
        """The partitions whose target log holds, or has held, records, by source partition."""
        downs = {TopicPartition(t.target_name, p): (t, p) for t, p in unknown}
        ends = await list_offsets(self.flow.target, dict.fromkeys(downs, LATEST), read_committed=False)
        return {TopicPartition(t.name, p): (t, p) for down, (t, p) in downs.items() if ends.get(down, 0) > 0}

    async def _cuts_of(self, written: Mapping[TopicPartition, Place]) -> dict[TopicPartition, Cut]:
        settings = self.flow.settings
        if self._left is None:
            last: dict[TopicPartition, UpstreamOffset] = {}
            for of_topic in (
                await in_thread(read_positions, settings)
            ).values():  # the likeliest topic comes first
                last = {**of_topic, **last}
            self._left = last, await in_thread(read_syncs, settings)
        positions, syncs = self._left
        logs = await self._logs(written)
        traces = {
            up: Traces(positions.get(up, UNKNOWN), syncs.get(up, UNKNOWN), *of) for up, of in logs.items()
        }
        wrong = {up: why for up, of in traces.items() if (why := of.contradiction)}
        usable = {up: of for up, of in traces.items() if not of.is_empty and up not in wrong}
        limit = asyncio.Semaphore(_COMPARES_AT_ONCE)

        async def one(up: TopicPartition, of: Traces) -> Cut | None:
            async with limit:
                try:
                    return cut_of(
                        of, await mm2_stop_point(self.flow, partition_of(self.flow, *written[up]), of)
                    )
                except ContradictionError as error:
                    wrong[up] = str(error)
                    return None

        cuts = await asyncio.gather(*(one(*item) for item in usable.items()))
        self._refuse(wrong)
        return {up: cut for up, cut in zip(usable, cuts, strict=True) if cut is not None}

    async def _logs(
        self, written: Mapping[TopicPartition, Place]
    ) -> dict[TopicPartition, tuple[SourceLog, TargetLog]]:
        """The bounds of both logs of each partition, once no transaction is open on the target any more."""
        downs = {TopicPartition(t.target_name, p): up for up, (t, p) in written.items()}
        for _ in range(_OPEN_TRANSACTION_SECONDS):
            ends = await list_offsets(self.flow.target, dict.fromkeys(downs, LATEST), read_committed=False)
            stable = await list_offsets(self.flow.target, dict.fromkeys(downs, LATEST), read_committed=True)
            waiting = [down for down in downs if ends.get(down) != stable.get(down)]
            if not waiting:
                break
            await asyncio.sleep(1)
        else:
            raise RefusedError(
                f"{waiting[0]} on {self.flow.target.alias} has an open transaction, so mmtool cannot read what"
                " MirrorMaker 2 wrote last; nothing was mirrored",
                remedy="run the same command again when the transaction has ended: the coordinator aborts it after its"
                " producer's transaction.timeout.ms; if it stays open longer, abort it with `kafka-transactions.sh"
                " abort`",
                code="open_transaction",
            )
        starts = await list_offsets(self.flow.target, dict.fromkeys(downs, EARLIEST), read_committed=False)
        ups = await log_bounds(self.flow.source, written)
        return {
            up: (
                SourceLog(*map(UpstreamOffset, ups[up])),
                TargetLog(DownstreamOffset(starts[down]), DownstreamOffset(ends[down])),
            )
            for down, up in downs.items()
            if down in starts and up in ups
        }

    def _refuse(self, wrong: Mapping[TopicPartition, str]) -> None:
        """Refuse a take-over whose traces contradict the logs; after the start, warn and start them as new."""
        if not wrong:
            return
        first = min(wrong)
        topics, start = sorted({up.topic for up in wrong}), self.flow.settings.start_setting
        sentence = f"{first}: {wrong[first]}"
        if len(wrong) > 1:
            sentence = (
                f"what MirrorMaker 2 stored does not fit the logs of {len(wrong)} partitions"
                f" ({named_topics(topics, len(topics))}). {sentence}"
            )
        sentence = f"{self.flow.settings.name}: {sentence}"
        if self._begun:
            which = f"these {len(wrong)} partitions" if len(wrong) > 1 else "this partition"
            self.warnings.append(
                f"{sentence}; mmtool mirrors {which} from {start}, after the records that MirrorMaker 2 left"
            )
            return
        each = "for each of these topics, " if len(topics) > 1 else ""
        raise RefusedError(
            sentence,
            remedy=f"{each}delete {'its mirror' if each else f'the mirror of topic {first.topic}'} on"
            f" {self.flow.target.alias} (mmtool then mirrors the topic from {start}), or add the topic to"
            " topics.exclude; then run the same command again",
            code="contradiction",
        )

    # --- what is said -------------------------------------------------------------------------------------

    def _say_what_follows(self, found: Mapping[TopicPartition, Cut], others: int) -> None:
        name, start = self.flow.settings.name, self.flow.settings.start_setting
        go = "continues" if len(found) == 1 else "continue"
        parts = [f"{counted(len(found), 'partition')} {go} where MirrorMaker 2 stopped"] if found else []
        if others and not self._begun:
            them = "it" if others == 1 else "them"
            parts.append(
                f"MirrorMaker 2 stored no offset of {counted(others, 'partition')}: mmtool mirrors {them} from {start}"
            )
        if parts:
            self.warnings.append(f"{name}: {'; '.join(parts)}")
        unsure = {up: cut.repeats_max for up, cut in found.items() if cut.repeats_max != 0}
        for up, most in list(unsure.items())[:_NAMED]:
            bound = "records may" if most is UNKNOWN else f"up to {counted(most, 'record')} may"
            self.warnings.append(
                f"{name}: {up}: {bound} be on the target twice, because the target's log does not show where"
                f" MirrorMaker 2 stopped; nothing has to be done if consumers on {self.flow.settings.target.alias}"
                f" tolerate a record twice; {self._each_once('the mirror', {up.topic})} without --take-over"
            )
        if len(unsure) > _NAMED:
            self.warnings.append(
                f"{name}: records of {counted(len(unsure) - _NAMED, 'more partition')} may be on the target twice"
            )

    async def _warn_of_repeats(self, written: Collection[TopicPartition]) -> None:
        """Warn of records that are mirrored again although MM2 has mirrored them before.

        If reading MM2's topics is denied, they count as empty.
        """
        here = self.flow.settings
        written = [up for up in written if not here.keeps_offsets(up.topic)]  # those halt with the reason
        if not written:
            return
        traces: dict[str, Collection[TopicPartition]] = {}
        with suppress(NotAuthorisedError):
            traces |= await in_thread(read_positions, here)
        with suppress(NotAuthorisedError, UnreachableError):
            traces[syncs_place(here)[1]] = await in_thread(read_syncs, here)
        told = {where: {up for up in written if up in of} for where, of in traces.items()}
        topics = {up.topic for of in told.values() for up in of}
        if topics:
            where = ", ".join(where for where, of in told.items() if of)
            self.warnings.append(
                f"{here.name}: MirrorMaker 2 mirrored {named_topics(sorted(topics), 3)} earlier, and mmtool does not"
                f" use MirrorMaker 2's offsets ({where}): {self._what_follows()}. To continue where"
                f" MirrorMaker 2 stopped, stop `mmtool replicate`, run {self._forget(topics)}, and start"
                " `mmtool replicate` again with --take-over; records that mmtool has mirrored by"
                f" that time are then on {here.target.alias} twice"
            )
        others = {up.topic for up in written} - topics
        if (
            others
            and isinstance(here.policy, DefaultPolicy)
            and not here.keeps_names
            and not here.begins_again
        ):
            names = named_topics([here.remote_topic(topic) for topic in sorted(others)], 3)
            hold, them, these = (
                ("holds", "it", "this topic") if len(others) == 1 else ("hold", "them", "these topics")
            )
            self.warnings.append(
                f"{here.name}: {names} on {here.target.alias} already {hold} records, but neither mmtool nor"
                f" MirrorMaker 2 has stored offsets for {them}: {self._what_follows()};"
                f" {self._each_once(these, others)}"
            )

    def _what_follows(self) -> str:
        here = self.flow.settings
        if here.start == "latest":
            return (
                f"mirroring starts at {here.start_setting}, and records that the source has and"
                f" {here.target.alias} lacks are left out"
            )
        twice = f"{here.target.alias} then holds records twice"
        return f"mmtool mirrors from {here.start_setting}, and {twice}"

    def _each_once(self, mirrors: str, topics: Collection[str]) -> str:
        """How to mirror topics from their first record into empty mirrors, also where the flow starts later."""
        here = self.flow.settings
        first = "" if here.start == "earliest" else f", set {here.name}.mmtool.start = earliest"
        return (
            f"to have each record once, stop `mmtool replicate`, delete {mirrors} on {here.target.alias}, run"
            f" {self._forget(topics)}{first}, and start `mmtool replicate` again"
        )

    def _forget(self, topics: Collection[str]) -> str:
        """The command that makes the next start treat topics as never mirrored, for the first of them."""
        here, likewise = self.flow.settings, " (likewise for the others)" if len(topics) > 1 else ""
        return (
            f"`mmtool flow forget -c FILE -s {here.source.alias} -t {here.target.alias} --topic {min(topics)}"
            f" --execute`{likewise}"
        )
