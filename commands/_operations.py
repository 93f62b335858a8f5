"""What the commands about operations share: showing a plan, asking, running it with a journal, showing its end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mmtool.commands._consent import consent
from mmtool.commands._next import say_next, say_ways_on
from mmtool.errors import CheckFailedError, MmtoolError, OwnedElsewhereError, RefusedError
from mmtool.events import Event, Notice, flow_fields
from mmtool.output import Column, OutputFormat, Result, bind, detail, finish, human, talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from mmtool.commands._evidence import Page
    from mmtool.config import FlowSettings
    from mmtool.failover.modes.cutover import OperationContext, OperatorSeat
    from mmtool.failover.modes.outcome import Ended
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.journal import About, JournalPort
    from mmtool.failover.operation.operation import Operation, StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.report.rows import Row
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.failover.steps import Step
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.records.journal import Entry

R = TypeVar("R", bound="Rehearsal")

Why = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", help="Reason for the operation, kept in the journal.", show_default=False
    ),
]


def _age(seconds: object) -> str:
    return human.duration(seconds if isinstance(seconds, (int, float)) else None)


COLUMNS = (
    Column("group"),
    Column("topic"),
    Column("partition"),
    Column("upstream_offset"),
    Column("target_topic", essential=False),
    Column("downstream_offset"),
    Column("exactness"),
    Column("reread_max", essential=False),
    Column("reread_expected", essential=False),
    Column("lost_max", essential=False),
    Column("knowledge_age_seconds", title="AGE", essential=False, human=_age),
    Column("target_offset_before", essential=False),
    Column("written"),
    Column("reason"),
)


def to_be_executed(
    command: str,
    rehearsal: Rehearsal,
    output: OutputFormat,
    *,
    execute: bool,
    yes: bool,
    gate: Callable[[Row], MmtoolError | None] = lambda _: None,
) -> bool:
    """Shows the plan; whether it is to be executed, is possible, and is agreed to.

    A plan that is only shown ends with the error of its ``gate``, if nothing else is wrong.
    """
    from mmtool.failover.report.report import rehearsed_row
    from mmtool.plan.words import few

    def shown() -> Result:
        return result(command, rehearsed_row(rehearsal), rehearsal.warnings)

    for number, step in enumerate(rehearsal.plan.steps, 1):
        talk(f"{number}. {step.name}: {step.sentence}")
    if not execute or not rehearsal.plan.executable:
        error = rehearsal.refusal or gate(rehearsed_row(rehearsal))
        finish(replace(shown(), errors=rehearsal.further_refusals), output, error)
        if rehearsal.moves:
            talk("nothing was changed; add --execute to do it")
        return False
    names = [plan.group for plan in rehearsal.plan.groups]
    consent(f"move {few(names)} to {rehearsal.names.target}", yes=yes, about=shown)
    return True


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of an operation, whichever it is.

    Attributes:
        is_named_before, seat: As for `at_work`.
        given: ``-c``, ``-s`` and ``-t`` as the command has them.
    """

    command: str
    execute: bool
    yes: bool
    output: OutputFormat
    timeout: timedelta
    reason: str = ""
    since: Recorded | None = None
    is_named_before: bool = False
    seat: OperatorSeat | None = None
    given: tuple[str, ...] = ()


def run(
    asked: Asked,
    rehearsal: Rehearsal,
    cluster: ClusterPort,
    identity: FlowIdentity,
    execute: Callable[[OperationContext, StepLog], Ended],
) -> None:
    """Show, ask, execute, show the end.

    Args:
        asked: How.
        rehearsal: What.
        cluster: Where groups are going to be.
        identity: Of the flow.
        execute: Does it.
    """
    rehearsal = _with_what_was_before(asked, rehearsal)
    bind(operation=rehearsal.plan.operation_id, **flow_fields(rehearsal.names.flow))
    if not to_be_executed(asked.command, rehearsal, asked.output, execute=asked.execute, yes=asked.yes):
        return
    with at_work(
        rehearsal,
        cluster,
        identity,
        asked.reason,
        asked.timeout,
        since=asked.since,
        is_named_before=asked.is_named_before,
        seat=asked.seat,
    ) as (ways, log):
        ended = execute(ways, log)
    show_end(asked.command, ended, asked.output, given=asked.given)


