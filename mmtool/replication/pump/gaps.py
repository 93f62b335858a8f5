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
