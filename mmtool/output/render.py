"""Render a result to the output streams in the chosen format, once or repeatedly (``--watch``)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from mmtool.errors import MmtoolError, StdoutError, StoppedError
from mmtool.output import console, documents
from mmtool.output.layout import draw, fitted, fold, layout
from mmtool.output.redaction import FILE_OPTION
from mmtool.output.result import OutputFormat, ReportedError, Result
from mmtool.plain_text import printable
from mmtool.runtime.process import ended_by_signals


def emit(
    result: Result,
    output: OutputFormat,
    *,
    one_line: bool = False,
    header: bool = True,
) -> None:
    """Write the result: its rows on stdout, its warnings and errors on stderr.

    Args:
        result: What was found.
        output: How to write it.
        one_line: JSON without line breaks, for a stream of documents (``status --watch``).
        header: CSV's first line; off for the second and later results of a stream.

    Raises:
        StdoutError: stdout cannot be written; what there is to say has been said on stderr.
    """
    text: str | Iterable[str]
    data = None if result.data is None else with_file(result.data)
    result = replace(result, rows=with_file(result.rows), data=data)
    match output:
        case OutputFormat.JSON:
            replaced = console.switches.replaced
            # the command's earlier warnings, such as those about the properties file, belong to the document too
            warnings = tuple(dict.fromkeys([*console.switches.warned, *result.warnings]))
            text = documents.json_document(
                replace(result, warnings=warnings),
                now=datetime.now(UTC),
                one_line=one_line,
                replaced=replaced,
            )
            console.switches.document_written = True
        case OutputFormat.CSV:
            text = documents.csv_text(result, header=header)
        case OutputFormat.TABLE:
            for sentence in result.headlines:
                console.talk(sentence)
            is_tty, done = console.stdout_is_tty(), result.applied and not result.errors
            # shown before the confirmation, and the work went as it was shown
            is_known = is_tty and done and console.switches.previewed == _settled(result)
            text = "" if is_known else _table_text(result, is_tty=is_tty)
    try:
        write(text, applied=result.applied and not result.errors)
    finally:
        if result.summary:
            console.talk(result.summary)
        for sentence in result.warnings:
            console.tell_warning(sentence)
        for error in result.errors:
            console.fail(error)


def with_file(rows: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """The rows with the name of the command's file, as messages have it."""
    file = console.switches.replaced.get(FILE_OPTION)
    if file is None:
        return rows
    return [
        {
            key: value.replace(FILE_OPTION, file) if isinstance(value, str) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def write(text: str | Iterable[str], *, applied: bool) -> None:
    """Write data to stdout.

    Args:
        text: What to write, perhaps in pieces.
        applied: The command has changed something by now.

    Raises:
        StdoutError: stdout cannot be written; with ``applied``, it says that the work was done.
    """
    try:
        console.write_out(text)
    except StdoutError as error:
        if applied:
            error.work_is_done()
        raise


def finish(result: Result, output: OutputFormat, error: MmtoolError | None) -> None:
    """Write the result; an error that ends the command is added to the result, and raised after it is written.

    For commands whose verdict comes with rows: some partitions halted, a gate was not met. The error may be among the
    result's own already.

    Raises:
        MmtoolError: The given one, printed on stderr already, so that the error handler does not print it again.
    """
    if error is None or (isinstance(error, StoppedError) and error.is_end):
        emit(result, output)
        if error is not None:
            raise error
        return
    console.switches.told = error
    others = [other for other in result.errors if other is not error]
    try:
        emit(replace(result, errors=(*others, error)), output)
    except StdoutError as unwritten:
        console.fail(unwritten)  # the verdict is the other one, and scripts know it by its exit code
    raise error


def preview(result: Result) -> None:
    """Print the result's table on stderr, before a confirmation; stdout is kept for the command's result."""
    console.switches.previewed = _settled(result)
    beside(result)


def beside(result: Result) -> None:
    """Print the result's table on stderr, while stdout is kept for the command's result."""
    console.write_err(_table_text(result, is_tty=console.stderr_is_tty()))


def _settled(result: Result) -> list[list[object]]:
    """The cells that the work itself does not change: all but ages, and whether offsets are written."""
    columns = result.table_columns()
    kept = [column for column in columns if column.key != "written" and column.human is None]
    return [[row.get(column.key) for column in kept] for row in result.rows]


def _table_text(result: Result, *, is_tty: bool) -> str:
    if not result.rows:
        return ""
    whole = layout(result)
    if not is_tty:
        return draw(whole)
    columns = shutil.get_terminal_size().columns
    shown = fitted(whole, columns)
    if shown.left_out:
        console.talk(
            f"columns left out at this terminal width: {', '.join(shown.left_out)}; -o json or a pipe shows them"
        )
    if shown.elided:
        console.talk("long names are shortened; -o json or a pipe shows them in full")
    return draw(shown, columns=columns, color=console.color_wanted(stream_is_tty=True))


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
    said += [f"error: {ReportedError.of(error).message}" for error in result.errors]
    lines = [printable(sentence) for sentence in said]
    below = [printable(result.summary)] if result.summary else []
    room = terminal.lines - sum(len(fold(text, terminal.columns)) for text in (*lines, *below))
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
