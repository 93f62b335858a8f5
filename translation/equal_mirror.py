"""A mirror that another system keeps with the source's own offsets: its map, and whether records prove an offset.

X  an offset is proven only if both logs have the same records at the same offsets around it, and at least one record
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.translation.blocks import MirroredTo, MirrorStart, NothingMirrored, SeenOffset, Tail
from mmtool.translation.partition_map import PartitionMap
from mmtool.translation.runs import Run, RunMap
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.lockstep import Seen


def equal_map(
    about: MirroredPartition, end: DownstreamOffset, source_end: SeenOffset | Unknown = UNKNOWN
) -> PartitionMap:
    """The map of a partition whose offsets are taken as equal up to ``end``, the end of the target's log."""
    start, frontier = MirrorStart(UpstreamOffset(0), DownstreamOffset(0)), UpstreamOffset(end)
    runs = [Run(start.upstream, start.downstream, end)] if end else []
    down = MirroredTo(end) if end else NothingMirrored(end)
    tail = Tail(frontier, down, source_end, UNKNOWN, UNKNOWN, UNKNOWN, end, same_offsets=True)
    return PartitionMap(about, start, start.upstream, start.upstream, RunMap.from_runs(runs), tail)


def proves(here: Sequence[Seen], there: Sequence[Seen]) -> bool:
    """Whether the records around an offset, read from the same offsets of both logs, are the same (X)."""
    return bool(here) and len(here) == len(there) and all(map(_is_same, here, there))


def _is_same(one: Seen, other: Seen) -> bool:
    times = {one.timestamp_ms, other.timestamp_ms}
    is_timed = len(times) == 1 or UNKNOWN in times
    return one.offset == other.offset and one.digest == other.digest and is_timed
