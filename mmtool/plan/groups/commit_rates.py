"""Commit rates of groups on the source, and how much a group is expected to read again in an emergency.

E  what is expected is between 0 and what is possible; older knowledge never expects less
Z  a group that was not committing is expected to read nothing again
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from mmtool.translation.types import UNKNOWN, Unknown

WINDOW_MS: Final = 60_000
"""A commit rate is measured over the last one to two windows of this length."""

SHORTEST_MS: Final = 3_000
"""No commit rate is measured over a shorter time: many consumers commit every five seconds, Kafka's default."""

_CHANGE: Final = 1.25


class CommitSample(NamedTuple):
    """A group's committed offset in a partition, and when it was read."""

    at_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class CommitPace:
    """A group's commits in one partition, as far back as its rate is measured.

    Attributes:
        since: The sample from which the rate is measured.
        middle: The sample from which it will be measured next.
        last: The newest sample.
    """

    since: CommitSample
    middle: CommitSample
    last: CommitSample

    @property
    def rate(self) -> float | Unknown:
        """The commit rate in offsets per second; UNKNOWN while it is measured for less than `SHORTEST_MS`."""
        elapsed_ms = self.last.at_ms - self.since.at_ms
        if elapsed_ms < SHORTEST_MS:
            return UNKNOWN
        return (self.last.offset - self.since.offset) / elapsed_ms * 1000


def observe(pace: CommitPace | None, now: CommitSample) -> CommitPace:
    """The pace with one more sample; measurement restarts where the offset or the clock went back."""
    if pace is None or now.offset < pace.last.offset or now.at_ms < pace.last.at_ms:
        return CommitPace(now, now, now)
    if now.at_ms - pace.middle.at_ms >= WINDOW_MS:
        return CommitPace(pace.middle, now, now)
    return CommitPace(pace.since, pace.middle, now)


def is_changed(written: float | None, rate: float) -> bool:
    """Whether a rate differs from the stored one by a factor above 1.25; ``written`` is None where none is stored."""
    if written is None or written == 0 or rate == 0:
        return written != rate
    return not 1 / _CHANGE <= rate / written <= _CHANGE


def expected_reread(
    rate: float | Unknown, age_seconds: float | Unknown, most: int | Unknown
) -> int | Unknown:
    """How many records a group is expected to read again: those that it committed after its last known offset.

    Args:
        rate: Its commit rate, in offsets per second.
        age_seconds: The age of its last known offset.
        most: How many it can read again at most.

    Returns:
        UNKNOWN where the rate is not known, and something can be read again.
    """
    if most is UNKNOWN:
        return UNKNOWN
    if most == 0 or rate == 0:
        return 0
    if rate is UNKNOWN or age_seconds is UNKNOWN:
        return UNKNOWN
    return min(most, ceil(rate * age_seconds))
