"""``mmtool failover``: move consumer groups to the target, by a plan that is shown before it is executed."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _divergence as divergence
from mmtool.commands import _evidence as evidence
from mmtool.commands import _failover_ways as ways
from mmtool.commands import _fences as fences
from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands import _plan_files as plans
from mmtool.commands import _release as releases
from mmtool.commands._connections import (
    one_flow,
    require_selector,
    selection,
    unit_of,
    with_way_back,
)
from mmtool.commands._next import given
from mmtool.output import OutputFormat, warn
from mmtool.plan.failover.divergence import Kind

if TYPE_CHECKING:
    from mmtool.config import FlowSettings
    from mmtool.plan.runbook.plan_file import SavedPlan

app = typer.Typer(no_args_is_help=True)


class Unknown(StrEnum):
    """Where a group goes on in a partition that nobody knows its position of."""

    LEAVE = "leave"
    EARLIEST = "earliest"
    LATEST = "latest"


UnknownOption = Annotated[
    Unknown,
    typer.Option("--unknown", help="Start position where the group's offset is unknown."),
]
AcceptDataLoss = Annotated[
    bool,
    typer.Option(
        "--accept-data-loss",
        help="Execute although records may be lost; the rehearsal shows the maximum number.",
        rich_help_panel=options.CONSENT,
    ),
]
DrillState = Annotated[
    bool,
    typer.Option(
        "--without-state",
        help="Also drill Kafka Streams applications whose changelogs are not on the other cluster; a real move would"
        " lose their state.",
        rich_help_panel=options.CONSENT,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write the measurements as Markdown.", show_default=False),
]
MaxRto = Annotated[
    timedelta | None,
    typer.Option(
        "--max-rto",
        metavar="DURATION",
        parser=options.duration,
        help="Exit with 4 unless the measured recovery time is within this limit.",
        show_default=False,
    ),
]
MaxReread = Annotated[
    int | None,
    typer.Option(
        "--max-reread",
        metavar="N",
        min=0,
        help="Exit with 4 unless the number of records that groups read again is within this limit.",
        show_default=False,
    ),
]


@app.command()
def planned(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    unit: options.Unit = None,
    fence: fences.Option = fences.Fence.NONE,
    fence_watch: fences.Watch = fences.WATCH,
    without_state: options.WithoutState = False,
    out: plans.Out = None,
    plan: plans.Plan = None,
    runbook: plans.Page = None,
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.DrainTimeout = None,
) -> None:
    """Move groups whose consumers are stopped: drain the mirror, translate, write, read back."""
    from mmtool.failover.service import connections

    saved = plans.opened(ctx, plan, "planned")
    patience = timeout or options.DEFAULT_TIMEOUT
    settings = one_flow(config, *plans.aliases_of(saved, source, target))
    meant = unit_of(settings, unit)
    chosen = plans.groups_of(saved, "failover planned", group, groups, all_groups=all_groups, unit=meant)
    if plans.was_executed("failover planned", saved, settings, output, patience):
        return
    with connections.seat_begun(settings, patience, execute=execute, yes=yes) as seat:
        from mmtool.failover.modes import planned_mode as service  # takes a while, as the lock does
        from mmtool.failover.service.execution import Execution
        from mmtool.insight.flow_now import connect
        from mmtool.insight.translation import look

        clusters = connect(settings, patience, beside_mm2=True)
        plans.check(saved, clusters.target, clusters.source)
        flow = look(clusters)
        said = fences.said(saved, fence, fence_watch) | plans.state_said(saved, without=without_state)
        name, without, is_saved = plans.operation_of(saved), plans.WITHOUT_STATE in said, saved is not None
        keep_off = fences.asked(settings, said, timeout)
        rehearsal = service.rehearse(flow, chosen, operation_id=name, fence=keep_off, without_state=without)
        plans.settle(saved, rehearsal, said, out=out, page=runbook, config=config, kept=plan)
        seconds = None if timeout is None else timeout.total_seconds()
        asked = operations.Asked("failover planned", execute, yes, output, given(config, source, target))
        execution = Execution(
            rehearsal, clusters.target, flow.identity, patience, reason, is_named_before=is_saved, seat=seat
        )
        operations.run(
            asked,
            execution,
            lambda tools, log: service.execute(
                rehearsal, connections.engine_drain(), tools, log, timeout_seconds=seconds
            ),
        )


@app.command()
def emergency(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    unit: options.Unit = None,
    unknown: UnknownOption = Unknown.LEAVE,
    accept_data_loss: AcceptDataLoss = False,
    without_state: options.WithoutState = False,
    out: plans.Out = None,
    plan: plans.Plan = None,
    runbook: plans.Page = None,
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Move groups whose source is lost, by the checkpoints on the target; the source is not contacted."""
    from mmtool.failover.service import connections

    saved = plans.opened(ctx, plan, "emergency")
    settings = one_flow(config, *plans.aliases_of(saved, source, target))
    meant = unit_of(settings, unit)
    chosen = plans.groups_of(saved, "failover emergency", group, groups, all_groups=all_groups, unit=meant)
    if plans.was_executed("failover emergency", saved, settings, output, timeout):
        return
    with connections.seat_begun(settings, timeout, execute=execute, yes=yes) as seat:
        from mmtool.failover.modes import emergency as service  # takes a while, as the lock does
        from mmtool.failover.service.execution import Execution
        from mmtool.plan.failover.emergency import Unknowns

        side = connections.target_side(settings, timeout)
        unknowns = Unknowns(unknown if saved is None else saved.options["unknown"])
        plans.check(saved, side.target)
        said = {"unknown": unknowns.value} | plans.state_said(saved, without=without_state)
        name, without, is_saved = plans.operation_of(saved), plans.WITHOUT_STATE in said, saved is not None
        rehearsal = service.rehearse(side, chosen, unknowns, operation_id=name, without_state=without)
        plans.settle(saved, rehearsal, said, out=out, page=runbook, config=config, kept=plan)
        if execute and rehearsal.plan.executable and rehearsal.at_risk and not accept_data_loss:
            operations.refuse_loss("failover emergency", rehearsal, output)
        asked = operations.Asked("failover emergency", execute, yes, output, given(config, source, target))
        execution = Execution(
            rehearsal, side.target, rehearsal.identity, timeout, reason, is_named_before=is_saved, seat=seat
        )
        operations.run(
            asked,
            execution,
            lambda tools, log: service.execute(rehearsal, tools, log),
        )


