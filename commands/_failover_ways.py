"""``mmtool failover list|show|resume|cancel|rollback|release``: recorded operations, and how to continue them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands import evidence
from mmtool.commands._completion import remember_operations
from mmtool.commands._connections import loaded, one_flow
from mmtool.commands._dialogue import is_agreed, say_ways_on
from mmtool.commands._failover_options import DivergedFolder
from mmtool.errors import UnreachableError, with_remedy
from mmtool.output import Column, OutputFormat, Result, finish, talk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from mmtool.failover.operation.marks import TopicRelease
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.recovery import RollbackPlan
    from mmtool.failover.operation.states import Trigger
    from mmtool.failover.service.lookup import FlowOperation


RELEASED = (Column("topic"), Column("operation_id"), Column("state"), Column("reason"))


def release(
    *,
    where: options.ChosenFlow,
    topic: options.ReleasedTopic = None,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Let `mmtool replicate` mirror failed-over topics again; without --topic, all of them.

    Use it where groups stay on the target after an emergency failover: a failback releases their topics by itself.
    """
    from mmtool.failover.service.group_move import release_topics

    def agreed(found: TopicRelease) -> bool:
        def shown() -> Result:
            return Result("failover release", found.rows(released=False), RELEASED, found.warnings)

        nothing = "" if found.marks else f"no topic of {found.identity.name} has failed over"
        return is_agreed(shown, found.question, execution, nothing=nothing)

    done = release_topics(one_flow(where), tuple(topic or ()), timeout, agreed)
    if done is None:
        return
    finish(
        Result("failover release", done.rows(released=True), RELEASED, applied=True), execution.output, None
    )
    talk("a running `mmtool replicate` mirrors the released topics again within seconds")


OperationId = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION_ID",
        help="Operation id, as `mmtool failover list` shows it.",
        autocompletion=options.completion.operations,
    ),
]

LISTED = (
    Column("operation_id"),
    Column("flow"),
    Column("mode"),
    Column("state"),
    Column("group_names", title="GROUPS"),
    Column("by", essential=False),
    Column("began_at"),
    Column("reason"),
    Column("problem", essential=False),
)
RESTORED = (Column("current_offset"), Column("restored_offset"))
STEPS = (Column("name", title="STEP"), Column("state"), Column("sentence"))


