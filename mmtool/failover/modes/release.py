"""``failover release``: remove the marks of failed-over topics, so that the owner mirrors them again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.errors import RefusedError, UsageError
from mmtool.failover.modes.cutover import ways_on
from mmtool.failover.operation.records import recorded
from mmtool.insight.target_only import identity_on_target
from mmtool.plain_text import did_you_mean, nearest
from mmtool.plan.words import few, have

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from mmtool.failover.modes.cutover import LockPort, MarksPort
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.target_only import TargetSide
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.records.marks import FailedOverRecord


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
class Release:
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


def rehearse_release(side: TargetSide, journal: JournalPort, topics: Collection[str]) -> Release:
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
    found = Release(side, identity, tuple(marks))
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


def release(
    found: Release, journal: JournalPort, marks: MarksPort, lock: LockPort, by: str, at_ms: int
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
