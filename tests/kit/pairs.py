"""A model of a partition that two clusters share: records are born on both sides, and each knows where all went."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kit.maps import begun
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.blocks import SeenOffset, WriterState
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.translation.blocks import Block, BlockKey

HERE, THERE = 0, 1
MARKER = ("marker", 0)
Record = tuple[int, int]
"""Where it was born, and its offset there."""


@dataclass
class ModelPair:
    """Two logs, and the flow from each to the other.

    Attributes:
        logs: What each side's offsets hold.
        next: The next offset that the flow *from* that side fetches.
        stored: The blocks that the flow from that side has stored.
    """

    logs: tuple[list[object], list[object]] = field(default_factory=lambda: ([], []))
    next: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self._recorders = [begun(), begun()]
        self.stored: list[dict[BlockKey, Block]] = [{}, {}]
        self.store(HERE, 0)
        self.store(THERE, 0)

    def born(self, side: int, count: int) -> None:
        """Producers write ``count`` records."""
        log = self.logs[side]
        log.extend((side, offset) for offset in range(len(log), len(log) + count))

    def marker(self, side: int, _: int) -> None:
        """A transaction marker takes an offset."""
        self.logs[side].append(MARKER)

    def mirror(self, side: int, count: int) -> None:
        """The flow from ``side`` passes ``count`` offsets."""
        there, recorder = self.logs[1 - side], self._recorders[side]
        for at in range(self.next[side], min(self.next[side] + count, len(self.logs[side]))):
            if self.logs[side][at] == (side, at):
                downstream = DownstreamOffset(len(there))
                recorder.appended(UpstreamOffset(at), downstream, 1, writer=WriterState(9, 0, 0))
                there.append((side, at))
            self.next[side] = at + 1
        recorder.passed(UpstreamOffset(self.next[side]))

    def store(self, side: int, _: int) -> None:
        """The flow from ``side`` keeps its books; nothing is in flight."""
        self._recorders[side].saw_source(
            SeenOffset(UpstreamOffset(len(self.logs[side])), 0), SeenOffset(UpstreamOffset(0), 0)
        )
        self.stored[side].update((block.key, block) for block in self._recorders[side].take())

    def look(self, side: int, _: int) -> None:
        """The flow from ``side`` looks how long the other log is while it has nothing in flight."""
        self._recorders[side].checked(DownstreamOffset(len(self.logs[1 - side])))
        self.store(side, 0)

    def map(self, side: int) -> PartitionMap:
        """What is stored of the flow from ``side``."""
        return join_blocks(self.stored[side].values())

    def source_log(self) -> SourceLog:
        return SourceLog(UpstreamOffset(0), UpstreamOffset(len(self.logs[HERE])))

    def target_log(self) -> TargetLog:
        return TargetLog(DownstreamOffset(0), DownstreamOffset(len(self.logs[THERE])))

    def read(self, commit: int) -> set[Record]:
        """The records below ``commit`` here."""
        return {record for record in self.logs[HERE][:commit] if record != MARKER}  # type: ignore[misc]

    def at_or_after(self, offset: int) -> set[Record]:
        """The records at or after ``offset`` there."""
        return {record for record in self.logs[THERE][offset:] if record != MARKER}  # type: ignore[misc]


_STEPS = (
    ModelPair.born,
    ModelPair.born,
    ModelPair.mirror,
    ModelPair.mirror,
    ModelPair.mirror,
    ModelPair.marker,
    ModelPair.store,
    ModelPair.look,
)


Step = tuple["Callable[[ModelPair, int, int], None]", int, int]


def lives() -> st.SearchStrategy[list[Step]]:
    """What happens to a pair: which step, on which side, how many offsets."""
    sides = st.sampled_from([HERE, THERE])
    return st.lists(st.tuples(st.sampled_from(_STEPS), sides, st.integers(1, 5)), max_size=30)


def live(pair: ModelPair, life: list[Step]) -> None:
    """Let it happen."""
    for step, side, count in life:
        step(pair, side, count)


@st.composite
def pairs(draw: st.DrawFn) -> ModelPair:
    """Pairs at some point of their life."""
    pair = ModelPair()
    live(pair, draw(lives()))
    return pair
