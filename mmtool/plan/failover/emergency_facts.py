"""The facts of an emergency failover: all that the target alone knows of a flow."""

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
    """The last knowledge of a group's offset that is stored on the target.

    Attributes:
        downstream: Its translation at that time, by mmtool or MirrorMaker 2.
        known_ms: The latest time at which the offset was still current, in ms since 1970.
    """

    downstream: DownstreamOffset
    known_ms: int


@dataclass(frozen=True, slots=True)
class EmergencyFacts:
    """All that the target knows of a flow.

    Attributes:
        groups: Each with its last known commits; its state on the source is unknown.
        unknown: Requested groups that have no checkpoint.
        words: The last known offsets, by group and partition of the source.
        partitions: Every partition of the flow that the target knows, by its name on the source.
        source_ends: The last seen end offsets of the source.
        born_there: Producers may have written to the flow's topics on the target (identical names, both directions):
            offset runs of one direction alone do not say which records a group has read.
        rates: Offsets per second that groups were last seen to commit, by group and partition of the source.
        now_ms: When these facts were read, in ms since 1970.
        source_heard_ms: When the source last answered, as far as stored on the target; UNKNOWN where nothing is stored.
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
        """Seconds since the source last answered, as stored on the target; UNKNOWN where nothing is stored."""
        if self.source_heard_ms is UNKNOWN:
            return UNKNOWN
        return max(0, self.now_ms - self.source_heard_ms) / 1000
