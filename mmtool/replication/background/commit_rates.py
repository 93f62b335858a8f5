"""Measure how fast each group commits, and decide which rates are written to the control topic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.groups.commit_rates import CommitPace, Sample, is_changed, observe
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.plan.groups.facts import Commit
    from mmtool.translation.types import TopicPartition

    Key = tuple[str, TopicPartition]
    Rates = dict[str, dict[str, int]]


_SPACING_MS = 30_000
"""A group's record is not written more often than this: its rates are of a minute or two."""


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
        """Take in what groups have committed; of those that are ``untold`` nobody knows, and nothing changes."""
        self._now_ms, self._untold = at_ms, frozenset(untold)
        kept = {key: pace for key, pace in self._paces.items() if key[0] in self._untold}
        self._paces = kept | {
            key: observe(self._paces.get(key), Sample(at_ms, commit.offset))
            for key, commit in commits.items()
        }

    def news(self) -> list[CommitRatesRecord]:
        """The records of groups with a partition whose rate has clearly changed, unless they were written just now."""
        found = []
        for group, rates in self._now().items():
            if self._now_ms - self._written_ms.get(group, self._now_ms - _SPACING_MS) < _SPACING_MS:
                continue
            before = self.written.get(group)
            if _is_news(rates, {} if before is None else before.rates):
                found.append(CommitRatesRecord(group, rates))
        return found

    def gone(self) -> list[CommitRatesRecord]:
        """The records of groups that have no commit any more."""
        there = {group for group, _ in self._paces} | self._untold
        return [record for group, record in self.written.items() if group not in there]

    def note(self, written: Iterable[CommitRatesRecord], struck_out: Iterable[CommitRatesRecord]) -> None:
        """These are in the control topic now, and those are not any more."""
        for record in written:
            self.written[record.group] = record
            self._written_ms[record.group] = self._now_ms
        for record in struck_out:
            self.written.pop(record.group, None)
            self._written_ms.pop(record.group, None)

    def take_over(self, stored: Iterable[CommitRatesRecord]) -> None:
        """The control topic holds these, by whomever they were measured."""
        self.written = {record.group: record for record in stored}

    def _now(self) -> dict[str, Rates]:
        """By group; where nothing is measured yet, what was measured before."""
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
    """Offsets per 1,000 seconds; one that commits at all has a rate."""
    return max(round(rate * 1000), 1 if rate else 0)


def _is_news(rates: Rates, before: Rates) -> bool:
    if {topic: set(of) for topic, of in rates.items()} != {topic: set(of) for topic, of in before.items()}:
        return True
    return any(is_changed(before[topic][n], rate) for topic, of in rates.items() for n, rate in of.items())
