"""What is known on both clusters before groups fail back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.groups.applications import NO_STATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mmtool.plan.groups.applications import AppState
    from mmtool.plan.groups.facts import GroupFacts
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.divergence import DivergedTail
    from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """What both clusters say when a flow's source is back.

    Attributes:
        groups: Their commits away, and what stands at home; ``here`` is away, ``there`` is home.
        unknown: Names that no group away has.
        mirrored: Every partition that the flow took away, by its name there.
        born: Every partition that the way back brings home, by its name away; it may be among those of ``mirrored``.
        tails: What diverged, by the partition at home.
        topics: Those at home, of the flow, that the groups read.
        kept: Those of them that groups which stay away read as well, and which groups: they stay failed over.
        one_name: Topics have one name on both sides: records of both are among each other.
        state: Of the Kafka Streams applications among the groups.
    """

    groups: tuple[GroupFacts, ...]
    unknown: tuple[str, ...]
    mirrored: Mapping[TopicPartition, PartitionFacts]
    born: Mapping[TopicPartition, PartitionFacts]
    tails: Mapping[TopicPartition, DivergedTail]
    one_name: bool
    topics: tuple[str, ...]
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    state: AppState = NO_STATE
