"""Refuse a cancel or rollback if another process changed an operation on the flow since it was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.failover.modes.cutover import OperationContext


def on_record(context: OperationContext) -> dict[str, int]:
    """How much is on record of each operation on the flow; drills are in nobody's way."""
    found = context.journal.of_flow()
    return {one.operation_id: one.entries for one in found if one.mode is not Mode.DRILL}


def refuse_others(context: OperationContext, told: Mapping[str, int]) -> None:
    """What was looked at counts only as long as nobody else has done anything: who is frozen behind it may wake late.

    Raises:
        OwnedElsewhereError: Somebody has.
    """
    context.lock.hold()
    others = sorted(name for name, entries in on_record(context).items() if told.get(name) != entries)
    if others:
        raise OwnedElsewhereError(
            f"another process started, resumed or ended operation {others[0]} meanwhile",
            remedy=f"nothing was changed; `mmtool failover show {others[0]}` shows what that process did; if"
            " this command is still needed, run it again",
        )
