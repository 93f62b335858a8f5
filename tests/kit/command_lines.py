"""Command lines of mmtool that stand in files, read by mmtool's own parser and not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mmtool.commands.app import app

if TYPE_CHECKING:
    from collections.abc import Sequence


def options_of(arguments: Sequence[str]) -> dict[str, Any]:
    """The parsed options of a command line, without ``mmtool`` itself; ``command`` has the words that name it.

    Raises:
        AssertionError: mmtool would refuse it.
    """
    command: Any = typer.main.get_command(app)
    words: list[str] = []
    left = list(arguments)
    while hasattr(command, "commands"):
        words.append(left.pop(0))
        assert words[-1] in command.commands, f"mmtool has no command {' '.join(words)}"
        command = command.commands[words[-1]]
    try:
        context = command.make_context(" ".join(words), left)
    except typer.TyperException as error:
        raise AssertionError(f"{' '.join(arguments)}: {error.format_message()}") from error
    return {**context.params, "command": " ".join(words)}
