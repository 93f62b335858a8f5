"""``mmtool failover``: move consumer groups to the target, by a plan that is shown before it is executed."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from mmtool.commands import _failover_options as choices
from mmtool.commands import _failover_ways as ways
from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands import evidence
from mmtool.commands._connections import loaded, one_flow, with_group_map
from mmtool.output import warn
from mmtool.plan.failover.choices import TO_FILE, DivergedKind, FenceKind, Unknowns

app = typer.Typer(no_args_is_help=True)


UnknownOption = Annotated[
    Unknowns,
    typer.Option(
        "--unknown",
        help="What to commit where a group's offset is unknown and the group has no commit on the target."
        " leave: nothing (auto.offset.reset applies); earliest, latest: the start or the end of the target's log.",
    ),
]
AcceptDataLoss = Annotated[
    bool,
    options.execution_option(
        "--accept-data-loss",
        help="With --execute: needed where records or Kafka Streams state may be lost. Without --execute, warnings say"
        " how much.",
    ),
]
DrillState = Annotated[
    bool,
    options.execution_option(
        "--without-state",
        help="Also drill Kafka Streams applications whose changelog topics are not on the target; a real failover would"
        " lose their state.",
    ),
]
_UNMEASURED = "Without --execute nothing is measured, and the exit code is 4 as well."
MaxRto = Annotated[
    timedelta | None,
    options.duration_option(
        "--max-rto",
        "Exit with 4 if the drill takes longer than this, for example 90s or 5m, from its start until the copies'"
        f" offsets are read back. {_UNMEASURED}",
    ),
]
MaxReread = Annotated[
    int | None,
    typer.Option(
        "--max-reread",
        metavar="N",
        min=0,
        help="Exit with 4 if the groups together would read more than N records again, or an unknown number."
        f" {_UNMEASURED}",
    ),
]


@app.command()
def planned(
    ctx: typer.Context,
    *,
    where: options.ChosenFlow,
    groups: options.ChosenGroupsOrUnit,
    partitions: options.Partitions = False,
    fence: choices.Fence = FenceKind.NONE,
    fence_watch: choices.FenceWatch = choices.FENCE_WATCH,
    promote_acls: choices.Promote = False,
    principal_map: choices.Principals = None,
    without_state: options.WithoutState = False,
    accept_unverified: options.AcceptUnverified = False,
    files: choices.PlanFiles,
    reason: operations.Why = "",
    execution: options.Execution,
    timeout: options.DrainTimeout = None,
) -> None:
    """Move groups to the target while both clusters answer: mirror the last records, commit translated offsets.

    Stop the groups' consumers first. Choose groups with -g, --groups, --unit or --all-groups, or a saved plan with
    --plan.
    """
    from mmtool.failover.service import connections

    saved = choices.opened(ctx, files.plan, "planned")
    patience = timeout or options.DEFAULT_TIMEOUT
    settings = choices.flow_of(saved, where, groups.group_map)
    chosen = choices.groups_of(saved, "failover planned", groups, settings)
    asked = operations.Asked("failover planned", execution, where.words, partitions)
    if choices.was_executed(asked, saved, settings, patience):
        return
    said = choices.options_of(
        saved,
        {
            "fence": fence.value,
            "fence_watch": None if fence is FenceKind.NONE else f"{fence_watch.total_seconds():g}s",
            **choices.common_options(without_state, promote_acls, principal_map),
            "accept-unverified": "" if accept_unverified else None,
        },
    )
    settings = settings.accepting_unverified("accept-unverified" in said)
    principals = choices.chosen_principals(said)
    seconds = None if timeout is None else timeout.total_seconds()
    with connections.lock_requested(settings, patience, execute=execution.execute, yes=execution.yes) as lock:
        from mmtool.failover.service import group_move  # takes a while, as the lock does
        from mmtool.failover.service.execution import Request

        request = Request(settings, chosen, patience, reason, saved, "without-state" in said, seconds, lock)
        move = group_move.planned_of(request, choices.chosen_fence(settings, said, timeout), principals)
        if move.rehearsal.already and not move.rehearsal.plan.groups:
            operations.show_moved(asked, move.rehearsal.already)
            return
        choices.settle(saved, move.rehearsal, said, files, where.config)
        operations.carry_out(asked, move)


@app.command()
def emergency(
    ctx: typer.Context,
    *,
    where: options.ChosenFlow,
    groups: options.ChosenGroupsOrUnit,
    partitions: options.Partitions = False,
    unknown: UnknownOption = Unknowns.LEAVE,
    promote_acls: choices.PromoteInEmergency = False,
    principal_map: choices.Principals = None,
    accept_data_loss: AcceptDataLoss = False,
    without_state: options.WithoutState = False,
    accept_unverified: options.AcceptUnverified = False,
    files: choices.PlanFiles,
    reason: operations.Why = "",
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Move groups to the target when the source is lost: commit offsets from the last checkpoints on the target.

    The source is not contacted, except with --promote-acls. After the failover, the groups' topics are not mirrored
    until `mmtool failover failback` or `mmtool failover release`. Choose groups with -g, --groups, --unit or
    --all-groups, or a saved plan with --plan.
    """
    from mmtool.failover.service import connections

    saved = choices.opened(ctx, files.plan, "emergency")
    settings = choices.flow_of(saved, where, groups.group_map)
    chosen = choices.groups_of(saved, "failover emergency", groups, settings)
    words = where.words
    asked = operations.Asked("failover emergency", execution, words, partitions, accept_data_loss)
    if choices.was_executed(asked, saved, settings, timeout):
        return
    given = {"unknown": unknown.value} | choices.common_options(without_state, promote_acls, principal_map)
    said = choices.options_of(saved, given | {"accept-unverified": "" if accept_unverified else None})
    settings = settings.accepting_unverified("accept-unverified" in said)
    principals = choices.chosen_principals(said)
    with connections.lock_requested(settings, timeout, execute=execution.execute, yes=execution.yes) as lock:
        from mmtool.failover.service import group_move  # takes a while, as the lock does
        from mmtool.failover.service.execution import Request

        request = Request(settings, chosen, timeout, reason, saved, "without-state" in said, lock=lock)
        unknowns = Unknowns(said["unknown"])
        move = group_move.emergency_of(request, unknowns, principals, accepts_loss=asked.accepts_loss)
        rehearsal = move.rehearsal
        choices.settle(saved, rehearsal, said, files, where.config)
        if execution.execute and rehearsal.plan.executable and rehearsal.at_risk and not accept_data_loss:
            operations.refuse_loss(asked, rehearsal)
        operations.carry_out(asked, move)


