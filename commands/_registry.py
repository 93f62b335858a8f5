"""The table of commands; a command's module is imported when it is called.

``mmtool --help`` reads the table only. A command's module is imported when that command runs, completes or
shows its help, so start-up never pays for Spark or a Kafka client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer

from mmtool.commands._help import MmtoolCommand, MmtoolGroup, dress
from mmtool.commands._options import with_single_options


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of ``mmtool --help``.

    Attributes:
        name: The name on the command line.
        panel: The heading under which help shows it.
        help: One short sentence, without a full stop.
        group: The module holds ``app``, a ``typer.Typer`` with verbs of its own. Otherwise it holds a
            function with the command's name (``-`` written ``_``).
    """

    name: str
    panel: str
    help: str
    group: bool = False

    @property
    def module(self) -> str:
        return f"mmtool.commands.{self.symbol}"

    @property
    def symbol(self) -> str:
        return self.name.replace("-", "_")


@cache
def load(entry: Entry) -> Any:
    """A command, ready to run; imports its module. One object per process: a command keeps no state."""
    module = import_module(entry.module)
    root = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    root.callback()(_nothing)
    if entry.group:
        root.add_typer(dress(module.app), name=entry.name, cls=MmtoolGroup, help=f"{entry.help}.")
    else:
        command = with_single_options(getattr(module, entry.symbol))
        root.command(entry.name, cls=MmtoolCommand)(command)
    group: Any = typer.main.get_command(root)
    return group.commands[entry.name]


class CommandTable(Mapping[str, Any]):
    """Commands by name, each imported at its first use."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = {entry.name: entry for entry in entries if find_spec(entry.module)}

    def __getitem__(self, name: str) -> Any:
        return load(self.entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


def _nothing() -> None:
    """A Typer with a callback is a group, even around one command."""
