"""Where a partition's mirror starts, and what of the records behind that the target will refuse."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plain_text import duration
from mmtool.plan.topics.configs import AFTER, BEFORE, FOR_EVER, RAISE
from mmtool.plan.words import counted, few, have
from mmtool.replication.topics.presence import AbsenceCheck
from mmtool.translation.blocks import Block, MirroredPartition, MirrorStart
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from mmtool.config.values import RelativeStart
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.topics.mirror_topics import MirroredTopic

_NOWHERE_ELSE: Mapping[TopicPartition, MirrorStart] = MappingProxyType({})


class FirstSizes:
    """The partition counts with which a flow first saw its topics: partitions added later are mirrored whole.

    Of those that were there before, one that had no leader yet begins where ``mmtool.start`` lets its topic begin.
    """

    def __init__(self) -> None:
        self._sizes: dict[TopicId, int] = {}

    def added(
        self, unknown: Collection[tuple[MirroredTopic, int]], on_record: Iterable[tuple[TopicId, int]]
    ) -> set[TopicPartition]:
        """Those of ``unknown`` that were added to their topic later; all of a topic that is in ``on_record``."""
        mirrored = {topic_id for topic_id, _ in on_record}
        for topic, _ in unknown:
            self._sizes.setdefault(topic.topic_id, 0 if topic.topic_id in mirrored else topic.partitions)
        return {TopicPartition(t.name, p) for t, p in unknown if p >= self._sizes[t.topic_id]}


_Lone = tuple[str, TopicPartition]
"""The alias of a cluster, and a partition that has no leader there."""


class LeaderCheck:
    """Which partitions can start now: without a leader, a log's start and end offsets are unknown.

    Args:
        news: Gets a sentence about those that cannot; each is named once.
        settle_seconds: For how long what newly lacks a leader is looked at again: a topic that was made a moment ago
            gets its leaders a moment later.
    """

    def __init__(self, news: list[str], settle_seconds: float = 3.0) -> None:
        self._news = news
        self._settle_seconds = settle_seconds
        self._check = AbsenceCheck[TopicPartition]()
        self._lone: dict[TopicPartition, list[_Lone]] = {}

    async def of(
        self, flow: FlowContext, unknown: Collection[tuple[MirroredTopic, int]]
    ) -> list[tuple[MirroredTopic, int]]:
        """Those of ``unknown`` that have a leader on both clusters; the next call asks for the others again."""

        async def look() -> tuple[dict[TopicPartition, list[_Lone]], Collection[TopicPartition]]:
            if unknown:
                await flow.source.refresh({topic.name for topic, _ in unknown})
                await flow.target.refresh({topic.target_name for topic, _ in unknown})
            lone: dict[TopicPartition, list[_Lone]] = {}
            for topic, number in unknown:
                for cluster, name in ((flow.source, topic.name), (flow.target, topic.target_name)):
                    if cluster.leader(name, number) is None:
                        missing = cluster.alias, TopicPartition(name, number)
                        lone.setdefault(TopicPartition(topic.name, number), []).append(missing)
            return lone, lone

        before = self._check.missing
        self._lone = await self._check.of(look, self._settle_seconds)
        new = {place: of for place, of in self._lone.items() if place not in before}
        self._news += [f"{_no_leader(new)}; mmtool keeps trying"] if new else []
        return [(t, p) for t, p in unknown if TopicPartition(t.name, p) not in self._lone]

    def refuse_missing(self, flow_name: str) -> None:
        """Refuse a run with a goal if partitions have no leader: it would end without them.

        Raises:
            UnreachableError: some had no leader at the last check.
        """
        if self._lone:
            which = "its replicas" if len(self._lone) == 1 else "their replicas"
            raise UnreachableError(
                f"{flow_name}: {_no_leader(self._lone)}",
                remedy=f"start the brokers of {' and '.join(_by_alias(self._lone))} that hold {which}, then run the"
                " same command again",
            )


def _no_leader(lone: Mapping[TopicPartition, Collection[_Lone]]) -> str:
    led = "; ".join(
        f"{few(places)} {have(len(places))} no leader on {alias}" for alias, places in _by_alias(lone).items()
    )
    return f"mmtool cannot mirror {few(sorted(lone))} yet: {led}"


def _by_alias(lone: Mapping[TopicPartition, Collection[_Lone]]) -> dict[str, list[TopicPartition]]:
    """The partitions without a leader, sorted, by the alias of their cluster."""
    found: dict[str, list[TopicPartition]] = {}
    for alias, place in sorted(one for of in lone.values() for one in of):
        found.setdefault(alias, []).append(place)
    return found


async def first_blocks(
    flow: FlowContext,
    unknown: Collection[tuple[MirroredTopic, int]],
    added: AbstractSet[TopicPartition],
    elsewhere: Mapping[TopicPartition, MirrorStart] = _NOWHERE_ELSE,
) -> list[tuple[MirroredTopic, int, Block]]:
    """The first block of each partition that was never mirrored, not yet stored.

    Args:
        flow: The flow of the partitions.
        unknown: Topic and partition number; each has a leader on both sides.
        added: Partitions that were added to mirrored topics: they are mirrored from their log start, whatever
            ``mmtool.start`` says.
        elsewhere: Start offsets of the partitions that continue after MirrorMaker 2.
    """
    if not unknown:
        return []
    whole = added - elsewhere.keys()
    new = {TopicPartition(t.name, p) for t, p in unknown} - whole - elsewhere.keys()
    starts = await starts_at(flow, new, flow.settings.start) | await _list(flow, whole, EARLIEST)
    downs = {TopicPartition(t.target_name, p) for t, p in unknown}
    ends = await list_offsets(flow.target, dict.fromkeys(downs, LATEST), read_committed=False)
    found = []
    for topic, partition in unknown:
        up, down = TopicPartition(topic.name, partition), TopicPartition(topic.target_name, partition)
        start = elsewhere.get(up)
        if start is None and up in starts and down in ends:
            start = MirrorStart(UpstreamOffset(starts[up]), DownstreamOffset(ends[down]))
        if start is not None:
            block = MapRecorder.begin(partition_of(flow, topic, partition), start).take()[0]
            found.append((topic, partition, block))
    return found


async def starts_at(
    flow: FlowContext, ups: Collection[TopicPartition], start: RelativeStart
) -> dict[TopicPartition, int]:
    """The offsets that ``mmtool.start`` means now; the end offset for a time after the last record.

    A duration is counted back from now, as a consumer counts it when it finds no offset.
    """
    if start == "earliest":
        return await _list(flow, ups, EARLIEST)
    ends = await _list(flow, ups, LATEST)
    if start == "latest":
        return ends
    return ends | await _list(flow, ups, _moment_ms(start))


def _moment_ms(start: datetime | timedelta) -> int:
    if isinstance(start, datetime):
        return int(start.timestamp() * 1000)
    return max(0, int(time.time() * 1000) - start // timedelta(milliseconds=1))


async def _list(flow: FlowContext, ups: Collection[TopicPartition], when: int) -> dict[TopicPartition, int]:
    return await list_offsets(flow.source, dict.fromkeys(ups, when), read_committed=False)


def partition_of(flow: FlowContext, topic: MirroredTopic, partition: int) -> MirroredPartition:
    """The source and target partition of a mirror with their cluster ids, as its stored blocks name them."""
    return MirroredPartition(
        flow.identity.source_id,
        flow.identity.target_id,
        topic.topic_id,
        partition,
        topic.name,
        topic.target_name,
        topic.target_id,
    )


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
