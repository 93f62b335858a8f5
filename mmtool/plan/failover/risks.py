"""What moving a group costs while its source does not answer: stated before the operator confirms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from mmtool.translation.known import Unknown


@dataclass(frozen=True, slots=True)
class Risk:
    """The costs of one partition of one group.

    Attributes:
        lost: Records that the target does not have, or that the group passes over, at the most: up to the source's last
            seen end. UNKNOWN where no end was seen.
        reread: Records that the group reads again, at the most: all that the target holds behind the translated offset,
            for the group may have read on after it was last seen.
        expected: How many of ``reread`` the group is expected to read again, by its commit rate; UNKNOWN where none was
            measured.
        age_seconds: The age of the group's last known offset; UNKNOWN where there is none.
    """

    lost: int | Unknown
    reread: int | Unknown
    age_seconds: float | Unknown
    expected: int | Unknown = UNKNOWN

    @property
    def loses(self) -> bool:
        """Whether records may be lost: the loss is unknown or above 0."""
        return self.lost is UNKNOWN or self.lost > 0


NO_RISK = Risk(0, 0, 0.0, 0)
"""The risk of a planned failover: the source answers, and all its records are on the target."""
