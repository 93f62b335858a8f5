"""The one error handler: turn an exception into a message, a remedy and the contract's exit code."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import NoReturn

from mmtool.errors import REPORT, MmtoolError, StdoutError, StoppedError
from mmtool.events import Event, Notice
from mmtool.output import console
from mmtool.output.render import emit
from mmtool.output.result import LogFormat, OutputFormat, Result


@contextmanager
def handle_failures(
    command: str, output: OutputFormat, *, debug: bool = False, log_format: LogFormat = LogFormat.TEXT
) -> Iterator[None]:
    """Run a command's body; end the process by the contract on any exception.

    Args:
        command: The command, for the JSON document.
        output: With JSON, stdout still gets one valid document that carries the error.
        debug: Print tracebacks too.
        log_format: How stderr is written until the command's own options are read.

    Raises:
        SystemExit: with the contract's exit code, for every exception of the body.
    """
    console.switches.start_over()
    console.switches.log_format = log_format
    console.bind(command=command)
    try:
        yield
    except MmtoolError as error:
        _end(command, output, error, trace=debug)
    except KeyboardInterrupt:
        _end(command, output, StoppedError(signal.SIGINT), trace=False)
    except BrokenPipeError:
        console.lose_stdout()
        raise SystemExit(0) from None
    except Exception as error:  # noqa: BLE001 - the last handler of the process
        _end(command, output, _unexpected(command, error), trace=debug)


def _end(command: str, output: OutputFormat, error: MmtoolError, *, trace: bool) -> NoReturn:
    if trace:
        _tell_trace(is_told=console.switches.told is error)
    if output is OutputFormat.JSON and not console.switches.document_written:
        try:
            emit(Result(command, rows=(), errors=(error,)), OutputFormat.JSON)
        except StdoutError as unwritten:
            console.fail(unwritten)
    elif console.switches.told is not error:
        console.fail(error)
    raise SystemExit(error.exit_code)


def _tell_trace(*, is_told: bool) -> None:
    """Print the traceback on stderr; in log format, log it, or keep it for the error that is logged next."""
    trace = traceback.format_exc()
    if not console.switches.logs:
        console.write_trace(trace)
    elif is_told:
        console.log("debug", Notice("the traceback of the error above", Event.MESSAGE, traceback=trace))
    else:
        console.switches.trace = trace


_LOOK_FIRST = (
    "first run `mmtool failover list -c FILE`: if an operation is open, `mmtool failover show OPERATION_ID -c FILE`"
    f" shows how to continue or undo it; if none is open, {REPORT}"
)
_READING = ("failover list", "failover show")


def _unexpected(command: str, error: Exception) -> MmtoolError:
    said = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    message = f"unexpected {what} ({_place(error)})"
    may_have_moved = command.startswith("failover") and command not in _READING
    return MmtoolError(message, remedy=_LOOK_FIRST if may_have_moved else REPORT)


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _is_ours(frame.filename)] or frames[-1:]
    return f"{PurePath(ours[-1].filename).name}:{ours[-1].lineno}"


def _is_ours(filename: str) -> bool:
    return "mmtool" in PurePath(filename).parts and filename != __file__
