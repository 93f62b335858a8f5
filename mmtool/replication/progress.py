"""From the positions that pumps write to what an operator wants to know: rows, rates, lag, time to go."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple

from mmtool.output.progress import ProgressSnapshot
from mmtool.plan.documents import PositionRecord, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.replication.flow_run import FlowRun

_WINDOW_SECONDS = 10.0
_SHOW_SECONDS = 0.5


class _Sample(NamedTuple):
    at: float
    records: int
    bytes: int
    lag: int


class RateMeter:
    """Rates of one flow over the last ten seconds."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def snapshot(self, flow: str, positions: Iterable[PositionRecord], now_ms: int) -> ProgressSnapshot:
        """Takes one more sample and tells what it looks like."""
        known = list(positions)
        lag = sum(p.lag_records for p in known if p.state != State.HALTED)
        now = _Sample(
            time.monotonic(), sum(p.records for p in known), sum(p.mirrored_bytes for p in known), lag
        )
        self._samples.append(now)
        while now.at - self._samples[0].at > _WINDOW_SECONDS:
            self._samples.popleft()
        first = self._samples[0]
        seconds = now.at - first.at
        records = (now.records - first.records) / seconds if seconds > 0 else 0.0
        shrinking = (first.lag - lag) / seconds if seconds > 0 else 0.0
        return ProgressSnapshot(
            flow=flow,
            records=now.records,
            bytes=now.bytes,
            records_per_second=records,
            bytes_per_second=(now.bytes - first.bytes) / seconds if seconds > 0 else 0.0,
            lag_records=lag,
            lag_seconds=max((lag_seconds(p, now_ms) or 0.0 for p in known), default=None),
            eta_seconds=lag / shrinking if lag and shrinking > 0 else None,
            partitions=len(known),
            states=Counter(p.state for p in known),
        )


def lag_seconds(position: PositionRecord, now_ms: int) -> float | None:
    """For how long the partition has been behind its source's end; 0 when it is not."""
    if not position.lag_records:
        return 0.0
    if not position.behind_since_ms:
        return None
    return max((now_ms - position.behind_since_ms) / 1000, 0.0)


class _Row(NamedTuple):
    """The contract's row of ``replicate`` and ``status``; None where nothing is known."""

    source: str
    target: str
    topic: str
    partition: int | None = None
    target_topic: str = ""
    upstream_position: int | None = None
    downstream_position: int | None = None
    records: int = 0
    bytes: int = 0
    lag_records: int | None = None
    lag_seconds: float | None = None
    state: State = State.HALTED
    reason: str = ""


def row_of(source: str, target: str, position: PositionRecord, now_ms: int) -> dict[str, object]:
    """A partition's row."""
    return _Row(
        source=source,
        target=target,
        topic=position.topic,
        partition=position.partition,
        target_topic=position.target_topic,
        upstream_position=position.upstream_position,
        downstream_position=position.downstream_position,
        records=position.records,
        bytes=position.mirrored_bytes,
        lag_records=position.lag_records,
        lag_seconds=lag_seconds(position, now_ms),
        state=position.state,
        reason=position.reason,
    )._asdict()


def rows_of_run(run: FlowRun, now_ms: int) -> list[dict[str, object]]:
    """One row per partition of a flow, and one per topic that could not be mirrored at all."""
    source, target = run.flow.identity.source_alias, run.flow.identity.target_alias
    known = sorted(run.known_positions(), key=lambda p: (p.topic, p.partition))
    refused = [
        _Row(
            source, target, topic, target_topic=run.flow.settings.remote_topic(topic), reason=reason
        )._asdict()
        for topic, reason in sorted(run.view.refused.items())
    ]
    return [row_of(source, target, position, now_ms) for position in known] + refused


class FlowsShown:
    """What pumps say of their positions, as progress, twice a second at most."""

    def __init__(self, show: Callable[[Sequence[ProgressSnapshot]], None]) -> None:
        self._show = show
        self._meters: dict[str, RateMeter] = {}
        self._again_at = 0.0

    def runs(self, runs: Sequence[FlowRun]) -> None:
        """Flows that this process runs."""
        if time.monotonic() >= self._again_at:
            self.positions({run.name: run.known_positions() for run in runs})

    def positions(self, flows: Mapping[str, Iterable[PositionRecord]]) -> None:
        """Flows that anybody runs, by name."""
        self._again_at, now_ms = time.monotonic() + _SHOW_SECONDS, int(time.time() * 1000)
        self._show(
            [
                self._meters.setdefault(name, RateMeter()).snapshot(name, positions, now_ms)
                for name, positions in flows.items()
            ]
        )
