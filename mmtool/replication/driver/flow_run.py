"""One flow in the process that owns it: acquisition, planning of each round, and a clean close."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from mmtool.config import FlowSettings
from mmtool.config.aliases import may_meet
from mmtool.errors import RefusedError, UnreachableError
from mmtool.events import Event, flow_notice
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.flow.phases import FlowPhase, FlowTransition
from mmtool.plan.flow.slots import ShardLoad, SlotsRecord
from mmtool.plan.records.documents import Command, ControlRecord, PositionRecord, State
from mmtool.plan.records.holds import Holds
from mmtool.plan.records.identity import shard_of
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.topics.disappearance import StoredPartition
from mmtool.plan.topics.facts import HaltReason
from mmtool.plan.words import counted
from mmtool.replication.control.control_follower import (
    ControlFollower,
    booked_position,
    tally_of_all,
    waiting,
)
from mmtool.replication.driver.context import FlowContext, OwnedState, Place
from mmtool.replication.mm2.takeover import Mm2Takeover
from mmtool.replication.ownership.checks import (
    OwnTopics,
    check_identity,
    check_stored,
    own_topic_id,
    refuse_lost_runs,
    refuse_own_runs,
)
from mmtool.replication.ownership.claim_and_recover import claim_and_recover, claim_blindly, doubtful
from mmtool.replication.ownership.internal_topics import (
    Refusals,
    closed_records,
    flow_record,
    make_internal_topics,
    owner_record,
    write_documents,
)
from mmtool.replication.ownership.old_runs import old_runs
from mmtool.replication.ownership.ownership import FlowLife, Ownership
from mmtool.replication.pump.state_writer import store_owned
from mmtool.replication.same_offsets.prefill import Prefills
from mmtool.replication.same_offsets.refusals import check_prefill, check_right, refuse_topics_of_mm2
from mmtool.replication.spark.assignment import (
    NOTHING_YET,
    FlowAssignment,
    PartitionAssignment,
    ReportRow,
    Tally,
)
from mmtool.replication.topics.mirror_topics import (
    ConfigNotices,
    MirroredTopic,
    MirrorTopics,
    TopicsView,
    forget_deleted,
    refuse_recreated,
    refuse_unfinished,
    source_ends,
)
from mmtool.replication.topics.start_offsets import FirstSizes, LeaderCheck, first_blocks, refused_times
from mmtool.runtime.threads import in_thread
from mmtool.transforms.shipment import Shipment
from mmtool.translation.block_codec import decode_block
from mmtool.translation.blocks import Block, BlockKey
from mmtool.translation.types import TopicId

_DAY_SECONDS = 86_400.0
_SECOND_ROUND_SECONDS = 10.0


class FlowRun:
    """The driver's state of one flow, and the operations on it.

    Attributes:
        beside: The flows that this process runs, this one among them.
        watch: The positions that this owner's workers write.
        halted: Partitions that are halted, and why.
        slots: The Spark slots of the running round.
        warnings: Sentences for the operator; each is reported once.
        config_notices: The configs that the target refuses and that were already reported.
        life: The flow's phase in this process.
        goal: The source offsets at which a run that is not endless may stop.
        prefills: Partitions whose target logs are being filled up to the offset at which their mirrors begin.
    """

    def __init__(self, flow: FlowContext, *, take_over: bool = False, beside: Sequence[FlowRun] = ()) -> None:
        self.flow = flow
        self.beside = beside
        self.owner = uuid.uuid4().hex
        self.life = FlowLife()
        self.ownership = Ownership(flow, self.life)
        self.standing = OwnedState({})
        self.view = TopicsView()
        self.halted: dict[Place, HaltReason] = {}
        self.watch = ControlFollower(flow, self.owner, self.halted)
        self.warnings: list[str] = []
        self.prefills = Prefills(flow, self.owner, lambda: self.watch.holds, self.warnings, self.watch.news)
        self._positions: Mapping[tuple[str, int], PositionRecord] = {}
        self._predecessor = Mm2Takeover(flow, take_over, self.warnings)
        self._refusals = Refusals(flow, self.owner)
        self._own = OwnTopics()
        self.slots = SlotsRecord(self.owner, 0, 0)
        self._slots_written = self.slots
        self.shard_count = flow.settings.shards
        self._shipment = Shipment(flow.settings)
        self.config_notices = ConfigNotices()
        source, target = TopicAdmin(flow.settings.source), TopicAdmin(flow.settings.target)
        self._topics = MirrorTopics(flow, source, target, adjusted=self.config_notices)
        self._sequences: dict[Place, int] = {}
        self._tallies: dict[Place, Tally] = {}
        self._fresh: dict[Place, PartitionAssignment] = {}
        self._sizes = FirstSizes()
        self._led = LeaderCheck(self.watch.news)
        self._unused: tuple[str, ...] = ()  # of mmtool.transform.topics
        self._weights: dict[int, float] = {}
        self._planned = Holds()
        self._spared: Mapping[str, FailedOverRecord] = {}
        self._claims_again_at = self._removes_runs_at = 0.0
        self.goal: dict[Place, int] = {}

    @property
    def name(self) -> str:
        return self.flow.identity.name

    # --- taking and leaving -------------------------------------------------------------------------------

    async def check(self, say: Callable[[str], None]) -> None:
        """Check, before any write, that the stored state is this flow's and that MirrorMaker 2 does not run it.

        Raises:
            UsageError: an alias now names another cluster, or the clusters have another alias.
            RefusedError: the stored state cannot be read, all of the flow's topics have failed over, or mirrored topics
                would change their names.
            NotAuthorisedError: the source's register of producers must be read, or markers written, and is denied.
            OwnedElsewhereError: MirrorMaker 2 runs the flow.
        """
        await check_identity(self.flow, self.warnings)
        await check_stored(self.flow, self._topics.matched)
        if self.flow.settings.writes_same_offsets:
            await check_right(self.flow)
        if self.flow.settings.is_external:
            await refuse_own_runs(self.flow)
        await self._predecessor.check(say)

    async def check_topics(self) -> None:
        """Check, before any topic is created, that each mirror of the flow may begin; for a flow that is to mirror.

        Raises:
            UsageError: with the source's offsets, a topic has records of MirrorMaker 2 on the target.
            RefusedError: a prefill costs more than the flow allows; an internal topic is missing or differs, and
                mmtool may not create it.
        """
        if not self.flow.settings.create_topics:
            await make_internal_topics(self.flow)  # which then only compares them
        if self.flow.settings.writes_same_offsets:
            await refuse_topics_of_mm2(self.flow)
            await check_prefill(self.flow, await self._topics.wanted())

    async def mirrored_names(self) -> dict[str, str]:
        """Target names, by source name, of all topics that the flow mirrors, listed now; changes nothing."""
        return {name: self.flow.settings.remote_topic(name) for name in await self._topics.wanted()}

    async def matches(self) -> bool:
        """Whether the flow's filter accepts any topic of the source now; changes nothing."""
        return bool(await self._topics.matched())

    async def join(self, *, standby: bool, say: Callable[[str], None]) -> None:
        """Create missing internal topics, and wait until this process holds the flow's ownership lease.

        A take-over first waits until MirrorMaker 2 has stopped.
        """
        await self._predecessor.wait(say)
        for notice in await make_internal_topics(self.flow):
            say(flow_notice(self.name, notice))
        await self.ownership.acquire(standby=standby, say=say)
        if standby:
            self._predecessor.check_later(say)

    async def take(self, *, in_doubt: bool = False) -> None:
        """Claim every shard and recover its partitions, without the topics and checks of `take_to_mirror`.

        Args:
            in_doubt: Fence and recover every shard, whatever is recorded of it: a round of this process failed.
        """
        await self._claim(in_doubt=in_doubt, to_mirror=False)
        self.ownership.claimed()

    async def _claim(self, *, in_doubt: bool, to_mirror: bool) -> None:
        control = await in_thread(read_control, self.flow.settings.target, self.flow.identity)
        if to_mirror:
            await self._own.check(self.flow, control)
        if control.flow is not None:  # a partition must never change its shard
            self.shard_count, wanted = control.flow.shards, self.flow.settings.shards
            if self.shard_count != wanted:
                kept = counted(self.shard_count, "shard")
                said = (
                    f"mmtool.shards = {wanted} is ignored: the flow keeps the {kept} of its first start; nothing has to"
                    " be done"
                )
                adjusted = Event.CONFIG_VALUE_ADJUSTED
                self.warnings.append(flow_notice(self.name, said, adjusted, key="mmtool.shards"))
        self._positions = control.positions
        self._refusals.start(control)
        # before the first claim: a worker of an older owner that starts again sees its new owner, and stops
        mine = owner_record(self.owner)
        documents = [mine] if control.flow is not None else [flow_record(self.flow), mine]
        topic = self.flow.identity.control_topic
        await write_documents(self.flow, topic, documents, tombstones=control.controls)
        shards = range(self.shard_count)
        doubt = set(shards) if in_doubt else doubtful(control)
        self.standing = await claim_and_recover(self.flow, shards, doubt, self.shard_count, self.owner)
        for place, told in self.standing.others.items():
            self._tallies[place] = tally_of_all(self._tallies.get(place, NOTHING_YET), told, self.owner)
        self._sequences, self._fresh, self._sizes = {}, {}, FirstSizes()
        await self.prefills.start(control.prefills.values())
        if self.flow.settings.begins_again:
            spared = control.failed_over
            for topic in await forget_deleted(self.flow, self.standing, self.shard_count, spared):
                start = self.flow.settings.start_setting
                said = f"target topic {topic} was deleted or recreated: mmtool mirrors it again from {start}"
                self.warnings.append(flow_notice(self.name, said, Event.TOPIC_DELETED, topic=topic))
        self.halted.clear()
        self.halted.update(self.standing.halted)
        self._claims_again_at = time.monotonic() + _DAY_SECONDS
        self._removes_runs_at = time.monotonic() + _SECOND_ROUND_SECONDS
        await self.watch.start(control)

    async def take_to_mirror(self) -> FlowTransition:
        """Claim every shard, recover its partitions and refresh the topics, so that rounds can be planned.

        Raises:
            RefusedError, OwnedElsewhereError: stored state is lost; or MirrorMaker 2 runs the flow now.
        """
        await self._predecessor.check_again()
        await self._claim(in_doubt=self.life.is_in_doubt, to_mirror=True)
        await refuse_lost_runs(self.flow, self._positions, self.standing.blocks)
        await self.refresh()
        return self.ownership.claimed()

    async def tidy(self) -> None:
        """Between rounds, while this process holds the lease: once a day strike out old offset runs and claim again.

        A new owner strikes them out before its second round: one that starts again each day would never come to it.
        """
        if not self.life.is_leased:
            return
        if time.monotonic() >= self._removes_runs_at:
            self._removes_runs_at = time.monotonic() + _DAY_SECONDS
            old: Mapping[int, Iterable[BlockKey]] = {}
            with suppress(UnreachableError, RefusedError, ConnectionLostError, TimeoutError):  # or tomorrow
                old = await old_runs(self.flow, self.standing, self.shard_count)
            for shard, keys in old.items():
                await store_owned(self.flow, self.standing, shard, struck_out=keys)
        if time.monotonic() < self._claims_again_at:
            return
        self.standing.shards = await claim_blindly(self.flow, {}, self.shard_count, self.owner)
        self._sequences.clear()
        self._claims_again_at = time.monotonic() + _DAY_SECONDS

    async def close(self, *, clean: bool) -> None:
        """Record the shards as closed if nothing is in flight, leave the ownership group and disconnect."""
        try:
            if clean and self.life.phase is FlowPhase.RUNNING and self.standing.shards:
                closed = closed_records(self.standing.clear(self.shard_count), self.owner)
                stop = ControlRecord(self.owner, Command.STOP, 0).key
                await write_documents(self.flow, self.flow.identity.control_topic, closed, tombstones=[stop])
        finally:
            self.watch.stop()
            await self.prefills.stop()
            await self.ownership.release()
            await self.flow.close()

    async def adopt(self, settings: FlowSettings) -> None:
        """Continue with other settings; running workers keep theirs until the next round.

        Raises:
            MmtoolError: the settings need a topic that cannot be created.
        """
        before = self.flow.settings
        begins = settings.emit_offset_syncs and not before.emit_offset_syncs
        self.flow.settings = settings
        # a run does not wait for what it no longer mirrors
        left_out = {t.topic_id for t in self.view.topics.values() if not settings.mirrors_topic(t.name)}
        self.goal = {place: end for place, end in self.goal.items() if place[0] not in left_out}
        if (before.source, before.target) != (settings.source, settings.target):
            self.flow.renew_credentials()
            self.ownership.renew_credentials(settings.target)
            self._topics.connect(TopicAdmin(settings.source), TopicAdmin(settings.target))
        if begins:
            await make_internal_topics(self.flow)

    # --- topics -------------------------------------------------------------------------------------------

    async def refresh(self) -> bool:
        """Refresh topics and partitions; returns whether the next round differs from the running one."""
        before, self._spared = self.view, self.watch.holds.failed_over
        blocks = {place: fresh.block for place, fresh in self._fresh.items()} | self.standing.blocks
        on_record = {block.about.topic_id: block.about for block in blocks.values()}
        # target topics into which other flows of this process mirror
        others = (r for r in self.beside if r is not self and may_meet(r.flow.settings, self.flow.settings))
        taken = {topic.target_name: run.name for run in others for topic in run.view.topics.values()}
        self.view = await self._topics.refresh(on_record, self._spared, taken)
        refuse_recreated(self.view, on_record, self.flow.settings)
        refuse_unfinished(self.view, blocks, self._last_position, self.goal)
        self.view.set_aside(self._spared)
        self.warnings += [flow_notice(self.name, notice) for notice in (*self.view.made, *self.view.notices)]
        self.warnings += [
            flow_notice(self.name, why, Event.TOPIC_DELETED, topic=t)
            for t, why in self.view.deleted.items()
            if t in before.topics
        ]
        unused = self.flow.settings.unused_transforms(self.view.topics) if self.view.topics else ()
        if unused != self._unused:
            self.warnings += [
                flow_notice(
                    self.name,
                    f"mmtool.transform.topics: {name} selects none of"
                    f" {counted(len(self.view.topics), 'mirrored topic')}: no record is changed for it; names are those"
                    " on the source",
                )
                for name in unused
            ]
            self._unused = unused
        is_external = self.flow.settings.is_external
        unknown = [(t, n) for t, n in self.view.places if (t.topic_id, n) not in blocks]
        begun = not is_external and await self._begin(unknown)
        await self._refusals.tell({**self.view.refused, **self.view.deleted}, self.view.gone)
        has_new_code = Shipment(self.flow.settings).code != self._shipment.code
        return begun or has_new_code or self.view.shape != before.shape

    @property
    def wants_look(self) -> bool:
        """Whether topics were marked as failed over, or released, since the last refresh."""
        return self._spared != self.watch.holds.failed_over

    async def _begin(self, unknown: list[tuple[MirroredTopic, int]]) -> bool:
        """Make the first blocks of partitions that were never mirrored; returns whether there are any."""
        await self.prefills.delete_again(self.standing)
        unknown = self.prefills.without(unknown)
        added = self._sizes.added(unknown, self.standing.blocks)
        if not self._predecessor.take_over:  # what MM2 copied goes on record as a whole, or not at all
            unknown = await self._led.of(self.flow, unknown)
        begun = await first_blocks(self.flow, unknown, added, await self._predecessor.starts(unknown))
        first = await self._predecessor.record(self.standing, begun, self.shard_count)
        ready, too_long = await self.prefills.admit(first, self.standing)
        for name, why in too_long.items():
            self.view.topics.pop(name)
            self.view.refused[name] = why
        self._add(ready)
        refused = await refused_times(self.flow.source, first, int(time.time() * 1000))
        self.warnings += [flow_notice(self.name, sentence) for sentence in refused]
        return bool(ready)

    def _add(self, begun: Iterable[tuple[MirroredTopic, int, Block]]) -> None:
        for topic, partition, block in begun:
            self._fresh[topic.topic_id, partition] = self._assignment(
                topic, partition, block=block, next_sequence=0, stored=False
            )

    def _last_position(self, place: Place) -> PositionRecord | None:
        """The partition's last position: written by this owner's workers, or else by an earlier owner's."""
        return self.watch.positions.get(place) or self._positions.get(place)

    def _assignment(self, topic: MirroredTopic, partition: int, **rest: object) -> PartitionAssignment:
        place = topic.topic_id, partition
        position = self._last_position(place)
        return PartitionAssignment(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=partition,
            target_topic=topic.target_name,
            target_topic_id=topic.target_id,
            shard=shard_of(*place, self.shard_count),
            max_batch_bytes=topic.limits.max_batch_bytes,
            tally=tally_of_all(self._tallies.get(place, NOTHING_YET), position, self.owner),
            halted=self.halted.get(place, ""),
            for_good=place in self.standing.halted,
            at_end_ms=position.at_end_ms if position is not None else 0,
            behind_since_ms=position.behind_since_ms if position is not None else 0,
            flow_options=self.flow.identity.options,
            same=self.standing.writers_of(self.flow.settings, topic.name, self.watch.offset),
            transform=self._shipment.of(topic.name),
            **rest,  # type: ignore[arg-type]  # block, next_sequence and stored, by both callers
        )

    def _ship(self) -> None:
        """Read the code of the flow's function again, for the next round."""
        self._shipment = Shipment(self.flow.settings)
        self._fresh = {
            place: replace(one, transform=self._shipment.of(one.topic)) for place, one in self._fresh.items()
        }

    def topic_names(self) -> dict[str, str]:
        """Target names, by source name, of the topics of the last refresh that have not failed over.

        The target topic of a failed-over topic does not follow its source; during a prefill none does.
        """
        topics, left_out = self.view.topics.values(), {*self.watch.holds.failed_over, *self.prefills.changed}
        return {topic.name: topic.target_name for topic in topics if topic.name not in left_out}

    # --- rounds -------------------------------------------------------------------------------------------

    def partitions(self) -> list[PartitionAssignment]:
        """Assignments of all mirrored partitions; halted and held ones are included, because they are shown."""
        found: list[PartitionAssignment] = []
        for topic, partition in () if self.flow.settings.is_external else self.view.places:
            place = (topic.topic_id, partition)
            block = self.standing.blocks.get(place)
            if block is not None:
                sequence = self._sequences.get(place, 0)
                found.append(
                    self._assignment(topic, partition, block=block, next_sequence=sequence, stored=True)
                )
            elif place in self._fresh:
                found.append(self._fresh[place])
        return found

    def loads(self) -> list[ShardLoad]:
        """The shards that have partitions to mirror now, with their weights; held partitions are left out.

        Raises:
            NotAuthorisedError: a right for a prefill is missing.
        """
        self._add(self.prefills.take_done())
        self._ship()
        self._planned = self.watch.holds
        counts = Counter(partition.shard for partition in self._planned_partitions())
        return [
            ShardLoad(self.flow.identity.flow, shard, self._weights.get(shard) or float(count))
            for shard, count in counts.items()
        ]

    def _planned_partitions(self) -> list[PartitionAssignment]:
        return [p for p in self.partitions() if self._planned.of(p.topic_id, p.topic) is None]

    @property
    def differs(self) -> bool:
        """Whether a topic was paused, resumed, failed over, released or prefilled since `loads` was called."""
        return self._planned != self.watch.holds or self.prefills.is_news

    def assignment(
        self, round_number: int, shards: Collection[int], bytes_per_second: float | None = None
    ) -> FlowAssignment:
        """The flow's part of one task of a round: these shards with their partitions, and its throttle share."""
        return FlowAssignment(
            identity=self.flow.identity,
            settings=self.flow.settings,
            shard_count=self.shard_count,
            owner=self.owner,
            round=round_number,
            control_offset=self.watch.offset,
            runs_topic_id=own_topic_id(self.flow, self.flow.identity.runs_topic),
            control_topic_id=own_topic_id(self.flow, self.flow.identity.control_topic),
            shards=tuple(self.standing.shards[shard] for shard in sorted(shards)),
            partitions=tuple(p for p in self._planned_partitions() if p.shard in shards),
            bytes_per_second=bytes_per_second,
            shows_register=self.flow.shows_register,
        )

    @property
    def worker_rate(self) -> float | None:
        """The flow's throttle for its workers: what prefills leave of it; None without a throttle."""
        rate = self.flow.settings.throttle_bytes_per_second
        return None if rate is None else rate * self.prefills.rest

    async def tell(self, command: Command, round_number: int) -> None:
        """Write a command to the workers of the running round into the control topic."""
        record = ControlRecord(self.owner, command, round_number)
        await write_documents(self.flow, self.flow.identity.control_topic, [record])

    @property
    def has_slot_news(self) -> bool:
        """Whether `slots` differs from what was last written to the control topic."""
        return self.slots != self._slots_written

    async def write_slots(self) -> None:
        """Write `slots` to the control topic, for `status` and metrics.

        Raises:
            UnreachableError, MmtoolError: as `write_documents`.
        """
        written = self.slots
        await write_documents(self.flow, self.flow.identity.control_topic, [written])
        self._slots_written = written

    def fold(self, rows: Iterable[ReportRow], seconds: float) -> None:
        """Take over what the tasks reported at a round's end; ``seconds`` is how long the round took."""
        carried: dict[int, float] = {}
        for row in rows:
            place: tuple[TopicId, int] = (row.topic_id, row.partition)  # type: ignore[assignment]  # Spark gives str
            self.standing.blocks[place] = decode_block(row.block)
            self._fresh.pop(place, None)
            self._sequences[place] = row.next_sequence
            self.standing.shards[row.shard] = replace(
                self.standing.shards[row.shard],
                producer_id=row.producer_id,
                epoch=row.epoch,
                runs_sequence=row.runs_sequence,
            )
            reason = HaltReason.stored(row.reason)
            if row.state == State.HALTED:
                self.halted[place] = reason
            if row.for_good:
                self.standing.halt(place, reason)
            before = self._tallies.get(place, NOTHING_YET).mirrored_bytes
            carried[row.shard] = carried.get(row.shard, 0.0) + (row.tally.mirrored_bytes - before) / max(
                seconds, 1.0
            )
            self._tallies[place] = row.tally
        self._weights.update(carried)

    def retry_halted(self) -> None:
        """Let the next round try halted partitions again, because a right may have been granted."""
        for place in self.may_go_on():
            del self.halted[place]

    def may_go_on(self) -> dict[Place, HaltReason]:
        """Halted partitions that the next round may retry, with reasons; the others wait for the next owner."""
        return {place: why for place, why in self.halted.items() if place not in self.standing.halted}

    # --- watching -----------------------------------------------------------------------------------------

    def known_positions(self) -> list[PositionRecord]:
        """The position of every mirrored partition: last written by a worker, or else by the offset runs."""
        seen = self.watch.positions
        if self.flow.settings.is_external:
            return list(map(self.watch.holds.shown, seen.values()))
        return [
            self.watch.holds.shown(
                waiting(
                    seen.get((p.topic_id, p.partition)) or booked_position(p, self.owner),
                    self.slots.reason(p.shard),
                )
            )
            for p in self.partitions()
        ] + [self.watch.holds.shown(position) for position in self.prefills.positions()]

    async def set_goal(self) -> None:
        """Make the source's end offset of every partition now the goal, for which ``--until-caught-up`` waits.

        Raises:
            UnreachableError: a partition cannot start, because it has no leader.
        """
        self._led.refuse_missing(self.name)
        self.goal = await source_ends(self.flow, self.view)

    @property
    def has_reached_goal(self) -> bool:
        """Whether every partition that can continue has reached the goal.

        Halted and held partitions cannot, nor those whose topic is deleted or refused.
        """
        topics, held = self.view.topics.values(), self.watch.holds.of
        goes_on = {topic.topic_id for topic in topics if held(topic.topic_id, topic.name) is None}
        for place, end in self.goal.items():
            if place in self.halted or place[0] not in goes_on:
                continue
            position = self.watch.positions.get(place)
            # being prefilled, or it was, and no worker has reported it
            is_prefilled = self.prefills.waits_for(place) or (
                position is not None and position.state == State.STARTING and not position.executor
            )
            last = StoredPartition(self.standing.blocks.get(place), position)
            if is_prefilled or last.frontier < end:
                return False
        return True
