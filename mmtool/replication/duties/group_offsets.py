"""Groups of the source may go on on the target: their checkpoints are committed there (KIP-545)."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.plan.checkpoints import plan_group_sync
from mmtool.plan.group_facts import ABSENT, Commit, GroupFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.kafka.ports import ClusterPort
    from mmtool.replication.duties.checkpoints import Checkpoints
    from mmtool.translation.types import TopicPartition

    Offsets = dict[TopicPartition, Commit]

_AT_ONCE = 8
_EVERYTHING_SECONDS = 60.0
_RENEWALS = 4


@dataclass(slots=True)
class GroupOffsets:
    """Commits for groups that nobody uses on the target, never back, and renews what Kafka would forget.

    A group whose checkpoints have changed, or that is at work on the target, is looked at in the next turn, all of them
    once a minute.

    Attributes:
        checkpoints: Where the groups stand.
        target: Where to commit.
        seconds: From one turn to the next.
    """

    checkpoints: Checkpoints
    target: ClusterPort
    seconds: float
    name: str = "group offsets"
    closing: bool = True
    _done: dict[str, Offsets] = field(default_factory=dict)
    _renewed: dict[str, float] = field(default_factory=dict)
    _everything_at: float = 0.0
    _retention_seconds: float = 0.0

    async def perform(self) -> None:
        """One turn.

        Raises:
            MmtoolError: some groups' offsets were not taken; the others' were.
        """
        await asyncio.to_thread(self._perform, self._wanted())

    def _wanted(self) -> dict[str, Offsets]:
        wanted: dict[str, Offsets] = defaultdict(dict)
        for checkpoint in self.checkpoints.current.values():
            offset = Commit(checkpoint.downstream, checkpoint.metadata)
            wanted[checkpoint.group][checkpoint.topic_partition] = offset
        return dict(wanted)

    def _perform(self, wanted: dict[str, Offsets]) -> None:
        due = self._due(wanted)
        if not due:
            return
        self._retention_seconds = self._retention_seconds or self.target.offsets_retention_seconds()
        standing, before = self.target.groups.describe(due), self.target.groups.commits(due)
        facts = [GroupFacts(name, {}, before[name], there=standing.get(name, ABSENT)) for name in due]
        planned = {
            group.group: plan_group_sync(group, wanted[group.group], renew=self._is_old(group.group))
            for group in facts
        }
        inside = self._inside(planned)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            problems = list(pool.map(self._commit, inside, inside.values()))
        now = time.monotonic()
        for group, problem in zip(facts, problems, strict=True):
            if not problem and group.there.idle:  # one that is at work is looked at again in the next turn
                self._done[group.group] = wanted[group.group]
                self._renewed[group.group] = (
                    now if inside[group.group] else self._renewed.get(group.group, now)
                )
        failed = [problem for problem in problems if problem]
        if failed:
            more = f" (and {len(failed) - 1} groups more)" if len(failed) > 1 else ""
            raise MmtoolError(failed[0] + more)

    def _due(self, wanted: Mapping[str, Offsets]) -> list[str]:
        now = time.monotonic()
        if now < self._everything_at:
            return [group for group, offsets in wanted.items() if self._done.get(group) != offsets]
        self._everything_at = now + _EVERYTHING_SECONDS
        return list(wanted)

    def _is_old(self, group: str) -> bool:
        """Whether what stands there may be forgotten soon; nobody knows how old it is when we begin."""
        last = self._renewed.get(group)
        return last is None or time.monotonic() - last > self._retention_seconds / _RENEWALS

    def _inside(self, planned: Mapping[str, Offsets]) -> dict[str, Offsets]:
        """Without what the target's log does not hold any more: retention may have passed a checkpoint."""
        places = {place for offsets in planned.values() for place in offsets}
        bounds = self.target.bounds(places) if places else {}
        return {
            group: {
                place: commit
                for place, commit in offsets.items()
                if place in bounds and bounds[place].log_start <= commit.offset <= bounds[place].log_end
            }
            for group, offsets in planned.items()
        }

    def _commit(self, group: str, offsets: Offsets) -> str:
        """One request for the group; what went wrong, in a sentence."""
        if not offsets:
            return ""
        try:
            problems = self.target.groups.alter(group, offsets)
        except MmtoolError as error:
            return f"group {group}: {error.message}"
        return "; ".join(f"group {group} {place}: {problem}" for place, problem in sorted(problems.items()))
