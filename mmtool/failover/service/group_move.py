"""Rehearse a move of groups by one of the modes, or of copies of them in a drill, or the undo of a move.

A resumed operation is the same move from a later state: every check is made again. After its point of no return only
its recorded offsets are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from pathlib import Path

from mmtool.config import FlowSettings
from mmtool.errors import UsageError
from mmtool.failover.fence.promotion import AclsAsked, PromotionAsked, WithdrawalAsked
from mmtool.failover.fence.steps import FenceAsked
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.modes.cutover import Ended, OperationContext
from mmtool.failover.modes.drill import Drilled, DrillRehearsal
from mmtool.failover.modes.emergency import EmergencyRehearsal
from mmtool.failover.modes.failback import FailbackRehearsal
from mmtool.failover.modes.planned_mode import PlannedRehearsal
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.marks import TopicRelease, rehearse_release, release_marks
from mmtool.failover.operation.records import Recorded, fences_standing, promoted_acls
from mmtool.failover.operation.recovery import (
    RollbackPlan,
    rehearse_taking_back,
    require,
    roll_forward,
    take_back,
)
from mmtool.failover.operation.states import Trigger
from mmtool.failover.report.plan_file import check_clusters
from mmtool.failover.service import connections
from mmtool.failover.service.execution import Move, Request, at_work
from mmtool.failover.service.lookup import FlowOperation, operations_of
from mmtool.insight import flow_now
from mmtool.insight.translation import look
from mmtool.kafka.ports import FencePort
from mmtool.plan.failover.acl_promotion import PrincipalMap, Promotion
from mmtool.plan.failover.choices import TO_FILE, Diverged, FenceKind, ToTopic, Unknowns
from mmtool.plan.failover.fence_plan import Fence
from mmtool.plan.failover.steps import Mode
from mmtool.runtime import process


def fence_asked(
    flow: FlowSettings,
    kind: FenceKind,
    watch_seconds: float,
    timeout: timedelta,
    standing: Fence | None = None,
) -> FenceAsked | None:
    """The requested fence with its connections; None for ``FenceKind.NONE``.

    Args:
        flow: The flow whose source is fenced.
        kind: The kind of fence.
        watch_seconds: How long the source's log ends must stand still after the fence is raised.
        timeout: For one request.
        standing: The recorded fence that may still be up.
    """
    if kind is FenceKind.NONE:
        return None
    source, port = connections.fenced_cluster(flow.source, timeout)
    return FenceAsked(kind, source, port, watch_seconds, standing)


def recorded_fence(flow: FlowSettings, found: Recorded, timeout: timedelta) -> FenceAsked | None:
    """The fence of an operation that is resumed, with its connections; None if the operation has none."""
    fence = found.head.plan.fence
    standing = fence if found.fence_stands else None
    return fence_asked(flow, fence.kind, fence.watch_seconds, timeout, standing)


def promotion_asked(
    flow: FlowSettings,
    timeout: timedelta,
    principals: PrincipalMap | None,
    mode: Mode,
    found: Recorded | None = None,
) -> AclsAsked | None:
    """A promotion with its connections; reads the journal for the fences of earlier operations.

    Args:
        flow: The flow.
        timeout: For one request.
        principals: The principals' names on the target; None where no promotion is requested.
        mode: The failover's mode.
        found: The recorded failover, if it is resumed: its promotion counts, not what is requested.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its journal.
    """
    if found is not None:
        promotion = found.head.plan.promotion
        principals = promotion.renamed if promotion.is_asked_for else None
    if principals is None:
        return None
    return PromotionAsked(
        connections.acls_to_read(flow.source, timeout),
        connections.acls_of(flow.target, timeout),
        principals,
        _standing(found),
        fences_standing(operations_of(flow, timeout)),
        may_be_lost=mode is Mode.EMERGENCY,
    )


def withdrawal_asked(
    flow: FlowSettings, timeout: timedelta, found: Recorded | None = None
) -> AclsAsked | None:
    """A failback's withdrawal of promoted ACLs with its connections; None where no ACLs are left to withdraw.

    Args:
        flow: The flow that the groups failed over on.
        timeout: For one request.
        found: The recorded failback, if it is resumed.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or does not show its journal.
    """
    known = None if found is None else found.operation_id
    promoted = promoted_acls(one for one in operations_of(flow, timeout) if one.operation_id != known)
    standing = _standing(found)
    if not promoted and standing is None:
        return None
    return WithdrawalAsked(connections.acls_of(flow.target, timeout), promoted, standing)


def _standing(found: Recorded | None) -> Promotion | None:
    return found.head.plan.promotion if found is not None and found.promotion_stands else None


def left_standing(
    flow: FlowSettings, found: Recorded, timeout: timedelta
) -> tuple[FenceAsked | None, FencePort | None]:
    """The fence that an operation may have left up, and the cluster on which its change of ACLs may be in force."""
    return (
        recorded_fence(flow, found, timeout) if found.fence_stands else None,
        connections.acls_of(flow.target, timeout) if found.promotion_stands else None,
    )


def drill_of(request: Request) -> Move[DrillRehearsal, Drilled]:
    """A drill of copies of the groups; raises as `drill.rehearse`."""
    flow = look(flow_now.connect(request.settings, request.timeout, beside_mm2=True))
    rehearsal = drill.rehearse(flow, request.groups, without_state=request.without_state)
    work = partial(drill.execute, rehearsal)
    return Move(request, rehearsal, flow.clusters.target, work, is_alone=False)


def planned_of(
    request: Request, fence: FenceAsked | None, principals: PrincipalMap | None = None
) -> Move[PlannedRehearsal, Ended]:
    """A planned failover of the groups.

    Args:
        request: The groups, and the options of the move.
        fence: The requested fence with its connections; None without one.
        principals: The principals' names on the target, where producers' ACLs are promoted; None where they are not.

    Raises:
        StalePlanError: The saved plan was made for other clusters.
        As `planned_mode.rehearse`.
    """
    is_new = request.found is None
    first = flow_now.FIRST_ANSWER if is_new and request.drain_seconds is None else request.timeout
    clusters = flow_now.connect(request.settings, request.timeout, beside_mm2=True, first=first)
    away = flow_now.outages(clusters)
    if (error := away.source or away.target) is not None:
        raise error
    if request.saved is not None:
        check_clusters(request.saved, clusters.target, clusters.source)
    rehearsal = planned_mode.rehearse(
        look(clusters),
        request.groups,
        operation_id=request.operation_id,
        fence=fence,
        without_state=request.without_state,
        acls=promotion_asked(request.settings, request.timeout, principals, Mode.PLANNED, request.found),
        recorded=lambda: () if request.operation_id else operations_of(request.settings, request.timeout),
    )
    return Move(request, rehearsal, clusters.target, partial(planned_mode.execute, rehearsal))


def emergency_of(
    request: Request,
    unknowns: Unknowns,
    principals: PrincipalMap | None = None,
    *,
    accepts_loss: bool = True,
) -> Move[EmergencyRehearsal, Ended]:
    """An emergency failover of the groups, with the target alone.

    Args:
        request: The groups, and the options of the move.
        unknowns: Start position in partitions where a group's offset is unknown.
        principals: As for `planned_of`; then the source is asked for its ACLs.
        accepts_loss: Whether the operator has accepted that records or state may be lost.

    Raises:
        StalePlanError: The saved plan was made for another cluster.
        As `emergency.rehearse`.
    """
    side = connections.target_side(request.settings, request.timeout)
    if request.saved is not None:
        check_clusters(request.saved, side.target)
    rehearsal = emergency.rehearse(
        side,
        request.groups,
        unknowns,
        operation_id=request.operation_id,
        without_state=request.without_state,
        acls=promotion_asked(request.settings, request.timeout, principals, Mode.EMERGENCY, request.found),
        accepts_loss=accepts_loss,
    )
    return Move(request, rehearsal, side.target, partial(emergency.execute, rehearsal))


def failback_of(
    request: Request, back: FlowSettings, diverged: Diverged, folder: Path
) -> Move[FailbackRehearsal, Ended]:
    """A failback of the groups to the flow's source.

    Args:
        request: The groups, and the options of the move.
        back: The reverse flow.
        diverged: Where the diverged tail is written: file or topic.
        folder: The folder of the diverged tail's file.

    Raises:
        StalePlanError: The saved plan was made for other clusters.
        As `failback.rehearse`.
    """
    if request.saved is not None:
        clusters = flow_now.connect(request.settings, request.timeout)
        check_clusters(request.saved, clusters.source, clusters.target)
    both = connections.both_ways(request.settings, back, request.timeout)
    rehearsal = failback.rehearse(
        both,
        request.groups,
        operation_id=request.operation_id,
        diverged=diverged,
        without_state=request.without_state,
        acls=withdrawal_asked(request.settings, request.timeout, request.found),
    )

    def work(context: OperationContext) -> Ended:
        writer, plan = None, rehearsal.plan
        if isinstance(plan.diverged, ToTopic):
            writer = connections.tail_appender(request.settings, plan.operation_id, request.timeout)
        return failback.execute(rehearsal, context, folder=folder, writer=writer)

    return Move(request, rehearsal, both.flow.clusters.source, work)


def resumption_of(
    known: FlowOperation, timeout: timedelta, drain_seconds: float | None, folder: Path | None
) -> Move[Rehearsal, Ended]:
    """An interrupted operation, rehearsed again; after its point of no return, its recorded offsets.

    Args:
        known: The operation.
        timeout: For one request to a cluster.
        drain_seconds: For the mirror to catch up; None waits as long as it takes.
        folder: For the file of diverged records, where one is named.

    Raises:
        RefusedError: The operation cannot be resumed.
        UsageError: A folder is given for an operation that writes no file.
    """
    found, plan = known.found, known.found.head.plan
    flow = known.named.accepting_unverified(plan.accepts_unverified)
    require(found, Trigger.RESUME)
    if folder is not None and (found.mode != Mode.FAILBACK or plan.diverged != TO_FILE):
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and operation {found.operation_id} writes none",
            remedy="leave out --diverged-dir",
        )
    without, to = plan.without_state, folder or Path()
    request = Request(flow, known.groups, timeout, found.reason, None, without, drain_seconds, found=found)
    if found.operation.point_of_no_return_passed:
        rehearsal = Rehearsal(flow, found.source_id, found.target_id, found.operation.plan)

        def work(context: OperationContext) -> Ended:
            left = left_standing(flow, found, timeout)
            return Ended(rehearsal, *roll_forward(found, context, *left), to)

        return Move(request, rehearsal, connections.written_at(found, flow, timeout), work)
    if found.mode == Mode.FAILBACK:
        return failback_of(request, known.back, plan.diverged, to)
    if found.mode == Mode.EMERGENCY:
        return emergency_of(request, found.unknowns)
    return planned_of(request, recorded_fence(flow, found, timeout))


def undo(
    known: FlowOperation, event: Trigger, timeout: timedelta, agreed: Callable[[RollbackPlan], bool]
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
        plan = take_back(rehearse, context, *left_standing(flow, found, timeout))
    (now,) = [one for one in operations_of(flow, timeout) if one.operation_id == found.operation_id]
    return now, plan


def release_topics(
    flow: FlowSettings, topics: Collection[str], timeout: timedelta, agreed: Callable[[TopicRelease], bool]
) -> TopicRelease | None:
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
