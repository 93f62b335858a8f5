"""How far MirrorMaker 2 is with a flow, asked of Kafka alone: its own topics, and what the source holds behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.ports import LogPart
from mmtool.plan.mirror_maker import MirrorMakerProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.insight.translation import FlowNow
    from mmtool.kafka.ports import FlowWatchPort
    from mmtool.translation.types import TopicPartition

_MOST_MARKERS = 1_000
"""Of a partition that is further behind, records are missing without looking."""


def mirror_maker_progress(
    flow: FlowNow, watch: FlowWatchPort, ends: Mapping[TopicPartition, int]
) -> MirrorMakerProgress:
    """What MM2 has stored of the flow's partitions; nothing where it cannot be read.

    MM2 stores the last *record*: where only markers of transactions lie behind it, it is at the end.

    Args:
        flow: Which flow.
        watch: The way to MM2's topics.
        ends: The source's ends, asked for before this.
    """
    try:
        found = watch.mirror_maker().of(set(flow.partitions))
    except MmtoolError:
        return MirrorMakerProgress()
    near = {at: ends[at] for at, left in found.behind(ends).items() if 0 < left <= _MOST_MARKERS}
    parts = {
        LogPart(at, flow.topics[at.topic].topic_id, range(found.positions[at], end), 1): at
        for at, end in near.items()
    }
    if not parts:
        return found
    committed = flow.clusters.settings.reads_committed
    records = flow.clusters.source.records_each(parts, committed=committed)
    return found.at_end({parts[part]: near[parts[part]] for part, seen in records.items() if not seen})
