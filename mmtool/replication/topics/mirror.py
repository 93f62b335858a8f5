"""A source topic and its mirror on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.replication.topics.target_limits import TargetLimits
    from mmtool.translation.types import TopicId


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic and its mirror, both of which exist.

    Attributes:
        partitions: How many are mirrored: as many as the source has; the target may have more.
        limits: The record sizes and timestamps that the target topic accepts.
    """

    name: str
    topic_id: TopicId
    partitions: int
    target_name: str
    target_id: TopicId
    limits: TargetLimits
