"""Derive one partition's offset runs from both logs: read, fingerprint and compare the records."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mmtool.kafka.batches import BatchError
from mmtool.kafka.batches.records import read_columns
from mmtool.kafka.wire.cluster import UnreadableLogError
from mmtool.kafka.wire.scan import log_bounds, read_range
from mmtool.plan.flow.moves import Action, FlowRow
from mmtool.translation.answers import Reason
from mmtool.translation.blocks import MirrorStart, SeenOffset, WriterState
from mmtool.translation.derive import AmbiguousError, KnownOffsets, Logged, derive, gaps_between, next_record
from mmtool.translation.recorder import OPEN_RUNS, MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.replication.driver.context import FlowContext
    from mmtool.replication.topics.origins import Origins
    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.runs import RunMap
    from mmtool.translation.types import TopicId

    Bounds = tuple[int, int]


_SPREAD = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


@dataclass(slots=True)
class RecordPrints:
    """Surviving records by column: 24 bytes each.

    Attributes:
        keeps_time: Every batch has its producers' timestamps (CreateTime), none its broker's (LogAppendTime).
    """

    offsets: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    bodies: array[int] = field(default_factory=lambda: array("q"))
    keeps_time: bool = True

    def take(self, view: BatchView, position: int = 0) -> None:
        """Add a batch's records from offset ``position`` on.

        Raises:
            BatchError: The batch cannot be read.
        """
        records = read_columns(view)
        if view.header.base_offset < position:
            records = records.wanted(position, ())
        self.offsets.extend(records.offsets)
        self.times.extend(records.timestamps)
        self.bodies.extend(map(hash, map(bytes, records.bodies)))
        self.keeps_time &= not view.header.is_log_append_time

    def logged(self, *, timed: bool) -> Logged:
        """The records with fingerprints of 64 bits, which include the timestamps if ``timed``."""
        prints = np.array(self.bodies, dtype=np.int64)
        if timed:
            prints ^= np.array(self.times, dtype=np.int64) * _SPREAD
        return Logged(np.array(self.offsets, dtype=np.int64), prints)


_UNNAMED = WriterState(0, 0, 0)
"""The producer state until the shard's claim is known, which is before anything is stored."""


@dataclass(slots=True)
class Derived:
    """One partition's map as derived from both logs, or why there is none.

    Attributes:
        before: The frontier of the stored map; None where that cannot be read.
        recorder: The offset runs to store; None where nothing is to be stored.
        mapped: Records whose offsets on both sides are known.
        refusal: Why no map can be derived; empty when it can, or need not.
        kept: Why the stored runs are kept and nothing is written.
    """

    about: MirroredPartition
    before: int | None = None
    recorder: MapRecorder | None = None
    mapped: int = 0
    refusal: str = ""
    kept: str = ""

    def row(self, source: str, target: str) -> FlowRow:
        """The partition's row in the output of `flow rebuild`, with the aliases of the flow's clusters."""
        tail = self.recorder.tail if self.recorder is not None else None
        action = Action.REFUSE if self.refusal else Action.KEEP if tail is None else Action.REBUILD
        return FlowRow(
            source=source,
            target=target,
            topic=self.about.source_topic,
            partition=self.about.partition,
            target_topic=self.about.target_topic,
            upstream_before=self.before,
            upstream_after=self.before if tail is None else tail.upstream_frontier,
            downstream_after=None if tail is None else tail.downstream_end.position,
            records_mapped=self.mapped,
            action=action,
            reason=self.refusal or self.kept,
        )


