"""The functions that execute a confirmed failover, one per mode; a resume uses them too."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from mmtool.failover.diverged_tail.tail_writer import TailTools
from mmtool.failover.modes import emergency, failback, planned_mode
from mmtool.failover.operation.states import START
from mmtool.failover.service import connections
from mmtool.plan.failover.divergence import ToTopic

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from pathlib import Path

    from mmtool.failover.modes.cutover import Ended, OperationContext
    from mmtool.failover.modes.failback_steps import BothWays
    from mmtool.failover.operation.operation import StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.states import OperationStatus

    Work: TypeAlias = "Callable[[OperationContext, StepLog], Ended]"


def planned_work(
    rehearsal: planned_mode.PlannedRehearsal, drain_seconds: float | None, since: OperationStatus = START
) -> Work:
    """A function that executes a planned failover; ``since`` is the operation's state if it is resumed."""

    def work(context: OperationContext, log: StepLog) -> Ended:
        drain = connections.engine_drain()
        return planned_mode.execute(
            rehearsal, drain, context, log, timeout_seconds=drain_seconds, since=since
        )

    return work


def emergency_work(rehearsal: emergency.EmergencyRehearsal, since: OperationStatus = START) -> Work:
    """A function that executes an emergency failover; ``since`` is the operation's state if it is resumed."""
    return lambda context, log: emergency.execute(rehearsal, context, log, since=since)


def failback_work(
    both: BothWays,
    rehearsal: failback.FailbackRehearsal,
    folder: Path,
    timeout: timedelta,
    drain_seconds: float | None,
    found: Recorded | None = None,
) -> Work:
    """A function that executes a failback.

    Args:
        both: The flow and its reverse flow.
        rehearsal: The confirmed rehearsal.
        folder: The folder of the file with the diverged records.
        timeout: For one request.
        drain_seconds: For the mirrors to catch up; None waits without limit.
        found: The recorded operation, if it is resumed.
    """

    def work(context: OperationContext, log: StepLog) -> Ended:
        tools, plan, flow = None, rehearsal.plan, both.flow.clusters.settings
        if isinstance(plan.diverged, ToTopic):
            writer = connections.tail_appender(flow, plan.operation_id, timeout)
            tools = TailTools(writer) if found is None else TailTools(writer, found.tail, found.salvaged)
        return failback.execute(
            rehearsal,
            connections.engine_drain(),
            context,
            log,
            folder=folder,
            timeout_seconds=drain_seconds,
            since=START if found is None else found.operation.standing,
            tools=tools,
        )

    return work
