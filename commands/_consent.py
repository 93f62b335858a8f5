"""The one rule of consent: ``--execute`` asks once on a terminal and needs ``--yes`` without one."""

from __future__ import annotations

import sys

import typer

from mmtool.errors import RefusedError
from mmtool.output.console import stderr_is_tty


def consent(question: str, *, yes: bool = False) -> None:
    """Return when the operator agrees.

    Args:
        question: One sentence that says what is about to change; a question mark is added.
        yes: ``--yes`` was given: nothing is asked.

    Raises:
        RefusedError: declined, or nobody is there to ask. Nothing has been changed.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and stderr_is_tty()):
        raise RefusedError(
            f"nobody can be asked: {question}?",
            remedy="add --yes where there is no terminal",
            code="consent_needed",
        )
    if not typer.confirm(question, default=False, prompt_suffix="? ", err=True):
        raise RefusedError("declined: nothing was changed", code="declined")