def list_(
    *,
    where: options.ChosenFlows,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """List the failovers, failbacks and drills that were started with --execute, the oldest first."""
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.failover.service.lookup import find_operations
    from mmtool.insight.flow_now import worst
    from mmtool.plan.words import few

    settings = loaded(where.config)
    known, failures = find_operations(settings, settings.select(where.source, where.target), timeout)
    remember_operations(where.config, known)
    rows: list[Mapping[str, object]] = [dict(recorded_row(one.found)) for one in known]
    shown = [
        {column.key: row[column.key] for column in LISTED} | {"group_names": few(one.found.group_names, 3)}
        for row, one in zip(rows, known, strict=True)
    ]
    error = worst(failures.errors)
    finish(
        Result("failover list", shown, LISTED, failures.warnings, failures.errors, data=rows), output, error
    )
    if not rows and error is None:
        talk("no failover, failback or drill is recorded for these flows")


def show(
    operation_id: OperationId,
    *,
    where: options.ChosenFlows,
    partitions: options.Partitions = False,
    html: evidence.HtmlFile = None,
    sign: evidence.Sign = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show one operation: its steps, groups, written offsets, and the commands that can follow; change nothing."""
    from mmtool.failover.operation.recovery import as_it_stands
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.failover.report.report import acls_left, fence_left, tail_left, ways_on
    from mmtool.failover.service import connections
    from mmtool.failover.service.lookup import find_operation

    page = evidence.asked_for(html, sign)
    settings = loaded(where.config)
    known = find_operation(settings, settings.select(where.source, where.target), timeout, operation_id)
    found, warnings = known.found, tuple[str, ...]()
    for step in found.operation.plan.steps:
        talk(f"{found.operation.state_of(step):8} {step.name}: {step.sentence}")
    destination = connections.written_at(found, known.flow, timeout)
    try:
        found = as_it_stands(found, destination.groups)
    except UnreachableError as error:
        unknown = f"mmtool does not know which offsets are committed on {destination.alias}"
        warnings = (f"{unknown}, so WRITTEN is unknown (-) in some rows: {with_remedy(error)}",)
    row = recorded_row(found)
    if page is not None:
        page.claim()
    entries = connections.journal(known.flow, timeout).entries() if page is not None else ()
    unwritten = operations.write_page(page, found, entries, row, known.flow, warnings)
    finish(operations.result("failover show", row, warnings, partitions=partitions), output, unwritten)
    talk(f"operation {found.operation_id} ({found.mode}, {found.names.flow}, by {found.by}) is {found.state}")
    if found.problem:
        talk(f"error: {found.problem}")
    for left in (*fence_left(found, known.flow), *acls_left(found, known.flow)):
        for line in (left.sentence, *left.commands):
            talk(line)
    for sentence in tail_left(found):
        talk(sentence)
    say_ways_on(ways_on(found.operation, where.words, found.may))


def resume(
    operation_id: OperationId,
    *,
    where: options.ChosenFlows,
    partitions: options.Partitions = False,
    diverged_dir: DivergedFolder = None,
    execution: options.Execution,
    timeout: options.DrainTimeout = None,
) -> None:
    """Continue an interrupted operation, from any host. A drill cannot be resumed.

    If the operation stopped before it committed an offset, mmtool runs every check again. If it stopped later, mmtool
    commits the remaining offsets as they were planned.
    """
    from mmtool.failover.operation.states import OperationState
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.failover.service import group_move

    patience = timeout or options.DEFAULT_TIMEOUT
    known = _to_change(where, patience, operation_id)
    asked = operations.Asked("failover resume", execution, where.words, partitions)
    if known.found.state is OperationState.COMPLETED:
        finish(asked.result(recorded_row(known.found), ()), execution.output, None)
        talk(f"operation {operation_id} is completed: there is nothing to resume")
        return
    seconds = None if timeout is None else timeout.total_seconds()
    operations.carry_out(asked, group_move.resumption_of(known, patience, seconds, diverged_dir))


def cancel(
    operation_id: OperationId,
    *,
    where: options.ChosenFlows,
    partitions: options.Partitions = False,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """End an interrupted operation that has not committed offsets yet; undo its preparations, such as --fence."""
    from mmtool.failover.operation.states import Trigger

    known = _to_change(where, timeout, operation_id)
    asked = operations.Asked("failover cancel", execution, partitions=partitions)
    _undo(asked, known, Trigger.CANCEL, timeout)


def rollback(
    operation_id: OperationId,
    *,
    where: options.ChosenFlows,
    partitions: options.Partitions = False,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Undo an operation that has committed offsets: restore its groups' previous offsets, and lift its fence.

    mmtool removes ACLs that --promote-acls created, or creates again ACLs that a failback removed. After a rollback of
    an emergency failover its topics are mirrored again. After one of a planned failover, offset sync of its groups
    continues. After one of a failback, topics that were failed over before it are so again: they are not mirrored.

    Refused while a group has members on the cluster that it moved to. Also refused if a group has committed other
    offsets on that cluster since, or if a later operation moved it: roll that operation back first.
    """
    from mmtool.failover.operation.states import Trigger

    known = _to_change(where, timeout, operation_id)
    asked = operations.Asked("failover rollback", execution, partitions=partitions)
    _undo(asked, known, Trigger.ROLL_BACK, timeout)


def _to_change(where: options.ChosenFlow, timeout: timedelta, operation_id: str) -> FlowOperation:
    """The operation, for commands that continue or end it.

    Raises:
        As `find_operation`; UsageError: The file does not enable the flow.
    """
    from mmtool.failover.service.lookup import find_operation

    settings = loaded(where.config)
    return find_operation(
        settings, settings.select(where.source, where.target, to_write=True), timeout, operation_id
    )


def _undo(asked: operations.Asked, known: FlowOperation, event: Trigger, timeout: timedelta) -> None:
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.failover.service import group_move

    undone = group_move.undo(known, event, timeout, partial(_agreed, asked, known.found))
    if undone is None:
        return
    found, plan = undone
    finish(asked.result(recorded_row(found), _left_over(plan), applied=True), asked.execution.output, None)
    talk(f"operation {found.operation_id} is {found.state}")


def _agreed(asked: operations.Asked, found: Recorded, plan: RollbackPlan) -> bool:
    """Show what would be undone; whether it is to be executed, is possible, and is agreed to."""
    from mmtool.failover.report.operation_row import recorded_row, show_restored

    def shown() -> Result:
        row = recorded_row(found)
        show_restored(row, plan.undoing.rows())
        made = asked.result(row, _left_over(plan))
        *columns, written, reason = made.columns or ()
        return replace(made, columns=(*columns, *RESTORED, written, reason))

    nothing = "" if plan.refusal is None else plan.refusal.message
    return is_agreed(shown, plan.question, asked.execution, refusal=plan.refusal, nothing=nothing)


def _left_over(taking: RollbackPlan) -> tuple[str, ...]:
    from mmtool.failover.report.report import tail_left
    from mmtool.plan.records.marks import FailedOverRecord
    from mmtool.plan.words import few

    marks = [mark for mark in taking.marks if isinstance(mark, FailedOverRecord)]
    topics = [mark.topic for mark in marks if not mark.failed_over and taking.refusal is None]
    flow = taking.found.names.flow
    said = (f"undoing the operation lets {flow} mirror {few(topics)} again",) if topics else ()
    return (*said, *tail_left(taking.found))
