"""Commit rates of groups on the source, and how much a group is expected to read again in an emergency.

E  what is expected is between 0 and what is possible; older knowledge never expects less
Z  a group that was not committing is expected to read nothing again
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from mmtool.translation.known import Unknown

WINDOW_MS: Final = 60_000
"""A rate is measured over the last one to two of these."""

SHORTEST_MS: Final = 3_000
"""Over less than that nothing is measured: many consumers commit every five seconds, as Kafka's default is."""

_CHANGE: Final = 1.25


class Sample(NamedTuple):
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

    since: Sample
    middle: Sample
    last: Sample

    @property
    def rate(self) -> float | Unknown:
        """Offsets per second; UNKNOWN after too short a time."""
        elapsed_ms = self.last.at_ms - self.since.at_ms
        if elapsed_ms < SHORTEST_MS:
            return UNKNOWN
        return (self.last.offset - self.since.offset) / elapsed_ms * 1000


def observe(pace: CommitPace | None, now: Sample) -> CommitPace:
    """The pace with one more look; measured anew for a group that was set back, or by a clock that was."""
    if pace is None or now.offset < pace.last.offset or now.at_ms < pace.last.at_ms:
        return CommitPace(now, now, now)
    if now.at_ms - pace.middle.at_ms >= WINDOW_MS:
        return CommitPace(pace.middle, now, now)
    return CommitPace(pace.since, pace.middle, now)


def is_changed(written: float | None, rate: float) -> bool:
    """Whether a rate differs clearly from the one that was written; None: none was."""
    if written is None or written == 0 or rate == 0:
        return written != rate
    return not 1 / _CHANGE <= rate / written <= _CHANGE


def expected_reread(
    rate: float | Unknown, age_seconds: float | Unknown, most: int | Unknown
) -> int | Unknown:
    """How many records a group is expected to read again: what it committed after it was last seen.

    Args:
        rate: At which it committed.
        age_seconds: How long ago its position was last known to be its newest.
        most: How many it can read again.

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