@app.command()
def failback(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    unit: options.Unit = None,
    diverged: divergence.Option = Kind.FILE,
    name: divergence.Name = None,
    diverged_dir: divergence.Folder = None,
    without_state: options.WithoutState = False,
    out: plans.Out = None,
    plan: plans.Plan = None,
    runbook: plans.Page = None,
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.DrainTimeout = None,
) -> None:
    """Move groups back to their source: save its diverged records, then continue after them."""
    from mmtool.failover.modes import failback as service
    from mmtool.failover.service import connections, execution, tails

    saved = plans.opened(ctx, plan, "failback")
    meant_for = divergence.chosen(saved, diverged, name, diverged_dir)
    patience = timeout or options.DEFAULT_TIMEOUT
    flow, back = with_way_back(config, *plans.aliases_of(saved, source, target))
    meant = unit_of(flow, unit)
    chosen = plans.groups_of(saved, "failover failback", group, groups, all_groups=all_groups, unit=meant)
    if plans.was_executed("failover failback", saved, flow, output, patience):
        return
    _check_clusters(saved, flow, patience)
    both = connections.both_ways(flow, back, patience)
    said = divergence.said(meant_for) | plans.state_said(saved, without=without_state)
    operation_id, without = plans.operation_of(saved), plans.WITHOUT_STATE in said
    rehearse = partial(service.rehearse, operation_id=operation_id, diverged=meant_for, without_state=without)
    rehearsal = tails.told(both, rehearse(both, chosen))
    plans.settle(saved, rehearsal, said, out=out, page=runbook, config=config, kept=plan)
    asked = operations.Asked("failover failback", execute, yes, output, given(config, source, target))
    now, is_saved = both.flow, saved is not None
    move = execution.Execution(
        rehearsal, now.clusters.source, now.identity, patience, reason, is_named_before=is_saved
    )
    operations.run(
        asked,
        move,
        lambda tools, log: service.execute(
            rehearsal,
            connections.engine_drain(),
            tools,
            log,
            folder=diverged_dir or Path(),
            timeout_seconds=None if timeout is None else timeout.total_seconds(),
            tools=tails.tools(both, rehearsal, patience),
        ),
    )


def _check_clusters(saved: SavedPlan | None, flow: FlowSettings, patience: timedelta) -> None:
    """The plan that was read is about the clusters of this flow; raises as `plans.check`."""
    from mmtool.insight.flow_now import connect

    if saved is not None:
        clusters = connect(flow, patience)
        plans.check(saved, clusters.source, clusters.target)


@app.command()
def drill(
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    group: options.Group = None,
    groups: options.Groups = None,
    all_groups: options.AllGroups = False,
    unit: options.Unit = None,
    report: Report = None,
    html: evidence.HtmlFile = None,
    sign: evidence.Sign = None,
    max_rto: MaxRto = None,
    max_reread: MaxReread = None,
    without_state: DrillState = False,
    reason: operations.Why = "",
    execute: options.Execute = False,
    yes: options.Yes = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.DrainTimeout = None,
) -> None:
    """Fail over shadow copies of the groups, measure it and clean up; production is not touched."""
    from mmtool.failover.modes import drill as service
    from mmtool.failover.service import connections, execution
    from mmtool.insight.flow_now import connect
    from mmtool.insight.translation import look
    from mmtool.plan.failover.drill_gate import Limits

    page = evidence.asked_for(html, sign)
    limits = Limits(None if max_rto is None else max_rto.total_seconds(), max_reread)
    gate = partial(service.gate, limits=limits)
    patience, settings = timeout or options.DEFAULT_TIMEOUT, one_flow(config, source, target)
    chosen = selection(group, groups, all_groups=all_groups, unit=unit_of(settings, unit))
    require_selector(chosen, "failover drill")
    flow = look(connect(settings, patience, beside_mm2=True))
    rehearsal = service.rehearse(flow, chosen, without_state=without_state)
    asked = operations.Asked("failover drill", execute, yes, output, given(config, source, target))
    if not asked.agreed(rehearsal, gate):
        return
    if page is not None:
        page.claim()
    costs = service.emergency_now(connections.target_side(settings, patience), chosen)
    seconds = None if timeout is None else timeout.total_seconds()
    ended = execution.execute(
        execution.Execution(rehearsal, flow.clusters.target, flow.identity, patience, reason, is_alone=False),
        lambda tools, log: service.execute(
            rehearsal, connections.engine_drain(), tools, log, timeout_seconds=seconds
        ),
    )
    row = service.drilled_row(ended, costs)
    if report is not None:
        service.write_report(report, row)
    unwritten = operations.write_drill_page(page, ended, row, flow.identity, patience)
    missed = gate(row)
    if unwritten is not None and (missed or ended.operation.error) is not None:
        warn(unwritten.message)
    operations.show_end(asked, ended, row, missed or unwritten)


app.command("list")(ways.list_)
app.command()(ways.show)
app.command()(ways.resume)
app.command()(ways.cancel)
app.command()(ways.rollback)
app.command()(releases.release)
