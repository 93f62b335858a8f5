"""The marks that an operation sets on topics of the source, hands on, and removes.

I  a process that ends an operation deals with its marks first: no mark names an operation that is over
J  a topic of another emergency's groups stays marked by that emergency; so does one whose diverged records are
   replayed in part: only its failback knows how many were, and that failback stays open until they are dealt with
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmtool.failover.operation.states import START, Event
from mmtool.output import warn
from mmtool.plan.failover.steps import Mode, StepName, topics_of
from mmtool.plan.records.marks import FailedOverRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.failover.modes.cutover import Cutover, OperationContext
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.states import OperationStatus

    Marks = Mapping[str, FailedOverRecord]


@dataclass(frozen=True, slots=True)
class Marking:
    """The marks of one operation.

    Attributes:
        standing: Reads the marks in force, by topic.
    """

    cutover: Cutover
    standing: Callable[[], Marks]

    @property
    def context(self) -> OperationContext:
        return self.cutover.context

    def own(self) -> Marks:
        """Marks that name this operation, by topic."""
        ours = self.context.attempt.operation_id
        return {name: mark for name, mark in self.standing().items() if mark.operation_id == ours}

    def begun(self, since: OperationStatus) -> tuple[StepName, ...]:
        """The mark step if a resumed operation left marks, so that a failure before that step also removes them."""
        return (StepName.MARK,) if since != START and self.own() else ()

    def mark(self, topics: Collection[str]) -> None:
        """Mark topics as failed over, and end the operations that give way to this one.

        Topics that another failover has marked keep its mark; marks of operations that give way become this one's, or
        are removed.
        """
        others, standing = self.cutover.giving_way(), self.standing()
        self.cutover.hold([name for name in topics if name not in standing])
        self.context.marks.write(self._handed_on(standing, topics, others))
        for other in others:
            self.context.journal.supersede(other)

    def _handed_on(
        self, standing: Marks, topics: Collection[str], others: Collection[Recorded]
    ) -> list[FailedOverRecord]:
        """The marks of operations that give way, rewritten: this operation's for its topics, removed for others."""
        ended = {other.operation_id for other in others if not other.half_replayed}
        theirs = {name: mark for name, mark in standing.items() if mark.operation_id in ended}
        ours = [self._ours(mark) for name, mark in theirs.items() if name in topics]
        return [*ours, *self._lifted({name: mark for name, mark in theirs.items() if name not in topics})]

    def _ours(self, mark: FailedOverRecord) -> FailedOverRecord:
        return replace(mark, operation_id=self.context.attempt.operation_id, by=self.context.attempt.by)

    def take_back(self) -> None:
        """Remove this operation's own marks."""
        self.context.marks.write(self._lifted(self.own()))

    def _lifted(self, marks: Marks) -> list[FailedOverRecord]:
        """Records that remove marks, or hand them to operations that still need them.

        For a failback only emergencies since its first mark count: a failback marks topics that had no mark, so that
        only a later emergency can rely on its marks.
        """
        if not marks:
            return []
        context, home = self.context, self.cutover.mode is Mode.FAILBACK
        since_ms = min(mark.since_ms for mark in marks.values()) if home else 0
        needed = keepers(context.attempt.operation_id, context.journal.of_flow(), since_ms)
        return lifted(
            sorted(marks), needed, context.attempt.operation_id, context.attempt.by, context.clock.now_ms()
        )


def release(context: OperationContext, topics: Collection[str]) -> None:
    """Remove the marks of topics whose groups have failed back, except those that newer operations need."""
    if not topics:
        return
    context.lock.hold()
    needed = keepers(context.attempt.operation_id, context.journal.told_since())
    for topic in sorted(set(topics) & needed.keys()):
        newer = needed[topic]
        warn(
            f"{topic} stays failed over, as the newer operation {newer} relies on that: to mirror {topic} again, fail"
            f" the groups of {newer} back as well, or undo {newer} (`mmtool failover show {newer} -c FILE` lists how)"
        )
    context.marks.write(
        lifted(topics, needed, context.attempt.operation_id, context.attempt.by, context.clock.now_ms())
    )


def keepers(operation_id: str, others: Iterable[Recorded], since_ms: int = 0) -> dict[str, str]:
    """Topics that other operations need marked, each with the id of the last such operation.

    Args:
        operation_id: The operation whose marks are removed.
        others: Operations on the same flow.
        since_ms: Emergencies whose last entry is older do not count; in ms since 1970.
    """
    return {
        topic: other.operation_id
        for other in others
        if other.operation_id != operation_id
        for topic in (*_moved_by(other, since_ms), *other.half_replayed)
    }


def _moved_by(other: Recorded, since_ms: int) -> Collection[str]:
    """Topics of an emergency that can still be rolled back; empty for other operations."""
    if other.mode is not Mode.EMERGENCY or other.last_ms < since_ms or not other.may(Event.ROLL_BACK):
        return ()
    return [*topics_of(other.operation.plan.groups), *other.head.plan.state]


def lifted(
    topics: Iterable[str], needed: Mapping[str, str], operation_id: str, by: str, at_ms: int
) -> list[FailedOverRecord]:
    """Records that remove an operation's marks; a topic that another operation needs gets its mark instead."""
    return [
        FailedOverRecord(name, name in needed, needed.get(name, operation_id), by, at_ms) for name in topics
    ]
