"""A partition's mirroring rate and the age of its state, from its stored positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.flow.partition_rows import HELD
from mmtool.plan.records.documents import State

if TYPE_CHECKING:
    from mmtool.plan.flow.partition_rows import PartitionRow
    from mmtool.plan.flow.status import FlowFacts
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.plan.topics.facts import TopicFacts


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
    if row.state in HELD:
        return _held_since_ms(facts, row, topic)
    match row.state:
        case State.RUNNING:
            return None if live is None else live.behind_since_ms or None
        case State.STARTING:
            return facts.owner.since_ms if facts.owner is not None and facts.announced else None
        case State.WAITING | State.IDLE:
            return _silent_since_ms(facts, topic, row.partition or 0)
        case _:
            trails = facts.trails
            return (
                None
                if trails is None
                else trails.state_since_ms(topic.topic_id, row.partition or 0, row.state)
            )


def _held_since_ms(facts: FlowFacts, row: PartitionRow, topic: TopicFacts) -> int | None:
    failed_over = row.state == State.FAILED_OVER
    holds = facts.holds
    mark = holds.failed_over.get(topic.name) if failed_over else holds.pauses.of(topic.topic_id)
    return None if mark is None else mark.since_ms


def _silent_since_ms(facts: FlowFacts, topic: TopicFacts, partition: int) -> int | None:
    """When a worker last reported the partition, in ms since 1970; None while one reports it, or where unknown.

    Without a holder of the flow, when the last owner's workers last reported anything.
    """
    if facts.live(topic.topic_id, partition) is not None:
        return None
    if facts.holder is None:
        return facts.heard_ms
    word = facts.positions.get((topic.topic_id, partition))
    return word.observed_ms if word is not None and facts.is_of_owner(word) else None
