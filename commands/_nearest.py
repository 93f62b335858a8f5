"""Mistyped commands and options: the nearest ones that exist."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


def nearest(word: str, known: Collection[str]) -> str | None:
    """The most similar of the known words; None where none is similar."""
    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def suggested_commands(group: Any, path: str, word: str) -> list[str]:
    """The commands that may be meant, as they are typed: the nearest of the group, or those of this name elsewhere.

    Args:
        group: The group that has no such command.
        path: How the group is called, as ``mmtool failover``.
        word: What was typed.
    """
    elsewhere = [one for one, _ in _every_command(group, path) if one.split()[-1] == word.lower()]
    verb = nearest(word, list(group.commands))
    return elsewhere or ([] if verb is None else [f"{path} {verb}"])


def command_with(group: Any, path: str, option: str) -> str | None:
    """The first command of a group that has an option, as it is typed; None where none has it."""
    commands = _every_command(group, path)
    return next((one for one, command in commands if _has_option(command, option)), None)


def _has_option(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


def _every_command(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command below a group, as it is typed, groups before their verbs."""
    commands: Mapping[str, Any] = getattr(group, "commands", {})
    for name in commands:
        yield f"{path} {name}", commands[name]
        yield from _every_command(commands[name], f"{path} {name}")
