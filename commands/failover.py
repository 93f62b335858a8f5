"""``mmtool failover``: move consumer groups to the target, by a plan that is shown before it is executed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.commands._consent import consent
from mmtool.commands._wiring import connect, engine_drain, one_flow, require_selector, selection
from mmtool.output import Column, OutputFormat, Result, detail, finish, talk

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.failover.operation import Operation
    from mmtool.failover.rows import Row
    from mmtool.plan.failover import Step

app = typer.Typer(no_args_is_help=True)


class Fence(StrEnum):
    """How writers are kept off the source while groups move."""

    NONE = "none"


FenceOption = Annotated[
    Fence,
    typer.Option("--fence", help="Who keeps writers off the source: none, because you have stopped them."),
]
Patience = Annotated[
    timedelta | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=options.duration,
        help="How long to wait for clusters (30s), and for the mirror to catch up (as long as it takes).",
        show_default=False,
        rich_help_panel=options.COMMON,
    ),
]

COLUMNS = (
    Column("group"),
    Column("topic"),
    Column("partition"),
    Column("upstream_offset"),
    Column("target_topic", essential=False),
    Column("downstream_offset"),
    Column("exactness"),
    Column("reread_max", essential=False),
    Column("target_offset_before", essential=False),
    Column("written"),
    Column("reason"),
)


@app.command()
def planned(
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    fence: FenceOption = Fence.NONE,
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: Patience = None,
) -> None:
    """Move groups whose consumers are stopped: drain the mirror, translate, write, read back."""
    from mmtool.failover import planned as service
    from mmtool.failover.report import ended_row, next_steps, rehearsed_row, summary
    from mmtool.insight.translation import look

    del fence  # one value so far; scripts may already say it
    chosen = selection(group, groups, all_groups=all_groups)
    require_selector(chosen, "failover planned")
    flow = look(connect(one_flow(config, source, target), timeout or options.DEFAULT_TIMEOUT))
    rehearsal = service.rehearse(flow, chosen)
    _show_steps(rehearsal.plan.steps)
    if not execute or not rehearsal.plan.executable:
        finish(_result(rehearsed_row(rehearsal), rehearsal.warnings), output, rehearsal.refusal)
        if rehearsal.moves:
            talk("nothing was changed; add --execute to do it")
        return
    consent(
        f"move {', '.join(plan.group for plan in rehearsal.plan.groups)} to {flow.clusters.target.alias}",
        yes=yes,
        about=lambda: _result(rehearsed_row(rehearsal), rehearsal.warnings),
    )
    seconds = None if timeout is None else timeout.total_seconds()
    ended = service.execute(rehearsal, engine_drain(), _Teller(), timeout_seconds=seconds)
    done = _result(ended_row(ended), rehearsal.warnings, applied=True)
    try:
        finish(replace(done, summary=summary(ended)), output, ended.operation.error)
    finally:  # groups that have moved are to be started, wherever the rows went
        for number, sentence in enumerate(next_steps(ended) if ended.operation.error is None else (), 1):
            talk(f"next {number}: {sentence}")


class _Teller:
    """The person watching; the journal will stand in the same place."""

    def intended(self, _: Operation, step: Step) -> None:
        detail(f"{step.name}: {step.sentence}")  # the plan with its sentences stands above

    def done(self, _: Operation, step: Step) -> None:
        talk(f"{step.name}: done")

    def failed(self, operation: Operation, step: Step, _: MmtoolError) -> None:
        talk(f"{step.name}: failed; {operation.sentence}")


def _show_steps(steps: tuple[Step, ...]) -> None:
    for number, step in enumerate(steps, 1):
        talk(f"{number}. {step.name}: {step.sentence}")


def _result(row: Row, warnings: tuple[str, ...], *, applied: bool = False) -> Result:
    from mmtool.failover.report import partition_rows

    rows = partition_rows(row)
    return Result("failover planned", rows, COLUMNS, warnings=warnings, data=[row], applied=applied)
