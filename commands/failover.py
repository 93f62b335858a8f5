"""``mmtool failover``: move consumer groups to the target, by a plan that is shown before it is executed."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated

import typer

from mmtool.commands import _failover_ways as ways
from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands._wiring import connect, engine_drain, one_flow, require_selector, selection
from mmtool.output import OutputFormat

app = typer.Typer(no_args_is_help=True)


class Fence(StrEnum):
    """How writers are kept off the source while groups move."""

    NONE = "none"


class Unknown(StrEnum):
    """Where a group goes on in a partition that nobody knows its position of."""

    LEAVE = "leave"
    EARLIEST = "earliest"
    LATEST = "latest"


FenceOption = Annotated[
    Fence,
    typer.Option("--fence", help="Who keeps writers off the source: none, because you have stopped them."),
]
UnknownOption = Annotated[
    Unknown,
    typer.Option("--unknown", help="Where a group goes on in a partition that nobody knows its position of."),
]
AcceptDataLoss = Annotated[
    bool,
    typer.Option(
        "--accept-data-loss",
        help="Execute although records may be lost: the rehearsal says how many at the most.",
        rich_help_panel=options.CONSENT,
    ),
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
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: Patience = None,
) -> None:
    """Move groups whose consumers are stopped: drain the mirror, translate, write, read back."""
    from mmtool.failover import planned as service
    from mmtool.insight.translation import look

    del fence  # one value so far; scripts may already say it
    chosen = selection(group, groups, all_groups=all_groups)
    require_selector(chosen, "failover planned")
    flow = look(connect(one_flow(config, source, target), timeout or options.DEFAULT_TIMEOUT))
    rehearsal = service.rehearse(flow, chosen)
    if not operations.to_be_executed("failover planned", rehearsal, output, execute=execute, yes=yes):
        return
    seconds = None if timeout is None else timeout.total_seconds()
    patience = timeout or options.DEFAULT_TIMEOUT
    with operations.at_work(rehearsal, flow.clusters.target, flow.identity, reason, patience) as (tools, log):
        ended = service.execute(rehearsal, engine_drain(), tools, log, timeout_seconds=seconds)
    operations.show_end("failover planned", ended, output)


@app.command()
def emergency(
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    unknown: UnknownOption = Unknown.LEAVE,
    accept_data_loss: AcceptDataLoss = False,
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Move groups whose source is lost, by what the target knows; the source is not asked anything."""
    from mmtool.failover import emergency as service
    from mmtool.plan.emergency import Unknowns

    chosen = selection(group, groups, all_groups=all_groups)
    require_selector(chosen, "failover emergency")
    side = operations.target_side(one_flow(config, source, target), timeout)
    rehearsal = service.rehearse(side, chosen, Unknowns(unknown))
    if execute and rehearsal.plan.executable and rehearsal.at_risk and not accept_data_loss:
        operations.refuse_loss("failover emergency", rehearsal, output)
    if not operations.to_be_executed("failover emergency", rehearsal, output, execute=execute, yes=yes):
        return
    with operations.at_work(rehearsal, side.target, rehearsal.identity, reason, timeout) as (tools, log):
        ended = service.execute(rehearsal, tools, log)
    operations.show_end("failover emergency", ended, output)


app.command("list")(ways.list_)
app.command()(ways.show)
app.command()(ways.resume)
app.command()(ways.cancel)
app.command()(ways.rollback)
app.command()(ways.release)
