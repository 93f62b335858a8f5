"""Whether a flow's lag grows or shrinks, from successive statuses."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.flow.partition_rows import STILL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.insight.status import FlowStatus
    from mmtool.plan.flow.partition_rows import PartitionRow

_WINDOW_MS = 15_000
_LEAST_PER_SECOND = 0.5


class _Look(NamedTuple):
    at_ms: int
    lag: int


@dataclass(slots=True)
class Trends:
    """The statuses of some flows during the last 15 s."""

    _looks: dict[str, deque[_Look]] = field(default_factory=dict)

    def note(self, status: FlowStatus) -> str:
        """Add a status; return the lag's change: ``+120/s``, ``-300/s, caught up in 4s``, ``steady`` or empty."""
        lag = _moving_lag(status.rows)
        if lag is None:
            self._looks.pop(status.name, None)
            return ""
        looks = self._looks.setdefault(status.name, deque())
        looks.append(_Look(status.facts.now_ms, lag))
        while looks[-1].at_ms - looks[0].at_ms > _WINDOW_MS and len(looks) > 2:
            looks.popleft()
        return _said(looks[0], looks[-1])


def _moving_lag(rows: Iterable[PartitionRow]) -> int | None:
    """The known lag of all partitions that are being mirrored; None where none is known.

    Partitions in a state that needs an operator are left out: waiting does not reduce their lag.
    """
    known = [row.lag_records for row in rows if row.state not in STILL and row.lag_records is not None]
    return sum(known) if known else None


def _said(first: _Look, last: _Look) -> str:
    seconds = (last.at_ms - first.at_ms) / 1000
    if seconds <= 0 or not last.lag:
        return ""
    change = (last.lag - first.lag) / seconds
    if abs(change) < _LEAST_PER_SECOND:
        return "steady"
    if change > 0:
        return f"+{human.count(change)}/s"
    return f"-{human.count(-change)}/s, caught up in {duration(last.lag / -change)}"
