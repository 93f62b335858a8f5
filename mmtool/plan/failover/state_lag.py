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


_OLDER = "may start with older state than its offsets"


@dataclass(frozen=True, slots=True)
class StateLag:
    """One changelog or repartition topic compared with the offsets of its application.

    Attributes:
        behind: Records that the source was seen to hold and the target does not, at the most.
        ahead_seconds: How much later a partition's end was seen than an offset, at the most; negative where every one
            was seen earlier.
        late_seconds: The same the other way round: how much later an offset was known than a partition's end was seen.
    """

    topic: StateTopic
    behind: int | Unknown
    ahead_seconds: float | Unknown
    late_seconds: float | Unknown

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
                f" {names.target}: {group} {_OLDER}"
            )
        if self.behind:
            return (
                f"state of {group}: {names.target} lacks up to {counted(self.behind, 'record')} of {name} that"
                f" {names.source} was seen to hold: {group} {_OLDER}"
            )
        return (
            f"state of {group}: {names.target} holds every record of {name} that {names.source} was seen to"
            f" hold{self._age}"
        )

    @property
    def _age(self) -> str:
        """How the state's age compares with that of the offsets, as a further sentence; empty where it is unknown."""
        newer, older = (
            "" if seconds is UNKNOWN or seconds <= 0 else f"{seconds:,.1f} s {word}"
            for seconds, word in ((self.ahead_seconds, "newer"), (self.late_seconds, "older"))
        )
        group = self.topic.group
        again = f"records that {group} reads again change the state a second time"
        if newer and older:
            return (
                f". Compared with the offsets of group {group}, this state is between {older} and {newer}:"
                f" {group} {_OLDER}, or {again}"
            )
        if newer:
            return f". This state is up to {newer} than the offsets of group {group}: {again}"
        return (
            f". This state is up to {older} than the offsets of group {group}: {group} {_OLDER}"
            if older
            else ""
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
        ahead, late = (
            ((max(seen) - min(known)) / 1000, (max(known) - min(seen)) / 1000)
            if whole
            else (UNKNOWN, UNKNOWN)
        )
        yield StateLag(topic, _behind(places, facts), ahead, late)


def _behind(places: list[TopicPartition], facts: EmergencyFacts) -> int | Unknown:
    behind = 0
    for place in places:
        known, end = facts.partitions[place].map, facts.source_ends.get(place)
        if known is None or end is None:
            return UNKNOWN
        behind += max(0, end - known.upstream_frontier)
    return behind if places else UNKNOWN
