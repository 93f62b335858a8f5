"""A tiny model of a source partition and its mirror that knows the truth record by record.

What the algebra concludes from runs, the model knows from a dictionary: each surviving source record and
where it went. Tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.blocks import MirroredPartition, MirrorStart, SeenOffset, WriterState
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicId, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.translation.blocks import Block, BlockKey

ORDERS = MirroredPartition(
    source_cluster_id=ClusterId("east-5fYrTnE3Qh2m0mV1dA"),
    target_cluster_id=ClusterId("west-0pB7hGqXSZyq8vR2kw"),
    topic_id=TopicId("r3lWkq7dQ1mQ3i0m3yq1Ng"),
    partition=7,
    source_topic="orders.payments",
    target_topic="east.orders.payments",
    target_topic_id=TopicId("h8Zq0bq2RhuQwz5mJ1uYpA"),
)
"""A partition to be about."""


class Slot(Enum):
    """What an offset of the source log holds. Only records are shipped."""

    RECORD = "record"
    COMPACTED = "compacted"
    ABORTED = "aborted"
    MARKER = "marker"


@dataclass
class ModelMirror:
    """A source log, and its mirror record by record.

    Attributes:
        slots: What each source offset holds, from 0.
        start: Where the mirror began.
        max_runs: Runs in a sealed block.
        unmirrored: How many offsets below the start the source holds (a mirror that began at the end).
        went: The truth: each shipped record and its downstream offset.
        target_end: The target's log end.
        stored: The offset-runs topic, compacted.
    """

    slots: list[Slot]
    start: MirrorStart
    max_runs: int = 3
    unmirrored: int = 0
    went: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.target_end = int(self.start.downstream)
        self.frontier = int(self.start.upstream)
        self.recorder = MapRecorder.begin(ORDERS, self.start, max_runs=self.max_runs)
        self.stored: dict[BlockKey, Block] = {}
        source = self.source_log()
        self.recorder.saw_source(
            *(SeenOffset(at, 1_700_000_000_000) for at in (source.log_end, source.log_start))
        )

    def ship(self, offsets: int) -> None:
        """Mirror the next ``offsets`` source offsets, each stretch of records as one batch."""
        upto = min(len(self.slots), self.frontier + offsets)
        batch: list[int] = []
        for upstream in range(self.frontier, upto):
            if self.slots[upstream] is Slot.RECORD:
                batch.append(upstream)
            else:
                self._produce(batch)
                batch = []
        self._produce(batch)
        self.frontier = upto
        self.recorder.passed(UpstreamOffset(upto))

    def _produce(self, batch: list[int]) -> None:
        if batch:
            self.went.update(zip(batch, range(self.target_end, self.target_end + len(batch)), strict=True))
            self.recorder.appended(
                UpstreamOffset(batch[0]),
                DownstreamOffset(self.target_end),
                len(batch),
                writer=WriterState(9, 0, len(self.went)),
            )
            self.target_end += len(batch)

    def interrupt(self, offsets: int) -> None:
        """Something else takes up ``offsets`` of the target: a claim's marker, a record born there."""
        self.target_end += offsets

    def flush(self, _: int = 0) -> None:
        """Store what changed, as the pump does each second."""
        self.stored.update((block.key, block) for block in self.recorder.take())

    def hand_over(self, _: int = 0) -> None:
        """A clean close, and the next owner goes on from the stored blocks."""
        self.flush()
        newest = max(self.stored)
        self.recorder = MapRecorder.resume(self.stored[newest], max_runs=self.max_runs)

    def take_over(self, markers: int) -> None:
        """The owner vanished: the next one fences, reads the target's log to its end, and books what it found."""
        self.interrupt(markers)
        self.recorder.checked(DownstreamOffset(self.target_end))
        self.hand_over()

    def partition_map(self) -> PartitionMap:
        """What a reader of the offset-runs topic knows."""
        self.flush()
        return join_blocks(self.stored.values())

    def target_log(self, log_start: int | None = None) -> TargetLog:
        """The target's bounds; everything is still there unless ``log_start`` says otherwise."""
        start = self.start.downstream if log_start is None else log_start
        return TargetLog(DownstreamOffset(start), DownstreamOffset(self.target_end))

    def source_log(self) -> SourceLog:
        """The source's bounds."""
        return SourceLog(
            UpstreamOffset(self.start.upstream - self.unmirrored), UpstreamOffset(len(self.slots))
        )


def slots(max_size: int = 60) -> st.SearchStrategy[list[Slot]]:
    """Source logs: mostly records, with every kind of hole."""
    kinds = st.sampled_from([Slot.RECORD] * 5 + [Slot.COMPACTED, Slot.ABORTED, Slot.MARKER])
    return st.lists(kinds, max_size=max_size)


_STEPS: list[Callable[[ModelMirror, int], None]] = [
    ModelMirror.ship,
    ModelMirror.ship,
    ModelMirror.interrupt,
    ModelMirror.flush,
    ModelMirror.hand_over,
    ModelMirror.take_over,
]


@st.composite
def mirrors(draw: st.DrawFn) -> ModelMirror:
    """Mirrors at some point of their life: behind, caught up, interrupted, handed over, or not yet begun."""
    log = draw(slots())
    upstream = draw(st.integers(0, len(log)))
    start = MirrorStart(UpstreamOffset(upstream), DownstreamOffset(draw(st.integers(0, 50))))
    mirror = ModelMirror(log, start, max_runs=draw(st.integers(1, 5)))
    live(mirror, draw(lives()))
    return mirror


def lives() -> st.SearchStrategy[list[tuple[int, int]]]:
    """What happens to a mirror: (which step, how many offsets)."""
    return st.lists(st.tuples(st.integers(0, len(_STEPS) - 1), st.integers(1, 12)), max_size=12)


def live(mirror: ModelMirror, life: list[tuple[int, int]]) -> None:
    """Let it happen."""
    for step, offsets in life:
        _STEPS[step](mirror, offsets)
