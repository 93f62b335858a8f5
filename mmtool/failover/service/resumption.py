"""Resume an interrupted operation: run its mode with every check again, or write its recorded offsets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.failover.modes import emergency, failback, planned_mode
from mmtool.failover.modes.cutover import Ended
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.recovery import require, roll_forward
from mmtool.failover.operation.states import Event
from mmtool.failover.service import connections, fence, promotion
from mmtool.failover.service.execution import Execution, run
from mmtool.failover.service.work import emergency_work, failback_work, planned_work
from mmtool.insight import flow_now
from mmtool.insight.translation import look
from mmtool.plan.failover.divergence import TO_FILE
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.service.lookup import FlowOperation
    from mmtool.failover.service.work import Work
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.records.identity import FlowIdentity


@dataclass(frozen=True, slots=True)
class Resumption:
    """An operation, and how it is resumed.

    Attributes:
        known: The operation.
        timeout: For one request.
        drain_seconds: For the mirror to catch up; None waits as long as it takes.
        folder: For the file of diverged records, where one is named.
        agreed: Shows the plan, and returns whether the operator confirmed it.
    """

    known: FlowOperation
    timeout: timedelta
    drain_seconds: float | None
    folder: Path | None
    agreed: Callable[[Rehearsal], bool]

    @property
    def found(self) -> Recorded:
        return self.known.found

    def run(
        self,
        rehearsal: Rehearsal,
        destination: ClusterPort,
        identity: FlowIdentity,
        work: Work,
    ) -> Ended | None:
        """Check, confirm and execute: `mmtool.failover.service.execution.run`, with the reason from the journal."""
        found = self.found
        execution = Execution(rehearsal, destination, identity, self.timeout, found.reason, found)
        return run(execution, work, self.agreed)


def resume(resumption: Resumption) -> Ended | None:
    """Resume an interrupted operation: rehearse it again, ask the operator, and execute it.

    After the point of no return nothing is rehearsed: the recorded offsets are written.

    Returns:
        The ended operation; None if it was only rehearsed or declined.

    Raises:
        RefusedError: The operation cannot be resumed.
        UsageError: A folder is given for an operation that writes no file.
    """
    found = resumption.found
    require(found, Event.RESUME)
    folder = resumption.folder or Path()
    if resumption.folder is not None and (found.mode != Mode.FAILBACK or found.head.plan.diverged != TO_FILE):
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and operation {found.operation_id} writes none",
            remedy="leave out --diverged-dir",
        )
    if found.operation.point_of_no_return_passed:
        return _roll_forward(resumption, folder)
    if found.mode == Mode.FAILBACK:
        return _resume_failback(resumption, folder)
    return _resume_emergency(resumption) if found.mode == Mode.EMERGENCY else _resume_planned(resumption)


def _roll_forward(resumption: Resumption, folder: Path) -> Ended | None:
    flow, found, timeout = resumption.known.flow, resumption.found, resumption.timeout
    rehearsal = Rehearsal(flow, found.source_id, found.target_id, found.operation.plan)

    def work(context: OperationContext, log: StepLog) -> Ended:
        standing, acls = fence.standing(flow, found, timeout), promotion.standing(flow, found, timeout)
        return Ended(rehearsal, *roll_forward(found, context, log, standing, acls), folder)

    destination = connections.written_at(found, flow, timeout)
    return resumption.run(rehearsal, destination, connections.identity_of(found), work)


def _resume_emergency(resumption: Resumption) -> Ended | None:
    known, found = resumption.known, resumption.found
    side = connections.target_side(known.flow, resumption.timeout)
    rehearsal = emergency.rehearse(
        side,
        known.groups,
        found.unknowns,
        operation_id=found.operation_id,
        without_state=found.head.plan.without_state,
        acls=promotion.again(known.flow, found, resumption.timeout),
    )
    work = emergency_work(rehearsal, found.operation.standing)
    return resumption.run(rehearsal, side.target, rehearsal.identity, work)


def _resume_planned(resumption: Resumption) -> Ended | None:
    known, found = resumption.known, resumption.found
    flow = look(flow_now.connect(known.flow, resumption.timeout, beside_mm2=True))
    rehearsal = planned_mode.rehearse(
        flow,
        known.groups,
        operation_id=found.operation_id,
        fence=fence.again(known.flow, found, resumption.timeout),
        without_state=found.head.plan.without_state,
        acls=promotion.again(known.flow, found, resumption.timeout),
    )
    work = planned_work(rehearsal, resumption.drain_seconds, found.operation.standing)
    return resumption.run(rehearsal, flow.clusters.target, flow.identity, work)


def _resume_failback(resumption: Resumption, folder: Path) -> Ended | None:
    known, found, plan = resumption.known, resumption.found, resumption.found.head.plan
    both = connections.both_ways(known.flow, known.back, resumption.timeout)
    rehearsal = failback.rehearse(
        both,
        known.groups,
        operation_id=found.operation_id,
        diverged=plan.diverged,
        without_state=plan.without_state,
        acls=promotion.withdrawal_asked(known.flow, resumption.timeout, found),
    )
    work = failback_work(both, rehearsal, folder, resumption.timeout, resumption.drain_seconds, found)
    return resumption.run(rehearsal, both.flow.clusters.source, both.flow.identity, work)
