"""The list of next commands at the end of a command's output, one command per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.output import talk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mmtool.failover.report.report import NextStep


def given(config: Path | None, source: str | None, target: str | None) -> tuple[str, ...]:
    """``-c``, ``-s`` and ``-t`` as a command has them, for commands to paste; what was not given is left out."""
    said = (("-c", config), ("-s", source), ("-t", target))
    return tuple(word for option, value in said if value is not None for word in (option, str(value)))


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
