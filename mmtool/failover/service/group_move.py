"""Move groups to another cluster by one of the modes, or copies of them in a drill, from reading to the end.

A resumed operation is the same move from a later state: every check is made again. After its point of no return only
its recorded offsets are written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import UsageError
from mmtool.failover.diverged_tail.tail_writer import TailTools
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.modes.cutover import Ended
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.recovery import require, roll_forward
from mmtool.failover.operation.states import Event
from mmtool.failover.report.plan_file import check_clusters
from mmtool.failover.service import connections, promotion
from mmtool.failover.service import fence as fences
from mmtool.failover.service.execution import Execution, Request, execute, run
from mmtool.failover.service.lookup import operations_of
from mmtool.insight import flow_now
from mmtool.insight.translation import look
from mmtool.plan.failover.choices import TO_FILE, ToTopic
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.acls_asked import AclsAsked
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.drill import Drilled
    from mmtool.failover.modes.emergency import EmergencyRehearsal
    from mmtool.failover.modes.rehearsal import SavableRehearsal
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.report.operation_row import OperationRow
    from mmtool.failover.service.lookup import FlowOperation
    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.failover.choices import Diverged, Unknowns


class DrillRun(NamedTuple):
    """A drill that has ended.

    Attributes:
        row: The operation's row with what was measured.
    """

    ended: Drilled
    row: OperationRow


def run_drill(request: Request) -> DrillRun | None:
    """Rehearse a drill, ask the operator, execute it and measure it; None if it was only rehearsed or declined."""
    flow = look(flow_now.connect(request.settings, request.timeout, beside_mm2=True))
    rehearsal = drill.rehearse(flow, request.groups, without_state=request.without_state)
    if not request.agreed(rehearsal):
        return None
    costs = drill.emergency_now(connections.target_side(request.settings, request.timeout), request.groups)

    def work(context: OperationContext, log: StepLog) -> Drilled:
        engine = connections.engine_drain()
        return drill.execute(rehearsal, engine, context, log, timeout_seconds=request.drain_seconds)

    execution = Execution(request, rehearsal, flow.clusters.target, flow.identity, is_alone=False)
    ended = execute(execution, work)
    return DrillRun(ended, drill.drilled_row(ended, costs))


def _acls(request: Request, principals: PrincipalMap | None, mode: Mode) -> AclsAsked | None:
    """The promotion with its connections: the recorded one, else the requested one; None without ``principals``."""
    if request.found is not None:
        return promotion.again(request.settings, request.found, request.timeout)
    if principals is None:
        return None
    return promotion.promotion_asked(request.settings, request.timeout, principals, mode)


def _nothing(_: object) -> None:
    """A resumed operation has no plan file to check or write."""


def move_planned(
    request: Request,
    fence: Callable[[], FenceAsked | None],
    settle: Callable[[SavableRehearsal], None] = _nothing,
    already: Callable[[Mapping[str, Recorded]], None] = _nothing,
    principals: PrincipalMap | None = None,
) -> Ended | None:
    """Move groups by a planned failover: rehearse, ask the operator, execute.

    Args:
        request: The groups, and the options of the move.
        fence: Returns the requested fence with its connections; called after the clusters were checked.
        settle: Checks the saved plan against the one made now, and writes files.
        already: Shows the operation that has moved each group before, where nothing is left to move.
        principals: The principals' names on the target, where producers' ACLs are promoted; None where they are not.

    Returns:
        The ended operation; None if it was only rehearsed or declined.
    """
    is_new = request.found is None
    first = flow_now.FIRST_ANSWER if is_new and request.drain_seconds is None else request.timeout
    clusters = flow_now.connect(request.settings, request.timeout, beside_mm2=True, first=first)
    away = flow_now.outages(clusters)
    if (error := away.source or away.target) is not None:
        raise error
    if request.saved is not None:
        check_clusters(request.saved, clusters.target, clusters.source)
    flow = look(clusters)
    rehearsal = planned_mode.rehearse(
        flow,
        request.groups,
        operation_id=request.operation_id,
        fence=fence(),
        without_state=request.without_state,
        acls=_acls(request, principals, Mode.PLANNED),
        recorded=lambda: () if request.operation_id else operations_of(request.settings, request.timeout),
    )
    if rehearsal.already and not rehearsal.plan.groups:
        already(rehearsal.already)
        return None
    settle(rehearsal)

    def work(context: OperationContext, log: StepLog) -> Ended:
        drain, seconds, since = connections.engine_drain(), request.drain_seconds, request.since
        return planned_mode.execute(rehearsal, drain, context, log, timeout_seconds=seconds, since=since)

    return run(Execution(request, rehearsal, clusters.target, flow.identity), work)


def move_in_emergency(
    request: Request,
    unknowns: Unknowns,
    settle: Callable[[EmergencyRehearsal], None] = _nothing,
    principals: PrincipalMap | None = None,
    accepts_loss: bool = True,
) -> Ended | None:
    """Move groups by an emergency failover, with the target alone; result as for `move_planned`.

    Args:
        request: The groups, and the options of the move.
        unknowns: Start position in partitions where a group's offset is unknown.
        settle: As for `move_planned`; it also raises if the operator has not accepted the loss.
        principals: As for `move_planned`; then the source is asked for its ACLs.
        accepts_loss: Whether the operator has accepted that records or state may be lost.
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
        acls=_acls(request, principals, Mode.EMERGENCY),
        accepts_loss=accepts_loss,
    )
    settle(rehearsal)
    return run(
        Execution(request, rehearsal, side.target, rehearsal.identity),
        lambda context, log: emergency.execute(rehearsal, context, log, since=request.since),
    )


