"""Check a mirror independently: compare partitions, or a group's consumed records, record by record.

It uses nothing but the records themselves: no offsets, no stored state. A record is its key, value, headers and
timestamp.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.lab.topics import Record

Headers = tuple[tuple[str, bytes | None], ...]


class Content(NamedTuple):
    """The parts of a record that a consumer gets. Timestamp in ms, -1 where the log has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


History = list[Content]
"""The records of one partition in the order in which they were read."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a partition's records differ from the expected ones.

    Attributes:
        expected: How many records there should be.
        missing: Expected and not found.
        duplicated: Found more often than expected.
        foreign: Found and not expected: changed, or written by another producer.
        reordered: Every record is there once, in another order.
        first_difference: Index of the first record that is not the expected one; None where all are.
    """

    expected: int
    missing: int = 0
    duplicated: int = 0
    foreign: int = 0
    reordered: bool = False
    first_difference: int | None = None

    @property
    def is_identical(self) -> bool:
        return self.first_difference is None

    def __str__(self) -> str:
        if self.is_identical:
            return f"{self.expected} records, identical"
        order = ", reordered" if self.reordered else ""
        return (
            f"{self.expected} records expected: {self.missing} missing, {self.duplicated} duplicated,"
            f" {self.foreign} foreign{order}; first difference at record {self.first_difference}, counted from 0"
        )


def compare(expected: Sequence[Content], found: Sequence[Content]) -> Verdict:
    """Compare the records of one partition with the expected ones."""
    if expected == found:
        return Verdict(len(expected))
    wanted, there = Counter(expected), Counter(found)
    surplus = there - wanted
    foreign = sum(count for content, count in surplus.items() if content not in wanted)
    return Verdict(
        len(expected),
        missing=(wanted - there).total(),
        duplicated=surplus.total() - foreign,
        foreign=foreign,
        reordered=wanted == there,
        first_difference=_first_difference(expected, found),
    )


def _first_difference(expected: Sequence[Content], found: Sequence[Content]) -> int:
    pairs = enumerate(zip(expected, found, strict=False))
    shorter = min(len(expected), len(found))
    return next((index for index, (one, other) in pairs if one != other), shorter)


def compare_histories(expected: Mapping[int, History], found: Mapping[int, History]) -> dict[int, Verdict]:
    """As `compare`, for every partition of either side."""
    partitions = sorted({*expected, *found})
    return {p: compare(expected.get(p, []), found.get(p, [])) for p in partitions}


def histories(records: Iterable[Record]) -> dict[int, History]:
    """The records of each partition, in the order given."""
    by_partition: dict[int, History] = defaultdict(list)
    for record in records:
        content = Content(record.key, record.value, record.headers, record.timestamp_ms)
        by_partition[record.partition].append(content)
    return dict(by_partition)


def compare_consumption(
    log: Mapping[int, History], before: Mapping[int, History], after: Mapping[int, History]
) -> dict[int, Verdict]:
    """Compare what a group read ``before`` on the source and ``after`` on the target with ``log``, each record once.

    ``log`` has all records of each partition, from the first that the group should read.
    """
    read = {p: [*before.get(p, []), *after.get(p, [])] for p in {*before, *after}}
    return compare_histories(log, read)
