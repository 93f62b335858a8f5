"""Run a drill, from reading both clusters to its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.failover.modes import drill
from mmtool.failover.service import connections
from mmtool.failover.service.execution import Execution, execute
from mmtool.insight import flow_now
from mmtool.insight.translation import look

if TYPE_CHECKING:
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.drill import Drilled
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.report.operation_row import OperationRow
    from mmtool.failover.service.group_move import GroupMove


class DrillRun(NamedTuple):
    """A drill that has ended.

    Attributes:
        row: The operation's row with what was measured.
    """

    ended: Drilled
    row: OperationRow


def run_drill(move: GroupMove) -> DrillRun | None:
    """Rehearse a drill, ask the operator, execute it and measure it; None if it was only rehearsed or declined."""
    flow = look(flow_now.connect(move.settings, move.timeout, beside_mm2=True))
    rehearsal = drill.rehearse(flow, move.groups, without_state=move.without_state)
    if not move.agreed(rehearsal):
        return None
    costs = drill.emergency_now(connections.target_side(move.settings, move.timeout), move.groups)

    def work(context: OperationContext, log: StepLog) -> Drilled:
        engine = connections.engine_drain()
        return drill.execute(rehearsal, engine, context, log, timeout_seconds=move.drain_seconds)

    ended = execute(
        Execution(rehearsal, flow.clusters.target, flow.identity, move.timeout, move.reason, is_alone=False),
        work,
    )
    return DrillRun(ended, drill.drilled_row(ended, costs))
