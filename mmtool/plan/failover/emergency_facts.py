"""All that the target alone knows of a flow, for an emergency failover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


@dataclass(frozen=True, slots=True)
class LastWord:
    """What the target was told last of a group's position.

    Attributes:
        downstream: Where it led then, by whoever told it.
        known_ms: Until when nothing newer was known, in ms since 1970.
    """

    downstream: DownstreamOffset
    known_ms: int


@dataclass(frozen=True, slots=True)
class EmergencyFacts:
    """All that the target knows of a flow.

    Attributes:
        groups: Each with the last commits that are known of it; the source's state of them is not.
        unknown: Names that were asked for and that no checkpoint tells of.
        words: By group and partition of the source.
        partitions: Every partition of the flow that the target knows, by its name on the source.
        source_ends: Where the source was last seen to end.
        born_there: Records may have been born on the target in the flow's own topics (identical names, both ways):
            offset runs of one direction alone do not tell who has read what.
        rates: Offsets per second that groups were last seen to commit, by group and partition of the source.
        now_ms: When all of this was looked up, in ms since 1970.
        source_heard_ms: When anybody on the target last had an answer of the source; UNKNOWN where nobody says.
    """

    groups: tuple[GroupFacts, ...]
    unknown: tuple[str, ...]
    words: Mapping[tuple[str, TopicPartition], LastWord]
    partitions: Mapping[TopicPartition, PartitionFacts]
    source_ends: Mapping[TopicPartition, UpstreamOffset]
    now_ms: int
    born_there: bool = False
    source_heard_ms: int | Unknown = UNKNOWN
    rates: Mapping[tuple[str, TopicPartition], float] = field(default_factory=dict)

    @property
    def silent_seconds(self) -> float | Unknown:
        """For how long nobody on the target has heard from the source."""
        if self.source_heard_ms is UNKNOWN:
            return UNKNOWN
        return max(0, self.now_ms - self.source_heard_ms) / 1000
