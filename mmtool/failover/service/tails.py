"""Choose the writer of a failback's diverged tail, as its plan says: file, topic or replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, UsageError
from mmtool.failover.diverged_tail.tail_replay import transactional_id
from mmtool.failover.diverged_tail.tail_writer import TailTools
from mmtool.failover.modes import failback
from mmtool.failover.service import connections
from mmtool.output import detail
from mmtool.plan.failover.divergence import Kind
from mmtool.plan.failover.steps import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.diverged_tail.tail_writer import PassingPort
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.failback import FailbackRehearsal
    from mmtool.failover.modes.failback_steps import BothWays
    from mmtool.failover.operation.records import Recorded
    from mmtool.kafka.ports import AppendPort
    from mmtool.plan.failover.divergence import Diverged


def folder_again(found: Recorded, folder: Path | None) -> Path:
    """The folder in which a resumed operation writes the file of diverged records; the current one by default.

    Raises:
        UsageError: A folder is given for an operation that writes no such file.
    """
    if folder is not None and (found.mode != Mode.FAILBACK or found.head.plan.diverged.kind is not Kind.FILE):
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and operation {found.operation_id} writes none",
            remedy="leave out --diverged-dir",
        )
    return folder or Path()


def told(both: BothWays, rehearsal: FailbackRehearsal) -> FailbackRehearsal:
    """The rehearsal; for a replay, with a warning if a process runs the flow, as it has to stop first."""
    if rehearsal.plan.diverged.kind is not Kind.REPLAY or not rehearsal.plan.executable:
        return rehearsal
    try:
        passing().check(both.flow)
    except OwnedElsewhereError as error:
        said = f"{error.message}: stop that process before you add --execute"
        return replace(rehearsal, warnings=(*rehearsal.warnings, said))
    return rehearsal


def tools(
    both: BothWays, rehearsal: FailbackRehearsal, timeout: timedelta, since: Recorded | None = None
) -> TailTools | None:
    """Connections to write diverged records into a topic or replay them; None if they go into a file.

    Args:
        both: The flow and its reverse flow.
        rehearsal: The failback's rehearsal.
        timeout: For one batch.
        since: The operation as the journal has it, if it is resumed.
    """
    diverged = rehearsal.plan.diverged
    if diverged.kind is Kind.FILE:
        return None
    writer = writer_into(both, diverged, rehearsal.plan.operation_id, timeout)
    if since is None:
        return TailTools(writer, passing())
    return TailTools(writer, passing(), since.tail, since.salvaged)


def giving_up(
    flow: FlowSettings, back: FlowSettings, found: Recorded, timeout: timedelta
) -> Callable[[OperationContext], None] | None:
    """A function that ends a replay that may be done in part; None if the operation has no such replay."""
    if found.tail is None or found.head.plan.diverged.kind is not Kind.REPLAY:
        return None

    def give_up(context: OperationContext) -> None:
        both = connections.both_ways(flow, back, timeout, past=True)
        writer = writer_into(both, found.head.plan.diverged, found.operation_id, timeout)
        failback.give_up(both, found, TailTools(writer, passing(), found.tail, found.salvaged), context)

    return give_up


def writer_into(both: BothWays, diverged: Diverged, operation_id: str, timeout: timedelta) -> AppendPort:
    """A writer of diverged records under the operation's producer id: to the target for a replay, else the source."""
    from mmtool.kafka.logs.sequence_append import KafkaAppender

    settings = both.flow.clusters.settings
    cluster = settings.target if diverged.kind is Kind.REPLAY else settings.source
    return KafkaAppender(cluster, transactional_id(operation_id), timeout.total_seconds())


def passing() -> PassingPort:
    """A `PassingPort` that moves a flow's position past replayed records; no request is sent yet."""
    from mmtool.replication.flow_state.flow_moves import FlowPassing

    return FlowPassing(detail)
