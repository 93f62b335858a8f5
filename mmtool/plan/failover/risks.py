"""What forbids a move of groups, and what it costs while the source does not answer: stated before it is confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.words import counted, joined, moment
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.translation.types import Unknown


@dataclass(frozen=True, slots=True)
class Loss:
    """Records of the source that the target does not have, or that a group passes over, counted in offsets.

    Attributes:
        most: Up to the source's end now; UNKNOWN where the mirror has not seen that end within the last seconds.
        least: Up to the source's last seen end.
        seen_ms: When that end was seen, in ms since 1970; UNKNOWN where none was seen.
    """

    most: int | Unknown = UNKNOWN
    least: int = 0
    seen_ms: int | Unknown = UNKNOWN

    @property
    def is_possible(self) -> bool:
        """Whether records may be lost: their number is unknown or above 0."""
        return self.most is UNKNOWN or self.most > 0

    def words(self, source: str) -> str:
        """The number of records, with what was seen of it where it is unknown."""
        if self.most is not UNKNOWN:
            return f"at most {counted(self.most, 'record')}" if self.most else "0 records"
        least = f"at least {self.least:,}" if self.least else ""
        seen = "" if self.seen_ms is UNKNOWN else f"{source} last seen at {moment(self.seen_ms)}"
        known = ": ".join(filter(None, (least, seen)))
        return f"an unknown number of records{known and f' ({known})'}"


def total_loss(losses: Iterable[Loss]) -> Loss:
    """The loss in several partitions; ``seen_ms`` is the latest one of those whose loss is unknown."""
    of_all = list(losses)
    numbers = [one.most for one in of_all if one.most is not UNKNOWN]
    seen = [one.seen_ms for one in of_all if one.most is UNKNOWN and one.seen_ms is not UNKNOWN]
    return Loss(
        sum(numbers) if len(numbers) == len(of_all) else UNKNOWN,
        sum(one.least for one in of_all),
        max(seen, default=UNKNOWN),
    )


@dataclass(frozen=True, slots=True)
class Risk:
    """The costs of one partition of one group.

    Attributes:
        lost: Records that are lost with the source, or that the group passes over.
        reread: Records that the group reads again, at the most: all that the target holds behind the translated offset,
            for the group may have read on after it was last seen.
        expected: How many of ``reread`` the group is expected to read again, by its commit rate; UNKNOWN where none was
            measured.
        age_seconds: The age of the group's last known offset; UNKNOWN where there is none.
    """

    lost: Loss
    reread: int | Unknown
    age_seconds: float | Unknown
    expected: int | Unknown = UNKNOWN


@dataclass(frozen=True, slots=True)
class Guard:
    """A stable word, the sentence, and a remedy where the sentence has none."""

    code: str
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        return joined(self.sentence, self.remedy)


def no_authorizer(cluster: str, effect: str, remedy: str) -> Guard:
    """The guard of an ACL operation on a cluster where ACLs do nothing; ``effect`` says what follows."""
    told = f"{cluster} has no authorizer (authorizer.class.name is not set): {effect}"
    return Guard("no_authorizer", told, remedy)
