"""Rehearse a move of groups by one of the modes, or of copies of them in a drill, so that it can be executed.

A resumed operation is the same move from a later state: every check is made again. After its point of no return only
its recorded offsets are written.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.modes.cutover import Ended
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.recovery import require, roll_forward
from mmtool.failover.operation.states import Event
from mmtool.failover.report.plan_file import check_clusters
from mmtool.failover.service import connections, rules
from mmtool.failover.service.execution import Move, Request
from mmtool.failover.service.lookup import operations_of
from mmtool.insight import flow_now
from mmtool.insight.translation import look
from mmtool.plan.failover.choices import TO_FILE, ToTopic
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.drill import Drilled, DrillRehearsal
    from mmtool.failover.modes.emergency import EmergencyRehearsal
    from mmtool.failover.modes.failback import FailbackRehearsal
    from mmtool.failover.modes.planned_mode import PlannedRehearsal
    from mmtool.failover.service.lookup import FlowOperation
    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.failover.choices import Diverged, Unknowns


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
        acls=rules.promotion_asked(
            request.settings, request.timeout, principals, Mode.PLANNED, request.found
        ),
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
        acls=rules.promotion_asked(
            request.settings, request.timeout, principals, Mode.EMERGENCY, request.found
        ),
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
        acls=rules.withdrawal_asked(request.settings, request.timeout, request.found),
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
    flow, found, plan = known.flow, known.found, known.found.head.plan
    require(found, Event.RESUME)
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
            left = rules.left_standing(flow, found, timeout)
            return Ended(rehearsal, *roll_forward(found, context, *left), to)

        return Move(request, rehearsal, connections.written_at(found, flow, timeout), work)
    if found.mode == Mode.FAILBACK:
        return failback_of(request, known.back, plan.diverged, to)
    if found.mode == Mode.EMERGENCY:
        return emergency_of(request, found.unknowns)
    return planned_of(request, rules.recorded_fence(flow, found, timeout))