async def derive_partition(
    flow: FlowContext,
    about: MirroredPartition,
    before: int | None,
    ours: Collection[int],
    origins: Origins | None,
    told: KnownOffsets,
) -> Derived:
    """Derive one partition's offset runs by comparing the records of both logs.

    Args:
        flow: Its connections.
        about: The partition.
        before: The stored frontier; None where it cannot be read.
        ours: Producer ids under which this flow has mirrored.
        origins: Decides which records of the source the flow leaves out by their origin; None where it leaves out none.
        told: The last position of the mirror on the control topic.

    Raises:
        ConnectionLostError: a log could not be read.
    """
    up = about.upstream
    down = about.downstream
    committed = flow.settings.reads_committed
    bounds = (await log_bounds(flow.source, [up], read_committed=committed)).get(up)
    target_bounds = (await log_bounds(flow.target, [down])).get(down)
    if bounds is None or target_bounds is None:
        return Derived(
            about, before, refusal="" if before is None else Reason.PARTITION_MISSING, kept="not mirrored"
        )
    there = await _read(flow.target, down, about.target_topic_id, target_bounds, ours=ours)
    if not there.offsets:
        return Derived(about, before, kept=_nothing_there(flow.identity, about, before))
    here = await _read(flow.source, up, about.topic_id, bounds, origins=origins, read_committed=committed)
    timed = there.keeps_time  # a topic with LogAppendTime has other times than its source
    source, target = here.logged(timed=timed), there.logged(timed=timed)
    try:
        runs = derive(source, target, told)
    except AmbiguousError:
        return Derived(about, before, refusal=Reason.AMBIGUOUS)
    if not len(runs):
        return Derived(about, before, refusal=Reason.AMBIGUOUS)
    recorder = _recorder(about, runs, gaps_between(source, runs))
    if flow.settings.keeps_offsets(about.source_topic):
        recorder.same_offsets = all(int(run.upstream_start) == run.downstream_start for run in runs)
    recorder.passed(next_record(source, runs.upstream_end, UpstreamOffset(bounds[1])))
    now_ms = int(time.time() * 1000)
    seen = [SeenOffset(UpstreamOffset(at), now_ms) for at in reversed(bounds)]
    recorder.saw_source(*seen)
    recorder.checked(DownstreamOffset(target_bounds[1]))
    return Derived(about, before, recorder, mapped=runs.records)


def _nothing_there(flow: FlowIdentity, about: MirroredPartition, before: int | None) -> str:
    """The reason for keeping the stored state where the target partition has no record of the flow.

    No runs can be derived then, and none are needed: where a whole log was truncated, everything is mirrored again.
    """
    if not before:
        return "the target partition holds no record that this flow wrote: there is nothing to rebuild"
    again = f"`mmtool flow seek {flow.options} --topic {about.source_topic} --to earliest --execute`"
    return (
        f"the target partition holds no record that this flow wrote; to mirror topic {about.source_topic} again:"
        f" {again}"
    )


async def _read(
    cluster: WireCluster,
    place: TopicPartition,
    topic_id: TopicId,
    bounds: Bounds,
    *,
    ours: Collection[int] | None = None,
    origins: Origins | None = None,
    read_committed: bool = False,
) -> RecordPrints:
    """Fingerprints of a log's records within ``bounds``, without the records that are not the flow's.

    Those are records of other producers than ``ours``, or of an origin that ``origins`` leaves out.

    Raises:
        UnreadableLogError: a batch cannot be decoded.
        ConnectionLostError: the log could not be read.
    """
    log = RecordPrints()
    views: AsyncIterator[BatchView] = read_range(
        cluster, place.topic, topic_id, place.partition, *bounds, read_committed=read_committed
    )
    try:
        async for view in views:
            producer_id = view.header.producer_id
            if view.header.is_control or (ours is not None and producer_id not in ours):
                continue
            if origins is None or not await origins.leaves_out(place.topic, producer_id):
                log.take(view)
    except BatchError as error:
        raise UnreadableLogError(f"{place} of {cluster.alias}: {error.message}") from error
    return log


def _recorder(about: MirroredPartition, runs: RunMap, behind_gaps: Collection[int]) -> MapRecorder:
    """A recorder that holds ``runs``, ready to be stored.

    Args:
        about: The partition.
        runs: At least one run.
        behind_gaps: Upstream starts of runs that follow source records that are not on the target.
    """
    start = MirrorStart(runs.first.upstream_start, runs.first.downstream_start)
    recorder = MapRecorder.begin(about, start, max_runs=OPEN_RUNS)
    for run in runs:
        if run.upstream_start in behind_gaps:
            recorder.skip_to(run.upstream_start)
        recorder.appended(run.upstream_start, run.downstream_start, run.count, writer=_UNNAMED)
    return recorder
