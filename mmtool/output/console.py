"""The two output streams and the switches that every command shares.

One process runs one command, so the switches are one value here; they are set once, while options are read.

With ``--log-format json`` each message on stderr is one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

from mmtool.errors import MmtoolError, StdoutError, StoppedError
from mmtool.events import WARNINGS, Event, Notice, is_for_people
from mmtool.output.redaction import FILE_OPTION, HIDDEN, redacted, shown
from mmtool.output.result import LogFormat, ReportedError
from mmtool.plain_text import Lines, shell_line


@dataclass(slots=True)
class Switches:
    """The values of ``-v``, ``-q``, ``--debug`` and ``--no-color``, and the state of stdout.

    Attributes:
        verbosity: 0 by default, up by one for each ``-v``, -1 with ``-q``.
        document_written: A JSON document was written: a second one would make stdout invalid.
        warned: Warnings before the result was written; part of every JSON document.
        told: The error that was already printed on stderr, while it is still on its way to the error handler.
        stdout_gone: stdout cannot be written any more: for example, the reader has closed its end of the pipe.
        replaced: What is shown in place of a word, in whatever text it occurs: secrets are hidden, and `FILE_OPTION`
            names the command's file.
        log_format: The format of stderr: for people, or for a log collector.
        timed: Messages for people start with the time, as in the file of a service.
        bound: Fields of every line of the log, such as the command and the operation.
        previewed: The table that was shown before a confirmation; None where no question was asked.
        trace: The traceback of the error that is about to be printed, for the log.
    """

    verbosity: int = 0
    debug: bool = False
    color: bool = True
    document_written: bool = False
    warned: list[str] = field(default_factory=list)
    told: MmtoolError | None = None
    stdout_gone: bool = False
    replaced: dict[str, str] = field(default_factory=dict)
    log_format: LogFormat = LogFormat.TEXT
    timed: bool = False
    bound: dict[str, object] = field(default_factory=dict)
    previewed: list[list[object]] | None = None
    trace: str = ""

    def start_over(self) -> None:
        """Reset the switches for another command line; secrets stay hidden, and a closed stdout stays closed."""
        self.verbosity, self.debug, self.color = 0, False, True
        self.document_written, self.timed, self.told, self.warned = False, False, None, []
        self.log_format, self.bound, self.trace, self.previewed = LogFormat.TEXT, {}, "", None
        self.replaced.pop(FILE_OPTION, None)

    @property
    def logs(self) -> bool:
        """Whether stderr is a log, with one JSON object per line."""
        return self.log_format is LogFormat.JSON


switches = Switches()


def talk(message: str) -> None:
    """Print a sentence for people on stderr, or log it; ``-q`` silences all but the events of `WARNINGS`."""
    notice = Notice.of(message)
    if switches.logs:
        _log_told(notice)
    elif is_for_people(message) and (switches.verbosity >= 0 or notice.event in WARNINGS):
        _say(message)


def detail(message: str) -> None:
    """Print a sentence on stderr with ``-v`` only; in log format, an event is logged without ``-v`` as well."""
    if switches.logs and isinstance(message, Notice):
        _log_told(message)
    elif switches.logs and switches.verbosity > 0:
        _log("debug", Notice(message))
    elif switches.verbosity > 0:
        _say(message)


def warn(message: str) -> None:
    """Print a warning on stderr, also with ``-q``, and add it to the warnings of the result."""
    switches.warned.append(message)
    tell_warning(message)


def tell_warning(message: str) -> None:
    """Print a warning on stderr that the result has already."""
    if switches.logs:
        _log("warning", Notice.of(message, Event.WARNING))
    else:
        _say(message, _styled("warning", "33"))


def fail(error: MmtoolError | ReportedError) -> None:
    """Print an error on stderr: its message, and its remedy on a second line; the end of an endless command is none."""
    if isinstance(error, StoppedError) and error.is_end:
        talk(Notice(error.message, exit_code=error.exit_code))
        return
    problem = ReportedError.of(error)
    if switches.logs:
        _log_error(problem, error.exit_code if isinstance(error, MmtoolError) else None)
        return
    _say(problem.message, _styled("error", "31"))
    if problem.remedy:
        _say(problem.remedy, _styled("remedy", "36"))


def log(level: str, notice: Notice) -> None:
    """Log an event; without the log format, nothing is printed."""
    if switches.logs:
        _log(level, notice)


def bind(**fields: object) -> None:
    """Add these fields to every later line of the log."""
    switches.bound |= {name: value for name, value in fields.items() if value}


def _log_told(notice: Notice) -> None:
    level = "warning" if notice.event in WARNINGS else "info"
    if switches.verbosity >= 0 or level == "warning":
        _log(level, notice)


def _log_error(problem: ReportedError, exit_code: int | None) -> None:
    fields = {
        "code": problem.code,
        "remedy": shown(problem.remedy, switches.replaced),
        "exit_code": exit_code,
        "traceback": switches.trace,
    }
    switches.trace = ""
    _log("error", Notice(problem.message, Event.ERROR, **fields), shown(problem.message, switches.replaced))


def _log(level: str, notice: Notice, message: str = "") -> None:
    """Write an event as one line of JSON, in ASCII: `FIRST`, then fields of the process and the event, which win.

    Words are replaced in each value, before the line is put together: so it stays JSON.
    """
    told = {**switches.bound, **notice.fields}
    line = {
        "timestamp": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "level": level,
        "event": str(notice.event),
        "message": message or shown(notice, switches.replaced),
        "command": _hidden(told.pop("command", None)),
        **{name: _hidden(value) for name, value in told.items() if name not in FIRST},
    }
    _put(json.dumps(line) + "\n")


def hide(secret: str) -> None:
    """Hide a secret from now on: it is shown as ``[hidden]`` in messages and tracebacks, quoted by Python or not."""
    if secret:
        switches.replaced |= dict.fromkeys((secret, repr(secret)[1:-1]), HIDDEN)


def name_file(path: str) -> None:
    """Name the command's properties file in every text from now on; one that the environment names needs no option."""
    is_known = path == os.environ.get("MMTOOL_CONFIG")
    switches.replaced[FILE_OPTION] = "" if is_known else " " + shell_line(["-c", path])


