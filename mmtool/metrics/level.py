"""The detail level of metrics: the fewer labels, the fewer series."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """``--metrics-level``: each level has the metrics of the one before it, in more detail."""

    FLOW = "flow"
    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The labels that name a value's topic and partition within its flow, at this level."""
        return {Level.FLOW: (), Level.TOPIC: ("topic",)}.get(self, ("topic", "partition"))

    @property
    def topic_labels(self) -> tuple[str, ...]:
        """The same labels for families that are never split by partition."""
        return self.place_labels[:1]

    @property
    def has_groups(self) -> bool:
        """Whether consumer groups have series at this level."""
        return self is Level.GROUP
