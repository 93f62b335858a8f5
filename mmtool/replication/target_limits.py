"""What a target topic takes, by its configuration, and what of the source's records it is going to refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.wire.offsets import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.output.human import duration
from mmtool.plan.topic_configs import MIN_ISR, SetConfig
from mmtool.plan.topics import too_few_replicas
from mmtool.replication.again import RAISE
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.kafka.admin import TopicAdmin
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.topic_configs import ConfigEntry
    from mmtool.replication.mirror_topics import MirroredTopic
    from mmtool.translation.blocks import Block

FOR_EVER = (1 << 63) - 1
"""Kafka's own value for no limit at all, in milliseconds."""
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_EITHER = "message.timestamp.difference.max.ms"
TIME_BOUNDS = frozenset({_BEFORE, _AFTER, _EITHER})
"""How far a record's timestamp may lie from the broker's clock (KIP-937); of the last one brokers know until 3.9."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """A topic's, in bytes and milliseconds.

    Attributes:
        max_batch_bytes: ``max.message.bytes``; else a broker's own default less its overhead.
        before_max_ms, after_max_ms: How far a record's timestamp may lie before and after the broker's clock.
        either_max_ms: The same of both, where they set no limit: brokers before 4.0 know it.
    """

    max_batch_bytes: int = 1 << 20
    before_max_ms: int = FOR_EVER
    after_max_ms: int = FOR_EVER
    either_max_ms: int = FOR_EVER

    @classmethod
    def of(cls, entries: Mapping[str, ConfigEntry]) -> TargetLimits:
        """As far as a topic's configuration is known; a topic that sets its own timestamps refuses none."""
        values = {name: entry.value for name, entry in entries.items() if entry.value}
        keeps_times = values.get("message.timestamp.type") != "LogAppendTime"
        return cls(
            int(values.get("max.message.bytes", cls().max_batch_bytes)),
            *(
                int(values.get(name, FOR_EVER)) if keeps_times else FOR_EVER
                for name in (_BEFORE, _AFTER, _EITHER)
            ),
        )

    @property
    def before(self) -> tuple[str, int]:
        """How far before the broker's clock a timestamp may lie, in milliseconds, and which property says so."""
        return self._told_by(_BEFORE, self.before_max_ms)

    @property
    def after(self) -> tuple[str, int]:
        """The same of after."""
        return self._told_by(_AFTER, self.after_max_ms)

    def _told_by(self, name: str, bound: int) -> tuple[str, int]:
        return (name, bound) if bound < FOR_EVER else (_EITHER, self.either_max_ms)

    @property
    def any_time(self) -> list[SetConfig]:
        """What has to be set for the topic to take every timestamp; nothing where it does, or knows no bounds."""
        bounds = {_BEFORE: self.before_max_ms, _AFTER: self.after_max_ms, _EITHER: self.either_max_ms}
        return [SetConfig(name, str(FOR_EVER)) for name, bound in bounds.items() if bound < FOR_EVER]


def short_of_replicas(
    target: TopicAdmin,
    made: Collection[str],
    configs: Mapping[str, Mapping[str, ConfigEntry]],
    alias: str,
    key: str = "replication.factor",
) -> list[str]:
    """Sentences about new topics that have fewer replicas than are to be in sync: one for each pair of numbers.

    Args:
        target: Their cluster.
        made: The new topics.
        configs: The configuration of topics, as far as it is shown.
        alias: The cluster's.
        key: That sets how many replicas a new topic has.
    """
    in_sync = {
        name: configs[name][MIN_ISR].value for name in sorted(made) if MIN_ISR in configs.get(name, {})
    }
    short: dict[tuple[int, int], list[str]] = {}
    for name, replicas in target.replicas(in_sync).items():
        wanted = int(in_sync[name] or 1)
        if replicas < wanted:
            short.setdefault((replicas, wanted), []).append(name)
    return [too_few_replicas(names, *numbers, alias, key) for numbers, names in short.items()]


async def refused_times(
    source: WireCluster, begun: Collection[tuple[MirroredTopic, int, Block]], now_ms: int
) -> list[str]:
    """Sentences about records whose timestamps the target refuses by now: one for each topic and limit.

    At most three requests for each leader, and none where no limit is set. The offset of one that is too old is the
    mirror's beginning; older ones may lie behind it.

    Args:
        source: Whose records.
        begun: What is going to be mirrored: topic, partition and first block.
        now_ms: The time, as the target's brokers are taken to know it.

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
        _BEFORE: {at: starts[at] for at, first in taken.items() if starts[at] < first},
        _AFTER: {at: first for at, first in refused.items() if starts[at] <= first},
    }
    return [
        _sentence(topics[name], key, {at: first for at, first in places.items() if at.topic == name})
        for key, places in found.items()
        for name in dict.fromkeys(at.topic for at in places)
    ]


def _sentence(topic: MirroredTopic, key: str, places: Mapping[TopicPartition, int]) -> str:
    name, bound = topic.limits.before if key == _BEFORE else topic.limits.after
    (place, offset), *others = places.items()
    which = f"{place} and {len(others)} more partitions hold" if others else f"{place} holds"
    what = {
        _BEFORE: f"older than {duration(bound / 1000)}",
        _AFTER: f"more than {duration(bound / 1000)} ahead of its clock",
    }[key]
    return (
        f"{which} records {what}, from offset {offset} on: {topic.target_name} refuses them, and their mirror halts"
        f" there; raise {name} on it, or set {RAISE}"
    )