def _with_what_was_before(asked: Asked, rehearsal: R) -> R:
    """As `mmtool.failover.operation.flapping_check.judged`, by the journals of the clusters that have one."""
    from mmtool.failover.operation.flapping_check import judged
    from mmtool.failover.service import connections
    from mmtool.plan.failover.steps import Mode

    settings = rehearsal.settings
    journals = [connections.journal(settings, asked.timeout)]
    if rehearsal.plan.mode is Mode.PLANNED:
        journals.append(connections.journal(settings, asked.timeout, at_source=True))
    seat = asked.seat or connections.operator_seat(settings, asked.timeout)
    return judged(rehearsal, journals, seat, time.time() * 1000, is_resumed=asked.since is not None)


def refuse_loss(command: str, rehearsal: Rehearsal, output: OutputFormat) -> None:
    """Ends the command: nobody has accepted what may be lost.

    Raises:
        RefusedError: Always.
    """
    from mmtool.failover.report.report import rehearsed_row

    error = RefusedError(
        "records may be lost, see the warnings; nothing was changed",
        remedy="add --accept-data-loss, or wait until the source is back and the mirror has caught up",
        code="data_loss",
    )
    finish(result(command, rehearsed_row(rehearsal), rehearsal.warnings), output, error)


@contextmanager
def at_work(
    rehearsal: Rehearsal,
    target: ClusterPort,
    identity: FlowIdentity,
    reason: str,
    timeout: timedelta,
    *,
    since: Recorded | None = None,
    alone: bool = True,
    is_named_before: bool = False,
    seat: OperatorSeat | None = None,
) -> Iterator[tuple[OperationContext, StepLog]]:
    """The ways that an operation works with, and who is told of its steps.

    Args:
        rehearsal: The plan.
        target: Where it works.
        identity: Of the flow.
        reason: Why, in the operator's words.
        timeout: For one request.
        since: What the journal has of it already, when it is taken up again.
        alone: Other operations on the flow are kept out; a drill keeps nobody out.
        is_named_before: Its name is known to others, as that of a saved plan is: they may begin it as well.
        seat: Where it has been asked for already.
    """
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.drill import NoSeat
    from mmtool.failover.operation.hooks import hooks_of
    from mmtool.failover.operation.journal import Both, Journalist
    from mmtool.failover.service import connections

    settings, about = rehearsal.settings, _about(rehearsal, reason, since)
    kept = connections.tools(settings, identity, timeout)
    journalist = Journalist(kept.journal, about, 0 if since is None else since.entries)
    journalist.operation = None if since is None else since.operation
    operation_id = rehearsal.plan.operation_id
    bind(operation=operation_id, **flow_fields(rehearsal.names.flow))
    held: OperatorSeat = seat or (kept.seat if alone else NoSeat())
    ways = OperationContext(
        target,
        journalist,
        kept.marks,
        held,
        operation_id,
        about.by,
        synced=settings.sync_group_offsets,
        hooks=hooks_of(settings, about.reason),
        began_before=0.0 if since is None else max(0.0, time.time() - since.began_ms / 1000),
    )
    held.join()
    try:
        if is_named_before or since is not None:
            held.hold()
            _nobody_was_faster(kept.journal, operation_id, 0 if since is None else since.entries)
        yield ways, Both(journalist, Teller())
    finally:
        held.leave()


def _about(rehearsal: Rehearsal, reason: str, since: Recorded | None) -> About:
    from mmtool.failover.modes.emergency import EmergencyRehearsal
    from mmtool.failover.operation.journal import About
    from mmtool.plan.failover.emergency import Unknowns
    from mmtool.runtime.operator_name import operator

    groups = tuple(plan.group for plan in rehearsal.plan.groups) if since is None else since.group_names
    said = rehearsal.unknowns if isinstance(rehearsal, EmergencyRehearsal) else Unknowns.LEAVE
    ids = rehearsal.source_id, rehearsal.target_id
    return About(rehearsal.names, *ids, groups, " ".join(reason.split()), operator(), said)


def _nobody_was_faster(journal: JournalPort, operation_id: str, entries: int) -> None:
    """Two that write one operation's entries would write over each other's.

    Raises:
        OwnedElsewhereError: Another process has taken the same operation up since we looked.
    """
    from mmtool.failover.operation.recovery import find

    found = find(journal, operation_id)
    if (0 if found is None else found.entries) != entries:
        raise OwnedElsewhereError(
            f"another process resumed operation {operation_id} just now",
            remedy=f"mmtool failover show {operation_id}",
        )


_ENDS = {
    "completed": Event.OPERATION_COMPLETED,
    "cancelled": Event.OPERATION_CANCELLED,
    "rolled_back": Event.OPERATION_ROLLED_BACK,
}


