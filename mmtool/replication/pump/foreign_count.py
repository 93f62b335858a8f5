"""Count the offsets of a mirror that another producer wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.replication.spark.assignment import PartitionAssignment


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
