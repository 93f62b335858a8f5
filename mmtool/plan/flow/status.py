"""The status of a flow: one row per partition, from its owner, its stored state and the source's answers.

A  every partition of every topic that the flow matches has exactly one row
B  a row says that a partition moves (``running``, ``caught_up``) only on a fresh position of the workers of
   the owner that holds the flow now; what an earlier owner wrote, or a silent one, is never shown as live
C  a known lag is against the source's end offset that was just read, whichever process runs the flow: 0 exactly where
   the frontier has passed that end
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.flow.positions import HELD, STILL, PartitionRow, PositionTrails, seconds_since, waiting_since
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import OwnerRecord, PositionRecord, State
from mmtool.plan.records.holds import Holds
from mmtool.plan.records.identity import owner_client, shard_of
from mmtool.plan.topics.facts import BEGIN_AGAIN, TopicFacts, not_the_same
from mmtool.plan.topics.requirements import PRINT_TOPICS
from mmtool.plan.topics.retention import Retention, deleted_unmirrored, passing
from mmtool.plan.words import joined, moment
from mmtool.translation.blocks import Block
from mmtool.translation.names import topic_part
from mmtool.translation.types import TopicId, TopicPartition

SILENT_MS = 20_000
"""The age from which a position is not live any more: workers repeat theirs every ten seconds."""

_NEEDS_SLOT = frozenset({State.NEVER_RAN, State.STARTING, State.RUNNING, State.CAUGHT_UP, State.WAITING})

NEVER = "replicate never ran this flow"
NOT_YET = (
    "not mirrored yet: replicate starts this partition when it next lists topics"
    " (refresh.topics.interval.seconds)"
)
NOT_YET_NO_REFRESH = (
    "not mirrored yet: replicate looks for new topics and partitions only at its start (refresh.topics.enabled ="
    " false): stop and start `mmtool replicate`"
)
NOBODY = "replicate is not running"
NOT_YET_NOBODY = "not mirrored yet, and replicate is not running"
BY_MIRROR_MAKER = "mirrored by MirrorMaker 2"
NOT_BY_MIRROR_MAKER = (
    "MirrorMaker 2 mirrors this flow, and has stored no source offset of this partition yet: it copied the first record"
    " less than a minute ago, or has not copied one"
)


@dataclass(frozen=True, slots=True)
class FlowMember:
    """One process in the flow's ownership group; ``holds`` the flow or waits for it."""

    client_id: str
    host: str
    holds: bool

    @property
    def process(self) -> tuple[str, str] | None:
        """The host and the pid in the client id of an owner; None where that names neither."""
        _, found, process = self.client_id.partition("-owner-")
        host, pid, number = process.rpartition("-pid-")
        return (host, number) if found and pid else None

    def __str__(self) -> str:
        """The member's host and process, as ``vm, pid 7491``; else its client id and its address."""
        process = self.process
        return f"{self.client_id} on {self.host.lstrip('/')}" if process is None else ", pid ".join(process)


