"""The records of ``mmtool-offset-runs.<source>.internal``: blocks of runs, and all that a recovery needs.

Each partition's map is a chain of blocks. The last one is open and rewritten under its key; a block with
`MAX_RUNS` runs is sealed, and the next run starts the next block, which names the one before it: so a lost
block shows as a broken chain, never as a gap in the source. `mmtool.translation.block_codec` encodes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mmtool.translation.errors import UnreadableStateError
from mmtool.translation.types import UNKNOWN, TopicPartition

if TYPE_CHECKING:
    from mmtool.translation.runs import RunMap
    from mmtool.translation.types import ClusterId, DownstreamOffset, TopicId, Unknown, UpstreamOffset

MAX_RUNS: Final = 4096
"""Runs in a sealed block: about 12 to 20 KB."""


class BlockKey(NamedTuple):
    """The record key. Sorts by topic id, partition, then offset, in the order of the chain.

    Attributes:
        topic_id: The *source* topic's id: a recreated topic starts a new chain (KIP-516).
        block_start: Source offset at which the block was begun: the mirror's start for the first one, the first run's
            upstream start for the others.
    """

    topic_id: TopicId
    partition: int
    block_start: UpstreamOffset


@dataclass(frozen=True, slots=True)
class MirrorStart:
    """The start of a partition's mirror: the first fetch position, and the target's log end then.

    Records below ``upstream`` were never shipped by this flow.
    """

    upstream: UpstreamOffset
    downstream: DownstreamOffset


@dataclass(frozen=True, slots=True)
class Follows:
    """The block before this one, and the upstream end of its last run."""

    block_start: UpstreamOffset
    upstream_end: UpstreamOffset


@dataclass(frozen=True, slots=True)
class MirroredTo:
    """The last mirrored record is at ``position - 1`` downstream."""

    position: DownstreamOffset


@dataclass(frozen=True, slots=True)
class NothingMirrored:
    """No record was mirrored yet; the first one will get ``position`` or a higher offset."""

    position: DownstreamOffset


DownstreamEnd: TypeAlias = MirroredTo | NothingMirrored
"""The end of the mirror on the target; a group that has read everything continues at ``position``."""


@dataclass(frozen=True, slots=True)
class SeenOffset:
    """An offset of the source log and when it was observed (epoch ms)."""

    offset: UpstreamOffset
    at_ms: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of the source, from the first one up to ``end``, whose records an operator chose not to mirror.

    Whatever surviving record is there is not on the target, so no commit there has an exact answer.
    """

    start: UpstreamOffset
    end: UpstreamOffset


class MadeFrom(NamedTuple):
    """From an offset of the source on, records were mirrored by a version of a transform; empty: as they are."""

    start: UpstreamOffset
    version: str


@dataclass(frozen=True, slots=True)
class WriterState:
    """The idempotent producer's state after the last run; a recovery continues from it (KIP-98, KIP-360)."""

    producer_id: int
    epoch: int
    next_sequence: int


@dataclass(frozen=True, slots=True)
class MirroredPartition:
    """The partition and the two clusters of a map. The same in each block of a chain.

    Attributes:
        topic_id: Of the source topic (KIP-516); its name where the cluster is older than 2.8.
        target_topic_id: Of the target topic, likewise: when another topic has its name, the mirrored records are gone.
    """

    source_cluster_id: ClusterId
    target_cluster_id: ClusterId
    topic_id: TopicId
    partition: int
    source_topic: str
    target_topic: str
    target_topic_id: TopicId

    @property
    def upstream(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.source_topic, self.partition)

    @property
    def downstream(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.target_topic, self.partition)

    def key(self, block_start: UpstreamOffset) -> BlockKey:
        """The key of this partition's block that begins at ``block_start``."""
        return BlockKey(self.topic_id, self.partition, block_start)