class Teller:
    """The person watching; the journal is told first."""

    def began(self, operation: Operation) -> None:
        plan = operation.plan
        said = f"operation {plan.operation_id}"
        talk(Notice(said, Event.OPERATION_STARTED, operation=plan.operation_id, mode=plan.mode))

    def intended(self, _: Operation, step: Step) -> None:
        said = f"{step.name}: {step.sentence}"  # the plan with its sentences stands above
        detail(Notice(said, Event.STEP_STARTED, step=step.name))

    def done(self, _: Operation, step: Step) -> None:
        talk(Notice(f"{step.name}: done", Event.STEP_DONE, step=step.name))

    def failed(self, operation: Operation, step: Step, error: MmtoolError) -> None:
        said = f"{step.name}: failed; {operation.sentence}"
        talk(Notice(said, Event.STEP_FAILED, step=step.name, code=error.code, reason=error.message))

    def undone(self, _: Operation, step: Step) -> None:
        talk(Notice(f"{step.name}: undone", Event.STEP_UNDONE, step=step.name))

    def ended(self, operation: Operation) -> None:
        """For the log: a person reads it in the summary."""
        state, is_past = operation.standing.state, operation.point_of_no_return_passed
        event = _ENDS.get(state, Event.OPERATION_FAILED)
        talk(Notice(operation.sentence, event, state=state, point_of_no_return_passed=is_past))


def show_end(
    command: str,
    ended: Ended,
    output: OutputFormat,
    row: Row | None = None,
    gate: MmtoolError | None = None,
    given: Sequence[str] = (),
) -> None:
    """The row of what was done, and what a human does next; or the error that it ended with, or its ``gate``'s."""
    from mmtool.failover.report.report import ended_row, next_steps, reverse_lines, summary, ways_on

    error = ended.operation.error
    done = result(command, row or ended_row(ended), ended.rehearsal.warnings, applied=True)
    try:
        finish(replace(done, summary=summary(ended)), output, error or gate)
    finally:  # groups that have moved are to be started, wherever the rows went
        if error is None:
            say_next(next_steps(ended, given))
            for line in _with_title(reverse_lines(ended)):
                talk(line)
        else:
            say_ways_on(ways_on(ended.operation, given))


def _with_title(lines: list[str]) -> list[str]:
    return ["# configuration of the reverse flow, for the properties file", *lines] if lines else []


def write_page(
    page: Page | None,
    found: Recorded,
    entries: Sequence[Entry],
    row: Row,
    flow: FlowSettings,
    warnings: tuple[str, ...],
) -> MmtoolError | None:
    """Write an operation's evidence page, where one is asked for; returns why that failed.

    Args:
        page: Where to.
        found: The operation, as it stands.
        entries: Of the journal; those of other operations are passed over.
        row: The contract's row.
        flow: The operation's.
        warnings: Sentences.
    """
    if page is None:
        return None
    from mmtool.evidence.environment import environment
    from mmtool.evidence.operation import operation_evidence

    of_this = sorted(
        (entry for entry in entries if entry.operation_id == found.operation_id), key=lambda one: one.number
    )
    return page.write(operation_evidence(found, of_this[: found.entries], row, environment([flow]), warnings))


def write_drill_page(
    page: Page | None, ended: Ended, row: Row, identity: FlowIdentity, timeout: timedelta
) -> MmtoolError | None:
    """Write a drill's evidence page from its journal, where one is asked for; returns why that failed."""
    from mmtool.failover.operation.recovery import find
    from mmtool.failover.service import connections

    if page is None:
        return None
    rehearsal = ended.rehearsal
    operation_id = rehearsal.plan.operation_id
    kept = connections.tools(rehearsal.settings, identity, timeout).journal
    try:
        entries, found = kept.entries(), find(kept, operation_id)
    except MmtoolError as error:
        return CheckFailedError(
            f"the page cannot be written, because the journal cannot be read: {error.message}; the drill"
            " itself is complete",
            remedy=f"mmtool failover show {operation_id} --html FILE",
        )
    assert found is not None
    return write_page(page, found, entries, row, rehearsal.settings, rehearsal.warnings)


def result(command: str, row: Row, warnings: tuple[str, ...], *, applied: bool = False) -> Result:
    """One operation's row, and its groups laid flat for the table."""
    from mmtool.failover.report.report import partition_rows

    return Result(command, partition_rows(row), COLUMNS, warnings=warnings, data=[row], applied=applied)
