"""Warn of source records whose timestamps the target will refuse, before mirroring starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plain_text import duration
from mmtool.plan.words import counted
from mmtool.replication.driver.halt_retry import RAISE
from mmtool.replication.topics.target_limits import AFTER, BEFORE, FOR_EVER
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.topics.mirror_topics import MirroredTopic
    from mmtool.translation.blocks import Block


async def refused_times(
    source: WireCluster, begun: Collection[tuple[MirroredTopic, int, Block]], now_ms: int
) -> list[str]:
    """Warnings about records whose timestamps the target now refuses: one for each topic and limit.

    Sends at most three requests to each leader, and none where no limit is set. For records that are too old, a warning
    names the offset at which the mirror starts; later records may be too old as well.

    Args:
        source: The cluster of the records.
        begun: The partitions that will be mirrored: topic, partition and first block.
        now_ms: The current time in milliseconds, assumed to be that of the target's brokers.

    Raises:
        UnreachableError: a leader does not answer.
    """
    topics = {topic.name: topic for topic, _, _ in begun}
    starts = {TopicPartition(topic.name, p): block.mirror_start.upstream for topic, p, block in begun}
    limits = {place: topics[place.topic].limits for place in starts}
    old = {at: now_ms - of.before[1] for at, of in limits.items() if of.before[1] < now_ms}
    ahead = {at: now_ms + of.after[1] for at, of in limits.items() if of.after[1] < FOR_EVER - now_ms}
    taken = await list_offsets(source, dict.fromkeys(old, LATEST), read_committed=False)
    # where no record is young enough, all up to the end are too old
    taken |= await list_offsets(source, old, read_committed=False)
    refused = await list_offsets(source, ahead, read_committed=False)
    found: dict[str, dict[TopicPartition, int]] = {
        BEFORE: {at: starts[at] for at, first in taken.items() if starts[at] < first},
        AFTER: {at: first for at, first in refused.items() if starts[at] <= first},
    }
    return [
        _sentence(topics[name], key, {at: first for at, first in places.items() if at.topic == name})
        for key, places in found.items()
        for name in dict.fromkeys(at.topic for at in places)
    ]


def _sentence(topic: MirroredTopic, key: str, places: Mapping[TopicPartition, int]) -> str:
    name, bound = topic.limits.before if key == BEFORE else topic.limits.after
    (place, offset), *others = places.items()
    which = f"{place} and {counted(len(others), 'more partition')} hold" if others else f"{place} holds"
    start = f"{place} from" if others else "from"
    what = {
        BEFORE: f"older than {duration(bound / 1000)}",
        AFTER: f"more than {duration(bound / 1000)} ahead of the broker's clock",
    }[key]
    return (
        f"{which} records {what}, {start} offset {offset} on: {topic.target_name} refuses them, and"
        f" mirroring halts at this offset; raise {name} on {topic.target_name}, or set {RAISE}"
    )