@dataclass(frozen=True)
class FlowFacts:
    """The answers of a flow's clusters.

    Attributes:
        source, target: The aliases.
        ran: The flow has run: its first start is recorded.
        topics: The source's topics that the flow matches, by name.
        remote: Their names on the target.
        ends: The source's ends that can be mirrored, read before the positions; without partitions whose leader did not
            answer.
        starts: The start offsets of the source's logs, likewise.
        owner: The last owner, as it recorded itself.
        members: The members of the ownership group.
        positions: The workers' last positions.
        blocks: The newest block of offset runs, of partitions whose position is not live.
        target_ids: The target's topics.
        holds: The pauses and failed-over marks that keep topics from being mirrored.
        unlisted: Topics that the flow matches and has mirrored, and that the source no longer lists.
        deleted: Those of them that the source does not have.
        refused: Topics that the last owner refuses to mirror, and why.
        problems: Why the source's end of a partition could not be read.
        begins_again: ``mmtool.on.topic.recreated = restart``.
        is_external: Another system keeps the mirrors; nothing is stored that keeps a recreated topic from being noted.
        kept_in: The target topics whose records have the source's own offsets, by the source topic's name.
        refreshes: ``refresh.topics.enabled``.
        slots: The Spark slots of the last owner's round; None where it has written none.
        shards: How many the flow has; 0 where it never ran.
        mirror_maker: MirrorMaker 2's progress on a flow that mmtool never ran.
        trails: The workers' earlier positions; None where they were not read.
        topic_faults: Which internal topics a flow that never ran waits for, as a sentence; empty for none.
        now_ms: When these facts were read.
    """

    source: str
    target: str
    ran: bool
    topics: Mapping[str, TopicFacts]
    remote: Mapping[str, str]
    ends: Mapping[TopicPartition, int]
    owner: OwnerRecord | None
    members: tuple[FlowMember, ...]
    positions: Mapping[tuple[str, int], PositionRecord]
    target_ids: Mapping[str, TopicId]
    now_ms: int
    blocks: Mapping[tuple[TopicId, int], Block] = field(default_factory=dict)
    holds: Holds = field(default_factory=Holds)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unlisted: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[TopicPartition, str] = field(default_factory=dict)
    begins_again: bool = False
    is_external: bool = False
    kept_in: Mapping[str, str] = field(default_factory=dict)
    refreshes: bool = True
    topic_faults: str = ""
    slots: SlotsRecord | None = None
    shards: int = 0
    trails: PositionTrails | None = None
    mirror_maker: MirrorMakerProgress = field(default_factory=MirrorMakerProgress)

    @cached_property
    def holder(self) -> FlowMember | None:
        """The member that runs the flow; None without one.

        During a rebalance the group's coordinator names no holder: then it is the member that the owner record names,
        because the owner keeps the flow through a rebalance.
        """
        held = next((member for member in self.members if member.holds), None)
        return held or next((member for member in self.members if self._is_owner(member)), None)

    @cached_property
    def announced(self) -> bool:
        """Whether the owner record names the holder; a new holder gets the lease before it writes the record."""
        return self.holder is not None and self._is_owner(self.holder)

    def _is_owner(self, member: FlowMember) -> bool:
        owner = self.owner
        return owner is not None and member.client_id.endswith(owner_client(owner.host, owner.pid))

    @property
    def on_record(self) -> frozenset[str]:
        """The source's topics with stored state, as far as the offset runs were read."""
        booked = {block.about.source_topic for block in self.blocks.values()}
        return frozenset(booked | {position.topic for position in self.positions.values()})

    @property
    def standbys(self) -> int:
        """The number of members that wait for the ownership lease."""
        return sum(member is not self.holder for member in self.members)

    @cached_property
    def heard_ms(self) -> int | None:
        """When the last owner's workers last reported, in ms since 1970; None when they never did."""
        said = [p.observed_ms for p in self.positions.values() if self.is_of_owner(p)]
        return max(said, default=0) or None

    def is_of_owner(self, position: PositionRecord | None) -> bool:
        """Whether the last owner's workers wrote a position."""
        return position is not None and self.owner is not None and position.owner == self.owner.owner

    def live(self, topic_id: TopicId, partition: int) -> PositionRecord | None:
        """A partition's position, if the owner's workers wrote it lately and the target topic exists; else None."""
        position = self.positions.get((topic_id, partition))
        if position is None or not self.announced or not self.is_of_owner(position):
            return None
        if position.target_topic not in self.target_ids:
            return None
        return position if self.now_ms - position.observed_ms < SILENT_MS else None

    def is_by_mirror_maker(self, topic: TopicFacts, partition: int) -> bool:
        """Whether MM2 mirrors a partition: only MM2 has stored state of it, or mmtool has never run the flow."""
        place = (topic.topic_id, partition)
        if not self.mirror_maker or place in self.blocks or self.live(*place) is not None:
            return False
        return not self.ran or TopicPartition(topic.name, partition) in self.mirror_maker.positions

    def slot_reason(self, topic_id: TopicId, partition: int) -> str:
        """Why a partition has no Spark slot in the owner's round; empty where it has one."""
        if self.slots is None or not self.shards or not self.announced:
            return ""
        return self.slots.reason(shard_of(topic_id, partition, self.shards))

    def other_than(self, topic: TopicFacts) -> str:
        """Why a topic is not mirrored because another topic had its name (KIP-516), by the blocks read; else empty."""
        mirrored = () if self.is_external else self._ids_by_name.get(topic.name, ())
        kept_in = self.kept_in.get(topic.name, "")
        again = self.begins_again
        return not_the_same(topic.name, topic.topic_id, mirrored, begins_again=again, kept_in=kept_in)

    @cached_property
    def _ids_by_name(self) -> dict[str, set[TopicId]]:
        found: dict[str, set[TopicId]] = {}
        for block in self.blocks.values():
            found.setdefault(block.about.source_topic, set()).add(block.about.topic_id)
        return found


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The status of one partition, before its lag in seconds is known.

    Attributes:
        row: Its row; ``lag_seconds`` is set where no record has to be read for it.
        topic_id: Of the source topic.
        settled_ms: When the mirror last had everything that the source had; 0 when that is unknown.
        since_ms: Since when workers have seen it behind; 0 when none has.
    """

    row: PartitionRow
    topic_id: TopicId
    settled_ms: int = 0
    since_ms: int = 0

    @property
    def place(self) -> TopicPartition:
        assert self.row.topic is not None
        assert self.row.partition is not None
        return TopicPartition(self.row.topic, self.row.partition)

    @property
    def is_behind(self) -> bool:
        """Whether the source's end is after ``upstream_position``; False where either is unknown."""
        return bool(self.row.lag_records) and self.row.upstream_position is not None

    def with_age(
        self, oldest_ms: int | None, now_ms: int, keeps: Retention, first_ms: int | None = None
    ) -> PartitionRow:
        """The row with its lag in seconds and a retention warning, by the timestamp of the first unmirrored record.

        Args:
            oldest_ms: That record's timestamp; None when it was not read, or is ahead of the clock.
            now_ms: The time.
            keeps: The source's retention of the topic.
            first_ms: The timestamp of the first record of the source's log, where records before it were deleted; None
                where none were, or as ``oldest_ms``.

        Without a timestamp, the retention counts from when the mirror last had everything that the source had.
        """
        if not self.row.lag_records:
            return self.row
        since_ms = waiting_since(now_ms, oldest_ms, self.settled_ms, self.since_ms)
        row = self.row._replace(lag_seconds=seconds_since(since_ms, now_ms))
        written_ms = oldest_ms or self.settled_ms
        if not written_ms:
            return row
        return row._replace(reason=joined(row.reason, passing(written_ms, now_ms, keeps, first_ms)))


