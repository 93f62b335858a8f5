"""The parts that the commands about operations share: show a plan, ask for consent, show the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from mmtool.commands._dialogue import consent, say_next, say_ways_on
from mmtool.commands._options import reason_option
from mmtool.errors import CheckFailedError, MmtoolError
from mmtool.output import Column, Result, finish, human, talk
from mmtool.output import layout as of
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta

    from mmtool.commands._options import Execution
    from mmtool.commands.evidence import Page
    from mmtool.config import FlowSettings
    from mmtool.failover.modes.cutover import Ended
    from mmtool.failover.modes.emergency import EmergencyRehearsal
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.report.rows import Row
    from mmtool.failover.service.execution import Move
    from mmtool.output.result import Rows
    from mmtool.plan.records.journal import JournalEntry


def with_target_group(columns: tuple[Column, ...], rows: Iterable[Row]) -> tuple[Column, ...]:
    """The columns, with the groups' names on the target behind their names if some have another one there."""
    if all(row["target_group"] == row["group"] for row in rows):
        return columns
    at = [column.key for column in columns].index("group") + 1
    return (*columns[:at], Column("target_group", of_group=of.same), *columns[at:])


def by_cluster(columns: Iterable[Column], source: str, target: str) -> tuple[Column, ...]:
    """The columns with headings that name the clusters: the offsets are written on the flow's source.

    Args:
        columns: The columns of the other direction.
        source: The alias of the flow's source.
        target: The alias of the flow's target.
    """
    titles = {
        "upstream_offset": f"OFFSET-ON-{source}",
        "target_topic": f"TOPIC-ON-{target}",
        "downstream_offset": f"OFFSET-ON-{target}",
        "target_offset_before": f"OFFSET-BEFORE-ON-{source}",
    }
    return tuple(replace(column, title=titles.get(column.key, column.title)) for column in columns)


Why = Annotated[str, reason_option("the operation, shown by `mmtool failover list`")]


def _moves(row: Mapping[str, object]) -> bool:
    """Whether the operation gives the group a new offset in the partition."""
    return row["exactness"] != "refused"


def _written(rows: Rows, key: str) -> object:
    return of.flag([row for row in rows if _moves(row)] or rows, key)


