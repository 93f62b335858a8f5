"""Where a flow stands that MirrorMaker 2 runs, asked of Kafka alone.

The order of the questions matters: the source's ends first, so that what MM2 tells later may have passed them and never
seems to lag because it was asked too early.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mmtool.insight.translation import look
from mmtool.kafka.ports import FirstMissing
from mmtool.plan.mirror_maker_lag import next_to_copy
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.insight.status import WatchedFlow
    from mmtool.insight.translation import FlowNow
    from mmtool.translation.mm2_records import OffsetSync
    from mmtool.translation.types import UpstreamOffset


class MirrorMakerPort(Protocol):
    """What MM2 has told of a flow, by the partition on the source; nothing of what may not be read."""

    def syncs(self) -> Mapping[TopicPartition, OffsetSync]:
        """The newest offset sync of each partition."""

    def positions(self) -> Mapping[TopicPartition, UpstreamOffset]:
        """The last record of each partition that was copied, by MM2's stored positions."""


class MirrorMakerLag(NamedTuple):
    """One partition.

    Attributes:
        records: Offsets from the next record to copy to the source's end.
        seconds: The age of that record, by its own timestamp; None where it was not told.
    """

    place: TopicPartition
    records: int
    seconds: float | None


def mirror_maker_lags(flow: WatchedFlow, told: MirrorMakerPort) -> list[MirrorMakerLag]:
    """The partitions of which MM2 tells; none of a flow that it never ran.

    Raises:
        UnreachableError, NotAuthorisedError, RefusedError, UsageError: as `look`.
    """
    if not told.syncs() and not told.positions():
        return []
    now = look(flow.clusters, flow.topics)
    committed = flow.clusters.settings.reads_committed
    ends = flow.clusters.source.bounds_each(now.partitions, committed=committed)
    nexts = {place: at for place, at in _next_to_copy(flow, now, told).items() if place in ends}
    lags = {place: max(ends[place].log_end - at, 0) for place, at in nexts.items()}
    missing = {place: max(at, ends[place].log_start) for place, at in nexts.items() if lags[place]}
    ages = _ages(flow, now, missing)
    return [
        MirrorMakerLag(place, records, ages.get(place) if records else 0.0) for place, records in lags.items()
    ]


def _next_to_copy(flow: WatchedFlow, now: FlowNow, told: MirrorMakerPort) -> dict[TopicPartition, int]:
    """By the partition on the source, as far as it is known."""
    remotes = {place: TopicPartition(now.remote(place.topic), place.partition) for place in now.partitions}
    there = now.target_partitions
    wanted = [remote for remote in remotes.values() if remote.partition < there.get(remote.topic, 0)]
    mirrors = flow.clusters.target.bounds_each(wanted)
    syncs, positions = told.syncs(), told.positions()
    once = flow.clusters.settings.mm2_exactly_once
    found = {
        place: next_to_copy(
            syncs.get(place),
            positions.get(place),
            mirrors[remote].log_end if remote in mirrors else None,
            exactly_once=once,
        )
        for place, remote in remotes.items()
    }
    return {place: at for place, at in found.items() if at is not None}


def _ages(
    flow: WatchedFlow, now: FlowNow, missing: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    firsts = {
        place: FirstMissing(place.topic, now.topics[place.topic].topic_id, place.partition, at)
        for place, at in missing.items()
    }
    times = flow.watch.first_missing_times(firsts.values()) if firsts else {}
    now_seconds = time.time()
    return {
        place: max(now_seconds - times[first] / 1000, 0.0)
        for place, first in firsts.items()
        if first in times
    }