def flow_row(facts: FlowFacts) -> PartitionRow | None:
    """The single row of a flow that never ran; None when it ran, has failed-over topics, or is MM2's."""
    if facts.ran or facts.holds.failed_over or facts.mirror_maker:
        return None
    if facts.blocks:
        return PartitionRow(facts.source, facts.target, None, state=State.HALTED, reason=_control_lost(facts))
    if facts.holder is None:
        reason = f"{NEVER}: {facts.topic_faults}; {PRINT_TOPICS}" if facts.topic_faults else NEVER
        return PartitionRow(facts.source, facts.target, None, state=State.NEVER_RAN, reason=reason)
    reason = f"replicate ({facts.holder}) is starting the flow for the first time"
    return PartitionRow(facts.source, facts.target, None, state=State.STARTING, reason=reason)


def _control_lost(facts: FlowFacts) -> str:
    return (
        f"the flow's control topic on {facts.target} (mmtool-control.{topic_part(facts.source)}.internal) was deleted"
        f" or emptied: stop `mmtool replicate`, {_rebuild(facts)}, which recreates the topic and pauses the flow, and"
        " start `mmtool replicate` again; `mmtool status -c FILE` then shows what to do before you resume the flow"
    )


def _runs_lost(facts: FlowFacts) -> str:
    return (
        "the map of source offsets to target offsets (offset runs) of this partition is lost: stop `mmtool replicate`,"
        f" {_rebuild(facts)}, which derives the map from both logs, and start `mmtool replicate` again"
    )


