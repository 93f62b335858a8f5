"""Types that all packages share: upstream and downstream offsets, which are different types, and ``UNKNOWN``."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, NewType, TypeVar

_T = TypeVar("_T")


class Unknown(Enum):
    """The type of `UNKNOWN`; write ``int | Unknown`` for a number that may be unknown."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""Not known. Compare with ``is``: type checkers narrow on it."""


def or_none(value: _T | Unknown) -> _T | None:
    """The value as JSON rows and optional fields have it: None where it is unknown."""
    return None if value is UNKNOWN else value


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
