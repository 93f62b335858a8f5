"""What the source deleted before it was mirrored, and what the operator chose to pass over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Gaps:
    """Of one partition, in offsets, of whichever owner.

    T  told first: nothing behind a gap is mirrored before the gap is on the control topic. An owner that is killed
       there leaves either the gap, for the next one to find, or the word of it.

    Attributes:
        count: How many offsets.
        end: Behind the last one.
        told: Up to where they are on the control topic.
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
