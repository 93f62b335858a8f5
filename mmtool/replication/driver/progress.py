"""Progress rows from the positions that workers write: rates, lag and remaining time."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from mmtool.output.progress import ProgressSnapshot
from mmtool.plan.flow.positions import HELD, STILL, PartitionRow, lag_seconds
from mmtool.plan.records.documents import PositionRecord, State
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.replication.driver.flow_run import FlowRun

_WINDOW_SECONDS = 10.0
_SHOW_SECONDS = 0.5
_SILENT_SECONDS = 20.0  # pumps repeat where they stand every ten


class _Sample(NamedTuple):
    at: float
    records: int
    bytes: int
    lag: int


class RateMeter:
    """Rates of one flow over the last ten seconds.

    What partitions have mirrored that are not mirrored any more, by a changed file, stays in its sums.
    """

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()
        self._mirrored: dict[tuple[str, int], tuple[int, int]] = {}

    def snapshot(
        self, flow: str, positions: Iterable[PositionRecord], now_ms: int, *, refused: int = 0
    ) -> ProgressSnapshot:
        """Add the positions as one more sample, and return the flow's progress with its rates.

        Args:
            flow: The flow's name.
            positions: The positions of all partitions, including those that no worker has reported yet.
            now_ms: The current time in milliseconds.
            refused: Topics that cannot be mirrored at all: each counts as one halted partition.
        """
        known = list(positions)
        moving = [p for p in known if p.state not in STILL]
        followed = [p for p in known if p.state not in HELD]
        lags = [lag_seconds(p, now_ms) for p in followed]
        self._mirrored.update(((p.topic_id, p.partition), (p.records, p.mirrored_bytes)) for p in known)
        now = _Sample(
            time.monotonic(),
            sum(records for records, _ in self._mirrored.values()),
            sum(count for _, count in self._mirrored.values()),
            sum(p.lag_records for p in moving),
        )
        self._samples.append(now)
        while now.at - self._samples[0].at > _WINDOW_SECONDS:
            self._samples.popleft()
        first = self._samples[0]
        seconds = now.at - first.at or math.inf
        shrinking = (first.lag - now.lag) / seconds  # of partitions that move
        states: Counter[str] = Counter()
        for p in known:
            state = p.state
            if state not in STILL and not p.observed_ms:
                state = State.STARTING
            elif state not in STILL and now_ms - p.observed_ms > _SILENT_SECONDS * 1000:
                state = State.WAITING
            states[state] += 1
        states[State.HALTED] += refused
        newest = max((p.observed_ms for p in moving), default=0)
        silent = (now_ms - newest) / 1000
        return ProgressSnapshot(
            flow=flow,
            records=now.records,
            bytes=now.bytes,
            records_per_second=max(now.records - first.records, 0)
            / seconds,  # a new owner's workers count anew
            bytes_per_second=max(now.bytes - first.bytes, 0) / seconds,
            lag_records=sum(p.lag_records for p in followed) if all(p.observed_ms for p in moving) else None,
            lag_seconds=None if None in lags else max((lag for lag in lags if lag is not None), default=None),
            eta_seconds=now.lag / shrinking if now.lag and shrinking > 0 else None,
            partitions=len(known),
            states=states,
            silent_seconds=silent if newest and silent > _SILENT_SECONDS else None,
        )


def rows_of_run(run: FlowRun, now_ms: int) -> list[dict[str, object]]:
    """Progress rows of a flow: one per partition, and one per topic that is refused, deleted or failed over.

    Args:
        run: The flow.
        now_ms: The current time in milliseconds.

    The lag of a halted partition counts to the offset that the run was to reach, if any.
    """
    identity, settings, marks = run.flow.identity, run.flow.settings, run.watch.holds.failed_over
    rows = []
    for at in sorted(run.known_positions(), key=lambda p: (p.topic, p.partition)):
        row = PartitionRow.of(identity.source_alias, identity.target_alias, at, now_ms)
        end = run.goal.get((TopicId(at.topic_id), at.partition))
        if end is not None and at.state == State.HALTED:
            row = row._replace(lag_records=max(end - at.upstream_position, at.lag_records))
        rows.append(row)

    def of_topic(topic: str, state: State, reason: str, lag: int | None = None) -> PartitionRow:
        """The row of a topic of which no partition is mirrored."""
        return PartitionRow(
            identity.source_alias,
            identity.target_alias,
            topic,
            target_topic=settings.remote_topic(topic),
            state=state,
            reason=reason,
            lag_records=lag,
            lag_seconds=lag if lag is None else float(lag),
        )

    rows += [of_topic(topic, State.HALTED, reason) for topic, reason in sorted(run.view.refused.items())]
    rows += [of_topic(topic, State.WAITING, reason, 0) for topic, reason in run.view.deleted.items()]
    for topic in run.view.set_apart:
        if mark := marks.get(topic):
            rows.append(of_topic(topic, State.FAILED_OVER, mark.sentence))
        else:
            rows.append(of_topic(topic, State.WAITING, "no longer failed over, and not mirrored yet"))
    return [row.told_offsets(settings.keeps_offsets)._asdict() for row in rows]


class FlowsShown:
    """Shows the workers' positions as progress, at most twice a second."""

    def __init__(self, show: Callable[[Sequence[ProgressSnapshot]], None]) -> None:
        self._show = show
        self._meters: dict[str, RateMeter] = {}
        self._again_at = 0.0

    def runs(self, runs: Sequence[FlowRun]) -> None:
        """Show the progress of the flows that this process runs, unless progress was shown within 0.5 s."""
        if time.monotonic() >= self._again_at:
            self._positions({run.name: (run.known_positions(), len(run.view.refused)) for run in runs})

    def watched(self, flow: str, positions: Iterable[PositionRecord]) -> None:
        """Show the progress of a flow that another process runs, from its stored positions, at every call."""
        self._positions({flow: (positions, 0)})

    def _positions(self, flows: Mapping[str, tuple[Iterable[PositionRecord], int]]) -> None:
        self._again_at, now_ms = time.monotonic() + _SHOW_SECONDS, int(time.time() * 1000)
        self._show(
            [
                self._meters.setdefault(name, RateMeter()).snapshot(name, positions, now_ms, refused=refused)
                for name, (positions, refused) in flows.items()
            ]
        )
