"""The end of a command's output: the next commands, one a line, and how to restore the previous offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.commands._options import ChosenFlow
from mmtool.output import talk
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.commits.move import Moved
    from mmtool.failover.report.report import NextStep


def say_next(items: Sequence[NextStep], title: str = "Next:") -> None:
    """Show a numbered list, with the commands of each item below it."""
    if not items:
        return
    talk(title)
    for number, item in enumerate(items, 1):
        talk(f"{number}. {item.sentence}")
        for command in item.commands:
            talk(f"   {command}")


def say_ways_on(items: Sequence[NextStep]) -> None:
    """The same for commands of which an operator chooses one."""
    say_next(items, "Next:" if len(items) == 1 else "Next, one of:")


def say_undo(ended: Moved, flow: FlowSettings, config: Path | None) -> None:
    """The command that puts back what was replaced; nothing where nothing was."""
    if ended.undo is None:
        return
    where = ChosenFlow(config, flow.source.alias, flow.target.alias)
    words = ["mmtool", "groups", "import", *where.words, str(ended.undo), "--execute"]
    talk("to restore the previous offsets:")
    talk(f"   {shell_line(words)}")
