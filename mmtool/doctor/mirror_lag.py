"""The lag of each partition's mirror behind its source, whether mmtool or MirrorMaker 2 runs the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.insight.status import written_times
from mmtool.kafka.state.flow_watch import retention_of
from mmtool.plan.records.documents import State
from mmtool.plan.topics.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.doctor.flow_view import FlowView
    from mmtool.translation.types import TopicPartition


class PartitionLag(NamedTuple):
    """The lag of one partition of which mirroring has begun.

    Attributes:
        place: On the source.
        position: Next offset to copy.
        log_start: First offset that the source still has.
        log_end: Next offset that the source writes.
        oldest_ms: When the first unmirrored record was written, in ms since 1970; None where there is none, the source
            did not return it, or its timestamp is ahead of the clock.
        first_ms: Likewise of the first record of a log that records were deleted from; None where none were.
        settled_ms: When the mirror last had everything that the source had; 0 where that is unknown.
        gaps: Offsets that were deleted unmirrored, and that the mirror has skipped.
        by_mm2: MirrorMaker 2 copies it; it stores offsets of records, not of transaction markers.
    """

    place: TopicPartition
    position: int
    log_start: int
    log_end: int
    oldest_ms: int | None = None
    first_ms: int | None = None
    settled_ms: int = 0
    gaps: int = 0
    by_mm2: bool = False


def partition_lags(view: FlowView, retention: Mapping[str, Retention]) -> list[PartitionLag]:
    """The lag of every partition that has a position and whose source log is shown.

    Args:
        view: The flow's answers.
        retention: Each source topic's retention; limited by size, it needs the time of the log's first record.

    Raises:
        MmtoolError: A cluster does not answer, or stored state cannot be read.
    """
    bounds = view.source_bounds()
    found = [lag for lag in _positions(view) if lag.place in bounds]
    lags = [
        lag._replace(log_start=bounds[lag.place].log_start, log_end=bounds[lag.place].log_end)
        for lag in found
    ]
    behind = [lag for lag in lags if lag.position < lag.log_end]
    cut = [
        lag
        for lag in behind
        if lag.log_start and retention.get(lag.place.topic, Retention()).bytes is not None
    ]
    starts = {lag.place: lag.log_start for lag in behind}
    oldest, first = (
        {place: ms for (place, _), ms in written_times(view.watch, view.mirrored(), of, starts).items()}
        for of in ({(lag.place, lag.position) for lag in behind}, {(lag.place, lag.log_start) for lag in cut})
    )
    return [lag._replace(oldest_ms=oldest.get(lag.place), first_ms=first.get(lag.place)) for lag in lags]


def source_retention(view: FlowView) -> dict[str, Retention]:
    """The retention of source topics that show their configuration."""
    return {topic: retention_of(entries) for topic, entries in view.source_configs().items()}


def _positions(view: FlowView) -> Iterable[PartitionLag]:
    """Positions by mmtool's stored state, or by MM2's where that runs the flow; without failed-over topics."""
    if view.mm2_runs():
        for place, last in view.traces().positions.items():
            yield PartitionLag(place, last + 1, 0, 0, by_mm2=True)
        return
    words = view.control().positions
    for standing in view.standings():
        position = standing.row.upstream_position
        if position is not None and standing.row.state is not State.FAILED_OVER:
            word = words.get((standing.topic_id, standing.place.partition))
            gaps = word.gaps if word else 0
            yield PartitionLag(standing.place, position, 0, 0, settled_ms=standing.settled_ms, gaps=gaps)
