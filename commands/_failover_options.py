"""The options of ``mmtool failover`` that say how it is done, and the files that keep them with a plan.

A function that begins with ``chosen_`` reads an option as a plan keeps it: `options_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.commands import _operations as operations
from mmtool.commands import _options as options
from mmtool.commands._connections import (
    one_flow,
    read_lines,
    require_selector,
    selection,
    unit_of,
    with_group_map,
)
from mmtool.commands._options import is_given
from mmtool.errors import UsageError
from mmtool.output import finish, talk
from mmtool.plain_text import shell_line
from mmtool.plan.failover.choices import TO_FILE, DivergedKind, FenceKind, diverged_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.failover.modes.rehearsal import SavableRehearsal
    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.failover.choices import Diverged
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.runbook.plan_file import SavedPlan

FENCE_WATCH = timedelta(seconds=2)
Fence = Annotated[
    FenceKind,
    typer.Option(
        "--fence",
        help="How producers are kept from writing to the groups' topics on the source. acl: DENY rules for the"
        " principals that may write; hook: the program that the key mmtool.hook.fence names; watch: mmtool only checks"
        " that you have stopped the producers; none: producers may keep writing.",
    ),
]
FenceWatch = Annotated[
    timedelta,
    options.duration_option(
        "--fence-watch",
        "With --fence acl, hook or watch: how long the groups' topics on the source must get no record before the"
        " failover continues (default 2s).",
    ),
]


def chosen_fence(flow: FlowSettings, said: Mapping[str, str], timeout: timedelta | None) -> FenceAsked | None:
    """What is asked for; None without a fence.

    Raises:
        UsageError: A hook is asked for, and none is configured.
    """
    from mmtool.failover.service.group_move import fence_asked

    kind, watch = FenceKind(said["fence"]), options.duration(said.get("fence_watch", FENCE_WATCH))
    if kind is FenceKind.HOOK and "fence" not in flow.hooks:
        raise UsageError(
            f"mmtool.hook.fence is not set for {flow.name}: --fence hook has nothing to run",
            remedy="in the properties file, set mmtool.hook.fence to the path of an executable; or, without --plan, use"
            " --fence acl or --fence watch",
        )
    return fence_asked(flow, kind, watch.total_seconds(), timeout or options.DEFAULT_TIMEOUT)


DivergedOption = Annotated[
    DivergedKind,
    options.selection_option(
        "--diverged",
        help="Where the diverged records (records on the source that were never mirrored) go. file: a local file;"
        " `topic NAME`: a topic on the source.",
    ),
]
DivergedTopic = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="With `--diverged topic`: an existing topic on the source."),
]
DivergedFolder = Annotated[
    Path | None,
    typer.Option(
        "--diverged-dir",
        metavar="DIR",
        help="For a failback with `--diverged file`: folder for the file of diverged records. Default: the current"
        " folder.",
    ),
]


def chosen_diverged(
    saved: SavedPlan | None, kind: DivergedKind, name: str | None, folder: Path | None
) -> Diverged:
    """What the command line says, or the plan.

    Raises:
        UsageError: A topic without a name, a name without a topic, or a folder without a file.
    """
    found = saved.plan.diverged if saved is not None else diverged_of(_diverged_words(kind, name))
    if folder is not None and found != TO_FILE:
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and --diverged {found.words} writes no file",
            remedy="leave out --diverged-dir, or use --diverged file"
            if saved is None
            else "leave out --diverged-dir, or, without --plan, write a new plan with --diverged file and --out FILE",
        )
    return found


def _diverged_words(kind: DivergedKind, name: str | None) -> str:
    if kind is DivergedKind.TOPIC and not name:
        raise UsageError("--diverged topic needs the topic's name", remedy="write --diverged topic NAME")
    if kind is not DivergedKind.TOPIC and name is not None:
        raise UsageError(
            f"unexpected argument {name}: --diverged {kind} takes no topic name",
            remedy=f"leave out {name}, or write --diverged topic {name}",
        )
    return kind if name is None else f"{kind} {name}"


_PROMOTED = (
    "Create ACLs on the target that give the producers of the groups' topics the rights to write that they have on the"
    " source. A rollback or failback removes these ACLs."
)


def _promote_option(help_: str) -> Any:
    return typer.Option("--promote-acls", help=help_)


Promote = Annotated[bool, _promote_option(_PROMOTED)]
PromoteInEmergency = Annotated[
    bool,
    _promote_option(f"{_PROMOTED} The source must answer: mmtool reads the producers' rights from its ACLs."),
]
Principals = Annotated[
    Path | None,
    typer.Option(
        "--principal-map",
        metavar="FILE",
        help="For --promote-acls, where principals have other names on the target: CSV file with lines such as"
        " User:east-app,User:west-app. A principal with an empty second column gets no ACLs.",
    ),
]


def chosen_principals(said: Mapping[str, str]) -> PrincipalMap | None:
    """The principals' names on the target; None where nothing is promoted.

    Raises:
        UsageError: The file cannot be read, or a line of it is wrong.
    """
    from mmtool.plan.failover.acl_promotion import SAME_NAMES, read_principal_map

    if "promote-acls" not in said:
        return None
    if "principal-map" not in said:
        return SAME_NAMES
    remedy = "correct that line: each line is like User:east-app,User:west-app"
    return read_lines("--principal-map", Path(said["principal-map"]), read_principal_map, remedy)


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


def flow_of(
    saved: SavedPlan | None, where: options.ChosenFlow, group_map: Path | None = None
) -> FlowSettings:
    """The flow that is meant, by the options or by the plan, whose groups have the names of the plan on the target.

    Raises:
        UsageError: As `one_flow` and `with_group_map`; or the options name another flow than the plan.
    """
    from mmtool.plan.groups.names import GroupMap

    if saved is None:
        return with_group_map(one_flow(where), group_map)
    names = saved.plan.names
    if where.source not in (None, names.source) or where.target not in (None, names.target):
        raise UsageError(
            f"the plan is for {names.flow}, and -s or -t names another cluster", remedy="leave out -s and -t"
        )
    flow = one_flow(replace(where, source=names.source, target=names.target))
    pairs = {plan.group: plan.target_group for plan in saved.plan.groups}
    return flow.model_copy(update={"group_map": GroupMap(pairs, "the plan")})


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


def common_options(
    without_state: bool, promote_acls: bool = False, principal_map: Path | None = None
) -> dict[str, str | None]:
    """The options that several modes have, for `options_of`."""
    return {
        "without-state": "" if without_state else None,
        "promote-acls": "" if promote_acls else None,
        "principal-map": None if principal_map is None else str(principal_map),
    }


def options_of(saved: SavedPlan | None, given: Mapping[str, str | None]) -> dict[str, str]:
    """The options as a plan keeps them: those of the saved one, or what the command line says.

    Args:
        saved: The plan of ``--plan``.
        given: The command line's by name; empty text for one without a value, None for one that is not there.
    """
    return {name: text for name, text in (saved.options if saved else given).items() if text is not None}


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
    from mmtool.failover.report.operation_row import recorded_row
    from mmtool.failover.report.plan_file import is_spent
    from mmtool.failover.service import connections

    found = find(connections.journal(flow, timeout), saved.plan.operation_id)
    if found is None or not is_spent(saved, found):
        return False
    finish(asked.result(recorded_row(found), ()), asked.execution.output, None)
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
    from mmtool.failover.report.plan_file import check_fresh, runbook_of, saved_of
    from mmtool.failover.report.runbook import render
    from mmtool.plan.runbook.plan_file import write_plan
    from mmtool.runtime.files import write_named

    if saved is not None:
        check_fresh(saved, rehearsal)
        talk(f"the plan {saved.plan.operation_id} by {saved.origin.by} is still valid")
    now = saved_of(rehearsal, said)
    if files.out is not None:
        write_named("--out", files.out, write_plan(now))
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
        page = render(runbook_of(now, rehearsal.settings, str(config), kept=kept))
        write_named("--runbook", files.runbook, page.encode())
        talk(f"the runbook was written to {files.runbook}")
