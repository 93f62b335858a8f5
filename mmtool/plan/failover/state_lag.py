"""Compare the state topics of Kafka Streams applications with their offsets, from the target alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.words import counted
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mmtool.plan.failover.emergency_facts import EmergencyFacts
    from mmtool.plan.groups.applications import AppState, StateTopic
    from mmtool.plan.words import Names
    from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class StateLag:
    """One changelog or repartition topic compared with the offsets of its application.

    Attributes:
        behind: Records that the source was seen to hold and the target does not, at the most.
        ahead_seconds: How much later the topic's end was seen than the offsets; negative where that was earlier.
    """

    topic: StateTopic
    behind: int | Unknown
    ahead_seconds: float | Unknown

    @property
    def is_at_risk(self) -> bool:
        """Whether the state may be older than the offsets."""
        return self.behind is UNKNOWN or self.behind > 0

    def sentence(self, names: Names) -> str:
        """The comparison as a sentence, for the operator who confirms."""
        name, group = self.topic.name, self.topic.group
        if self.behind is UNKNOWN:
            return (
                f"state of {group}: it is unknown how many records of {name} on {names.source} are missing on"
                f" {names.target}: the group may start with older state than its offsets"
            )
        if self.behind:
            return (
                f"state of {group}: {name} on {names.target} is up to {counted(self.behind, 'record')} behind its last"
                f" known end on {names.source}: the group may start with older state than its offsets"
            )
        return (
            f"state of {group}: {name} on {names.target} holds every record up to its last known end on"
            f" {names.source}{self._since}"
        )

    @property
    def _since(self) -> str:
        if self.ahead_seconds is UNKNOWN:
            return ""
        if self.ahead_seconds < 0:
            return f", which is up to {-self.ahead_seconds:.1f} s older than the offsets"
        return (
            f", which is up to {self.ahead_seconds:.1f} s newer than the offsets: records that the group reads again"
            " change the state a second time"
        )


def state_lags(
    state: AppState, facts: EmergencyFacts, seen_ms: Mapping[TopicPartition, int]
) -> Iterator[StateLag]:
    """Yield the comparison of each state topic that moves.

    Args:
        state: The state topics of the applications.
        facts: The facts that the target stores.
        seen_ms: When the source's end of a partition was last seen, in ms since 1970.
    """
    for topic in state.topics:
        if topic.lost:
            continue
        places = [place for place in facts.partitions if place.topic == topic.name]
        known = [facts.words[key].known_ms for key in facts.words if key[0] == topic.group]
        seen = [seen_ms[place] for place in places if place in seen_ms]
        whole = known and seen and len(seen) == len(places)
        ahead = (min(seen) - min(known)) / 1000 if whole else UNKNOWN
        yield StateLag(topic, _behind(places, facts), ahead)


def _behind(places: list[TopicPartition], facts: EmergencyFacts) -> int | Unknown:
    behind = 0
    for place in places:
        known, end = facts.partitions[place].map, facts.source_ends.get(place)
        if known is None or end is None:
            return UNKNOWN
        behind += max(0, end - known.upstream_frontier)
    return behind if places else UNKNOWN
