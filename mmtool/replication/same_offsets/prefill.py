"""The prefills of one flow: empty partitions of the target whose mirrors begin far above offset 0.

They run in the owner's process beside the rounds. A partition is mirrored from the round after its prefill on: until
then nothing of it is stored, and the next owner finds in its log how far the prefill came.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.events import Event, Notice, flow_notice
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.errors import KINDS, ErrorSubject, remedy_of_refusal
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import list_offsets, log_bounds, offsets_now
from mmtool.plan.records.documents import OffsetWritersRecord, PositionRecord, PrefillRecord, State
from mmtool.plan.topics.configs import ResetConfig, SetConfig
from mmtool.plan.topics.facts import HaltReason
from mmtool.plan.words import retried
from mmtool.replication.control.control_follower import position_by_books
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.budget import TokenBucket
from mmtool.replication.same_offsets.fills import (
    FillRefusedError,
    ForeignLogError,
    LogFill,
    delete_to,
    holds_filler,
)
from mmtool.replication.same_offsets.refusals import FEW, SHARE, Cost
from mmtool.runtime.threads import in_thread
from mmtool.translation.blocks import Block, MirrorStart
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from mmtool.plan.records.holds import Holds
    from mmtool.replication.driver.context import FlowContext, OwnedState, Place
    from mmtool.replication.topics.mirror_topics import MirroredTopic

    Begun = tuple[MirroredTopic, int, Block]

_AT_ONCE = 4
_AGAIN_SECONDS = 2.0
_TELL_SECONDS = 2.0
_HOLD_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_LEAST_SECONDS = 0.01
_PATIENCE_SECONDS = 10.0
"""Brokers hear late of a changed policy."""
_POLICY, _DELETE = "cleanup.policy", "delete"


@dataclass(eq=False, slots=True)
class _Work:
    """One partition, the mirror that begins there, and how far its log is filled.

    Attributes:
        source_end: The end of the source's log.
        begins_at: The end of the target's log when this began.
        is_needed: Its log is filled, and not only that of another partition of its topic.
        waits: What it waits for, as the end of a sentence.
    """

    topic: MirroredTopic
    partition: int
    block: Block
    source_end: int
    begins_at: int
    is_needed: bool
    log: LogFill | None = None
    waits: str = ""
    halted: str = ""
    is_foreign: bool = False

    @property
    def place(self) -> Place:
        return self.topic.topic_id, self.partition

    @property
    def goal(self) -> int:
        return int(self.block.tail.upstream_frontier)

    @property
    def end(self) -> int:
        return max(self.begins_at, self.log.end if self.log is not None else 0)

    @property
    def begun(self) -> Begun:
        """The mirror as it begins behind the prefill; as it was, if the log holds foreign records: it then halts."""
        if not self.is_needed or self.is_foreign:
            return self.topic, self.partition, self.block
        start = MirrorStart(self.block.tail.upstream_frontier, DownstreamOffset(self.goal))
        return self.topic, self.partition, MapRecorder.begin(self.block.about, start).take()[0]

    def position(self, owner: str, now_ms: int) -> PositionRecord:
        """The position to show; its downstream position is the end of the target's log.

        It is 0 once the prefill has halted: nothing was mirrored, and no offset run is lost.
        """
        what = (
            f"prefill: the target's log ends at {self.end:,} of {self.goal:,}"
            if self.is_needed
            else "prefill of other partitions of its topic"
        )
        return replace(
            position_by_books(self.block, owner),
            downstream_position=0 if self.halted else self.end,
            source_end=self.source_end,
            state=State.HALTED if self.halted else State.STARTING,
            reason=self.halted or what + self.waits,
            observed_ms=now_ms,
        )


@dataclass(slots=True)
class Prefills:
    """Runs the prefills of a flow.

    A. A topic whose policy is not ``delete`` has it while its partitions are filled, and its own one before a record
       is mirrored. The change is stored before it is made: the next owner undoes it if this one cannot.

    Attributes:
        flow: The flow.
        owner: The id of the owner, for positions.
        holds: Returns what keeps topics from being mirrored; a prefill waits as well.
        warnings, news: Get sentences for the operator: about what begins, and what has ended.
    """

    flow: FlowContext
    owner: str
    holds: Callable[[], Holds]
    warnings: list[str]
    news: list[str]
    _works: dict[Place, _Work] = field(default_factory=dict)
    _done: list[Begun] = field(default_factory=list)
    _notes: dict[str, PrefillRecord] = field(default_factory=dict)
    _tasks: dict[TopicId, asyncio.Task[None]] = field(default_factory=dict)
    _telling: asyncio.Task[None] | None = None
    _slots: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    _bucket: TokenBucket | None = None
    _failure: Exception | None = None

    async def start(self, notes: Iterable[PrefillRecord]) -> None:
        """Begin as a new owner; ``notes`` are of the topics whose policies an earlier one changed."""
        await self.stop()
        self._works, self._done, self._failure = {}, [], None
        self._notes = {note.target_topic: note for note in notes}
        self._slots = asyncio.Queue()
        for number in range(_AT_ONCE):
            self._slots.put_nowait(f"prefill-{number}")

    async def stop(self) -> None:
        """End all prefills where they are."""
        tasks = [*self._tasks.values(), *([self._telling] if self._telling else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._telling = {}, None

    # --- what is seen of them -----------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether any partition is being filled, or was and is not taken yet."""
        return self.is_news or any(not work.halted for work in self._works.values())

    @property
    def is_news(self) -> bool:
        """Whether `take_done` has an answer, so that the next round differs."""
        return bool(self._done) or self._failure is not None

    def take_done(self) -> list[Begun]:
        """The partitions that can be mirrored from now on.

        Raises:
            NotAuthorisedError: A right is missing.
        """
        if self._failure is not None:
            raise self._failure
        taken, self._done = self._done, []
        return taken

    @property
    def rest(self) -> float:
        """The part of the flow's throttle that its workers may use."""
        return 1.0 - SHARE if self._tasks and self.is_busy else 1.0

    def waits_for(self, place: Place) -> bool:
        """Whether a partition is being filled."""
        work = self._works.get(place)
        return work is not None and not work.halted

    @property
    def changed(self) -> set[str]:
        """The topics of the source whose mirrors' policies are changed now."""
        return {work.topic.name for work in self._works.values() if work.topic.target_name in self._notes}

    def positions(self) -> list[PositionRecord]:
        """The position of each partition that is being filled."""
        now_ms = int(time.time() * 1000)
        return [work.position(self.owner, now_ms) for work in self._works.values()]

    # --- begun and ended ----------------------------------------------------------------------------------

    def without(self, unknown: Iterable[tuple[MirroredTopic, int]]) -> list[tuple[MirroredTopic, int]]:
        """Those of a refresh's unknown partitions that are not being filled; prefills of other topics end."""
        known = {(topic.topic_id, n): (topic, n) for topic, n in unknown}
        there = {place: topic.target_id for place, (topic, _) in known.items()}
        gone = {w.topic.target_id for w in self._works.values() if there.get(w.place) != w.topic.target_id}
        for target_id in gone & self._tasks.keys():
            self._tasks.pop(target_id).cancel()
        self._works = {p: work for p, work in self._works.items() if work.topic.target_id not in gone}
        done = {(topic.topic_id, n) for topic, n, _ in self._done}
        return [known[place] for place in known if place not in self._works and place not in done]

    async def admit(
        self, begun: Sequence[Begun], standing: OwnedState
    ) -> tuple[list[Begun], dict[str, HaltReason]]:
        """Begin the prefills that new mirrors need; returns the other mirrors, and refused topics with reasons.

        Raises:
            NotAuthorisedError, RefusedError: A policy that an earlier owner changed cannot be set back.
            UnreachableError, ConnectionLostError: A cluster does not answer.
        """
        writers = standing.offset_writers
        works, taken = ([], set()) if writers is None else await self._needed(begun, writers.data_producer)
        busy = {work.topic.target_name for work in (*works, *self._works.values())}
        for note in [note for name, note in self._notes.items() if name not in busy]:
            await self._set_back(note)
        if writers is None or not works:
            return list(begun), {}
        cost = await self._cost([*works, *self._works.values()])
        if why := cost.why_refused(self.flow.settings):
            refused = {work.topic.name: why for work in works}
            return [one for one in begun if one[0].name not in refused], refused
        ready, groups = await self._grouped(
            begun, works, taken | {topic_id for topic_id, _ in standing.blocks}
        )
        if groups:
            cost = await self._cost([work for group in groups for work in group])
            said = flow_notice(self.flow.settings.name, f"prefill: {cost}", Event.PREFILL, **cost._asdict())
            self.warnings.append(said)
            self._telling = self._telling or asyncio.create_task(self._tell())
        for group in groups:
            self._works |= {work.place: work for work in group}
            self._tasks[group[0].topic.target_id] = asyncio.create_task(self._topic(group, writers))
        return ready, {}

    async def _needed(self, begun: Sequence[Begun], producer_id: int) -> tuple[list[_Work], set[TopicId]]:
        """The new mirrors whose logs are to be filled, or hold what an earlier owner filled them with.

        Also the topics whose logs hold other records.
        """
        keeps = self.flow.settings.keeps_offsets
        some = {
            block.about.downstream: (topic, n, block)
            for topic, n, block in begun
            if keeps(topic.name)
            and (block.tail.target_verified_end > 0 or block.tail.upstream_frontier > FEW)
        }
        ups = [block.about.upstream for _, _, block in some.values()]
        bounds = await log_bounds(self.flow.target, some.keys())
        ends = await list_offsets(self.flow.source, dict.fromkeys(ups, LATEST), read_committed=False)
        works, taken = [], set()
        for down, (start, end) in bounds.items():
            topic, n, block = some[down]
            if not await holds_filler(self.flow.target, down, topic.target_id, start, end, producer_id):
                taken.add(topic.topic_id)
            elif start < end or int(block.tail.upstream_frontier) - end > FEW:
                works.append(_Work(topic, n, block, ends.get(block.about.upstream, 0), end, is_needed=True))
        return works, taken

    async def _cost(self, works: Iterable[_Work]) -> Cost:
        left = {work: work.goal - work.end for work in works if work.is_needed and work.goal > work.end}
        topics = await self.flow.target.refresh({work.topic.target_name for work in left})
        replicas = [len(p.replicas) for topic in topics.values() for p in topic.partitions]
        return Cost.of(list(left.values()), max(replicas, default=1), self.flow.settings)

    async def _grouped(
        self, begun: Sequence[Begun], works: Sequence[_Work], taken: Container[TopicId]
    ) -> tuple[list[Begun], list[list[_Work]]]:
        """The mirrors that begin now, and the others by their topics; a topic whose policy changes begins as a whole.

        Its policy changes only while the topic holds no record: with another one, records could be deleted.

        Args:
            begun: All new mirrors.
            works: Those whose logs are to be filled.
            taken: Topics, by their ids on the source, whose mirrors hold records.
        """
        by_topic: dict[str, list[_Work]] = defaultdict(list)
        for work in works:
            by_topic[work.topic.name].append(work)
        names = [group[0].topic.target_name for group in by_topic.values()]
        configs = await in_thread(TopicAdmin(self.flow.settings.target).configs, names)
        ready = [one for one in begun if one[0].name not in by_topic]
        groups = []
        for name, group in by_topic.items():
            topic, all_of = group[0].topic, [one for one in begun if one[0].name == name]
            entry = configs.get(topic.target_name, {}).get(_POLICY)
            places = {work.place for work in group}
            others = [one for one in all_of if (one[0].topic_id, one[1]) not in places]
            note = self._notes.get(topic.target_name)
            if note is None and (entry is None or entry.value == _DELETE):
                ready += others
                groups.append(group)
            elif topic.topic_id in taken:
                ready += all_of
            elif len(all_of) == topic.partitions:  # else some have no leader yet
                if note is None:
                    own = entry.value if entry is not None and entry.on_topic else None
                    note = PrefillRecord(topic.target_name, topic.target_id, own)
                    await write_documents(self.flow, self.flow.identity.control_topic, [note])
                    self._notes[topic.target_name] = note
                groups.append([*group, *(_Work(*one, 0, 0, is_needed=False) for one in others)])
        return ready, groups

    async def delete_again(self, standing: OwnedState) -> None:
        """Delete the filler before mirrors that brokers show again.

        They store log starts once a minute: a crash of all that hold a log brings back what was deleted since. What
        cannot be deleted now is next time; the log cleaner removes it from compacted topics, as it has no keys.
        """
        writers = standing.offset_writers
        if writers is None:
            return
        target = self.flow.target
        begun = {
            block.about.downstream: block
            for block in standing.blocks.values()
            if block.mirror_start.downstream > 0
            and self.flow.settings.keeps_offsets(block.about.source_topic)
        }
        starts = await offsets_now(target, dict.fromkeys(begun, EARLIEST), _ANSWER_SECONDS)
        for down, start in starts.items():
            goal, topic_id = int(begun[down].mirror_start.downstream), begun[down].about.target_topic_id
            if start < goal:
                with suppress(MmtoolError, ConnectionLostError, FillRefusedError):
                    if await holds_filler(target, down, topic_id, start, goal, writers.data_producer):
                        await delete_to(target, down, goal)

    # --- under way ----------------------------------------------------------------------------------------

    async def _topic(self, group: Sequence[_Work], writers: OffsetWritersRecord) -> None:
        """Fill the logs of one topic, however often the target does not answer."""
        while left := [work for work in group if self.waits_for(work.place)]:
            try:
                await self._fill(left, writers)
            except NotAuthorisedError as error:
                self._failure = error
                return
            except (ConnectionLostError, UnreachableError) as error:
                for work in left:
                    work.waits = f"; waits for {self.flow.target.alias}: {retried(error)}"
                await asyncio.sleep(_AGAIN_SECONDS)
            except RefusedError as error:
                for work in left:
                    work.halted = HaltReason(f"prefill: {error}", error.remedy)
            except Exception as error:  # noqa: BLE001  the next plan of a round raises it
                self._failure = error
                return

    async def _fill(self, group: Sequence[_Work], writers: OffsetWritersRecord) -> None:
        note = self._notes.get(group[0].topic.target_name)
        if note is not None:
            await self._alter(note.target_topic, SetConfig(_POLICY, _DELETE))
        await asyncio.gather(*(self._one(work, writers, note) for work in group if work.is_needed))
        if note is not None:
            await self._set_back(note)
            self._end(group)

    async def _one(self, work: _Work, writers: OffsetWritersRecord, note: PrefillRecord | None) -> None:
        """Fill one log, and let its mirror begin unless its topic's policy has to be set back first."""
        topic, patient_until = work.topic, time.monotonic() + _PATIENCE_SECONDS
        down, bytes_most = work.block.about.downstream, topic.limits.max_batch_bytes

        async def take(count: int) -> None:
            await self._take(work, count)

        work.log = LogFill(self.flow.target, down, topic.target_id, work.goal, writers, take, bytes_most)
        while True:
            slot = await self._slots.get()
            try:
                await work.log.run(slot)
                break
            except ForeignLogError:
                work.is_foreign = True
                break
            except FillRefusedError as error:
                if time.monotonic() > patient_until:
                    alias = self.flow.target.alias
                    why = f"prefill: {alias} refuses the empty records, or their deletion: {error}"
                    work.halted = HaltReason(why, remedy_of_refusal(str(error), alias, f"topic {down.topic}"))
                    return
            except NotAuthorisedError:
                raise
            except (ConnectionLostError, UnreachableError) as error:
                work.waits = f"; waits for {self.flow.target.alias}: {retried(error)}"
            finally:
                self._slots.put_nowait(slot)
            await asyncio.sleep(_AGAIN_SECONDS)
        if note is None:
            self._end([work])

    def _end(self, works: Iterable[_Work]) -> None:
        for work in works:
            if not work.halted:
                del self._works[work.place]
                self._done.append(work.begun)
        if not self._works:
            self.news.append(Notice("prefill: all logs are filled", Event.PREFILL))

    async def _take(self, work: _Work, count: int) -> None:
        """Wait until a partition's topic is not held, and until the throttle allows so many bytes."""
        while True:
            if (seconds := self._seconds_to_wait(work, count)) <= 0:
                break
            await asyncio.sleep(min(seconds, _HOLD_SECONDS))
        work.waits = ""

    def _seconds_to_wait(self, work: _Work, count: int) -> float:
        """0 when the bytes may be sent: they are taken from the throttle then."""
        rate, now = self.flow.settings.throttle_bytes_per_second, time.monotonic()
        if self.holds().of(work.topic.topic_id, work.topic.name) is not None:
            return _HOLD_SECONDS
        if rate is None:
            return 0.0
        self._bucket = self._bucket or TokenBucket(rate * SHARE, now)
        self._bucket.set_rate(rate * SHARE, now)
        if (balance := self._bucket.balance(now)) <= 0:
            return max(-balance / (rate * SHARE), _LEAST_SECONDS)
        self._bucket.take(count, now)
        return 0.0

    async def _set_back(self, note: PrefillRecord) -> None:
        """Give a topic its own policy again, unless it was deleted."""
        topic = note.target_topic
        await self.flow.target.refresh([topic])
        if self.flow.target.topic_id(topic) == note.target_topic_id:
            own = ResetConfig(_POLICY) if note.policy is None else SetConfig(_POLICY, note.policy)
            await self._alter(topic, own)
        control = self.flow.identity.control_topic
        await write_documents(self.flow, control, [], tombstones=[note.key])
        del self._notes[topic]

    async def _alter(self, topic: str, step: SetConfig | ResetConfig) -> None:
        alias, admin = self.flow.target.alias, TopicAdmin(self.flow.settings.target)
        while problem := (await in_thread(admin.alter, {topic: [step]})).get(topic):
            cause = problem.name
            if KINDS.get(cause) is ErrorSubject.DENIED:
                raise NotAuthorisedError(
                    f"cluster {alias} denies ALTER_CONFIGS on topic {topic}, whose cleanup.policy is {_DELETE} during a"
                    " prefill",
                    remedy=f"grant mmtool's principal ALTER_CONFIGS on topic {topic}",
                )
            if KINDS.get(cause) is not ErrorSubject.AWAY:
                raise RefusedError(
                    f"cluster {alias} refuses to change cleanup.policy of {topic}: {problem.by_name}",
                    remedy=remedy_of_refusal(cause, alias, f"topic {topic}"),
                )
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _tell(self) -> None:
        """Write the positions for `status`, every few seconds."""
        while True:
            if positions := self.positions():
                with suppress(MmtoolError, ConnectionLostError):
                    await write_documents(self.flow, self.flow.identity.control_topic, positions)
            await asyncio.sleep(_TELL_SECONDS)
