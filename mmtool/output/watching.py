"""A result that is looked at again and again: drawn in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mmtool.output import console
from mmtool.output.formats import OutputFormat
from mmtool.output.layout import fitted, layout
from mmtool.output.render import emit
from mmtool.output.result import Problem
from mmtool.output.table import draw
from mmtool.output.values import printable
from mmtool.signals import ended_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from mmtool.output.result import Result

_AROUND_ROWS = 6
_FEWEST_ROWS = 5


def watch(results: Iterable[Result], output: OutputFormat, every: float) -> None:
    """Show one result after the other until Ctrl-C, SIGTERM, or until nobody reads any more.

    Args:
        results: Without end; each is asked for when its time has come.
        output: A table is drawn in place on a terminal; JSON is one document per line.
        every: Seconds from the end of a round to the next one.

    Raises:
        StoppedError: SIGTERM or SIGHUP came.
        KeyboardInterrupt: Ctrl-C.
    """
    with ended_by_signals(), _shower(output) as show:
        for result in results:
            show(result)
            if console.stdout_is_gone():
                return
            time.sleep(every)


def rows_that_fit(around: int = _AROUND_ROWS) -> int:
    """How many rows of a table a terminal shows at once, with some lines around them."""
    return max(shutil.get_terminal_size().lines - around, _FEWEST_ROWS)


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
            Text.from_ansi("\n".join(_picture(result, color=color))), refresh=True
        )
    finally:
        with suppress(OSError):  # the terminal is gone: what ended it still counts
            live.stop()


def _picture(result: Result, *, color: bool) -> Sequence[str]:
    columns = shutil.get_terminal_size().columns
    said = [*result.headlines, *(f"warning: {sentence}" for sentence in result.warnings)]
    said += [f"error: {Problem.of(error).message}" for error in result.errors]
    lines = [printable(sentence) for sentence in said]
    if result.rows:
        lines.append(draw(fitted(layout(result), columns), columns=columns, color=color).rstrip("\n"))
    return [*lines, *([result.summary] if result.summary else [])]
