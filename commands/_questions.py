"""Answers that come from an option, else from the operator on the terminal, else from a default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.commands._consent import read_answer
from mmtool.errors import RefusedError, UsageError
from mmtool.output import talk
from mmtool.output.console import write_err
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Question:
    """One value that a command needs.

    Attributes:
        option: The option that gives it, as ``--topics``.
        text: The question, without a question mark.
        check: Returns the value as it is used; raises ValueError with the reason for a value that cannot be.
        default: Used where nothing is given; None where there is none.
        optional: Nothing is a valid answer.
    """

    option: str
    text: str
    check: Callable[[str], str]
    default: str | None = None
    optional: bool = False


@dataclass(slots=True)
class Answers:
    """The values of a command's questions, in the order in which they are asked.

    Attributes:
        given: The options of the command line that answer questions, by name.
        asks: Whether the operator is asked for what is not given.
    """

    given: Mapping[str, str]
    asks: bool
    _used: set[str] = field(default_factory=set)

    def of(self, question: Question) -> str | None:
        """The answer; None where an optional one is left out.

        Raises:
            UsageError: The option's value cannot be used, or nothing gives a value that is needed.
            RefusedError: The terminal was closed.
        """
        self._used.add(question.option)
        text = self.given.get(question.option)
        if text is not None:
            return self._checked(question, text)
        if self.asks:
            return _asked(question)
        if question.default is None and not question.optional:
            raise UsageError(
                f"{question.option} is missing: {question.text}", remedy=f"add {question.option}"
            )
        return question.default

    def needed(self, question: Question) -> str:
        """The answer of a question that is not optional; raises as `of`."""
        answer = self.of(question)
        assert answer is not None  # only an optional question goes without
        return answer

    def refuse_unused(self, otherwise: str) -> None:
        """Refuse options that no question asked for, since they would be ignored; ``otherwise`` completes the remedy.

        Raises:
            UsageError: There is one.
        """
        unused = [name for name in self.given if name not in self._used]
        if unused:
            names = ", ".join(unused)
            raise UsageError(
                f"{names} {'has' if len(unused) == 1 else 'have'} no effect with the other options",
                remedy=f"leave out {names}, or {otherwise}",
            )

    @staticmethod
    def _checked(question: Question, text: str) -> str:
        try:
            return question.check(text)
        except ValueError as error:
            raise UsageError(f"{question.option}: {error}", remedy=f"correct {question.option}") from None


def _asked(question: Question) -> str | None:
    """Ask until the answer can be used. A refused answer is not repeated: it may be a secret."""
    hint = "" if question.default is None else f" [{question.default}]"
    while True:
        write_err(f"{printable(question.text + hint)}: ")
        line = read_answer()
        if not line:
            write_err("\n")
            raise RefusedError(
                "the input ended before the last question: nothing was written", code="declined"
            )
        text = line.strip()
        if not text and (question.optional or question.default is not None):
            return question.default
        try:
            return question.check(text)
        except ValueError as error:
            talk(str(error))
