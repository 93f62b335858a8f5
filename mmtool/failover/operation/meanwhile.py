"""Refuse a cancel or rollback if another process changed an operation on the flow since it was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.failover.modes.cutover import OperationContext


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
