"""The options of ``mmtool failover`` that say how it is done: ``--fence``, ``--diverged``, ``--promote-acls``.

A function that ends in ``_options`` gives an option as a plan keeps it; one that begins with ``chosen_`` reads it.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.plan.failover.choices import TO_FILE, DivergedKind, FenceKind, diverged_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.failover.choices import Diverged
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


def fence_options(saved: SavedPlan | None, fence: FenceKind, watch: timedelta) -> dict[str, str]:
    """The options as a plan keeps them: those of the saved one, or what the command line says."""
    if saved is not None:
        return dict(saved.options)
    more = {} if fence is FenceKind.NONE else {"fence_watch": f"{watch.total_seconds():g}s"}
    return {"fence": fence.value, **more}


def chosen_fence(flow: FlowSettings, said: Mapping[str, str], timeout: timedelta | None) -> FenceAsked | None:
    """What is asked for; None without a fence.

    Raises:
        UsageError: A hook is asked for, and none is configured.
    """
    from mmtool.failover.service.fence import fence_asked

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
    typer.Argument(
        metavar="NAME",
        help="With `--diverged topic`: an existing topic on the source.",
        show_default=False,
    ),
]
DivergedFolder = Annotated[
    Path | None,
    typer.Option(
        "--diverged-dir",
        metavar="DIR",
        help="For a failback with `--diverged file`: folder for the file of diverged records. Default: the current"
        " folder.",
        show_default=False,
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


def diverged_options(diverged: Diverged) -> dict[str, str]:
    """As a plan keeps it."""
    return {} if diverged == TO_FILE else {"diverged": diverged.words}


_PROMOTES, _MAP = "promote-acls", "principal-map"
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
        show_default=False,
    ),
]


def promotion_options(saved: SavedPlan | None, names: Path | None, *, promotes: bool) -> dict[str, str]:
    """The options as a plan keeps them: those of the saved one, or what the command line says."""
    if saved is not None:
        return {name: saved.options[name] for name in (_PROMOTES, _MAP) if name in saved.options}
    return ({_PROMOTES: ""} if promotes else {}) | ({} if names is None else {_MAP: str(names)})


def chosen_principals(said: Mapping[str, str]) -> PrincipalMap | None:
    """The principals' names on the target; None where nothing is promoted.

    Raises:
        UsageError: The file cannot be read, or a line of it is wrong.
    """
    from mmtool.plan.failover.acl_promotion import SAME_NAMES, read_principal_map
    from mmtool.runtime.files import file_errors

    if _PROMOTES not in said:
        return None
    if _MAP not in said:
        return SAME_NAMES
    path = Path(said[_MAP])
    remedy = "put a readable file at this path; or, without --plan, name another file with --principal-map"
    try:
        with file_errors(f"--principal-map {path}", remedy, near=path):
            return read_principal_map(path.read_text(encoding="utf-8-sig").splitlines())
    except UnicodeDecodeError as error:
        raise _unusable_map(path, "not UTF-8 text", "save the file as UTF-8") from error
    except ValueError as error:
        raise _unusable_map(
            path, str(error), "correct that line: each line is like User:east-app,User:west-app"
        ) from error


def _unusable_map(path: Path, why: str, remedy: str) -> UsageError:
    return UsageError(f"--principal-map {path}: {why}", remedy=remedy)
