"""Sync group offsets (KIP-545): commit the checkpoints of the source's groups on the target."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.failover.commits.syncer import OffsetSyncer
from mmtool.insight.problem_remedies import remedy_of
from mmtool.plan.groups.facts import Commit
from mmtool.plan.words import counted
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from mmtool.failover.commits.syncer import Offsets
    from mmtool.kafka.ports import ClusterPort
    from mmtool.replication.background import ExtraTurn
    from mmtool.replication.background.checkpoints import Checkpoints


@dataclass(slots=True)
class GroupOffsets:
    """Commits the current checkpoints on the target.

    Attributes:
        checkpoints: The groups' current checkpoints.
        target: Where to commit.
        seconds: The interval.
        moved: Groups that now belong to the target, as far as the control topic says at that moment.
    """

    checkpoints: Checkpoints
    target: ClusterPort
    seconds: float
    moved: Callable[[], Container[str]] = frozenset
    name: str = "group offsets"
    extra: ExtraTurn = "last"
    follower: OffsetSyncer = field(init=False)

    def __post_init__(self) -> None:
        self.follower = OffsetSyncer(self.target, moved=self.moved)

    async def perform(self) -> None:
        """Commit the groups' current checkpoints on the target once.

        Raises:
            MmtoolError: the target refused the offsets of some groups; the others were committed.
        """
        turn = await in_thread(self.follower.turn, self._wanted())
        failed = [group.problem for group in turn.values() if group.problem]
        if failed:
            more = f" (and {counted(len(failed) - 1, 'more group')})" if len(failed) > 1 else ""
            causes = sorted({cause for group in turn.values() for cause in group.causes})
            raise MmtoolError(failed[0] + more, remedy=remedy_of(causes, self.target.alias))

    def _wanted(self) -> dict[str, Offsets]:
        wanted: dict[str, Offsets] = defaultdict(dict)
        for checkpoint in list(self.checkpoints.current.values()):  # a look may be under way in its thread
            offset = Commit(checkpoint.downstream, checkpoint.metadata)
            wanted[checkpoint.group][checkpoint.topic_partition] = offset
        return dict(wanted)
