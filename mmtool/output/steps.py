"""Show numbered steps on stderr: with a spinner and colours on a terminal, as plain lines in a log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from mmtool.events import Event, Notice
from mmtool.output import console
from mmtool.output.redaction import shown
from mmtool.plain_text import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.status import Status

_INDENT = "      "


@dataclass(slots=True)
class Steps:
    """Shows ``total`` steps; a context manager, because a spinner must be removed at the end.

    Attributes:
        total: How many steps there are.
        clock: Seconds that only go forward.
        title: Of the current step; empty before the first.
        number: Of the current step, counted from 1; 0 before the first.
    """

    total: int
    clock: Callable[[], float] = time.monotonic
    title: str = ""
    number: int = 0
    _began: float = 0.0
    _terminal: Console | None = None
    _spinner: Status | None = None

    def __enter__(self) -> Self:
        if console.is_watched_live():
            self._terminal = _terminal()
        return self

    def __exit__(self, *_: object) -> None:
        self._rest()

    def begin(self, title: str, why: str = "") -> None:
        """Begin the next step; ``why`` says in one sentence what it is for."""
        self._rest()
        self.number, self.title, self._began = self.number + 1, title, self.clock()
        self._print(self._event(f"[{self.number}/{self.total}] {title}", Event.STEP_STARTED), "bold")
        if why:
            self._print(f"{_INDENT}{why}", "dim")
        if self._terminal is not None:
            self._spinner = self._terminal.status("")
            self._spinner.start()

    def note(self, sentence: str) -> None:
        """Print a finding of the step, which stays on the screen."""
        self._print(f"{_INDENT}{sentence}", "")

    def live(self, sentence: str) -> None:
        """Show the step's progress: beside the spinner, without a terminal as a line."""
        if self._spinner is None:
            self.note(sentence)
            return
        from rich.text import Text

        self._spinner.update(Text(_shown(sentence)))

    def done(self, sentence: str = "done") -> None:
        """End the step, and print how long it took."""
        seconds = self.clock() - self._began
        self._rest()
        told = f"{_INDENT}{sentence} ({duration(seconds)})"
        self._print(self._event(told, Event.STEP_DONE, seconds=seconds), "green")

    def _event(self, line: str, event: Event, **fields: object) -> Notice:
        return Notice(line, event, step=self.title, number=self.number, steps=self.total, **fields)

    def _rest(self) -> None:
        if self._spinner is not None:
            self._spinner.stop()
        self._spinner = None

    def _print(self, line: str, style: str) -> None:
        if self._terminal is None:
            console.talk(line)
            return
        from rich.text import Text

        self._terminal.print(Text(_shown(line), style))


def _shown(line: str) -> str:
    return shown(line, console.switches.replaced)


def _terminal() -> Console:
    from rich.console import Console

    return Console(stderr=True, no_color=not console.color_wanted(stream_is_tty=True), highlight=False)
