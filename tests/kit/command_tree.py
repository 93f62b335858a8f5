"""Every command of mmtool, and what mmtool's own parser makes of a command line; nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mmtool.commands.app import COMMANDS, CommandTable, app

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def commands() -> dict[str, Any]:
    """Every command by the words that call it: ``replicate``; ``failover`` before ``failover planned``."""
    table = CommandTable(COMMANDS)
    return {path: command for name in table for path, command in _below(table[name], name)}


def is_group(command: Any) -> bool:
    """Whether it only has verbs, and cannot be run itself."""
    return hasattr(command, "commands")


def parsed(words: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
    """The command that a line calls, by its words, and its options by name.

    Args:
        words: The line without ``mmtool`` itself.

    Raises:
        typer.TyperException: mmtool does not have the command or an option.
    """
    command: Any = typer.main.get_command(app)
    context: Any = None
    found: list[str] = []
    name, rest = "mmtool", list(words)
    while True:
        context = command.make_context(name, rest, parent=context)
        if not is_group(command):
            return " ".join(found), context.params
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        found.append(name)


def _below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, verb in getattr(command, "commands", {}).items():
        yield from _below(verb, f"{path} {name}")
