"""Show a result repeatedly (``--watch``): redrawn in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mmtool.output import console
from mmtool.output.formats import OutputFormat
from mmtool.output.layout import fitted, fold, layout
from mmtool.output.render import emit
from mmtool.output.result import Problem
from mmtool.output.table import draw
from mmtool.plain_text import printable
from mmtool.runtime.process import ended_by_signals

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mmtool.output.result import Result

_AROUND_ROWS = 6
_FEWEST_ROWS = 5


def watch(results: Iterable[Result], output: OutputFormat, every: float) -> None:
    """Show one result after the other until Ctrl-C, SIGTERM, or until the reader closes stdout.

    Args:
        results: An endless iterator; the next result is taken when it is due.
        output: A table is drawn in place on a terminal; JSON is one document per line.
        every: Seconds from the end of a round to the next one.

    Raises:
        StoppedError: Ctrl-C, SIGTERM or SIGHUP came.
    """
    with ended_by_signals(is_end=True), _shower(output) as show:
        for result in results:
            show(result)
            if console.stdout_is_gone():
                return
            time.sleep(every)


def rows_that_fit(headlines: int) -> int:
    """The number of table rows that fit on the terminal, beside the headlines and some lines around them."""
    return max(shutil.get_terminal_size().lines - headlines - _AROUND_ROWS, _FEWEST_ROWS)


@contextmanager
def _shower(output: OutputFormat) -> Iterator[Callable[[Result], None]]:
    if output is OutputFormat.TABLE and console.stdout_is_tty():
        with _drawn_in_place() as show:
            yield show
        return
    rounds = 0

    def show_next(result: Result) -> None:
        nonlocal rounds
        if rounds and output is OutputFormat.TABLE:
            console.write_out("\n")
        emit(result, output, one_line=True, header=not rounds)
        rounds += 1

    yield show_next


@contextmanager
def _drawn_in_place() -> Iterator[Callable[[Result], None]]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    color = console.color_wanted(stream_is_tty=True)
    terminal = Console(no_color=not color, highlight=False)
    live = Live(
        console=terminal,
        auto_refresh=False,
        vertical_overflow="crop",
        redirect_stderr=not console.switches.logs,  # a log's lines are not wrapped
    )
    live.start()
    try:
        yield lambda result: live.update(
            Text.from_ansi("\n".join(picture(result, shutil.get_terminal_size(), color=color))), refresh=True
        )
    finally:
        with suppress(OSError):  # the terminal is gone: what ended it still counts
            live.stop()


def picture(result: Result, terminal: os.terminal_size, *, color: bool) -> Sequence[str]:
    """A result as texts that fit on a terminal together; warnings about missing rows stay visible.

    Args:
        result: The result; its headlines, warnings and errors come first, its summary last.
        terminal: In columns and lines.
        color: Whether states are painted.
    """
    said = [*result.headlines, *(f"warning: {sentence}" for sentence in result.warnings)]
    said += [f"error: {Problem.of(error).message}" for error in result.errors]
    lines = [printable(sentence) for sentence in said]
    below = [printable(result.summary)] if result.summary else []
    room = terminal.lines - _height([*lines, *below], terminal.columns)
    return [*lines, *_table(result, terminal.columns, room, color=color), *below]


def _table(result: Result, columns: int, room: int, *, color: bool) -> Sequence[str]:
    if not result.rows:
        return []
    lines = draw(fitted(layout(result), columns), columns=columns, color=color).rstrip("\n").split("\n")
    if len(lines) <= room:
        return lines
    kept = max(room - 1, 0)
    left = len(lines) - kept
    lines_do = "1 more line does" if left == 1 else f"{left} more lines do"
    return [*lines[:kept], f"{lines_do} not fit on the terminal"]


def _height(texts: Sequence[str], columns: int) -> int:
    return sum(len(fold(text, columns)) for text in texts)
