"""The ``--diverged`` option of a failback: where the diverged tail is written (file or topic)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.plan.failover.divergence import TO_FILE, Kind, diverged_of

if TYPE_CHECKING:
    from mmtool.plan.failover.divergence import Diverged
    from mmtool.plan.runbook.plan_file import SavedPlan


Option = Annotated[
    Kind,
    options.selection_option(
        "--diverged",
        help="Where the diverged records (records on the source that were never mirrored) go. file: a local file;"
        " `topic NAME`: a topic on the source.",
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="With `--diverged topic`: an existing topic on the source.",
        show_default=False,
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--diverged-dir",
        metavar="DIR",
        help="For a failback with `--diverged file`: folder for the file of diverged records. Default: the current"
        " folder.",
        show_default=False,
    ),
]


def chosen(saved: SavedPlan | None, kind: Kind, name: str | None, folder: Path | None) -> Diverged:
    """What the command line says, or the plan.

    Raises:
        UsageError: A topic without a name, a name without a topic, or a folder without a file.
    """
    found = saved.plan.diverged if saved is not None else diverged_of(_words(kind, name))
    if folder is not None and found != TO_FILE:
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and --diverged {found.words} writes no file",
            remedy="leave out --diverged-dir, or use --diverged file"
            if saved is None
            else "leave out --diverged-dir, or, without --plan, write a new plan with --diverged file and --out FILE",
        )
    return found


def _words(kind: Kind, name: str | None) -> str:
    if kind is Kind.TOPIC and not name:
        raise UsageError("--diverged topic needs the topic's name", remedy="write --diverged topic NAME")
    if kind is not Kind.TOPIC and name is not None:
        raise UsageError(
            f"unexpected argument {name}: --diverged {kind} takes no topic name",
            remedy=f"leave out {name}, or write --diverged topic {name}",
        )
    return kind if name is None else f"{kind} {name}"


def said(diverged: Diverged) -> dict[str, str]:
    """As a plan keeps it."""
    return {} if diverged == TO_FILE else {"diverged": diverged.words}
