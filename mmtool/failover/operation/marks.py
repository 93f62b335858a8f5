"""The marks that an operation sets on topics of the source, hands on, and removes, or that ``release`` removes.

I  a process that ends an operation deals with its marks first: no mark names an operation that is over
J  a topic of another emergency's groups stays marked by that emergency
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict

from mmtool.errors import RefusedError, UsageError
from mmtool.failover.modes.cutover import ways_on
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.states import START, OperationState, Trigger
from mmtool.insight.target_only import identity_on_target
from mmtool.output import warn
from mmtool.plain_text import did_you_mean, nearest
from mmtool.plan.failover.steps import Mode, StepName, topics_of
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.words import few, have

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.failover.modes.cutover import Cutover, LockPort, MarksPort, OperationContext
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.target_only import TargetSide
    from mmtool.plan.records.identity import FlowIdentity

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
        ours = self.context.operation_id
        return {name: mark for name, mark in self.standing().items() if mark.operation_id == ours}

    @property
    def may_stand(self) -> bool:
        """Whether a resumed operation left marks, so that a failure before that step also removes them."""
        return self.context.since != START and bool(self.own())

    def do(self) -> None:
        """Mark the topics as failed over, and end the operations that give way to this one.

        Topics that another failover has marked keep its mark; marks of operations that give way become this one's, or
        are removed.
        """
        others, standing = self.cutover.giving_way(), self.standing()
        context, at_ms = self.context, self.context.clock.now_ms()
        unmarked = [name for name in self.topics if name not in standing]
        self.context.marks.write(
            [FailedOverRecord(name, True, context.operation_id, context.by, at_ms) for name in unmarked]
        )
        self.context.marks.write(self._handed_on(standing, others))
        for other in others:
            self.context.journal.supersede(other)

    def _handed_on(self, standing: Marks, others: Collection[Recorded]) -> list[FailedOverRecord]:
        """The marks of operations that give way, lifted; those that no other holds become this one's for its topics."""
        ended = {other.operation_id for other in others}
        theirs = {name: mark for name, mark in standing.items() if mark.operation_id in ended}
        return [
            replace(theirs[mark.topic], operation_id=self.context.operation_id, by=self.context.by)
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
        at_ms = context.clock.now_ms()
        return lifted(marks, context.journal.of_flow(), context.operation_id, context.by, at_ms)


def release(context: OperationContext, topics: Collection[str]) -> None:
    """Remove the marks of topics whose groups have failed back, except those that newer operations need."""
    if not topics:
        return
    context.lock.hold()
    ours, by, at_ms = context.operation_id, context.by, context.clock.now_ms()
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
            elif one.mode in {Mode.PLANNED, Mode.EMERGENCY} and one.may(Trigger.ROLL_BACK):
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


class ReleasedRow(TypedDict):
    """One topic in `mmtool failover release`.

    Attributes:
        topic: Its name on the source.
        operation_id: The operation that set its mark.
        state: Whether it is released now.
        reason: Who failed the topic over, when, and by which operation, as a sentence.
    """

    topic: str
    operation_id: str
    state: Literal["released", "failed_over"]
    reason: str


@dataclass(frozen=True, slots=True)
class TopicRelease:
    """The topics that would be released."""

    side: TargetSide
    identity: FlowIdentity
    marks: tuple[FailedOverRecord, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(mark.topic for mark in self.marks)

    @property
    def question(self) -> str:
        return f"let {self.identity.name} mirror {few(self.topics)} again"

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning that `replicate` will mirror the topics' diverged tail too; empty if no topic would be released."""
        if not self.marks:
            return ()
        source, target = self.identity.source_alias, self.identity.target_alias
        return (
            (
                f"`mmtool replicate` then mirrors every record of {few(self.topics)} on {source} that {target} does"
                f" not hold yet, also those that never reached {target} before the failover (the diverged tail)"
            ),
        )

    def rows(self, *, released: bool) -> list[ReleasedRow]:
        return [
            {
                "topic": mark.topic,
                "operation_id": mark.operation_id,
                "state": "released" if released else "failed_over",
                "reason": mark.sentence,
            }
            for mark in self.marks
        ]


def rehearse_release(side: TargetSide, journal: JournalPort, topics: Collection[str]) -> TopicRelease:
    """Find the marks that a release would remove: those of some topics, or with no topic given, all; change nothing.

    Raises:
        UsageError: A named topic has not failed over.
        RefusedError: An older mmtool may have replayed diverged records of a topic in part.
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
    """
    identity, control = identity_on_target(side)
    missing = sorted(set(topics) - control.failed_over.keys())
    if missing:
        raise UsageError(
            f"{identity.name}: {few(missing)} {have(len(missing))} not failed over"
            + did_you_mean(nearest(topic, control.failed_over) for topic in missing),
            remedy="name only topics that `mmtool status -c FILE"
            f" -s {identity.source_alias} -t {identity.target_alias}` shows as failed_over",
        )
    marks = [mark for name, mark in sorted(control.failed_over.items()) if not topics or name in topics]
    found = TopicRelease(side, identity, tuple(marks))
    refuse_half_way(_on_the_flow(journal, identity), found.topics)
    return found


def _on_the_flow(journal: JournalPort, identity: FlowIdentity) -> list[Recorded]:
    """Operations of a journal whose source has the flow's source alias.

    Topics of other sources may have the same names. The target's alias is not compared: it may differ between files.
    """
    return [one for one in recorded(journal.entries()) if one.names.source == identity.source_alias]


def refuse_half_way(operations: Iterable[Recorded], topics: Collection[str]) -> None:
    """Raise if an older mmtool may have replayed a topic's diverged records in part: they would be mirrored again.

    Args:
        operations: The operations on the flow.
        topics: The topics whose marks are to be removed.

    Raises:
        RefusedError: The message names the operation and its topics.
    """
    for one in operations:
        half = one.half_replayed
        if half & set(topics):
            raise RefusedError(
                f"failback {one.operation_id} may already have written to {one.names.target} some records of"
                f" {few(sorted(half))} that had not reached {one.names.target} before the failover: if their topics"
                f" were released now, {one.names.flow} would mirror these records a second time",
                remedy=ways_on(one),
                code="open_operation",
            )


def release_marks(
    found: TopicRelease, journal: JournalPort, marks: MarksPort, lock: LockPort, by: str, at_ms: int
) -> None:
    """Remove the marks of a rehearsed release under the operation lock, if they are unchanged.

    Raises:
        OwnedElsewhereError: Another operation on the flow holds the lock.
        RefusedError: As `refuse_half_way`, or a mark has changed; nothing was changed.
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
    """
    lock.join()
    try:
        lock.hold()
        refuse_half_way(_on_the_flow(journal, found.identity), found.topics)
        _, control = identity_on_target(found.side)
        changed = [mark.topic for mark in found.marks if control.failed_over.get(mark.topic) != mark]
        if changed:
            raise RefusedError(
                f"another operation marked or released {few(changed)} meanwhile; nothing was changed",
                remedy="run the same command again: it shows which operation marked each topic",
                code="marks_changed",
            )
        marks.write([replace(mark, failed_over=False, by=by, since_ms=at_ms) for mark in found.marks])
    finally:
        lock.leave()
