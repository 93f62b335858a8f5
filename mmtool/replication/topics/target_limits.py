"""Read which sizes and timestamps a target topic accepts, and which of the source's records it will refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.topics.configs import MIN_ISR, SetConfig
from mmtool.plan.topics.facts import too_few_replicas

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.kafka.admin.topics import TopicAdmin
    from mmtool.plan.topics.configs import ConfigEntry

FOR_EVER = (1 << 63) - 1
"""Kafka's own value for no limit at all, in milliseconds."""
RAISE = "mmtool.on.timestamp.refused = raise-limit"
"""The setting with which mmtool raises timestamp limits, so that a target topic accepts every record."""
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_EITHER = "message.timestamp.difference.max.ms"
TIME_BOUNDS = frozenset({BEFORE, AFTER, _EITHER})
"""Topic configs that limit a timestamp's distance from the broker's clock (KIP-937); the last one exists until 3.9."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """A topic's limits, in bytes and milliseconds.

    Attributes:
        max_batch_bytes: ``max.message.bytes``; else a broker's own default less its overhead.
        before_max_ms, after_max_ms: How far a record's timestamp may lie before and after the broker's clock.
        either_max_ms: One limit for both directions, used where those two are not set: brokers before 4.0 have it.
    """

    max_batch_bytes: int = 1 << 20
    before_max_ms: int = FOR_EVER
    after_max_ms: int = FOR_EVER
    either_max_ms: int = FOR_EVER

    @classmethod
    def of(cls, entries: Mapping[str, ConfigEntry]) -> TargetLimits:
        """The limits that a topic's configs set, as far as they are known; LogAppendTime refuses no timestamp."""
        values = {name: entry.value for name, entry in entries.items() if entry.value}
        keeps_times = values.get("message.timestamp.type") != "LogAppendTime"
        return cls(
            int(values.get("max.message.bytes", cls().max_batch_bytes)),
            *(
                int(values.get(name, FOR_EVER)) if keeps_times else FOR_EVER
                for name in (BEFORE, AFTER, _EITHER)
            ),
        )

    @property
    def before(self) -> tuple[str, int]:
        """The config that limits timestamps before the broker's clock, and its limit in milliseconds."""
        return self._told_by(BEFORE, self.before_max_ms)

    @property
    def after(self) -> tuple[str, int]:
        """The config that limits timestamps after the broker's clock, and its limit in milliseconds."""
        return self._told_by(AFTER, self.after_max_ms)

    def _told_by(self, name: str, bound: int) -> tuple[str, int]:
        return (name, bound) if bound < FOR_EVER else (_EITHER, self.either_max_ms)

    @property
    def any_time(self) -> list[SetConfig]:
        """The configs to set so that the topic accepts every timestamp; empty where it already does."""
        bounds = {BEFORE: self.before_max_ms, AFTER: self.after_max_ms, _EITHER: self.either_max_ms}
        return [SetConfig(name, str(FOR_EVER)) for name, bound in bounds.items() if bound < FOR_EVER]


def short_of_replicas(
    target: TopicAdmin,
    made: Collection[str],
    configs: Mapping[str, Mapping[str, ConfigEntry]],
    alias: str,
    key: str = "replication.factor",
) -> list[str]:
    """Warnings about new topics with fewer replicas than ``min.insync.replicas``: one per pair of numbers.

    Args:
        target: The admin client of their cluster.
        made: The new topics.
        configs: The configs of topics, as far as they can be read.
        alias: The alias of their cluster.
        key: The property that sets how many replicas a new topic has.
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
