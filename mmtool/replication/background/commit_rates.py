"""Measure how fast each group commits, and decide which rates are written to the control topic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.groups.commit_rates import CommitPace, Sample, is_changed, observe
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.plan.groups.facts import Commit
    from mmtool.translation.types import TopicPartition

    Key = tuple[str, TopicPartition]
    Rates = dict[str, dict[str, int]]


_SPACING_MS = 30_000
"""Milliseconds at least between two records of a group: its rates are averages over a minute or two."""


@dataclass(slots=True)
class CommitRates:
    """The rates of all groups of a flow; not thread-safe.

    Attributes:
        written: What the control topic holds, by group.
    """

    written: dict[str, CommitRatesRecord] = field(default_factory=dict)
    _paces: dict[Key, CommitPace] = field(default_factory=dict)
    _written_ms: dict[str, int] = field(default_factory=dict)
    _now_ms: int = 0
    _untold: frozenset[str] = frozenset()

    def look(self, commits: Mapping[Key, Commit], at_ms: int, untold: Collection[str] = ()) -> None:
        """Take in the groups' commits at ``at_ms``; groups in ``untold`` could not be read, and keep their rates."""
        self._now_ms, self._untold = at_ms, frozenset(untold)
        kept = {key: pace for key, pace in self._paces.items() if key[0] in self._untold}
        self._paces = kept | {
            key: observe(self._paces.get(key), Sample(at_ms, commit.offset))
            for key, commit in commits.items()
        }

    def news(self) -> list[CommitRatesRecord]:
        """The records of groups with a partition whose rate clearly changed, if none was written within 30 s."""
        found = []
        for group, rates in self._now().items():
            if self._now_ms - self._written_ms.get(group, self._now_ms - _SPACING_MS) < _SPACING_MS:
                continue
            before = self.written.get(group)
            if _is_news(rates, {} if before is None else before.rates):
                found.append(CommitRatesRecord(group, rates))
        return found

    def gone(self) -> list[CommitRatesRecord]:
        """The written records of groups that have no commit any more."""
        there = {group for group, _ in self._paces} | self._untold
        return [record for group, record in self.written.items() if group not in there]

    def note(self, written: Iterable[CommitRatesRecord], struck_out: Iterable[CommitRatesRecord]) -> None:
        """Note that the control topic now has the ``written`` records, and no longer the ``struck_out`` ones."""
        for record in written:
            self.written[record.group] = record
            self._written_ms[record.group] = self._now_ms
        for record in struck_out:
            self.written.pop(record.group, None)
            self._written_ms.pop(record.group, None)

    def take_over(self, stored: Iterable[CommitRatesRecord]) -> None:
        """Start with the records that the control topic holds, also those of earlier owners."""
        self.written = {record.group: record for record in stored}

    def _now(self) -> dict[str, Rates]:
        """The rates by group; for a partition whose rate is not measured yet, the written one."""
        found: dict[str, Rates] = defaultdict(dict)
        for (group, place), pace in self._paces.items():
            rate = self._written(group, place) if pace.rate is UNKNOWN else _whole(pace.rate)
            if rate is not None:
                found[group].setdefault(place.topic, {})[str(place.partition)] = rate
        return found

    def _written(self, group: str, place: TopicPartition) -> int | None:
        record = self.written.get(group)
        return None if record is None else record.rates.get(place.topic, {}).get(str(place.partition))


def _whole(rate: float) -> int:
    """A rate in offsets per 1,000 seconds; at least 1 where the group commits at all."""
    return max(round(rate * 1000), 1 if rate else 0)


def _is_news(rates: Rates, before: Rates) -> bool:
    if {topic: set(of) for topic, of in rates.items()} != {topic: set(of) for topic, of in before.items()}:
        return True
    return any(is_changed(before[topic][n], rate) for topic, of in rates.items() for n, rate in of.items())