def _rebuild(facts: FlowFacts) -> str:
    return f"run `mmtool flow rebuild -c FILE -s {facts.source} -t {facts.target} --execute`"


def has_silent(facts: FlowFacts) -> bool:
    """Whether offset runs must be read: for partitions without a live position, or unlisted topics with a lag."""
    behind = {at.topic for at in facts.positions.values() if at.source_end > at.upstream_position}
    return bool(behind & facts.unlisted) or any(
        facts.live(topic.topic_id, partition) is None
        for topic in facts.topics.values()
        for partition in range(topic.partitions)
    )


def has_unmirrored(facts: FlowFacts) -> bool:
    """Whether mmtool stores no offset runs of some partition, and the flow's control topic is not lost."""
    if not facts.ran:
        return not facts.blocks
    return any(
        (topic.topic_id, partition) not in facts.blocks
        for topic in facts.topics.values()
        for partition in range(topic.partitions)
    )


def standings(facts: FlowFacts) -> list[PartitionStatus]:
    """The status of every partition of the flow's topics, by topic and number."""
    return [
        _shown(facts, _standing(facts, topic, partition))
        for _, topic in sorted(facts.topics.items())
        for partition in range(topic.partitions)
    ]


def _shown(facts: FlowFacts, standing: PartitionStatus) -> PartitionStatus:
    """The status, ``waiting`` without a Spark slot, and without a lag where the source's end could not be read."""
    row, problem = standing.row, facts.problems.get(standing.place, "")
    slot = facts.slot_reason(standing.topic_id, standing.place.partition)
    if slot and row.state in _NEEDS_SLOT:  # whatever its worker last reported
        row = row._replace(state=State.WAITING, reason=slot)
    if problem and row.state not in HELD:
        row = row._replace(lag_records=None, lag_seconds=None, reason=joined(row.reason, problem))
    return standing if row is standing.row else replace(standing, row=row)


def _standing(facts: FlowFacts, topic: TopicFacts, partition: int) -> PartitionStatus:
    end = facts.ends.get(TopicPartition(topic.name, partition))
    position = facts.live(topic.topic_id, partition)
    if position is not None:
        return _told_of_loss(facts, _live(facts, position, end, topic.topic_id))
    block = facts.blocks.get((topic.topic_id, partition))
    if block is None:
        return _unheard(facts, topic, partition)
    standing = _booked(facts, block, end)
    begun = block.tail.upstream_frontier != block.mirror_start.upstream
    return _told_of_loss(facts, standing) if begun else standing


def _told_of_loss(facts: FlowFacts, standing: PartitionStatus) -> PartitionStatus:
    """The status with the offsets that retention deleted unmirrored, as perhaps no worker runs to halt for them.

    A failed-over partition stays as it is: its mirror ended, and the source's log continues without it.
    """
    row, start = standing.row, facts.starts.get(standing.place, 0)
    is_left = row.state == State.FAILED_OVER
    if is_left or row.upstream_position is None or start <= row.upstream_position:
        return standing
    said = deleted_unmirrored(row.upstream_position, start)
    return (
        standing
        if said in row.reason
        else replace(standing, row=row._replace(reason=joined(row.reason, said)))
    )


