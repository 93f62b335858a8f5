"""The progress of MirrorMaker 2 on a flow, from what it has stored, and where mmtool continues its mirrors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.translation.blocks import MirrorStart
from mmtool.translation.types import UNKNOWN, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.translation.answers import SourceLog, TargetLog
    from mmtool.translation.mm2_records import OffsetSync
    from mmtool.translation.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Traces:
    """MM2's stored offset and sync of one partition, and the logs after it has stopped.

    Attributes:
        last: The last record that it says it replicated; at an unclean end up to a minute old.
        sync: Its last offset sync; usually at most a hundred records old.
    """

    last: UpstreamOffset | Unknown
    sync: OffsetSync | Unknown
    source: SourceLog
    target: TargetLog

    @property
    def is_empty(self) -> bool:
        """Whether there are no traces: MM2 never mirrored the partition, or the target's topic is a new one."""
        return (self.last is UNKNOWN and self.sync is UNKNOWN) or self.target.log_end == 0

    @property
    def contradiction(self) -> str:
        """Why the traces cannot be about the current logs, as a sentence; empty when they can."""
        known = [offset for offset in (self.last, self.sync_upstream) if offset is not UNKNOWN]
        if any(offset >= self.source.log_end for offset in known):
            return (
                f"MirrorMaker 2 mirrored source offset {max(known)}, but the source's log ends at"
                f" {self.source.log_end}: the source topic was truncated or recreated"
            )
        if self.sync is not UNKNOWN and self.sync.downstream >= self.target.log_end:
            return (
                f"MirrorMaker 2 wrote target offset {self.sync.downstream}, but the target's log ends at"
                f" {self.target.log_end}: the target topic was truncated or recreated"
            )
        return ""

    @property
    def sync_upstream(self) -> UpstreamOffset | Unknown:
        """The source offset of the last offset sync; UNKNOWN without a sync."""
        return UNKNOWN if self.sync is UNKNOWN else self.sync.upstream


@dataclass(frozen=True, slots=True)
class Cut:
    """The offsets at which a partition passes from MirrorMaker 2 to mmtool.

    Attributes:
        start: On the source the first record to mirror, on the target the log's end.
        repeats_max: How many records may be copied a second time; UNKNOWN where nothing bounds them.
    """

    start: MirrorStart
    repeats_max: int | Unknown


def cut_of(traces: Traces, proven: UpstreamOffset | Unknown) -> Cut:
    """The offsets at which mmtool continues a partition of MM2.

    Args:
        traces: MM2's traces, neither empty nor contradictory.
        proven: The offset after the source record that is the last one on the target, found by comparing both; UNKNOWN
            where they could not be compared, or differ.
    """
    end = traces.target.log_end
    if proven is not UNKNOWN:
        return Cut(MirrorStart(proven, end), 0)
    told = [offset for offset in (traces.last, traces.sync_upstream) if offset is not UNKNOWN]
    behind = UNKNOWN if traces.sync is UNKNOWN else end - traces.sync.downstream - 1
    return Cut(MirrorStart(UpstreamOffset(max(told) + 1), end), behind)


@dataclass(frozen=True, slots=True)
class MirrorMakerProgress:
    """What MM2's topics and groups say of a flow.

    Attributes:
        positions: The offset behind the last copied record of each partition, as far as it is stored.
        syncs: The newest offset sync of each partition.
        workers: How many members the groups have that MM2's workers usually join.
        has_left: Such a group exists without members: MM2 does not run. False also where no such group exists, as
            workers of another Connect cluster may run it.
    """

    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    workers: int = 0
    has_left: bool = False
    syncs: Mapping[TopicPartition, OffsetSync] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether MM2's position in any partition is known."""
        return bool(self.positions)

    def of(self, places: Collection[TopicPartition]) -> MirrorMakerProgress:
        """The progress in these partitions alone."""
        return replace(
            self,
            positions={at: offset for at, offset in self.positions.items() if at in places},
            syncs={at: sync for at, sync in self.syncs.items() if at in places},
        )

    @classmethod
    def told(
        cls,
        stored: Mapping[TopicPartition, UpstreamOffset],
        syncs: Mapping[TopicPartition, OffsetSync],
        *,
        workers: int,
        has_left: bool,
    ) -> MirrorMakerProgress:
        """The progress by Connect's stored positions and MM2's offset syncs, before `with_mirrors` refines it.

        A stored position is that of the last copied record, and up to a minute old.
        """
        known = {
            place: next_to_copy(syncs.get(place), stored.get(place), None) for place in {**stored, **syncs}
        }
        positions = {place: at for place, at in known.items() if at is not None}
        return cls(positions, workers, has_left, syncs)

    def with_mirrors(self, ends: Mapping[TopicPartition, int], *, exactly_once: bool) -> MirrorMakerProgress:
        """The progress with positions advanced by the mirrors' growth since their last offset sync.

        Args:
            ends: The end of each mirror on the target, by partition of the source.
            exactly_once: MM2 runs with ``exactly.once.source.support``.
        """
        grown = {
            place: next_to_copy(sync, None, ends.get(place), exactly_once=exactly_once) or 0
            for place, sync in self.syncs.items()
        }
        further = {place: at for place, at in grown.items() if at > self.positions.get(place, 0)}
        return replace(self, positions={**self.positions, **further})

    def at_end(self, ends: Mapping[TopicPartition, int]) -> MirrorMakerProgress:
        """The progress with partitions advanced to ``ends``: there is no record left to copy before them."""
        return replace(self, positions={**self.positions, **ends})

    def behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """MM2's lag to these ends in offsets, by partition with a known position."""
        return {at: max(0, ends[at] - position) for at, position in self.positions.items() if at in ends}


def next_to_copy(
    sync: OffsetSync | None,
    last: UpstreamOffset | None,
    target_end: int | None,
    *,
    exactly_once: bool = False,
) -> int | None:
    """The offset of the next source record that MM2 copies; None where it is unknown.

    After its newest sync MM2 has copied without a gap, as it sends a sync for each record that follows a gap
    (`PartitionState.update`): it has copied as many records as the mirror has grown by. With exactly-once, transaction
    markers lie between them, and the stored positions are as new as the records.

    Args:
        sync: The partition's newest offset sync.
        last: The last copied record, by MM2's stored position: up to a minute old.
        target_end: The mirror's end; None where it could not be read.
        exactly_once: MM2 runs with ``exactly.once.source.support``.
    """
    known = [] if last is None else [last + 1]
    if sync is not None:
        grown = 1 if exactly_once or target_end is None else max(target_end - sync.downstream, 1)
        known.append(sync.upstream + grown)
    return max(known, default=None)
