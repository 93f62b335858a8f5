"""How far MirrorMaker 2 is with a flow that it runs, by what it has stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class MirrorMakerProgress:
    """What MM2 tells of a flow.

    Attributes:
        positions: Behind the last record of each partition that it says it has replicated. Kafka Connect stores this
            once a minute by default, and MM2 writes an offset sync about each hundred records: the later one counts.
        workers: How many workers are in the groups that MM2's usually are members of.
        has_left: Such a group is there, and has no members: MM2 does not run. False as well where no such group is
            there, as workers of another Connect cluster may run it.
    """

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    workers: int = 0
    has_left: bool = False

    def __bool__(self) -> bool:
        """Whether MM2 has told of any partition."""
        return bool(self.positions)

    def of(self, places: Collection[TopicPartition]) -> MirrorMakerProgress:
        """The same as far as these partitions go."""
        return replace(self, positions={at: offset for at, offset in self.positions.items() if at in places})

    def at_end(self, ends: Mapping[TopicPartition, int]) -> MirrorMakerProgress:
        """The same with partitions moved to their ends: what lies between is no record."""
        return replace(self, positions={**self.positions, **ends})

    def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How many offsets MM2 is behind these ends, of partitions that it has told of."""
        return {at: max(0, ends[at] - position) for at, position in self.positions.items() if at in ends}