@dataclass(frozen=True, slots=True)
class Tail:
    """The position of a partition's mirror: all that a recovery and a translation need beside the runs.

    Attributes:
        upstream_frontier: Next offset to fetch. Everything below is mapped or known to be absent (compacted,
            aborted, a control record).
        downstream_end: Last mirrored downstream offset + 1, or the mirror's start.
        source_end: The source's end as last seen (LSO under read_committed).
        source_log_start: The source's log start as last seen.
        writer: Producer state after the last batch; UNKNOWN before the first.
        source_leader_epoch: Leader epoch of the last batch read (KIP-320); UNKNOWN without one.
        checked_to: The target's log was read up to this offset, after fencing, and holds no record of the flow from
            ``downstream_end`` on; UNKNOWN where it was not read further than the last mirrored record.
        same_offsets: Every record was mirrored at its source's offset (``mmtool.offsets = same``).
    """

    upstream_frontier: UpstreamOffset
    downstream_end: DownstreamEnd
    source_end: SeenOffset | Unknown
    source_log_start: SeenOffset | Unknown
    writer: WriterState | Unknown
    source_leader_epoch: int | Unknown
    checked_to: DownstreamOffset | Unknown = UNKNOWN
    same_offsets: bool = False

    @property
    def target_verified_end(self) -> DownstreamOffset:
        """The target offset below which every mirrored record is recorded; later records are at or after it."""
        end = self.downstream_end.position
        return end if self.checked_to is UNKNOWN else max(end, self.checked_to)

    @property
    def position(self) -> DownstreamOffset:
        """The mirror's position on the target: behind its last record; with the source's offsets, behind its fills."""
        return self.target_verified_end if self.same_offsets else self.downstream_end.position


@dataclass(frozen=True, slots=True)
class Block:
    """One record of the offset-runs topic.

    Attributes:
        previous: None for the first block of a chain, which begins where the mirror began.
        sealed: No run will be added: the next one starts the next block.
        gaps: Offsets that an operator chose not to mirror, ascending; none reaches past the frontier, or into a run.
        made: By which versions of a transform its records were mirrored, ascending; the first one may begin before the
            block. Empty where all were mirrored as they are.
    """

    about: MirroredPartition
    block_start: UpstreamOffset
    mirror_start: MirrorStart
    previous: Follows | None
    runs: RunMap
    tail: Tail
    sealed: bool
    gaps: tuple[Gap, ...] = ()
    made: tuple[MadeFrom, ...] = ()

    @property
    def version(self) -> str:
        """The version of the transform by which the next records are mirrored; empty without one."""
        return self.made[-1].version if self.made else ""

    @property
    def key(self) -> BlockKey:
        """The record key under which this block is stored."""
        return self.about.key(self.block_start)

    def belongs_to(self, source_id: ClusterId, target_id: ClusterId) -> bool:
        """Whether the block is of the flow between these two clusters (ids, not aliases)."""
        return (self.about.source_cluster_id, self.about.target_cluster_id) == (source_id, target_id)

    def check(self) -> None:
        """Raise `UnreadableStateError` when the parts contradict each other."""
        end = self.tail.downstream_end
        if len(self.runs) > MAX_RUNS:
            self._refuse(f"{len(self.runs)} runs, more than {MAX_RUNS}")
        if isinstance(end, MirroredTo) != bool(len(self.runs)):
            self._refuse(
                "its end and its runs contradict each other: only one of them says that records were mirrored"
            )
        if len(self.runs) and end.position != self.runs.downstream_end:
            self._refuse(
                f"its target end is {end.position}, but its last run ends at {self.runs.downstream_end}"
            )
        if self.tail.upstream_frontier < self._mapped_end():
            self._refuse(
                f"its frontier {self.tail.upstream_frontier} is below its last mapped offset, {self._mapped_end()}"
            )
        passed = self.block_start
        for gap in self.gaps:
            if not passed <= gap.start < gap.end <= self.tail.upstream_frontier:
                self._refuse(
                    f"the gap from {gap.start} to {gap.end} is empty, or overlaps another gap or the frontier"
                )
            passed = gap.end

    def _mapped_end(self) -> UpstreamOffset:
        return self.runs.upstream_end if len(self.runs) else self.block_start

    def _refuse(self, why: str) -> None:
        raise UnreadableStateError(describe(self.key), why)


def describe(key: BlockKey) -> str:
    """The name of a block in error messages."""
    return f"offset-runs block {key.topic_id}-{key.partition}@{key.block_start}"
