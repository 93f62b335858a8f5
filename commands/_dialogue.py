"""Ask the operator before a command changes something, say which commands follow, and write offsets for other tools.

The one rule of consent: ``--execute`` asks once on a terminal and needs ``--yes`` without one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mmtool.commands._options import ChosenFlow, OffsetFormat
from mmtool.errors import RefusedError
from mmtool.output import finish, preview, stdout_is_tty, talk, warn, write
from mmtool.output.console import stderr_is_tty, write_err
from mmtool.plain_text import Lines, printable, shell_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mmtool.commands._options import Execution
    from mmtool.config import FlowSettings
    from mmtool.errors import MmtoolError
    from mmtool.failover.commits.exchange import Moved
    from mmtool.failover.report.report import NextStep
    from mmtool.insight.translation import Translation
    from mmtool.output import Result


def consent(question: str, *, yes: bool = False, about: Callable[[], Result] | None = None) -> None:
    """Return when the operator agrees.

    Args:
        question: One sentence that says what is about to change; a question mark is added.
        yes: ``--yes`` was given: nothing is asked.
        about: What is going to be written, shown before it is asked about.

    Raises:
        RefusedError: declined, or nobody is there to ask. Nothing has been changed.
        KeyboardInterrupt: Ctrl-C is no answer; nothing has been changed either.
    """
    if yes:
        return
    if not has_terminal():
        raise RefusedError(
            f'nothing was changed: no terminal is attached to answer the question "{question}?"',
            remedy="add --yes to the same command: mmtool then executes without the question",
            code="consent_needed",
        )
    if about is not None:
        preview(about())
    write_err(f"{printable(question)}? [y/N]: ")
    if read_answer().strip().lower() not in {"y", "yes"}:
        raise RefusedError("declined: nothing was changed", code="declined")


def is_agreed(
    shown: Callable[[], Result],
    question: str,
    execution: Execution,
    *,
    refusal: MmtoolError | None = None,
    nothing: str = "",
    before: str = "",
) -> bool:
    """Show what would change; whether it is to be executed, possible at least in part, and agreed to.

    Args:
        shown: Makes the result of a rehearsal.
        question: What is about to change, as it follows "to".
        execution: The options of the command.
        refusal: The error of a rehearsal; raised.
        nothing: Why nothing can be changed; empty where something can.
        before: What the operator has to do before ``--execute``, followed by "and".
    """
    if execution.execute and not nothing:
        consent(question, yes=execution.yes, about=shown)
        return True
    finish(shown(), execution.output, refusal)
    talk(f"nothing was changed{f': {nothing}' if nothing else f'; {before}add --execute to {question}'}")
    return False


def has_terminal() -> bool:
    """Whether somebody can read a question and answer it."""
    return sys.stdin is not None and sys.stdin.isatty() and stderr_is_tty()  # None: it was closed


def read_answer() -> str:
    """One line, empty at the end of the input; typer would write a blank to stdout, and take Ctrl-C for a no."""
    try:
        return sys.stdin.readline()
    except KeyboardInterrupt:
        write_err("\n")  # the prompt's line is still open
        raise


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


def write_offsets(
    found: Translation, format_: OffsetFormat, refused: RefusedError | None, *, with_group: bool
) -> None:
    """Write translated offsets to stdout as another tool reads them, and warnings to stderr.

    Args:
        found: The translation.
        format_: The tool's format.
        refused: The error of refused offsets: Kafka's file leaves these out, the other formats are not written then.
        with_group: Kafka's file has a column with the group.

    Raises:
        RefusedError: ``refused``, or there is no offset to write.
        UsageError: The format is for one group, and there are several.
    """
    from mmtool.failover.commits.exchange import left_out, offsets_document
    from mmtool.failover.report.rows import reset_lines
    from mmtool.plan.groups.imports import write_reset_csv

    for sentence in found.warnings:
        warn(sentence)
    if format_ is not OffsetFormat.KAFKA:
        write(offsets_document(found, format_, refused) + "\n", applied=False)
        return
    text = write_reset_csv(reset_lines(found.plans, with_group=with_group))
    write(Lines.of(text.split("\n")) if stdout_is_tty() else text, applied=False)
    if missing := left_out("the file", found):
        warn(missing)
    if refused is not None:
        raise refused
