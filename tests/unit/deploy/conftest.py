"""Command lines of mmtool that stand in files, read by mmtool's own parser and not run."""

import pytest
import typer

from mmtool.commands.app import app


@pytest.fixture(scope="session")
def options_of():
    """The parsed options of a command line, without ``mmtool`` itself; ``command`` has the words that name it."""
    return _options_of


def _options_of(arguments):
    command, context = typer.main.get_command(app), None
    words, left = [], list(arguments)
    while hasattr(command, "commands"):
        # a context above each command: help options are inherited, and kept by the command
        context = typer.Context(command, context, command.name, **command.context_settings)
        words.append(left.pop(0))
        assert words[-1] in command.commands, f"mmtool has no command {' '.join(words)}"
        command = command.commands[words[-1]]
    try:
        parsed = command.make_context(words[-1], left, context)
    except typer.TyperException as error:
        raise AssertionError(f"{' '.join(arguments)}: {error.format_message()}") from error
    return {**parsed.params, "command": " ".join(words)}
