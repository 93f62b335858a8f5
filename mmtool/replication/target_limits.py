"""What a target topic takes, by its configuration, and what of the source's records it is going to refuse."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.wire.offsets import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.output.human import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.topic_configs import ConfigEntry
    from mmtool.translation.types import TopicPartition, UpstreamOffset

FOR_EVER = (1 << 63) - 1
"""Kafka's own value for no limit at all, in milliseconds."""
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """A topic's, in bytes and milliseconds.

    Attributes:
        max_batch_bytes: ``max.message.bytes``; else a broker's own default less its overhead.
        before_max_ms, after_max_ms: How far a record's timestamp may lie before and after the broker's clock.
    """

    max_batch_bytes: int = 1 << 20
    before_max_ms: int = FOR_EVER
    after_max_ms: int = FOR_EVER

    @classmethod
    def of(cls, entries: Mapping[str, ConfigEntry]) -> TargetLimits:
        """As far as a topic's configuration is known; a topic that sets its own timestamps refuses none."""
        values = {name: entry.value for name, entry in entries.items() if entry.value}
        keeps_times = values.get("message.timestamp.type") != "LogAppendTime"
        return cls(
            int(values.get("max.message.bytes", cls().max_batch_bytes)),
            int(values.get(_BEFORE, FOR_EVER)) if keeps_times else FOR_EVER,
            int(values.get(_AFTER, FOR_EVER)) if keeps_times else FOR_EVER,
        )


@dataclass(frozen=True, slots=True)
class Beginning:
    """A partition of the source that is going to be mirrored from ``start`` on, into a topic with these limits."""

    place: TopicPartition
    start: UpstreamOffset
    target_topic: str
    limits: TargetLimits


async def refused_times(source: WireCluster, begun: Sequence[Beginning], now_ms: int) -> list[str]:
    """Sentences about the topics that hold records whose timestamps the target refuses by now: one for each.

    Two requests for each leader, and none where no limit is set. A record's offset is the first with a timestamp as
    late as that; records behind it may be older.

    Args:
        source: Whose records.
        begun: What is going to be mirrored.
        now_ms: The time, as the target's brokers are taken to know it.

    Raises:
        UnreachableError: a leader does not answer.
    """
    old = {b.place: now_ms - b.limits.before_max_ms for b in begun if b.limits.before_max_ms < now_ms}
    young = {
        b.place: now_ms + b.limits.after_max_ms for b in begun if b.limits.after_max_ms < FOR_EVER - now_ms
    }
    taken = await list_offsets(source, old, read_committed=False)
    ahead = await list_offsets(source, young, read_committed=False)
    ends = await list_offsets(source, dict.fromkeys(old, LATEST), read_committed=False)
    said: dict[tuple[str, str], list[tuple[Beginning, int]]] = defaultdict(list)
    for of in begun:
        if of.place in old and of.start < taken.get(of.place, ends.get(of.place, 0)):
            said[of.place.topic, _BEFORE].append((of, of.start))
        if ahead.get(of.place, -1) >= of.start:
            said[of.place.topic, _AFTER].append((of, ahead[of.place]))
    return [_sentence(key, found) for (_, key), found in said.items()]


def _sentence(key: str, found: Sequence[tuple[Beginning, int]]) -> str:
    (first, offset), *others = found
    limit = first.limits.before_max_ms if key == _BEFORE else first.limits.after_max_ms
    which = f"{first.place}" + (f" and {len(others)} more partitions" if others else "")
    relation = "older than" if key == _BEFORE else "more than"
    ahead = "" if key == _BEFORE else " ahead of its clock"
    return (
        f"{which} {'hold' if others else 'holds'} records {relation} {duration(limit / 1000)}{ahead}, from offset"
        f" {offset} on: {first.target_topic} refuses them, and their mirror halts there; raise {key} on it"
    )
