"""Refuse an operation because another one changed its flow, or because mirrors would get other topic names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError
from mmtool.plan.failover.steps import Mode
from mmtool.replication.ownership.checks import changed_names, names_refusal, renamed_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.target_only import TargetNow


def on_record(context: OperationContext) -> dict[str, int]:
    """Number of journal entries by operation id, for the flow's operations; drills are left out."""
    found = context.journal.of_flow()
    return {one.operation_id: one.entries for one in found if one.mode is not Mode.DRILL}


def refuse_others(context: OperationContext, told: Mapping[str, int], *, is_unchanged: bool = True) -> None:
    """Raise if any operation on the flow has other entries than when the undo was planned; wait for the lock first.

    Args:
        context: Of the undo.
        told: The number of entries then, by operation.
        is_unchanged: No part of the undo was done yet.

    Raises:
        OwnedElsewhereError: Another process started, resumed or ended an operation since.
    """
    context.lock.hold()
    others = sorted(name for name, entries in on_record(context).items() if told.get(name) != entries)
    if others:
        unchanged = "nothing was changed; " if is_unchanged else ""
        raise OwnedElsewhereError(
            f"another process started, resumed or ended operation {others[0]} after this undo was planned",
            remedy=f"{unchanged}see with `mmtool failover show {others[0]} -c FILE` whether the undo is still needed,"
            " and stop here if it is not; then run the same command again",
        )


def refuse_changed_names(flow: FlowNow, read: Collection[str], run: FlowSettings | None = None) -> None:
    """Raise if the properties file now gives a mirrored topic another name on the target than its stored state has.

    Topics that have failed over are skipped, as `replicate` skips them, unless the groups read them.

    Args:
        flow: The flow.
        read: The topics that the groups read, by their names on the flow's source.
        run: The flow's settings as the engine would use them, if they differ from the configured ones.

    Raises:
        RefusedError: A name has changed (the message has both names of the first topics), or stored state cannot be
            read.
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its control topic.
    """
    settings, control = run or flow.clusters.settings, flow.clusters.state.control(flow.identity)
    skipped = control.failed_over.keys() - set(read)
    changed = changed_names(settings, control.positions.values())
    if counting := {topic: name for topic, name in changed.items() if topic not in skipped}:
        raise names_refusal(settings, counting)


def refuse_changed_on_target(now: TargetNow, operation_id: str | None) -> None:
    """Raise if a mirror's name has changed: `refuse_changed_names` for an emergency, which asks only the target.

    An emergency finds commits by the names that the file gives the mirrors. Topics that another operation has failed
    over are skipped: `names_warnings` warns of them.

    Args:
        now: The target's answers.
        operation_id: The id of a resumed or saved operation, whose own marks do not count; None for a new one.

    Raises:
        RefusedError: A name has changed; the message has both names of the first topics.
    """
    settings, left = now.side.settings, _left_before(now, operation_id)
    changed = changed_names(settings, now.control.positions.values())
    if counting := {topic: name for topic, name in changed.items() if topic not in left}:
        raise names_refusal(settings, counting)


def names_warnings(now: TargetNow) -> Iterator[str]:
    """One warning for each mirrored topic whose name has changed: an emergency finds no commits by the new name."""
    settings = now.side.settings
    for topic, remote in changed_names(settings, now.control.positions.values()).items():
        yield (
            f"{renamed_to(settings, topic, remote)}: an emergency failover finds no commits of {topic} by that name;"
            f" if a group that you move reads {topic}, first undo the change of names in the properties file"
        )


def _left_before(now: TargetNow, operation_id: str | None) -> set[str]:
    """Topics that other operations have marked as failed over."""
    return {topic for topic, mark in now.control.failed_over.items() if mark.operation_id != operation_id}
