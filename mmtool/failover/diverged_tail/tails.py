"""Find the diverged tail: what a source that came back holds behind its flow's frontier. Read-only.

The order of the questions matters:

1. the source's ends: the tail ends there
2. the producer register of the source: each producer that mirrored a batch below those ends was registered before
3. the offset runs, and then both logs, batch by batch: a batch's header has its record count and its producer id

The flow has stopped and does not start meanwhile (its topics are marked ``failed_over``); the reverse flow may run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby

from mmtool.insight.flow_now import FlowNow
from mmtool.insight.flow_progress import not_copied
from mmtool.insight.partitions import partition_facts
from mmtool.kafka.batches import BatchView, raw_records
from mmtool.kafka.ports import BatchesPort, Bounds
from mmtool.plan.groups.offsets import Direction, PartitionFacts
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.partition_map import PartitionMap
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, UpstreamOffset


class TailKind(StrEnum):
    """The kind of records behind the frontier. The value is what users and scripts see."""

    DIVERGED = "diverged"
    """The partition is mirrored, and these records came to the source after the last mirrored one."""
    NEVER_MIRRORED = "never_mirrored"
    """The partition was never mirrored: the target has none of its records, so no group has read past them."""
    AT_MOST = "at_most"
    """MirrorMaker 2 mirrored the partition: its offset syncs give an upper bound of the records that diverged."""
    CUT = "cut"
    """The source ends before the frontier: it has lost records that the target has."""


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """The diverged tail of one partition of the source.

    Attributes:
        tail: The source's own records behind the frontier; empty where the source is `TailKind.CUT`.
        undecided: Offsets behind the tail that belong to open transactions, or are behind one.
        strangers: Foreign records on the target behind the mirrored ones, in a topic that has another name on the
            source: no flow mirrors them there.
    """

    place: TopicPartition
    topic_id: TopicId
    kind: TailKind
    tail: DivergedTail
    undecided: int = 0
    strangers: int = 0


@dataclass(frozen=True, slots=True)
class FoundTails:
    """All partitions of a flow, in the order of their topics.

    Attributes:
        brought: Producer ids whose batches were mirrored to the source and are not its own.
        committed: Records of aborted transactions do not count (read_committed).
    """

    partitions: tuple[PartitionTail, ...]
    brought: frozenset[int]
    committed: bool

    @property
    def to_export(self) -> tuple[PartitionTail, ...]:
        """The partitions with records that diverged, or may have."""
        kinds = (TailKind.DIVERGED, TailKind.AT_MOST)
        return tuple(found for found in self.partitions if found.kind in kinds and found.tail.records)

    @property
    def diverged_records(self) -> int:
        """How many records diverged, or may have, in all partitions."""
        return sum(found.tail.records for found in self.to_export)

    def of(self, place: TopicPartition) -> PartitionTail | None:
        """The tail of one source partition; None if the partition did not exist when the tails were read."""
        return next((found for found in self.partitions if found.place == place), None)


def find_tail(flow: FlowNow, *, source: BatchesPort, target: BatchesPort) -> FoundTails:
    """Find the diverged tail of each partition of a flow's topics, whose source is back.

    A partition's log is not read if its frontier is at its end and the reverse flow's stored runs reach that far.

    Args:
        flow: The flow, whose source is the cluster that was lost; both clusters answer.
        source: The logs of the flow's source.
        target: The logs of the flow's target, where the groups run.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        RefusedError: Stored state cannot be read.
        BatchError: A batch cannot be read.
    """
    settings = flow.clusters.settings
    committed = settings.reads_committed
    readable = flow.clusters.source.bounds(flow.partitions, committed=committed)
    registered = source.producers().values()
    local = settings.origins == "local"
    brought = frozenset(
        producer.producer_id
        for producer in registered
        if producer.is_left_out(flow.identity.target_id, local_only=local)
    )
    facts = partition_facts(flow, Direction.REVERSE, complete=True)
    ends = {
        known.source: readable[known.source].log_end
        for known in facts.values()
        if known.map is None and known.synced is not None and known.source in readable
    }
    copied = frozenset(place for place, missing in not_copied(flow, ends).items() if not missing)
    look = _Look(flow, source, target, brought, committed, copied)
    found = [
        look.at(known, readable[known.source])
        for known in sorted(facts.values(), key=lambda known: known.source)
        if known.source in readable
    ]
    return FoundTails(tuple(found), brought, committed)


@dataclass(frozen=True)
class _Look:
    flow: FlowNow
    source: BatchesPort
    target: BatchesPort
    brought: frozenset[int]
    committed: bool
    copied: frozenset[TopicPartition]

    def at(self, known: PartitionFacts, readable: Bounds) -> PartitionTail:
        kind, frontier = self._begins(known, readable)
        end = UpstreamOffset(readable.log_end)
        topic_id = self.flow.topics[known.source.topic].topic_id
        written = known.source_log.log_end if known.source_log is not UNKNOWN else end
        if frontier > end:
            lost = DivergedTail(end, end, (), is_final=False, brought_to=end)
            kind = TailKind.CUT if frontier > written else kind
            return PartitionTail(known.source, topic_id, kind, lost, max(0, written - end))
        start = UpstreamOffset(max(frontier, readable.log_start))
        look_from, brought_to = self._back(known.back, start, end)
        stored = self.source.batches(known.source, topic_id, range(look_from, end), committed=self.committed)
        views = (view for view in stored if not view.header.is_control)
        parts: list[TailPart] = []
        for own, together in groupby(views, lambda view: view.header.producer_id not in self.brought):
            if own:
                parts += _part(together, start, end)
            else:
                behind = max(view.header.next_offset for view in together)
                brought_to = UpstreamOffset(max(brought_to, min(end, behind)))
        tail = DivergedTail(start, end, tuple(parts), is_final=self._is_final(known), brought_to=brought_to)
        return PartitionTail(
            known.source, topic_id, kind, tail, max(0, written - end), self._strangers_behind(known)
        )

    def _begins(self, known: PartitionFacts, readable: Bounds) -> tuple[TailKind, UpstreamOffset]:
        if known.map is not None:
            return TailKind.DIVERGED, known.map.upstream_frontier
        if known.source in self.copied:
            return TailKind.AT_MOST, UpstreamOffset(readable.log_end)
        if known.synced is not None:
            told = known.synced.told
            return TailKind.AT_MOST, UpstreamOffset(told[-1] + 1 if told else readable.log_start)
        return TailKind.NEVER_MIRRORED, UpstreamOffset(readable.log_start)

    def _back(
        self, back: PartitionMap | None, start: UpstreamOffset, end: UpstreamOffset
    ) -> tuple[UpstreamOffset, UpstreamOffset]:
        """The offset from which to read the source's log, and the end of the reverse flow's recorded records in it.

        Below the frontier the log is read only for records that the reverse flow mirrored and has not recorded.
        """
        if back is None:
            return start, start
        recorded_to = UpstreamOffset(min(end, back.tail.target_verified_end))
        if recorded_to >= start or self.source.unbooked(back) == 0:
            return start, recorded_to
        return recorded_to, recorded_to

    def _is_final(self, known: PartitionFacts) -> bool:
        """Whether the target has no records of the flow after the recorded ones, so that the tail is exact."""
        if known.map is None or known.target_log is UNKNOWN:
            return False
        booked_to, end = known.map.tail.target_verified_end, known.target_log.log_end
        if known.map.tail.writer is UNKNOWN or booked_to >= end or self.target.unbooked(known.map) == 0:
            return True
        return not any(view.header.producer_id in self._ours for view in self._behind(known, known.map, end))

    def _strangers_behind(self, known: PartitionFacts) -> int:
        if self.flow.clusters.settings.keeps_names or known.map is None or known.target_log is UNKNOWN:
            return 0
        behind = self._behind(known, known.map, known.target_log.log_end)
        strange = [view for view in behind if view.header.producer_id not in self._ours]
        return sum(records_from(view, known.map.tail.target_verified_end) for view in strange)

    def _behind(self, known: PartitionFacts, booked: PartitionMap, end: int) -> Iterator[BatchView]:
        """Batches of the target after the flow's recorded records, without control batches."""
        booked_to, about = booked.tail.target_verified_end, booked.about
        if booked_to >= end:
            return
        behind = range(booked_to, end)
        for view in self.target.batches(known.target, about.target_topic_id, behind, committed=False):
            if not view.header.is_control and view.header.next_offset > booked_to:
                yield view

    @cached_property
    def _ours(self) -> frozenset[int]:
        """The producer ids under which the flow has mirrored to the target."""
        return frozenset(
            producer.producer_id
            for producer in self.target.producers().values()
            if producer.source_cluster_id == self.flow.identity.source_id
        )


def _part(views: Iterator[BatchView], start: UpstreamOffset, end: UpstreamOffset) -> Collection[TailPart]:
    """Adjacent batches as one part of a tail; empty if they have no record at or after ``start``."""
    records, first, behind = 0, end, start
    for view in views:
        if found := records_from(view, start):
            records += found
            first = UpstreamOffset(min(first, max(start, view.header.base_offset)))
            behind = UpstreamOffset(min(end, view.header.next_offset))
    return [TailPart(first, behind, records)] if records else []


def records_from(view: BatchView, start: int) -> int:
    """How many records of a batch are at or after ``start``; the batch is decoded only if ``start`` is within it."""
    header = view.header
    if header.base_offset >= start or header.next_offset <= start:
        return header.record_count if header.base_offset >= start else 0
    return sum(record.offset >= start for record in raw_records(view))