COLUMNS = (
    Column("group", of_group=of.same),
    Column("topic", of_group=of.names),
    Column("partition", of_group=of.partitions),
    Column("upstream_offset"),
    Column("target_topic", essential=False),
    Column("downstream_offset"),
    Column("exactness", verdict=True, of_group=of.words),
    Column("reread_expected", essential=False, of_group=of.total(_moves)),
    Column("reread_max", essential=False, of_group=of.total(_moves)),
    Column("lost_max", essential=False, of_group=of.total(_moves)),
    Column("knowledge_age_seconds", title="AGE", essential=False, human=human.age, of_group=of.largest),
    Column("target_offset_before", essential=False),
    Column("written", of_group=_written),
    Column("reason", verdict=True, of_group=of.words),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command line that every kind of operation has.

    Attributes:
        execution: ``--execute``, ``--yes`` and ``-o``.
        given: ``-c``, ``-s`` and ``-t`` as the command has them.
        partitions: Whether the table has a row for each partition instead of one for each group.
        accepts_loss: Whether the command needs no further option to execute a plan that may lose records or state.
    """

    command: str
    execution: Execution
    given: tuple[str, ...] = ()
    partitions: bool = False
    accepts_loss: bool = True

    def result(self, row: Row, warnings: tuple[str, ...], *, applied: bool = False) -> Result:
        """One operation's row, and its groups laid flat for the table."""
        return result(self.command, row, warnings, partitions=self.partitions, applied=applied)

    def agreed(
        self, rehearsal: Rehearsal, gate: Callable[[Row], MmtoolError | None] = lambda _: None
    ) -> bool:
        """Show the plan; whether it is to be executed, is possible, and is agreed to.

        A plan that is only shown ends with the error of its ``gate``, if nothing else is wrong.
        """
        from mmtool.failover.report.operation_row import rehearsed_row

        def shown() -> Result:
            return self.result(rehearsed_row(rehearsal), rehearsal.warnings)

        for number, step in enumerate(rehearsal.plan.steps if rehearsal.moves else (), 1):
            talk(f"{number}. {step.name}: {step.sentence}")
        if not self.execution.execute or not rehearsal.plan.executable:
            error = rehearsal.refusal or gate(rehearsed_row(rehearsal))
            finish(replace(shown(), errors=rehearsal.further_refusals), self.execution.output, error)
            if rehearsal.moves:
                talk(
                    "nothing was changed; add --execute to execute this plan"
                    if self.accepts_loss or not rehearsal.at_risk
                    else "nothing was changed; add --execute --accept-data-loss to execute this plan and accept"
                    " the loss that the warnings state"
                )
            return False
        consent(_question(rehearsal), yes=self.execution.yes, about=shown)
        return True


def _question(rehearsal: Rehearsal) -> str:
    """What is about to change, and on which cluster."""
    from mmtool.plan.failover.drill import shadowed
    from mmtool.plan.failover.steps import Mode
    from mmtool.plan.words import few

    names, groups = rehearsal.names, [plan.group for plan in rehearsal.plan.groups]
    match rehearsal.plan.mode:
        case Mode.DRILL:
            copied = few([shadowed(group) for group in groups])
            return (
                f"commit offsets for copies of {copied} on {names.target}, and delete the copies afterwards"
            )
        case Mode.FAILBACK:
            return f"move {few(groups)} back to {names.source}"
        case _:
            return f"move {few(groups)} to {names.target}"


def refuse_loss(asked: Asked, rehearsal: EmergencyRehearsal) -> None:
    """Ends the command: nobody has accepted what may be lost.

    Raises:
        RefusedError: Always.
    """
    from mmtool.failover.report.operation_row import rehearsed_row

    error = rehearsal.loss_refused(
        f"records or Kafka Streams state on {rehearsal.names.source} may be lost, see the warnings; nothing was changed"
    )
    finish(asked.result(rehearsed_row(rehearsal), rehearsal.warnings), asked.execution.output, error)


def carry_out(asked: Asked, move: Move[Rehearsal, Ended]) -> None:
    """Show a plan with the journals' objections; execute it if that is agreed to, and show its end."""
    judged = move.judged()
    if asked.agreed(judged.rehearsal):
        show_end(asked, judged.execute())


def show_end(asked: Asked, ended: Ended, row: Row | None = None, gate: MmtoolError | None = None) -> None:
    """The row of what was done, and what a human does next; or the error that it ended with, or its ``gate``'s."""
    from mmtool.failover.report.operation_row import ended_row
    from mmtool.failover.report.report import error_of, next_steps, reverse_lines, summary, ways_on

    error = error_of(ended.operation)
    done = asked.result(row or ended_row(ended), ended.warnings, applied=True)
    try:
        finish(replace(done, summary=summary(ended)), asked.execution.output, error or gate)
    finally:  # groups that have moved are to be started, wherever the rows went
        if error is None:
            say_next(next_steps(ended, asked.given))
            if lines := reverse_lines(ended):
                talk("# configuration of the reverse flow, for the properties file")
            for line in lines:
                talk(line)
        else:
            say_ways_on(ways_on(ended.operation, asked.given))


def show_moved(asked: Asked, moved: Mapping[str, Recorded]) -> None:
    """The operations that have moved the groups before, each as its row: nothing is left to move."""
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.plan.words import few

    found = {one.operation_id: one for one in moved.values()}
    shown = [asked.result(recorded_row(one), ()) for one in found.values()]
    rows, data = [row for one in shown for row in one.rows], [row for one in shown for row in one.data or ()]
    finish(replace(shown[0], rows=rows, data=data), asked.execution.output, None)
    for name in found:
        groups = [group for group, one in moved.items() if one.operation_id == name]
        talk(f"nothing was changed: operation {name} has already moved {few(groups)}")


def write_page(
    page: Page | None,
    found: Recorded,
    entries: Sequence[JournalEntry],
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
    from mmtool.evidence.document import environment
    from mmtool.evidence.operation import operation_evidence
    from mmtool.output.render import with_file

    of_this = sorted(
        (entry for entry in entries if entry.operation_id == found.operation_id), key=lambda one: one.number
    )
    (shown,) = with_file([row])  # the page has the digest of what -o json writes
    return page.write(
        operation_evidence(found, of_this[: found.entries], shown, environment([flow]), warnings)
    )


def write_drill_page(
    page: Page | None, ended: Ended, row: Row, timeout: timedelta, given: Sequence[str]
) -> MmtoolError | None:
    """Write a drill's evidence page from its journal, where one is asked for; returns why that failed."""
    from mmtool.failover.operation.recovery import find
    from mmtool.failover.service import connections

    if page is None:
        return None
    rehearsal = ended.rehearsal
    operation_id = rehearsal.plan.operation_id
    kept = connections.journal(rehearsal.settings, timeout)
    try:
        entries, found = kept.entries(), find(kept, operation_id)
    except MmtoolError as error:
        return CheckFailedError(
            f"the evidence page was not written, because the journal on {rehearsal.names.target} cannot be read:"
            f" {error.message}; the drill itself has ended",
            remedy="when the journal can be read, write the page:"
            f" mmtool failover show {shell_line([operation_id, *given, '--html', str(page.path)])}"
            f"{'' if page.signer is None else ' --sign KEY'}",
        )
    assert found is not None
    return write_page(page, found, entries, row, rehearsal.settings, rehearsal.warnings)


def result(
    command: str, row: Row, warnings: tuple[str, ...], *, partitions: bool, applied: bool = False
) -> Result:
    """One operation's row for scripts, and its groups as the rows of the table."""
    from mmtool.failover.report.operation_row import partition_rows
    from mmtool.plan.failover.steps import Mode

    columns: tuple[Column, ...] = COLUMNS
    if row["mode"] == Mode.FAILBACK:
        columns = by_cluster(COLUMNS, *str(row["flow"]).split("->"))
    rows = partition_rows(row)
    return Result(
        command,
        rows,
        with_target_group(columns, rows),
        warnings=warnings,
        data=[row],
        applied=applied,
        per_group=not partitions,
    )
