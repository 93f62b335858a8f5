"""Where mmtool continues a mirror of MirrorMaker 2: from MM2's traces to the first offset to fetch.

A  nothing is skipped: every record below the start is on the target
B  nothing is copied twice where the target's own records prove where MM2 stopped; else the number is bounded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.translation.blocks import MirrorStart
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from mmtool.translation.answers import SourceLog, TargetLog
    from mmtool.translation.mm2_records import OffsetSync


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
