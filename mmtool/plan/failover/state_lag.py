"""Compare the state topics of Kafka Streams applications with their offsets, from the target alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.failover.risks import Loss, total_loss
from mmtool.plan.words import counted
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.plan.failover.emergency_facts import EmergencyFacts
    from mmtool.plan.groups.applications import AppState, StateTopic
    from mmtool.plan.words import Names


_OLDER = "may start with older state than its offsets"


@dataclass(frozen=True, slots=True)
class StateLag:
    """One changelog or repartition topic compared with the offsets of its application.

    Attributes:
        lost: Records of the topic that the target does not have.
        ahead_seconds: How much later a partition's end was seen than an offset, at the most; negative where every one
            was seen earlier.
        late_seconds: The same the other way round: how much later an offset was known than a partition's end was seen.
    """

    topic: StateTopic
    lost: Loss
    ahead_seconds: float | Unknown
    late_seconds: float | Unknown

    def sentence(self, names: Names) -> str:
        """The comparison as a sentence, for the operator who confirms."""
        name, group = self.topic.name, self.topic.group
        if self.lost.most is UNKNOWN:
            return (
                f"state of {group}: it is unknown how many records of {name} on {names.source} are missing on"
                f" {names.target}: {group} {_OLDER}"
            )
        if self.lost.most:
            return (
                f"state of {group}: {names.target} lacks up to {counted(self.lost.most, 'record')} of {name} that"
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


def state_lags(state: AppState, facts: EmergencyFacts) -> Iterator[StateLag]:
    """Yield the comparison of each state topic that moves."""
    for topic in state.topics:
        if topic.lost:
            continue
        places = [place for place in facts.partitions if place.topic == topic.name]
        known = [facts.words[key].known_ms for key in facts.words if key[0] == topic.group]
        seen = [facts.source_ends[place].at_ms for place in places if place in facts.source_ends]
        whole = known and seen and len(seen) == len(places)
        ahead, late = (
            ((max(seen) - min(known)) / 1000, (max(known) - min(seen)) / 1000)
            if whole
            else (UNKNOWN, UNKNOWN)
        )
        lost = total_loss(map(facts.loss, places)) if places else Loss()
        yield StateLag(topic, lost, ahead, late)
