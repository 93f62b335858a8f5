"""The findings of a comparison of two logs: differences by kind, with their offsets, and their sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(StrEnum):
    """How a record differs (the contract's words)."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    MAPPING = "mapping"
    FOREIGN = "foreign"


MUTATED = frozenset({Kind.KEY, Kind.VALUE, Kind.HEADERS, Kind.TIMESTAMP})
"""Kinds of a record that is there on both sides, and not the same."""


class DifferenceRow(TypedDict):
    """The first difference of a partition in `mmtool verify`.

    Attributes:
        kind: How the record differs.
        upstream_offset: The record's offset on the source; if only the target has the record, or has it twice, the
            offset of the next record on the source.
        downstream_offset: The record's offset on the target; if the target does not have the record, the offset of the
            next record on the target.
    """

    kind: Kind
    upstream_offset: int
    downstream_offset: int


class Difference(NamedTuple):
    """One record that is not equal on both sides.

    Attributes:
        kind: How it differs.
        upstream_offset: On the source. Of a foreign record, and of a duplicate's second copy: the source's next record.
        downstream_offset: On the target. Of a missing record: the target's next record.
        print: A fingerprint of the record, equal for equal records; of a mutated one the source's.
    """

    kind: Kind
    upstream_offset: int
    downstream_offset: int
    print: int = 0

    def document(self) -> DifferenceRow:
        """The contract's ``first_difference``."""
        return {
            "kind": self.kind,
            "upstream_offset": self.upstream_offset,
            "downstream_offset": self.downstream_offset,
        }


KEPT = 1_000
"""Differences of one range that are kept one by one; more are only counted."""


@dataclass(slots=True)
class Findings:
    """The differences in one range, or in several.

    Attributes:
        compared: Records of the source that were compared.
        counts: How many differences there are of each kind.
        differences: The first of them, by their offsets on the target.
        in_gaps: Records that the flow skipped because an operator chose so.
        letters: Records that are among the mirror's dead letters instead.
        ends_early: The last difference is that records are missing at the end of the mirror.
    """

    compared: int = 0
    counts: dict[Kind, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    in_gaps: int = 0
    letters: int = 0
    ends_early: bool = False

    def add(self, difference: Difference) -> None:
        """Count one; keep it as long as there is room."""
        self.counts[difference.kind] = self.counts.get(difference.kind, 0) + 1
        if len(self.differences) < KEPT:
            self.differences.append(difference)

    def count(self, *kinds: Kind) -> int:
        """How many differences of these kinds there are."""
        return sum(self.counts.get(kind, 0) for kind in kinds)

    @property
    def first(self) -> Difference | None:
        """The first difference by its place on the target, then on the source; None where both sides are the same."""
        return min(self.differences, key=_place, default=None)

    @classmethod
    def joined(cls, parts: Iterable[Findings]) -> Self:
        """Ranges of one partition as one: a record missing in one and extra in another has moved."""
        whole = cls()
        found: list[Difference] = []
        for part in parts:
            whole.compared += part.compared
            whole.in_gaps += part.in_gaps
            whole.letters += part.letters
            found += part.differences
            whole.ends_early |= part.ends_early
            for kind, count in part.counts.items():
                whole.counts[kind] = whole.counts.get(kind, 0) + count
        whole.differences = _moved(sorted(found, key=_place), whole.counts)
        return whole


def _place(difference: Difference) -> tuple[int, int]:
    return difference.downstream_offset, difference.upstream_offset


def _moved(found: list[Difference], counts: dict[Kind, int]) -> list[Difference]:
    """With each missing record that is foreign elsewhere as one that is reordered."""
    extra = {d.print: at for at, d in enumerate(found) if d.kind is Kind.FOREIGN}
    gone: set[int] = set()
    for at, difference in enumerate(found):
        there = extra.pop(difference.print, None) if difference.kind is Kind.MISSING else None
        if there is None:
            continue
        found[there] = Difference(
            Kind.REORDERED, difference.upstream_offset, found[there].downstream_offset, difference.print
        )
        gone.add(at)
    if gone:
        for kind, change in (
            (Kind.MISSING, -len(gone)),
            (Kind.FOREIGN, -len(gone)),
            (Kind.REORDERED, len(gone)),
        ):
            counts[kind] = counts.get(kind, 0) + change
    return [difference for at, difference in enumerate(found) if at not in gone]
