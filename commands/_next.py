"""The list of next commands at the end of a command's output, one command per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.output import talk

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def given(config: Path | None, source: str | None, target: str | None) -> tuple[str, ...]:
    """``-c``, ``-s`` and ``-t`` as a command has them, for commands to paste; what was not given is left out."""
    said = (("-c", config), ("-s", source), ("-t", target))
    return tuple(word for option, value in said if value is not None for word in (option, str(value)))


def say_next(items: Sequence[str], title: str = "Next:") -> None:
    """Show a numbered list; lines of an item after its first are commands, shown below it."""
    if not items:
        return
    talk(title)
    for number, item in enumerate(items, 1):
        sentence, *commands = item.splitlines()
        talk(f"{number}. {sentence}")
        for command in commands:
            talk(f"   {command}")


def say_ways_on(items: Sequence[str]) -> None:
    """The same for commands of which an operator chooses one."""
    say_next(items, "Next:" if len(items) == 1 else "Next, one of:")
