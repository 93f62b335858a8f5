"""Count source offsets that were deleted before they were mirrored, or skipped by the operator's choice."""

from __future__ import annotations

from dataclasses import dataclass


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
        """As an earlier round, or an earlier owner, has told them."""
        return cls(count, end, end)

    def met(self, position: int, start: int) -> bool:
        """The source begins at ``start``, past the next offset to mirror; whether that has been told by now.

        What an owner counted that died before its books were written is not counted again.
        """
        if start > self.end:
            self.count += start - max(position, self.end)
            self.end = start
        return self.told >= start