@app.command()
def failback(
    ctx: typer.Context,
    *,
    where: options.ChosenFlow,
    groups: options.ChosenGroupsOrUnit,
    partitions: options.Partitions = False,
    diverged: choices.DivergedOption = DivergedKind.FILE,
    name: choices.DivergedTopic = None,
    diverged_dir: choices.DivergedFolder = None,
    without_state: options.WithoutState = False,
    files: choices.PlanFiles,
    reason: operations.Why = "",
    execution: options.Execution,
    timeout: options.DrainTimeout = None,
) -> None:
    """Move groups back to the source: save the source's records that were never mirrored, then commit offsets.

    -s and -t name the original flow: -s is the cluster that the groups move back to. Stop the groups' consumers first.
    Choose groups with -g, --groups, --unit or --all-groups, or a saved plan with --plan.
    """
    from mmtool.failover.service import group_move
    from mmtool.failover.service.execution import Request

    saved = choices.opened(ctx, files.plan, "failback")
    meant_for = choices.chosen_diverged(saved, diverged, name, diverged_dir)
    patience = timeout or options.DEFAULT_TIMEOUT
    flow = choices.flow_of(saved, where, groups.group_map)
    back = loaded(where.config).one(flow.target.alias, flow.source.alias)
    chosen = choices.groups_of(saved, "failover failback", groups, flow)
    asked = operations.Asked("failover failback", execution, where.words, partitions)
    if choices.was_executed(asked, saved, flow, patience):
        return
    written = None if meant_for == TO_FILE else meant_for.words
    said = choices.options_of(saved, {"diverged": written, **choices.common_options(without_state)})
    seconds = None if timeout is None else timeout.total_seconds()
    request = Request(flow, chosen, patience, reason, saved, "without-state" in said, seconds)
    move = group_move.failback_of(request, back, meant_for, diverged_dir or Path())
    choices.settle(saved, move.rehearsal, said, files, where.config)
    operations.carry_out(asked, move)


@app.command()
def drill(
    *,
    where: options.ChosenFlow,
    groups: options.ChosenGroupsOrUnit,
    partitions: options.Partitions = False,
    html: evidence.DrillHtmlFile = None,
    sign: evidence.Sign = None,
    max_rto: MaxRto = None,
    max_reread: MaxReread = None,
    without_state: DrillState = False,
    accept_unverified: options.AcceptUnverified = False,
    reason: operations.Why = "",
    execution: options.Execution,
    timeout: options.DrainTimeout = None,
) -> None:
    """Fail over copies of the groups, measure the failover and delete the copies; the groups are not touched.

    With --execute, mmtool creates the copies on the target; consumers of the groups may run meanwhile. Choose groups
    with -g, --groups, --unit or --all-groups.
    """
    from mmtool.failover.modes import drill as service
    from mmtool.failover.service import connections
    from mmtool.failover.service.execution import Request
    from mmtool.failover.service.group_move import drill_of
    from mmtool.plan.failover.drill import Limits

    page = evidence.asked_for(html, sign)
    limits = Limits(None if max_rto is None else max_rto.total_seconds(), max_reread)
    gate = partial(service.gate, limits=limits)
    patience = timeout or options.DEFAULT_TIMEOUT
    settings = with_group_map(one_flow(where), groups.group_map).accepting_unverified(accept_unverified)
    chosen = choices.groups_of(None, "failover drill", groups, settings)
    asked = operations.Asked("failover drill", execution, where.words, partitions)

    seconds = None if timeout is None else timeout.total_seconds()
    move = drill_of(Request(settings, chosen, patience, reason, None, without_state, seconds))
    if not asked.agreed(move.rehearsal, gate):
        return
    if page is not None:
        page.claim()
    costs = service.emergency_now(connections.target_side(settings, patience), chosen)
    ended = move.execute()
    row = service.drilled_row(ended, costs)
    unwritten = operations.write_drill_page(page, ended, row, patience, asked.given)
    missed = gate(row)
    if unwritten is not None and (missed or ended.operation.error) is not None:
        warn(f"{unwritten.message}; {unwritten.remedy}")
    operations.show_end(asked, ended, row, missed or unwritten)


app.command("list")(ways.list_)
app.command()(ways.show)
app.command()(ways.resume)
app.command()(ways.cancel)
app.command()(ways.rollback)
app.command()(ways.release)