def _by_mirror_maker(facts: FlowFacts, topic: TopicFacts, partition: int) -> PartitionStatus:
    """The status of a partition that MM2 mirrors; an empty partition is caught up without a stored position."""
    place = TopicPartition(topic.name, partition)
    end, progress = facts.ends.get(place), facts.mirror_maker
    position = progress.positions.get(place)
    if position is None and end is not None and end == facts.starts.get(place):
        position = end
    lag = None if position is None or end is None else max(end - position, 0)
    by = f"{BY_MIRROR_MAKER}, which is not running" if progress.has_left else BY_MIRROR_MAKER
    state = State.NEVER_RAN
    if position is not None:
        state = State.IDLE if progress.has_left else State.RUNNING
    row = PartitionRow(
        facts.source,
        facts.target,
        topic.name,
        place.partition,
        facts.remote[topic.name],
        position,
        lag_records=lag,
        lag_seconds=0.0 if lag == 0 else None,
        state=State.CAUGHT_UP if position is not None and lag == 0 else state,
        reason=NOT_BY_MIRROR_MAKER if position is None else by,
    )
    return PartitionStatus(row, topic.topic_id)


def _live(facts: FlowFacts, position: PositionRecord, end: int | None, topic_id: TopicId) -> PartitionStatus:
    end = position.source_end if end is None else end
    lag = max(end - position.upstream_position, 0)
    state = position.state
    if state in (State.RUNNING, State.CAUGHT_UP):
        state = State.RUNNING if lag else State.CAUGHT_UP
    row = PartitionRow.of(facts.source, facts.target, position, facts.now_ms)
    row = row._replace(state=state, lag_records=lag, lag_seconds=None if lag else 0.0)
    return PartitionStatus(row, topic_id, position.at_end_ms, position.behind_since_ms)


def _booked(facts: FlowFacts, block: Block, end: int | None) -> PartitionStatus:
    """The status of a partition without a live position, by its offset runs and its last position, if any."""
    about, tail = block.about, block.tail
    word = facts.positions.get((about.topic_id, about.partition))
    mine = word if word is not None and facts.is_of_owner(word) else None
    state, reason = _resting(facts, block, mine)
    reason = joined(reason, word.notes if word is not None else "")
    lag = None if end is None else max(end - tail.upstream_frontier, 0)
    row = PartitionRow(
        facts.source,
        facts.target,
        about.source_topic,
        about.partition,
        about.target_topic,
        tail.upstream_frontier,
        tail.position,
        mine.records if mine else 0,
        mine.mirrored_bytes if mine else 0,
        lag,
        0.0 if lag == 0 else None,
        state,
        reason,
    )
    if word is None:
        return PartitionStatus(row, about.topic_id)
    return PartitionStatus(row, about.topic_id, word.at_end_ms, word.behind_since_ms)


def _resting(facts: FlowFacts, block: Block, mine: PositionRecord | None) -> tuple[State, str]:
    """The state of a mirrored partition without a live position, and its reason."""
    hold, gone = facts.holds.of(block.about.topic_id, block.about.source_topic), _gone(facts, block)
    if gone and (hold is None or hold.state is State.PAUSED):
        return State.HALTED, gone
    if mine is not None and mine.state in STILL:
        return mine.state, joined(mine.reason, gone)
    if hold is not None or facts.holder is None:
        return (State.IDLE, NOBODY) if hold is None else (hold.state, joined(hold.reason, gone))
    if not facts.announced:
        return State.STARTING, f"replicate ({facts.holder}) is taking the flow over"
    if mine is None:
        return State.STARTING, "its worker has not reported yet"
    return (
        State.WAITING,
        f"no report from its worker since {moment(mine.observed_ms)}: see the log of replicate",
    )


def _gone(facts: FlowFacts, block: Block) -> str:
    """Why the mirror cannot continue: its topic was deleted or recreated (KIP-516) or is refused; else empty."""
    there = facts.target_ids.get(block.about.target_topic)
    refused = facts.refused.get(block.about.source_topic, "")
    # its owner knows what was denied from what was deleted, which look alike from here
    if there == block.about.target_topic_id or refused:
        return refused
    became = "was deleted" if there is None else "was deleted and created again"
    return f"target topic {block.about.target_topic} {became}: {BEGIN_AGAIN}"


