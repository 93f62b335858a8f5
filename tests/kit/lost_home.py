"""A model of a home that dies with records that were never mirrored, and of what happens until it is back in use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from kit.pairs import HERE, MARKER, THERE, ModelPair
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.divergence import (
    DivergedTail,
    HomewardAnswer,
    TailPart,
    go_home,
    go_home_in_pair,
)
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from kit.pairs import Record
    from mmtool.translation.partition_map import PartitionMap

HOME, AWAY = HERE, THERE


@dataclass
class ModelHomecoming:
    """A pair whose home died and is back.

    Attributes:
        shared: The topic has one name on both sides. Where it has not, nothing that is born away comes home.
        tail: What was found at home when it was back.
        away_at_death: How long the log away was then.
        died_with: How many records had diverged by then.
    """

    shared: bool
    pair: ModelPair = field(default_factory=ModelPair)
    away_at_death: int = 0
    died_with: int = 0

    def find_tail(self) -> None:
        """Looks at home, as it is."""
        flow, home = self.map_of(HOME), self.pair.logs[HOME]
        behind = [at for at in range(flow.upstream_frontier, len(home)) if isinstance(home[at], tuple)]
        behind = [at for at in behind if home[at] != MARKER]
        parts = [list(run) for own, run in groupby(behind, lambda at: home[at] == (HOME, at)) if own]
        brought = [at + 1 for at, record in enumerate(home) if record[0] == AWAY]  # type: ignore[index]
        from_home = {at for at, record in enumerate(self.pair.logs[AWAY]) if record[0] == HOME}  # type: ignore[index]
        self.tail = DivergedTail(
            start=flow.upstream_frontier,
            end=UpstreamOffset(len(home)),
            parts=tuple(TailPart(UpstreamOffset(p[0]), UpstreamOffset(p[-1] + 1), len(p)) for p in parts),
            is_final=from_home <= set(self.places_of(HOME).values()),
            brought_to=UpstreamOffset(max(brought, default=0)),
        )

    def places_of(self, side: int) -> dict[int, int]:
        """Where each record of that side's map lies on the other one."""
        return {
            run.upstream_start + i: run.downstream_start + i
            for run in self.map_of(side).runs
            for i in range(run.count)
        }

    def map_of(self, side: int) -> PartitionMap:
        """What the flow from that side has stored."""
        return self.pair.map(side)

    def answer(self, commit: int) -> HomewardAnswer:
        """Where a group that committed ``commit`` away goes on."""
        away = TargetLog(DownstreamOffset(0), DownstreamOffset(len(self.pair.logs[AWAY])))
        home = SourceLog(UpstreamOffset(0), UpstreamOffset(len(self.pair.logs[HOME])))
        at = DownstreamOffset(commit)
        if not self.shared:
            return go_home(self.map_of(HOME), self.tail, at, away=away, home=home)
        maps = self.map_of(HOME), self.map_of(AWAY)
        return go_home_in_pair(*maps, self.tail, at, away=away, home=home)

    def seen(self, start: int, stop: int) -> set[Record]:
        """The records away from ``start`` up to ``stop``, of those that are at home as well, or come there."""
        between = self.pair.logs[AWAY][start:stop]
        births = (HOME, AWAY) if self.shared else (HOME,)
        return {record for record in between if record[0] in births}  # type: ignore[index,misc]

    def at_home(self, record: Record) -> int:
        """Where a record lies at home; behind everything where it has not come yet."""
        home = self.pair.logs[HOME]
        return home.index(record) if record in home else len(home)

    def own_behind(self) -> list[int]:
        """Offsets of the records that diverged."""
        home = self.pair.logs[HOME]
        return [at for at in range(self.tail.start, self.tail.end) if home[at] == (HOME, at)]


_BOTH = (
    ModelPair.born,
    ModelPair.mirror,
    ModelPair.mirror,
    ModelPair.marker,
    ModelPair.store,
    ModelPair.look,
)
_AFTER = (ModelPair.born, ModelPair.mirror, ModelPair.mirror, ModelPair.store, ModelPair.marker)


@st.composite
def homecomings(draw: st.DrawFn, *, shared: bool, settled: bool | None = None) -> ModelHomecoming:
    """Homes that are back.

    Args:
        draw: Hypothesis' own.
        shared: See `ModelHomecoming`.
        settled: What was mirrored until home died is booked; None for both.
    """
    back = ModelHomecoming(shared)
    pair, sides = back.pair, [HOME, AWAY] if shared else [HOME]
    counts = st.integers(1, 5)
    for step, side, count in draw(
        st.lists(st.tuples(st.sampled_from(_BOTH), st.sampled_from(sides), counts))
    ):
        step(pair, side, count)
    if not shared:
        pair.marker(AWAY, draw(counts))  # the marker of a claim, or a stray record: none of this flow's
    pair.born(HOME, draw(st.integers(0, 5)))
    if settled or (settled is None and draw(st.booleans())):
        pair.store(HOME, 0)
        pair.store(AWAY, 0)
    back.find_tail()
    back.away_at_death, back.died_with = len(pair.logs[AWAY]), back.tail.records
    at_home = (ModelPair.marker,)
    after = st.one_of(
        st.tuples(st.sampled_from(_AFTER), st.just(AWAY), counts),
        st.tuples(st.sampled_from(at_home), st.just(HOME), counts),
    )
    for step, side, count in draw(st.lists(after)) if shared else []:
        step(pair, side, count)
    if draw(st.booleans()):
        pair.born(HOME, draw(counts))  # somebody wrote at home before everybody was there: look again
        back.find_tail()
    if not settled and draw(st.booleans()):  # not looked at that closely
        back.tail = replace(back.tail, brought_to=back.tail.end)
    return back


def shipped(back: ModelHomecoming) -> ModelHomecoming:
    """The way back has brought everything home, and booked it."""
    if back.shared:
        back.pair.mirror(AWAY, len(back.pair.logs[AWAY]))
        back.pair.store(AWAY, 0)
    return back
