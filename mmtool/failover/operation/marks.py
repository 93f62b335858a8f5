"""The marks that an operation sets on topics of the source, hands on, and removes.

I  a process that ends an operation deals with its marks first: no mark names an operation that is over
J  a topic of another emergency's groups stays marked by that emergency
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from mmtool.failover.operation.states import START, Event, OperationState
from mmtool.output import warn
from mmtool.plan.failover.steps import Mode, StepName, topics_of
from mmtool.plan.records.marks import FailedOverRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.failover.modes.cutover import Cutover, OperationContext
    from mmtool.failover.operation.records import Recorded

    Marks = Mapping[str, FailedOverRecord]


@dataclass(frozen=True, slots=True)
class Marking:
    """A `Preparation`: the marks of one operation.

    Attributes:
        standing: Reads the marks in force, by topic.
        topics: The topics to mark.
    """

    name: ClassVar = StepName.MARK

    cutover: Cutover
    standing: Callable[[], Marks]
    topics: Collection[str]

    @property
    def context(self) -> OperationContext:
        return self.cutover.context

    def own(self) -> Marks:
        """Marks that name this operation, by topic."""
        ours = self.context.attempt.operation_id
        return {name: mark for name, mark in self.standing().items() if mark.operation_id == ours}

    @property
    def may_stand(self) -> bool:
        """Whether a resumed operation left marks, so that a failure before that step also removes them."""
        return self.context.attempt.since != START and bool(self.own())

    def do(self) -> None:
        """Mark the topics as failed over, and end the operations that give way to this one.

        Topics that another failover has marked keep its mark; marks of operations that give way become this one's, or
        are removed.
        """
        others, standing = self.cutover.giving_way(), self.standing()
        attempt, at_ms = self.context.attempt, self.context.clock.now_ms()
        unmarked = [name for name in self.topics if name not in standing]
        self.context.marks.write(
            [FailedOverRecord(name, True, attempt.operation_id, attempt.by, at_ms) for name in unmarked]
        )
        self.context.marks.write(self._handed_on(standing, others))
        for other in others:
            self.context.journal.supersede(other)

    def _handed_on(self, standing: Marks, others: Collection[Recorded]) -> list[FailedOverRecord]:
        """The marks of operations that give way, lifted; those that no other holds become this one's for its topics."""
        ended = {other.operation_id for other in others}
        theirs = {name: mark for name, mark in standing.items() if mark.operation_id in ended}
        attempt = self.context.attempt
        return [
            replace(theirs[mark.topic], operation_id=attempt.operation_id, by=attempt.by)
            if mark.topic in self.topics and not mark.failed_over
            else mark
            for mark in self._lifted(theirs)
        ]

    def undo(self) -> None:
        """Remove this operation's own marks."""
        self.context.marks.write(self._lifted(self.own()))

    def _lifted(self, marks: Marks) -> list[FailedOverRecord]:
        if not marks:
            return []
        context = self.context
        at_ms, attempt = context.clock.now_ms(), context.attempt
        return lifted(marks, context.journal.of_flow(), attempt.operation_id, attempt.by, at_ms)


def release(context: OperationContext, topics: Collection[str]) -> None:
    """Remove the marks of topics whose groups have failed back, except those that newer operations need."""
    if not topics:
        return
    context.lock.hold()
    ours, by, at_ms = context.attempt.operation_id, context.attempt.by, context.clock.now_ms()
    since = holders(context.journal.told_since(), ours)
    newer = {name: heirs[-1] for name in topics if (heirs := since.heirs(name))}
    for topic in sorted(newer):
        warn(
            f"{topic} stays failed over, as the newer operation {newer[topic]} relies on that: to mirror {topic} again,"
            f" fail the groups of {newer[topic]} back as well, or undo {newer[topic]} (`mmtool failover show"
            f" {newer[topic]} -c FILE` lists how)"
        )
    context.marks.write(
        [FailedOverRecord(name, name in newer, newer.get(name, ours), by, at_ms) for name in topics]
    )


@dataclass(frozen=True, slots=True)
class Holders:
    """The operations that still hold topics and groups on the target, each in the order in which they started.

    An operation holds what it moved to the target until it is undone, or until a failback has moved the group back.

    Attributes:
        topics: By topic of the source that they mark, or that their groups read.
        groups: By group.
    """

    topics: Mapping[str, Sequence[Recorded]]
    groups: Mapping[str, Sequence[Recorded]]

    def heirs(self, topic: str, since: int = 0) -> list[str]:
        """The ids of operations that need the topic marked and had not ended at a place in the journal."""
        held_by = self.topics.get(topic, ())
        return [one.operation_id for one in held_by if one.mode is not Mode.PLANNED and one.span[1] >= since]


def holders(in_order: Iterable[Recorded], without: str) -> Holders:
    """Who holds what on the target after some operations.

    Args:
        in_order: Operations on the same flow, in the order in which they started.
        without: The id of an operation that does not count.
    """
    others = [one for one in in_order if one.operation_id != without]
    groups: dict[str, dict[str, Recorded]] = {}
    for one in others:
        for name in one.group_names:
            if one.mode is Mode.FAILBACK and one.state is OperationState.COMPLETED:
                groups.pop(name, None)
            elif one.mode in {Mode.PLANNED, Mode.EMERGENCY} and one.may(Event.ROLL_BACK):
                groups.setdefault(name, {})[one.operation_id] = one
    topics: dict[str, list[Recorded]] = {}
    for one in others:
        moved = [name for name in one.group_names if one.operation_id in groups.get(name, ())]
        if not moved:
            continue
        plans = [plan for plan in one.operation.plan.groups if plan.group in moved]
        for topic in {*topics_of(plans), *one.head.plan.state}:
            topics.setdefault(topic, []).append(one)
    return Holders(topics, {name: list(of.values()) for name, of in groups.items()})


def lifted(
    marks: Marks, in_order: Sequence[Recorded], without: str, by: str, at_ms: int
) -> list[FailedOverRecord]:
    """Records that remove marks whose operation holds the topic no more, or hand them to the first that still does.

    A mark names the first operation that held the topic without a break. So operations that had ended before that one
    started do not count: a failback or a release came in between.

    Args:
        marks: By topic of the source.
        in_order: As for `holders`.
        without: Likewise.
        by: The operator, as ``user@host``.
        at_ms: Now, in ms since 1970.
    """
    began = {one.operation_id: one.span[0] for one in in_order}
    held, records = holders(in_order, without), list[FailedOverRecord]()
    for name, mark in sorted(marks.items()):
        if mark.operation_id not in {one.operation_id for one in held.topics.get(name, ())}:
            heirs = held.heirs(name, began.get(mark.operation_id, 0))
            records.append(FailedOverRecord(name, bool(heirs), [*heirs, without][0], by, at_ms))
    return records
