"""One topic of the source, and its mirror on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.replication.topics.target_limits import TargetLimits
    from mmtool.translation.types import TopicId


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic with its counterpart, both there.

    Attributes:
        partitions: How many are mirrored: as many as the source has; the target may have more.
        limits: What the target topic takes.
    """

    name: str
    topic_id: TopicId
    partitions: int
    target_name: str
    target_id: TopicId
    limits: TargetLimits
