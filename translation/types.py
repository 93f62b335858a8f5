"""Types that all packages share. Upstream and downstream offsets are different types for the type checker."""

from __future__ import annotations

from typing import NamedTuple, NewType

UpstreamOffset = NewType("UpstreamOffset", int)
"""An offset in the source cluster's log."""

DownstreamOffset = NewType("DownstreamOffset", int)
"""An offset in the target cluster's log."""

ClusterId = NewType("ClusterId", str)
"""A cluster's id, as the cluster itself reports it (not the alias of the properties file)."""

TopicId = NewType("TopicId", str)
"""A topic's UUID, in Kafka's url-safe base64 form without padding (KIP-516)."""


class TopicPartition(NamedTuple):
    """One partition by name; sorts by topic, then number.

    Attributes:
        topic: Its name.
        partition: Its number, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