def _unheard(facts: FlowFacts, topic: TopicFacts, partition: int) -> PartitionStatus:
    """The status of a partition without offset runs; its lag is unknown, as it depends on ``mmtool.start``."""
    state, reason = State.NEVER_RAN, NOT_YET if facts.refreshes else NOT_YET_NO_REFRESH
    if facts.holder is None:
        reason = NOT_YET_NOBODY
    hold = facts.holds.of(topic.topic_id, topic.name)
    if hold is not None:
        state, reason = hold.state, hold.reason
    if state != State.FAILED_OVER:
        why = facts.other_than(topic) or facts.refused.get(topic.name)
        why = why or (_runs_lost(facts) if _has_lost_runs(facts, topic, partition) else "")
        state, reason = (State.HALTED, why) if why else (state, reason)
    if state is State.NEVER_RAN and facts.is_by_mirror_maker(topic, partition):
        return _told_of_loss(facts, _by_mirror_maker(facts, topic, partition))
    remote = facts.remote[topic.name]
    row = PartitionRow(facts.source, facts.target, topic.name, partition, remote, state=state, reason=reason)
    return PartitionStatus(row, topic.topic_id)


def _has_lost_runs(facts: FlowFacts, topic: TopicFacts, partition: int) -> bool:
    """Whether offset runs are lost: a worker stores a block before a position, and ``flow forget`` deletes both."""
    word = facts.positions.get((topic.topic_id, partition))
    if word is None or word.state == State.STARTING or word.target_topic not in facts.target_ids:
        return False
    return word.downstream_position > 0


def nobody(facts: FlowFacts) -> str:
    """The sentence that no process runs the flow, with its last owner."""
    if facts.owner is None or facts.heard_ms is None:
        return NOBODY
    was = f"{facts.owner.host}, pid {facts.owner.pid}"
    return f"{NOBODY} (last owner: {was}, until {moment(facts.heard_ms)})"


class Activity(NamedTuple):
    """Additional columns of a partition's row; None where unknown.

    Attributes:
        records_per_second, bytes_per_second: Mirrored over the last 10 to 20 s, while its worker reports.
        state_seconds: How long ago the row's state began; a lower bound where it comes from workers' positions.
    """

    records_per_second: float | None = None
    bytes_per_second: float | None = None
    state_seconds: float | None = None


NO_ACTIVITY = Activity()


def activity_of(facts: FlowFacts, row: PartitionRow) -> Activity:
    """The rates of one row of a flow, and the age of its state."""
    topic = None if row.topic is None else facts.topics.get(row.topic)
    if topic is None or row.partition is None:
        return NO_ACTIVITY
    live = facts.live(topic.topic_id, row.partition)
    rates = None if live is None or facts.trails is None else facts.trails.rates(live)
    since = _since_ms(facts, row, topic, live)
    return Activity(
        None if rates is None else round(rates.records, 3),
        None if rates is None else round(rates.bytes, 3),
        None if since is None else max(0, facts.now_ms - since) / 1000,
    )


def _since_ms(
    facts: FlowFacts, row: PartitionRow, topic: TopicFacts, live: PositionRecord | None
) -> int | None:
    """When the row's state began, in ms since 1970; None where unknown."""
    place, since = (topic.topic_id, row.partition or 0), None
    match row.state:
        case State.FAILED_OVER | State.PAUSED:
            is_paused = row.state == State.PAUSED
            pauses, marks = facts.holds.pauses, facts.holds.failed_over
            mark = pauses.of(topic.topic_id) if is_paused else marks.get(topic.name)
            since = None if mark is None else mark.since_ms
        case State.RUNNING:
            since = None if live is None else live.behind_since_ms or None
        case State.STARTING:
            since = facts.owner.since_ms if facts.owner is not None and facts.announced else None
        case State.WAITING | State.IDLE if live is None and facts.holder is None:
            since = facts.heard_ms  # when the last owner's workers last reported anything
        case State.WAITING | State.IDLE:
            word = facts.positions.get(place) if live is None else None
            since = word.observed_ms if word is not None and facts.is_of_owner(word) else None
        case state:
            since = None if facts.trails is None else facts.trails.state_since_ms(*place, state)
    return since
