"""Count what a mirror leaves out of its source, or did not write itself: gaps, and offsets of other producers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.replication.spark.assignment import PartitionAssignment


@dataclass(slots=True)
class Gaps:
    """The gaps of one partition in source offsets, counted over all of its owners.

    T  told first: no record behind a gap is mirrored before the gap is on the control topic. An owner that is killed
       there leaves either the gap, which the next owner finds, or the record of it.

    Attributes:
        count: How many offsets.
        end: The offset behind the last gap.
        told: The offset up to which gaps are recorded on the control topic.
    """

    count: int
    end: int
    told: int

    @classmethod
    def of(cls, count: int, end: int) -> Gaps:
        """The gaps that an earlier round or owner reported."""
        return cls(count, end, end)

    def met(self, position: int, start: int) -> bool:
        """Count the gap from ``position`` to the source's log start; whether the control topic holds it by now.

        Offsets are not counted twice when the owner that counted them died before its offset runs were stored.
        """
        if start > self.end:
            self.count += start - max(position, self.end)
            self.end = start
        return self.told >= start


class Foreign:
    """Foreign offsets of one partition, counted from the offsets in the target's answers; no log is read.

    A. Each offset of the target from the beginning on is the mirror's, foreign, or not yet seen; none is counted twice.

    Attributes:
        count: How many; their transactions' markers are counted too.
        end: The offset behind the last one.
    """

    def __init__(self, counted_to: int, count: int = 0, end: int = 0) -> None:
        self.count, self.end = count, end
        self._counted_to = counted_to

    @classmethod
    def of(cls, assignment: PartitionAssignment) -> Foreign:
        """The count as earlier rounds left it.

        Below its start lie the markers of the owner's own fence, and everything that recovery read after them. Stored
        offset runs may end before the last counted offset: only a later record of the flow moves their end.
        """
        tally = assignment.tally
        counted_to = max(assignment.block.tail.target_verified_end, tally.foreign_end)
        return cls(counted_to, tally.foreign, tally.foreign_end)

    def appended(self, base: int, end: int) -> None:
        """Count the offsets before the mirror's next batch, which was appended from ``base`` up to ``end``."""
        self.reached(base)
        self._counted_to = max(self._counted_to, end)

    def reached(self, end: int) -> bool:
        """Count the offsets up to ``end`` that were not counted yet as foreign; whether there were any.

        The caller knows that no unrecorded record of the flow is below ``end``.
        """
        if end <= self._counted_to:
            return False
        self.count += end - self._counted_to
        self.end = self._counted_to = end
        return True
