"""Rows of mirrored partitions whose topic the source no longer lists.

Of a topic that was recreated and deleted again, only the last one gets rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.flow.positions import PartitionRow
from mmtool.plan.records.documents import State
from mmtool.plan.topics.facts import source_deleted, source_denied
from mmtool.plan.words import counted, joined, moment
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.plan.flow.status import FlowFacts
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.translation.blocks import Block


class StoredPartition(NamedTuple):
    """The stored state of a partition: its newest block of offset runs, its last position, or both."""

    block: Block | None
    position: PositionRecord | None

    @property
    def place(self) -> TopicPartition:
        """The partition on the source."""
        if self.block is not None:
            return self.block.about.upstream
        assert self.position is not None
        return TopicPartition(self.position.topic, self.position.partition)

    @property
    def topic_id(self) -> TopicId:
        """Of the source topic."""
        if self.block is not None:
            return self.block.about.topic_id
        assert self.position is not None
        return TopicId(self.position.topic_id)

    @property
    def frontier(self) -> int:
        """The next source offset to fetch: the later one of the block and the position."""
        booked = 0 if self.block is None else self.block.tail.upstream_frontier
        return max(booked, 0 if self.position is None else self.position.upstream_position)

    @property
    def missing(self) -> int:
        """The number of offsets that were seen on the source and not mirrored."""
        seen = UNKNOWN if self.block is None else self.block.tail.source_end
        ends = [0 if seen is UNKNOWN else seen.offset, self.position.source_end if self.position else 0]
        return max(*ends, self.frontier) - self.frontier

    @property
    def heard_ms(self) -> int:
        """When the source's end was last seen, in ms since 1970; 0 if it never was."""
        seen = UNKNOWN if self.block is None else self.block.tail.source_end
        return max(0 if seen is UNKNOWN else seen.at_ms, self.position.observed_ms if self.position else 0)

    @property
    def target(self) -> tuple[str, int]:
        """The target topic, and the lowest target offset that the next mirrored record can get."""
        if self.block is not None:
            return self.block.about.target_topic, self.block.tail.downstream_end.position
        assert self.position is not None
        return self.position.target_topic, self.position.downstream_position


def last_of_each(stored: Iterable[StoredPartition]) -> dict[TopicPartition, StoredPartition]:
    """The stored state by partition of the source; of several topics that had one name, the one last seen."""
    found: dict[TopicPartition, StoredPartition] = {}
    for one in stored:
        if one.place not in found or found[one.place].heard_ms < one.heard_ms:
            found[one.place] = one
    return found


def seen_last(row: PartitionRow, stored: StoredPartition | None) -> PartitionRow:
    """A partition's row while its source does not answer: without a lag, and with what was seen last."""
    away = f"{row.source} does not answer"
    if stored is not None and stored.heard_ms:
        left = counted(stored.missing, "offset")
        away += f"; {moment(stored.heard_ms)}, when it was last seen, it had {left} that {row.target} lacks"
    state = State.WAITING if row.state in (State.RUNNING, State.CAUGHT_UP, State.STARTING) else row.state
    return row._replace(lag_records=None, lag_seconds=None, state=state, reason=joined(row.reason, away))


def vanished_rows(facts: FlowFacts) -> list[PartitionRow]:
    """The status row of each partition whose topic the source no longer lists, by topic and number."""
    places = {
        *(place for place, block in facts.blocks.items() if block.about.source_topic in facts.unlisted),
        *((TopicId(p.topic_id), p.partition) for p in facts.positions.values() if p.topic in facts.unlisted),
    }
    stored = last_of_each(StoredPartition(facts.blocks.get(at), facts.positions.get(at)) for at in places)
    return [_row(facts, one) for _, one in sorted(stored.items())]


def _row(facts: FlowFacts, stored: StoredPartition) -> PartitionRow:
    place, word = stored.place, stored.position
    (target, downstream), (state, reason) = stored.target, _state(facts, stored)
    mine = word if word is not None and facts.is_of_owner(word) else None
    return PartitionRow(
        facts.source,
        facts.target,
        place.topic,
        place.partition,
        target,
        stored.frontier,
        downstream,
        mine.records if mine else 0,
        mine.mirrored_bytes if mine else 0,
        stored.missing,
        None if stored.missing else 0.0,
        state,
        joined(reason, word.notes if word is not None else ""),
    )


def _state(facts: FlowFacts, stored: StoredPartition) -> tuple[State, str]:
    topic = stored.place.topic
    mark = facts.holds.failed_over.get(topic)
    if mark is not None:
        return State.FAILED_OVER, mark.sentence
    if topic not in facts.deleted:
        return State.HALTED, source_denied(topic, refreshes=facts.refreshes)
    # where nothing is missing nothing is to be mended, and nobody needs to be woken
    state = State.IDLE if facts.holder is None else State.WAITING
    return State.HALTED if stored.missing else state, source_deleted(
        topic, stored.missing, forgets=not facts.is_external
    )
