"""What can be wrong with a mirror, by name: told from the records of both sides alone (names: Jepsen's kafka workload).

Records are recognised by an identity that no two of them share; everything else of them is compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from mmtool.translation.types import TopicPartition


class Kind(StrEnum):
    """Names of what is wrong."""

    LOST = "lost"
    UNSEEN = "unseen"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    MUTATED = "mutated"
    ABORTED_READ = "aborted-read"
    FOREIGN = "foreign"
    GROUP_SKIP = "group-skip"
    GROUP_REWIND = "group-rewind"
    NEGATIVE_LAG = "negative-lag"


class Seen(NamedTuple):
    """One record, as a reader gets it.

    Attributes:
        identity: Which record it is.
        content: All of it that a mirror has to keep.
    """

    offset: int
    identity: Hashable
    content: Hashable


@dataclass(frozen=True, slots=True)
class BothLogs:
    """One partition on both sides.

    Attributes:
        source: What was committed there, in order.
        aborted: Identities of what was not.
        target: Everything there, aborted or not, in order.
        claimed: The mirror says that everything of the source below is on the target; UNKNOWN where it says nothing.
    """

    place: TopicPartition
    source: Sequence[Seen]
    aborted: frozenset[Hashable]
    target: Sequence[Seen]
    claimed: int | Unknown = UNKNOWN


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that is wrong, and where: an offset of the source, or of the target where the source has none."""

    kind: Kind
    place: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.kind} {self.place}@{self.offset}"


def of_records(logs: BothLogs) -> list[Anomaly]:
    """What is wrong with the mirror of one partition."""
    return [Anomaly(kind, logs.place, offset) for kind, offset in _found(logs)]


def _found(logs: BothLogs) -> Iterator[tuple[Kind, int]]:
    at = {one.identity: one for one in logs.source}
    there = Counter(one.identity for one in logs.target)
    for one in logs.source:
        if one.identity not in there:
            is_claimed = logs.claimed is not UNKNOWN and one.offset < logs.claimed
            yield Kind.LOST if is_claimed else Kind.UNSEEN, one.offset
        elif there[one.identity] > 1:
            yield Kind.DUPLICATE, one.offset
    last = -1
    passed = set[object]()
    for one in logs.target:
        home = at.get(one.identity)
        if home is None:
            yield Kind.ABORTED_READ if one.identity in logs.aborted else Kind.FOREIGN, one.offset
            continue
        if one.content != home.content:
            yield Kind.MUTATED, home.offset
        if home.offset < last and one.identity not in passed:
            yield Kind.REORDER, home.offset
        last = max(last, home.offset)
        passed.add(one.identity)


class Committed(NamedTuple):
    """What a group had committed on the target in one partition, and what that may be at the most.

    Attributes:
        at_most: The place there of what it was to read next on the source; asked after ``offset``.
        end: Of the target's log, asked after ``offset``.
    """

    offset: int
    at_most: int
    end: int


def of_group(place: TopicPartition, seen: Sequence[Committed]) -> list[Anomaly]:
    """What is wrong with the commits of a group that only ever went forward, in the order they were seen."""
    found, last = [], 0
    for one in seen:
        if one.offset > one.end:
            found.append(Anomaly(Kind.NEGATIVE_LAG, place, one.offset))
        if one.offset > one.at_most:
            found.append(Anomaly(Kind.GROUP_SKIP, place, one.offset))
        if one.offset < last:
            found.append(Anomaly(Kind.GROUP_REWIND, place, one.offset))
        last = max(last, one.offset)
    return found
