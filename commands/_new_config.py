"""The end of a command that wrote a new properties file: what is missing in it, and what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError
from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def not_usable_yet(path: Path, message: str, do: str) -> CheckFailedError:
    """The error of a file that was written, and that no command can use before something is in place.

    Args:
        path: The file.
        message: What is missing.
        do: What the operator does about it, before the check.
    """
    check = shell_line(["mmtool", "config", "check", "-c", str(path)])
    return CheckFailedError(message, remedy=f"{do}, then run `{check}`", code="not_usable_yet")


def tell_next_steps(path: Path, ways: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Show what the operator does next with a file that can be used: the doctor comes first.

    Args:
        path: The file.
        ways: To run its flows: a sentence, and the options of ``mmtool replicate``.
    """
    from mmtool.commands._next import say_next
    from mmtool.failover.report.report import NextStep

    def command(name: str, *options: str) -> tuple[str]:
        return (shell_line(["mmtool", name, "-c", str(path), *options]),)

    say_next(
        [
            NextStep("check clusters, rights and topics", command("doctor")),
            *(NextStep(sentence, command("replicate", *options)) for sentence, options in ways),
        ]
    )
