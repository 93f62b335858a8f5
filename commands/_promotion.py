"""The options ``--promote-acls`` and ``--principal-map``: producers get their rights on the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mmtool.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.plan.failover.acl_promotion import PrincipalMap
    from mmtool.plan.runbook.plan_file import SavedPlan

_PROMOTES, _MAP = "promote-acls", "principal-map"
_PROMOTED = (
    "Create ACLs on the target that give the producers of the groups' topics the rights to write that they have on the"
    " source. A rollback or failback removes these ACLs."
)


def _promote_option(help_: str) -> Any:
    return typer.Option("--promote-acls", help=help_)


Option = Annotated[bool, _promote_option(_PROMOTED)]
OptionInEmergency = Annotated[
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


def said(saved: SavedPlan | None, names: Path | None, *, promotes: bool) -> dict[str, str]:
    """The options as a plan keeps them: those of the saved one, or what the command line says."""
    if saved is not None:
        return {name: saved.options[name] for name in (_PROMOTES, _MAP) if name in saved.options}
    return ({_PROMOTES: ""} if promotes else {}) | ({} if names is None else {_MAP: str(names)})


def asked(said: Mapping[str, str]) -> PrincipalMap | None:
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
        raise _unusable(path, "not UTF-8 text", "save the file as UTF-8") from error
    except ValueError as error:
        raise _unusable(
            path, str(error), "correct that line: each line is like User:east-app,User:west-app"
        ) from error


def _unusable(path: Path, why: str, remedy: str) -> UsageError:
    return UsageError(f"--principal-map {path}: {why}", remedy=remedy)
