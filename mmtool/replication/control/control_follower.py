"""Follow a flow's control topic by long polls.

A worker waits for the command that ends its round; the driver reads positions from workers, and pauses and marks from
operators.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from mmtool.events import Event, Notice, NoticeDeduplicator
from mmtool.kafka.batches import decode, iter_batches
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.plan.flow.positions import STILL
from mmtool.plan.records.documents import (
    Command,
    ControlRecord,
    Document,
    PauseRecord,
    PositionRecord,
    SharesRecord,
    State,
    UnreadableDocumentError,
    UseRecord,
)
from mmtool.plan.records.holds import Holds, news
from mmtool.plan.records.identity import decode_control
from mmtool.plan.records.marks import FailedOverRecord, GroupNameRecord, MovedGroupRecord, note_move
from mmtool.plan.topics.facts import HaltReason
from mmtool.plan.words import retried
from mmtool.replication.spark.assignment import FlowAssignment, PartitionAssignment, Tally
from mmtool.runtime.latency import Latency
from mmtool.translation.types import UNKNOWN, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.kafka.state.control_view import ControlView
    from mmtool.replication.driver.context import FlowContext, Place
    from mmtool.translation.blocks import Block


_MAX_WAIT_MS = 1000
_FETCH_BYTES = 1 << 20
_PAUSE_SECONDS = 0.2


@dataclass(slots=True)
class ControlFeed:
    """Yields documents as they are written; skips unreadable ones, which a starting owner refuses instead.

    Attributes:
        offset: The offset of the next record to read: records yet to be written are at or after it.
    """

    cluster: WireCluster
    topic: str
    topic_id: TopicId
    offset: int

    async def next(self) -> list[Document]:
        """The documents written since the last call; empty if none is written within a second."""
        try:
            return await self._fetch()
        except ConnectionLostError:
            await asyncio.sleep(_PAUSE_SECONDS)
            return []

    async def _fetch(self) -> list[Document]:
        place = FetchPartition(self.topic, self.topic_id, 0, self.offset, _FETCH_BYTES)
        request = FetchRequest([place], _MAX_WAIT_MS, 1, _FETCH_BYTES, read_committed=False)
        answer = await self.cluster.send_to_leader(self.topic, 0, request, purpose="control")
        if not answer.partitions:  # so answers whoever keeps a quota (KIP-219)
            raise ConnectionLostError(f"{self.topic}: throttled by a quota")
        part = answer.partitions[0]
        if part.error_code == Code.OFFSET_OUT_OF_RANGE:
            self.offset = max(part.log_start_offset, 0)
            return []
        if part.error_code != Code.NONE:
            await self.cluster.refresh([self.topic])
            raise ConnectionLostError(f"{self.topic}: {name_of(part.error_code)}")
        documents: list[Document] = []
        for view in iter_batches(part.records):
            self.offset = view.header.next_offset
            for record in () if view.header.is_control else decode(view):
                if record.key is None or record.value is None:
                    continue
                with suppress(UnreadableDocumentError):
                    if (document := decode_control(record.key, record.value)) is not None:
                        documents.append(document)
        return documents


async def until_told(
    cluster: WireCluster, flow: FlowAssignment, throttled: Callable[[SharesRecord], None]
) -> Command:
    """Wait for the owner's control record that ends this round, and return its command: STOP or REPLAN.

    Records of another owner or about an earlier round are ignored. Meanwhile ``throttled`` gets each new division of
    the throttle.
    """
    feed = ControlFeed(cluster, flow.identity.control_topic, flow.control_topic_id, flow.control_offset)
    while True:
        for document in await feed.next():
            if not isinstance(document, (ControlRecord, SharesRecord)) or document.owner != flow.owner:
                continue
            if isinstance(document, SharesRecord):
                if document.round == flow.round:
                    throttled(document)
            elif document.round >= flow.round and document.command != Command.RUN:
                return Command(document.command)


_NO_CONTROL = "cannot be read, so new pauses and failovers have no effect yet"
_AGAIN_SECONDS = 2.0


class _Counted(NamedTuple):
    """What only grows of a partition, and is said when it is more than ``times`` what was said last."""

    event: Event
    count: Callable[[PositionRecord], int]
    said: Callable[[PositionRecord], str]
    times: int = 1


_COUNTED = (
    _Counted(Event.DEAD_LETTERS, lambda at: at.dead_letters, lambda at: at.letters_said),
    _Counted(
        Event.FOREIGN_RECORDS, lambda at: at.foreign, lambda at: at.foreign_said, times=2
    ),  # who goes on writing is told of rarely
    _Counted(Event.DATA_LOSS, lambda at: at.gaps, lambda at: at.gaps_said),
    _Counted(Event.UNREADABLE_VALUES, lambda at: at.unreadable, lambda at: at.unreadable_said, times=2),
)


class ControlFollower:
    """Follows the control topic, and keeps the last position that this owner's workers wrote of each partition.

    Args:
        flow: Whose control topic.
        owner: Whose workers.
        halted: Gets the reason of every partition that a worker halted, until a worker continues it.

    Attributes:
        positions: By partition.
        heard: When each position was read, by the monotonic clock.
        uses: By task number: how much of its share of the throttle the task uses.
        holds: The pauses and failed-over marks that keep topics from being mirrored.
        moved: Groups that now belong to the target.
        group_names: The stored names of groups on the target.
        news: A notice for each partition that was halted, held or released since the driver last took the notices.
    """

    def __init__(self, flow: FlowContext, owner: str, halted: dict[Place, HaltReason]) -> None:
        self._flow = flow
        self._owner = owner
        self._halted = halted
        self._noted: dict[Place, tuple[str, int]] = {}
        self._told: dict[tuple[Place, _Counted], int] = {}
        self._slowed: set[Place] = set()
        self._waiting: dict[str, set[Place]] = {}
        self._rounds: dict[str, int] = {}
        self._stopped_at: dict[Place, int] = {}
        self._task: asyncio.Task[None] | None = None
        self.positions: dict[Place, PositionRecord] = {}
        self.heard: dict[Place, float] = {}
        self.holds = Holds()
        self.moved: dict[str, MovedGroupRecord] = {}
        self.group_names: dict[str, str] = {}
        self.uses: dict[int, UseRecord] = {}
        self.news: list[str] = []
        self._sayings = NoticeDeduplicator(self.news.append)
        self._feed: ControlFeed | None = None

    @property
    def offset(self) -> int:
        """The offset up to which the control topic was read: records yet to be written are not before it."""
        assert self._feed is not None
        return self._feed.offset

    async def start(self, control: ControlView) -> None:
        """Follow the control topic from the offset up to which ``control`` was read."""
        self.stop()
        self.holds, self.moved, self.group_names = control.holds, control.moved, control.group_names
        before = {(TopicId(at[0]), at[1]): position for at, position in control.positions.items()}
        self._told = {(place, one): one.count(at) for place, at in before.items() for one in _COUNTED}
        self.news += news((*self.holds.pauses.marks.values(), *self.holds.failed_over.values()))
        topic = self._flow.identity.control_topic
        found = await self._flow.target.refresh([topic])
        self._feed = ControlFeed(self._flow.target, topic, found[topic].topic_id, control.end)
        self._task = asyncio.create_task(self._follow(self._feed))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _follow(self, feed: ControlFeed) -> None:
        while True:
            documents = await self._next(feed)
            words = [d for d in documents if isinstance(d, (PauseRecord, FailedOverRecord))]
            for word in words:
                self.holds = self.holds.with_word(word)
            self.news += news(words)
            for document in documents:
                if isinstance(document, MovedGroupRecord):
                    note_move(self.moved, document)
                elif isinstance(document, GroupNameRecord):
                    self.group_names[document.group] = document.target_group
                elif isinstance(document, UseRecord) and document.owner == self._owner:
                    self.uses[document.task] = document
                elif isinstance(document, PositionRecord) and document.owner == self._owner:
                    place = (TopicId(document.topic_id), document.partition)
                    self.positions[place] = document
                    self.heard[place] = time.monotonic()
                    self._note(place, document)

    async def _next(self, feed: ControlFeed) -> list[Document]:
        """The documents since the last call; a failure is reported once, and reading is retried.

        Pauses and a failover's marks arrive on this topic.
        """
        try:
            documents = await feed.next()
        except Exception as error:  # noqa: BLE001  who stops following hears of no pause and no mark any more
            trouble = f"topic {feed.topic} of the target {_NO_CONTROL}: {retried(error)}; mmtool keeps trying"
            self._sayings.once(feed.topic, Notice(trouble, Event.CLUSTER_AWAY))
            await asyncio.sleep(_AGAIN_SECONDS)
            return []
        self._sayings.is_well(feed.topic)
        return documents

    def _note(self, place: Place, position: PositionRecord) -> None:
        """Report what halts or delays a partition once, however many rounds repeat it, until it moves."""
        if position.executor and position.round > self._rounds.get(position.executor, 0):  # once per round
            self._rounds[position.executor] = position.round
            fields = {"executor": position.executor, "round": position.round}
            said = f"worker {position.executor} has started its part of Spark job {position.round}"
            self.news.append(Notice(said, Event.WORKER_STARTED, **fields))
        halted = position.state == State.HALTED
        if halted:
            self._halted[place] = HaltReason.stored(position.reason)
        else:  # the last round's word may have come after the next one had let it go
            self._halted.pop(place, None)
        for one in _COUNTED:
            count = one.count(position)
            if count > one.times * self._told.get((place, one), 0):
                self._told[place, one] = count
                said = f"{_name(position)}: {one.said(position)}"
                self.news.append(_notice(position, said, one.event, count=count))
        self._note_quota(place, position)
        self._note_silence(place, position)
        if halted:
            self._stopped_at[place] = position.upstream_position
        # each round tries what is halted again, which alone is no progress
        elif position.upstream_position > self._stopped_at.get(place, position.upstream_position):
            del self._stopped_at[place]
            self.news.append(_notice(position, f"{_name(position)} is copied again", Event.PARTITION_RESUMED))
        why = (position.reason, position.upstream_position)
        is_begun = position.state != State.STARTING  # the progress of a prefill is no news
        if is_begun and position.reason and self._noted.get(place) != why:
            self._noted[place] = why
            how, event = (
                ("is halted: ", Event.PARTITION_HALTED) if halted else ("is ", Event.PARTITION_WAITING)
            )
            said = f"{_name(position)} {how}{position.reason}"
            self.news.append(_notice(position, said, event, reason=position.reason))

    def _note_quota(self, place: Place, position: PositionRecord) -> None:
        """Report once that a quota throttles the flow, and once that none does any more.

        A quota throttles many partitions at once.
        """
        before = bool(self._slowed)
        if position.slowed_by:
            self._slowed.add(place)
        else:
            self._slowed.discard(place)
        if before != bool(self._slowed):
            event = Event.QUOTA_THROTTLED if position.slowed_by else Event.QUOTA_RELEASED
            said = (
                f"{position.quota_said}; raise the quota of mmtool's principal if the lag grows"
                if position.slowed_by
                else "no longer throttled by a quota"
            )
            fields = {"clusters": position.slowed_by, "executor": position.executor}
            self.news.append(Notice(said, event, **fields))

    def _note_silence(self, place: Place, position: PositionRecord) -> None:
        """Report once that a broker does not answer, and once that no partition waits for it any more.

        A broker leads many partitions.
        """
        broker, executor = position.waits_for, position.executor
        for other in [name for name, places in self._waiting.items() if name != broker and place in places]:
            self._waiting[other].discard(place)
            if not self._waiting[other]:
                del self._waiting[other]
                said = f"no partition waits for {other} any more"
                self.news.append(Notice(said, Event.BROKER_ANSWERS, broker=other, executor=executor))
        if broker:
            if broker not in self._waiting:
                said = f"{broker} does not answer: the partitions that it leads wait; mmtool keeps trying"
                self.news.append(Notice(said, Event.BROKER_SILENT, broker=broker, executor=executor))
            self._waiting.setdefault(broker, set()).add(place)


def _name(position: PositionRecord) -> str:
    return f"{position.topic}-{position.partition}"


def _notice(position: PositionRecord, said: str, event: Event, **fields: object) -> Notice:
    """A notice about a partition, with the fields of its position."""
    return Notice(
        said,
        event,
        topic=position.topic,
        partition=position.partition,
        target_topic=position.target_topic,
        upstream_position=position.upstream_position,
        executor=position.executor,
        **fields,
    )


def booked_position(partition: PartitionAssignment, owner: str) -> PositionRecord:
    """A partition's position by its assignment, until a worker writes one.

    Unlike `position_by_books` it has the counters of earlier rounds, and the reason of a halt.
    """
    position = position_by_books(partition.block, owner)
    state = position.state if partition.stored else State.STARTING
    state = State.HALTED if partition.halted else state
    return replace(position, state=state, reason=partition.halted, **partition.tally._asdict())


def waiting(position: PositionRecord, reason: str) -> PositionRecord:
    """``position`` in state waiting, for a partition whose task has no slot.

    Unchanged if ``reason`` is empty, or its state is one of `STILL`.
    """
    if not reason or position.state in STILL:
        return position
    return replace(position, state=State.WAITING, reason=reason)


def position_by_books(block: Block, owner: str = "") -> PositionRecord:
    """A partition's position by its stored block alone, until a worker writes one.

    Its counters are 0; see `booked_position`.
    """
    about, tail = block.about, block.tail
    end, start = (
        seen.offset if seen is not UNKNOWN else 0 for seen in (tail.source_end, tail.source_log_start)
    )
    return PositionRecord(
        owner=owner,
        topic=about.source_topic,
        topic_id=about.topic_id,
        partition=about.partition,
        target_topic=about.target_topic,
        upstream_position=tail.upstream_frontier,
        downstream_position=tail.position,
        source_end=end,
        source_log_start=start,
        records=0,
        mirrored_bytes=0,
        state=State.CAUGHT_UP if tail.upstream_frontier >= end else State.STARTING,
        reason="",
        observed_ms=0,
        behind_since_ms=0,
    )


def tally_of_all(folded: Tally, position: PositionRecord | None, owner: str) -> Tally:
    """A partition's counters, from rounds that reported at their end and the last position of one that did not.

    Args:
        folded: The counters of this owner's reported rounds.
        position: The last position, by any owner. Its counts of dead letters, foreign offsets and gaps are over all
            owners, and only grow; its records and bytes are those of its own owner.
        owner: The owner that the counters are for.
    """
    if position is None:
        return folded
    foreign = max((folded.foreign, folded.foreign_end), (position.foreign, position.foreign_end))
    own = (position.records, position.mirrored_bytes) if position.owner == owner else (0, 0)
    records, size = max(folded.records, own[0]), max(folded.mirrored_bytes, own[1])
    gaps = max((folded.gaps, folded.gaps_end), (position.gaps, position.gaps_end))
    latency = Latency(folded.latency, folded.latency_ms)
    if position.owner == owner:
        latency = max(
            latency, Latency(position.latency, position.latency_ms), key=lambda one: sum(one.counts)
        )
    letters = max(folded.dead_letters, position.dead_letters)
    unreadable = max(folded.unreadable, position.unreadable)
    return Tally(records, size, letters, *foreign, *gaps, *latency, unreadable)