def write_out(text: str | Iterable[str]) -> None:
    """Write data to stdout, perhaps in pieces.

    A closed pipe (``| head``) is no error, and the command's exit code still counts.

    Raises:
        StdoutError: stdout was closed from the start, or the write fails, as on a full disk.
    """
    stream: TextIO | None = sys.stdout  # None when the process was started with it closed
    if switches.stdout_gone:
        return
    if stream is None:
        raise StdoutError("it is closed")
    try:
        stream.writelines([text] if isinstance(text, str) else text)
        stream.flush()
    except BrokenPipeError:
        lose_stdout()
    except OSError as error:
        lose_stdout()
        raise StdoutError(error.strerror or str(error), error.errno or 0) from error


def lose_stdout() -> None:
    """Redirect stdout to the null device, so that the interpreter's last flush does not fail."""
    switches.stdout_gone = True
    with open(os.devnull, "w", encoding="utf-8") as nothing:  # noqa: PTH123 - a device, not a path of ours
        os.dup2(nothing.fileno(), 1)


def stdout_is_gone() -> bool:
    """Whether the reader has closed the pipe; a command without end should stop then."""
    return switches.stdout_gone


def color_wanted(stream_is_tty: bool) -> bool:
    """Whether to write colours: on a terminal, unless ``NO_COLOR``, ``TERM=dumb`` or ``--no-color`` declines."""
    declined = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream_is_tty and switches.color and not declined


def stdout_is_tty() -> bool:
    """Whether stdout is a terminal."""
    stream: TextIO | None = sys.stdout
    return stream is not None and stream.isatty()


def stderr_is_tty() -> bool:
    """Whether stderr is a terminal."""
    stream: TextIO | None = sys.stderr
    return stream is not None and stream.isatty()


def write_err(text: str) -> None:
    """Write a laid-out text, whose names are printable, to stderr; secrets are hidden, errors of stderr ignored."""
    _put(redacted(text, switches.replaced))


def write_trace(trace: str) -> None:
    """Write a traceback to stderr: its line breaks are Python's, everything else is printable."""
    _put(Lines.of(redacted(trace, switches.replaced).rstrip("\n").split("\n")) + "\n")


def _put(text: str) -> None:
    stream: TextIO | None = sys.stderr  # None when the process was started with it closed
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        return


def is_watched_live() -> bool:
    """Whether a live status may be drawn on stderr: a terminal, without ``-q`` and not in log format."""
    return stderr_is_tty() and switches.verbosity >= 0 and not switches.logs


def leave_terminal() -> None:
    """Show the terminal's cursor again, when the process ends without removing a live status."""
    stream: TextIO | None = sys.__stderr__
    with suppress(OSError, ValueError):
        if stream is not None and stream.isatty() and not switches.logs:
            stream.write("\033[?25h")
            stream.flush()


def _say(message: str, label: str = "") -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) * switches.timed
    _put(at + f"{label}: " * bool(label) + shown(message, switches.replaced) + "\n")


def _styled(word: str, sgr: str) -> str:
    return f"\033[1;{sgr}m{word}\033[0m" if color_wanted(stderr_is_tty()) else word


FIRST = ("timestamp", "level", "event", "message", "command")
"""The fields that start every line of the log, in this order; the event's own fields follow."""


def _hidden(value: object) -> object:
    """A field's value with words replaced, converted to JSON's own types."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round(value, 3) if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {str(name): _hidden(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_hidden(item) for item in value]
    return redacted(str(value), switches.replaced)