def move_back(
    request: Request,
    back: FlowSettings,
    diverged: Diverged,
    folder: Path,
    settle: Callable[[SavableRehearsal], None] = _nothing,
) -> Ended | None:
    """Move groups by a failback to the flow's source; result as for `move_planned`.

    Args:
        request: The groups, and the options of the move.
        back: The reverse flow.
        diverged: Where the diverged tail is written: file or topic.
        folder: The folder of the diverged tail's file.
        settle: As for `move_planned`.
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
        acls=promotion.withdrawal_asked(request.settings, request.timeout, request.found),
    )
    settle(rehearsal)

    def work(context: OperationContext, log: StepLog) -> Ended:
        tools, plan, found = None, rehearsal.plan, request.found
        if isinstance(plan.diverged, ToTopic):
            writer = connections.tail_appender(request.settings, plan.operation_id, request.timeout)
            tools = TailTools(writer) if found is None else TailTools(writer, found.tail, found.salvaged)
        return failback.execute(
            rehearsal,
            connections.engine_drain(),
            context,
            log,
            folder=folder,
            timeout_seconds=request.drain_seconds,
            since=request.since,
            tools=tools,
        )

    return run(Execution(request, rehearsal, both.flow.clusters.source, both.flow.identity), work)


def resume(
    known: FlowOperation,
    timeout: timedelta,
    drain_seconds: float | None,
    folder: Path | None,
    agreed: Callable[[Rehearsal], bool],
) -> Ended | None:
    """Resume an interrupted operation: rehearse it again, ask the operator, and execute it.

    After the point of no return nothing is rehearsed: the recorded offsets are written.

    Args:
        known: The operation.
        timeout: For one request to a cluster.
        drain_seconds: For the mirror to catch up; None waits as long as it takes.
        folder: For the file of diverged records, where one is named.
        agreed: Shows the plan, and returns whether the operator confirmed it.

    Returns:
        The ended operation; None if it was only rehearsed or declined.

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
    without = plan.without_state
    request = Request(
        flow, known.groups, timeout, agreed, found.reason, None, without, drain_seconds, found=found
    )
    if found.operation.point_of_no_return_passed:
        return _roll_forward(request, found, folder or Path())
    if found.mode == Mode.FAILBACK:
        return move_back(request, known.back, plan.diverged, folder or Path())
    if found.mode == Mode.EMERGENCY:
        return move_in_emergency(request, found.unknowns)
    return move_planned(request, lambda: fences.again(flow, found, timeout))


def _roll_forward(request: Request, found: Recorded, folder: Path) -> Ended | None:
    flow, timeout = request.settings, request.timeout
    rehearsal = Rehearsal(flow, found.source_id, found.target_id, found.operation.plan)

    def work(context: OperationContext, log: StepLog) -> Ended:
        standing, acls = fences.standing(flow, found, timeout), promotion.standing(flow, found, timeout)
        return Ended(rehearsal, *roll_forward(found, context, log, standing, acls), folder)

    destination = connections.written_at(found, flow, timeout)
    return run(Execution(request, rehearsal, destination, connections.identity_of(found)), work)
