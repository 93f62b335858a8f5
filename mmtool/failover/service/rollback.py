"""Undo a recorded operation, or release the topics that operations hold."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.marks import rehearse_release, release_marks
from mmtool.failover.operation.recovery import rehearse_taking_back, take_back
from mmtool.failover.service import connections, rules
from mmtool.failover.service.execution import Request, at_work
from mmtool.failover.service.lookup import operations_of
from mmtool.runtime import process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.operation.marks import Release
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.recovery import RollbackPlan
    from mmtool.failover.operation.states import Event
    from mmtool.failover.service.lookup import FlowOperation


def undo(
    known: FlowOperation, event: Event, timeout: timedelta, agreed: Callable[[RollbackPlan], bool]
) -> tuple[Recorded, RollbackPlan] | None:
    """Rehearse a cancel or rollback, ask the operator, and execute it.

    Args:
        known: The operation.
        event: ``CANCEL`` or ``ROLL_BACK``.
        timeout: For one request.
        agreed: Shows the plan, and returns whether the operator confirmed it.

    Returns:
        The operation as the journal has it now, and what was undone; None if it was only rehearsed or declined.

    Raises:
        RefusedError: The event is not allowed in the operation's state.
    """
    flow, found = known.flow, known.found
    rehearsal = Rehearsal(flow, found.source_id, found.target_id, found.operation.plan)
    written, state = (
        connections.written_at(found, flow, timeout),
        connections.target_side(flow, timeout).state,
    )

    def rehearse() -> RollbackPlan:
        """Plan the undo from the clusters' current answers; called again under the operation lock."""
        at_ms, others = int(time.time() * 1000), operations_of(flow, timeout)
        by, identity = process.operator(), rehearsal.identity
        return rehearse_taking_back(found, event, written, state, identity, by, at_ms, others=others)

    plan = rehearse()
    if not agreed(plan):
        return None
    request = Request(flow, known.groups, timeout, found.reason, found=found)
    with at_work(request, rehearsal, written) as context:
        plan = take_back(rehearse, context, *rules.left_standing(flow, found, timeout))
    (now,) = [one for one in operations_of(flow, timeout) if one.operation_id == found.operation_id]
    return now, plan


def release_topics(
    flow: FlowSettings, topics: Collection[str], timeout: timedelta, agreed: Callable[[Release], bool]
) -> Release | None:
    """Find the marks of failed-over topics, ask the operator, and remove them.

    Args:
        flow: The flow.
        topics: The topics to release; empty for all that have failed over.
        timeout: For one request.
        agreed: Shows what would be released, and returns whether the operator confirmed it.

    Returns:
        What was released; None if it was only rehearsed or declined.

    Raises:
        As `rehearse_release` and `release`.
    """
    side = connections.target_side(flow, timeout)
    found = rehearse_release(side, connections.journal(flow, timeout), topics)
    if not agreed(found):
        return None
    kept = connections.tools(flow, found.identity, timeout)
    release_marks(found, kept.journal, kept.marks, kept.lock, process.operator(), int(time.time() * 1000))
    return found
