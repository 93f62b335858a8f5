"""Mistyped commands and options: the nearest ones that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmtool.plain_text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def suggested_commands(group: Any, path: str, word: str) -> list[str]:
    """The commands that may be meant, as they are typed: the nearest of the group, or those of this name elsewhere.

    Args:
        group: The group that has no such command.
        path: How the group is called, as ``mmtool failover``.
        word: What was typed.
    """
    elsewhere = [one for one, _ in _every_command(group, path) if one.split()[-1] == word.lower()]
    verb = nearest(word, group.commands)
    return elsewhere or ([] if verb is None else [f"{path} {verb}"])


def with_options_last(command: Any, arguments: Iterable[str], option: str) -> list[str] | None:
    """The words of a command line with the options behind the command; None where the command lacks the option."""
    names, others = [], []
    for word in arguments:
        if word in getattr(command, "commands", ()):
            command = command.commands[word]
            names.append(word)
        else:
            others.append(word)
    has_option = any(option in parameter.opts for parameter in command.params)
    return [*names, *others] if has_option else None


def _every_command(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command below a group, as it is typed, groups before their verbs."""
    commands: Mapping[str, Any] = getattr(group, "commands", {})
    for name in commands:
        yield f"{path} {name}", commands[name]
        yield from _every_command(commands[name], f"{path} {name}")
