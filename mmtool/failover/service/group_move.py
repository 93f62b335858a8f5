"""Move groups to another cluster by one of the modes, or copies of them in a drill, from reading to the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.report.plan_file import check_clusters
from mmtool.failover.service import connections
from mmtool.failover.service.execution import Execution, execute, run
from mmtool.failover.service.lookup import operations_of
from mmtool.failover.service.promotion import promotion_asked, withdrawal_asked
from mmtool.failover.service.work import emergency_work, failback_work, planned_work
from mmtool.insight import flow_now
from mmtool.insight.translation import look
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.acls_asked import AclsAsked
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.failover.modes.cutover import Ended, LockPort, OperationContext
    from mmtool.failover.modes.drill import Drilled
    from mmtool.failover.modes.emergency import EmergencyRehearsal
    from mmtool.failover.modes.rehearsal import Rehearsal, SavableRehearsal
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.report.operation_row import OperationRow
    from mmtool.failover.service.work import Work
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.failover.choices import Unknowns
    from mmtool.plan.failover.divergence import Diverged
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.runbook.plan_file import SavedPlan


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


@dataclass(frozen=True, slots=True)
class GroupMove:
    """The options of a move, from the command line or from a saved plan.

    Attributes:
        settings: The flow.
        groups: Which of them move.
        saved: The plan that was read; None without one.
        without_state: Kafka Streams applications move although their state does not.
        timeout: For one request.
        drain_seconds: For the mirror to catch up; None waits as long as it takes.
        reason: Why, in the operator's words.
        agreed: Shows the plan, and returns whether the operator confirmed it.
        lock: The operation lock, where it has been requested already.
    """

    settings: FlowSettings
    groups: GroupSelection
    saved: SavedPlan | None
    without_state: bool
    timeout: timedelta
    drain_seconds: float | None
    reason: str
    agreed: Callable[[Rehearsal], bool]
    lock: LockPort | None = None

    @property
    def operation_id(self) -> str | None:
        """The operation id in the saved plan; None without a saved plan."""
        return None if self.saved is None else self.saved.plan.operation_id

    def check(self, *clusters: ClusterPort) -> None:
        """Raise if the saved plan was made for other clusters; do nothing without a saved plan.

        Raises:
            StalePlanError: A cluster's id is not the one in the plan.
        """
        if self.saved is not None:
            check_clusters(self.saved, *clusters)

    def promotion(self, principals: PrincipalMap | None, mode: Mode) -> AclsAsked | None:
        """The promotion with its connections; None without ``principals``."""
        return None if principals is None else promotion_asked(self.settings, self.timeout, principals, mode)

    def run(
        self,
        rehearsal: Rehearsal,
        destination: ClusterPort,
        identity: FlowIdentity,
        work: Work,
    ) -> Ended | None:
        """Check, confirm and execute a rehearsal: `mmtool.failover.service.execution.run` with the move's options."""
        is_named = self.saved is not None
        execution = Execution(
            rehearsal,
            destination,
            identity,
            self.timeout,
            self.reason,
            is_named_before=is_named,
            lock=self.lock,
        )
        return run(execution, work, self.agreed)


def move_planned(
    move: GroupMove,
    fence: Callable[[], FenceAsked | None],
    settle: Callable[[SavableRehearsal], None],
    already: Callable[[Mapping[str, Recorded]], None],
    principals: PrincipalMap | None = None,
) -> Ended | None:
    """Move groups by a planned failover: rehearse, ask the operator, execute.

    Args:
        move: The groups, and the options of the move.
        fence: Returns the requested fence with its connections; called after the clusters were checked.
        settle: Checks the saved plan against the one made now, and writes files.
        already: Shows the operation that has moved each group before, where nothing is left to move.
        principals: The principals' names on the target, where producers' ACLs are promoted; None where they are not.

    Returns:
        The ended operation; None if it was only rehearsed or declined.
    """
    first = flow_now.FIRST_ANSWER if move.drain_seconds is None else move.timeout
    clusters = flow_now.connect(move.settings, move.timeout, beside_mm2=True, first=first)
    away = flow_now.outages(clusters)
    if (error := away.source or away.target) is not None:
        raise error
    move.check(clusters.target, clusters.source)
    flow = look(clusters)
    rehearsal = planned_mode.rehearse(
        flow,
        move.groups,
        operation_id=move.operation_id,
        fence=fence(),
        without_state=move.without_state,
        acls=move.promotion(principals, Mode.PLANNED),
        recorded=lambda: () if move.saved is not None else operations_of(move.settings, move.timeout),
    )
    if rehearsal.already and not rehearsal.plan.groups:
        already(rehearsal.already)
        return None
    settle(rehearsal)
    work = planned_work(rehearsal, move.drain_seconds)
    return move.run(rehearsal, clusters.target, flow.identity, work)


def move_in_emergency(
    move: GroupMove,
    unknowns: Unknowns,
    settle: Callable[[EmergencyRehearsal], None],
    principals: PrincipalMap | None,
    accepts_loss: bool,
) -> Ended | None:
    """Move groups by an emergency failover, with the target alone; result as for `move_planned`.

    Args:
        move: The groups, and the options of the move.
        unknowns: Start position in partitions where a group's offset is unknown.
        settle: As for `move_planned`; it also raises if the operator has not accepted the loss.
        principals: As for `move_planned`; then the source is asked for its ACLs.
        accepts_loss: Whether the operator has accepted that records or state may be lost.
    """
    side = connections.target_side(move.settings, move.timeout)
    move.check(side.target)
    rehearsal = emergency.rehearse(
        side,
        move.groups,
        unknowns,
        operation_id=move.operation_id,
        without_state=move.without_state,
        acls=move.promotion(principals, Mode.EMERGENCY),
        accepts_loss=accepts_loss,
    )
    settle(rehearsal)
    return move.run(rehearsal, side.target, rehearsal.identity, emergency_work(rehearsal))


def move_back(
    move: GroupMove,
    back: FlowSettings,
    diverged: Diverged,
    folder: Path,
    settle: Callable[[SavableRehearsal], None],
) -> Ended | None:
    """Move groups by a failback to the flow's source; result as for `move_planned`.

    Args:
        move: The groups, and the options of the move.
        back: The reverse flow.
        diverged: Where the diverged tail is written: file or topic.
        folder: The folder of the diverged tail's file.
        settle: As for `move_planned`.
    """
    if move.saved is not None:
        clusters = flow_now.connect(move.settings, move.timeout)
        move.check(clusters.source, clusters.target)
    both = connections.both_ways(move.settings, back, move.timeout)
    rehearsal = failback.rehearse(
        both,
        move.groups,
        operation_id=move.operation_id,
        diverged=diverged,
        without_state=move.without_state,
        acls=withdrawal_asked(move.settings, move.timeout),
    )
    settle(rehearsal)
    work = failback_work(both, rehearsal, folder, move.timeout, move.drain_seconds)
    return move.run(rehearsal, both.flow.clusters.source, both.flow.identity, work)
