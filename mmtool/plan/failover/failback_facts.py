"""The facts of a failback: what both clusters know before groups return to the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.groups.applications import NO_STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mmtool.plan.groups.applications import AppState
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.divergence import DivergedTail
    from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """What both clusters answer when a flow's source is back.

    Attributes:
        groups: Their commits on both clusters; ``here`` is the flow's target, ``there`` its source.
        unknown: Names that no group on the target has, with the nearest name of one there.
        mirrored: Every partition that the flow mirrored, by its name on the target.
        born: Every partition that the reverse flow mirrors, by its name on the target; may be among ``mirrored``.
        tails: The diverged tails, by partition of the source.
        topics: The flow's topics on the source that the groups read.
        kept: Those of them that groups which stay on the target read too, with these groups: they stay failed over.
        held: Topics on the source that are marked as failed over: nothing more of them is mirrored.
        unread: Groups of ``kept`` whose commits cannot be read, with the reason: they may read any of the topics.
        one_name: Topics have the same name on both sides: a topic holds records of both clusters.
        state: The state topics of the Kafka Streams applications among the groups.
        same: Those of `topics` that the reverse flow mirrors with the offsets that records have on the target.
    """

    groups: tuple[GroupFacts, ...]
    unknown: Mapping[str, str | None]
    mirrored: Mapping[TopicPartition, PartitionFacts]
    born: Mapping[TopicPartition, PartitionFacts]
    tails: Mapping[TopicPartition, DivergedTail]
    one_name: bool
    topics: tuple[str, ...]
    held: Collection[str]
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    state: AppState = NO_STATE
    same: Collection[str] = ()

    @property
    def released(self) -> tuple[str, ...]:
        """Those of `topics` that the flow mirrors again when the groups are back."""
        return tuple(topic for topic in self.topics if topic not in self.kept)
