"""The options ``--out`` and ``--plan``: save a plan to a file, and execute a saved one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands._connections import one_flow, require_selector, selection, unit_of
from mmtool.commands._options import is_given
from mmtool.errors import UsageError
from mmtool.output import finish, talk
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.rehearsal import SavableRehearsal
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.runbook.plan_file import SavedPlan

Out = Annotated[
    Path | None,
    options.selection_option(
        "--out", metavar="FILE", help="Save the plan to a file, to execute it later with --plan FILE."
    ),
]
Plan = Annotated[
    Path | None,
    options.selection_option(
        "--plan",
        metavar="FILE",
        help="Use the groups and options of a plan that --out saved. Refused with exit code 5 if facts of the plan have"
        " changed, such as a group's members or committed offsets.",
    ),
]

Page = Annotated[
    Path | None,
    options.selection_option(
        "--runbook",
        metavar="FILE",
        help="Write the plan as a Markdown page: each step, how to undo it, and how to do it by hand with"
        " Kafka's tools.",
    ),
]


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The options that name files with a plan: to write it, to execute it, and to show it."""

    out: Out = None
    plan: Plan = None
    runbook: Page = None


_FITTING = {
    "diverged_dir",
    "config", "source", "target", "plan", "runbook", "accept_data_loss", "reason", "execute", "yes", "output",
    "timeout",
}  # fmt: skip
"""What says how a plan is executed, and not what it is."""
_SWITCHES = {"verbose", "quiet", "debug", "no_color", "log_format"}


def opened(ctx: typer.Context, path: Path | None, mode: str) -> SavedPlan | None:
    """The plan that ``--plan`` names; None without it.

    Args:
        ctx: Of the command, for what was given beside it.
        path: The file.
        mode: Which kind of plan the command executes.

    Raises:
        UsageError: It cannot be used here, or something is given that only the plan says.
    """
    if path is None:
        return None
    from mmtool.failover.report.plan_file import load

    beside = [
        str(parameter.metavar) if parameter.param_type_name == "argument" else parameter.opts[-1]
        for parameter in ctx.command.params
        if parameter.name not in _FITTING | _SWITCHES and is_given(ctx, parameter.name)
    ]
    if beside:
        raise UsageError(
            f"--plan {path}: the plan already sets groups and options, so {', '.join(beside)} cannot be added",
            remedy="leave them out; or, without --plan, write a new plan with --out FILE",
        )
    saved = load(path)
    if saved.plan.mode != mode:
        raise UsageError(
            f"--plan {path}: this is a plan for `mmtool failover {saved.plan.mode}`",
            remedy=f"run `mmtool failover {saved.plan.mode} -c FILE --plan {path}`",
        )
    return saved


def flow_of(saved: SavedPlan | None, where: options.ChosenFlow) -> FlowSettings:
    """The flow that is meant, by the options or by the plan.

    Raises:
        UsageError: As `one_flow`; or the options name another flow than the plan.
    """
    if saved is None:
        return one_flow(where)
    names = saved.plan.names
    if where.source not in (None, names.source) or where.target not in (None, names.target):
        raise UsageError(
            f"the plan is for {names.flow}, and -s or -t names another cluster", remedy="leave out -s and -t"
        )
    return one_flow(replace(where, source=names.source, target=names.target))


def groups_of(
    saved: SavedPlan | None, doing: str, groups: options.ChosenGroupsOrUnit, flow: FlowSettings
) -> GroupSelection:
    """The groups that are meant, by options or by the plan.

    Raises:
        UsageError: Nobody says which, or the file has no such unit.
    """
    from mmtool.plan.groups.facts import GroupSelection

    if saved is not None:
        return GroupSelection(saved.groups)
    chosen = selection(groups, unit_of(flow, groups.unit))
    require_selector(chosen, doing)
    return chosen


WITHOUT_STATE = "without-state"
"""How a plan keeps `--without-state`: as an option without a value."""


def state_said(saved: SavedPlan | None, *, without: bool) -> dict[str, str]:
    """What a plan keeps of ``--without-state``: that of the saved one, or what the command line says."""
    given = without if saved is None else WITHOUT_STATE in saved.options
    return {WITHOUT_STATE: ""} if given else {}


def was_executed(
    asked: operations.Asked, saved: SavedPlan | None, flow: FlowSettings, timeout: timedelta
) -> bool:
    """Whether the plan's operation is completed; then that is shown, and nothing is left to do.

    Raises:
        RefusedError: It was begun and not ended, or was taken back.
    """
    if saved is None:
        return False
    from mmtool.failover.operation.recovery import find
    from mmtool.failover.report.plan_file import is_spent
    from mmtool.failover.report.report import recorded_row
    from mmtool.failover.service import connections

    found = find(connections.journal(flow, timeout), saved.plan.operation_id)
    if found is None or not is_spent(saved, found):
        return False
    finish(asked.result(recorded_row(found), ()), asked.output, None)
    talk(
        f"nothing was changed: operation {found.operation_id} has already executed this plan, and is completed"
    )
    return True


def settle(
    saved: SavedPlan | None,
    rehearsal: SavableRehearsal,
    said: Mapping[str, str],
    files: PlanFiles,
    config: Path | None,
) -> None:
    """Check the plan that was read, and write what is asked for.

    Args:
        saved: The plan of ``--plan``.
        rehearsal: The same plan, made anew.
        said: The options that belong to the plan.
        files: Which files are asked for.
        config: What ``--config`` names, for the runbook.

    Raises:
        StalePlanError: The plan does not hold any more.
        UsageError: A file cannot be written.
    """
    from mmtool.failover.report.plan_file import check_fresh, save, save_runbook, saved_of

    if saved is not None:
        check_fresh(saved, rehearsal)
        talk(f"the plan {saved.plan.operation_id} by {saved.origin.by} is still valid")
    now = saved_of(rehearsal, said)
    if files.out is not None:
        save(files.out, now)
        where = options.ChosenFlow(config).words
        words = ["mmtool", "failover", now.plan.mode, *where, "--plan", str(files.out), "--execute"]
        words += ["--accept-data-loss"] if rehearsal.at_risk else []
        follows = (
            f"execute it with: {shell_line(words)}"
            if rehearsal.plan.executable
            else "it cannot be executed, see the error: remove its cause, then write a new plan with --out FILE"
        )
        talk(f"the plan was written to {files.out}; {follows}")
    if files.runbook is not None:
        kept = files.out or files.plan
        save_runbook(files.runbook, now, rehearsal.settings, str(config), kept=kept)
        talk(f"the runbook was written to {files.runbook}")
