"""The two output streams and the switches that every command shares.

One process runs one command, so the switches are one value here; they are set once, while options are read.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from mmtool.errors import MmtoolError, StdoutError
from mmtool.events import WARNINGS, Event, Notice, is_for_people
from mmtool.output.formats import LogFormat
from mmtool.output.redaction import redacted
from mmtool.output.result import Problem
from mmtool.output.values import printable

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Switches:
    """The values of ``-v``, ``-q``, ``--debug`` and ``--no-color``, and the state of stdout.

    Attributes:
        verbosity: 0 by default, up by one for each ``-v``, -1 with ``-q``.
        document_written: A JSON document was written: a second one would make stdout invalid.
        warned: Warnings before the result was written; part of every JSON document.
        told: The error that was already printed on stderr, while it is still on its way to the error handler.
        stdout_gone: stdout cannot be written any more: for example, the reader has closed its end of the pipe.
        secrets: Values that must never be shown, in whatever text they occur.
        log_format: The format of stderr: for people, or for a log collector.
        bound: Fields of every line of the log, such as the command and the operation.
        trace: The traceback of the error that is about to be printed, for the log.
    """

    verbosity: int = 0
    debug: bool = False
    color: bool = True
    document_written: bool = False
    warned: list[str] = field(default_factory=list)
    told: MmtoolError | None = None
    stdout_gone: bool = False
    secrets: set[str] = field(default_factory=set)
    log_format: LogFormat = LogFormat.TEXT
    bound: dict[str, object] = field(default_factory=dict)
    trace: str = ""

    def start_over(self) -> None:
        """Forget what an earlier command line has set; secrets stay secret and a lost stdout stays lost."""
        self.verbosity, self.debug, self.color = 0, False, True
        self.document_written, self.told, self.warned = False, None, []
        self.log_format, self.bound, self.trace = LogFormat.TEXT, {}, ""

    @property
    def logs(self) -> bool:
        """Whether stderr is a log: one JSON object per line."""
        return self.log_format is LogFormat.JSON


switches = Switches()


def talk(message: str) -> None:
    """A sentence for the person watching, silenced by ``-q``; or an event for the log, where that keeps warnings."""
    if switches.logs:
        _log_told(Notice.of(message))
    elif switches.verbosity >= 0 and is_for_people(message):
        _say(message)


def detail(message: str) -> None:
    """A sentence for who asked with ``-v``. Of an event the log has it without that."""
    if switches.logs and isinstance(message, Notice):
        _log_told(message)
    elif switches.logs and switches.verbosity > 0:
        _log("debug", Notice(message))
    elif switches.verbosity > 0:
        _say(message)


def warn(message: str) -> None:
    """Something to know that stops nothing; ``-q`` keeps it, and the JSON document has it among its warnings."""
    switches.warned.append(message)
    tell_warning(message)


def tell_warning(message: str) -> None:
    """A warning that the result itself carries, on stderr."""
    if switches.logs:
        _log("warning", Notice.of(message, Event.WARNING))
    else:
        _say(f"{_styled('warning', '33')}: {_clean(message)}", clean=False)


def fail(error: MmtoolError | Problem | Mapping[str, str]) -> None:
    """What is wrong and where, and on a second line the remedy."""
    problem = Problem.of(error)
    if switches.logs:
        _log_error(problem, error.exit_code if isinstance(error, MmtoolError) else None)
        return
    _say(f"{_styled('error', '31')}: {_clean(problem.message)}", clean=False)
    if problem.remedy:
        _say(f"{_styled('remedy', '36')}: {_clean(problem.remedy)}", clean=False)


def log(level: str, notice: Notice) -> None:
    """An event for the log alone; a person is not told."""
    if switches.logs:
        _log(level, notice)


def bind(**fields: object) -> None:
    """From now on every line of the log has these fields."""
    switches.bound |= {name: value for name, value in fields.items() if value}


def _log_told(notice: Notice) -> None:
    level = "warning" if notice.event in WARNINGS else "info"
    if switches.verbosity >= 0 or level == "warning":
        _log(level, notice)


def _log_error(problem: Problem, exit_code: int | None) -> None:
    fields = {
        "code": problem.code,
        "remedy": problem.remedy,
        "exit_code": exit_code,
        "traceback": switches.trace,
    }
    switches.trace = ""
    _log("error", Notice(problem.message, Event.ERROR, **fields))


def _log(level: str, notice: Notice) -> None:
    from mmtool.output.log_lines import log_line

    _put(log_line(level, notice, switches.bound, switches.secrets))


def hide(secret: str) -> None:
    """From now on this value is shown as ``[hidden]``, in messages and tracebacks alike."""
    if secret:
        switches.secrets.add(secret)


def write_out(text: str) -> None:
    """Data to stdout. A reader that has gone (``| head``) is no error: the command's verdict still counts.

    Raises:
        StdoutError: stdout was closed from the start, or does not take it, as on a full disk.
    """
    stream: TextIO | None = sys.stdout  # None when the process was started with it closed
    if switches.stdout_gone:
        return
    if stream is None:
        raise StdoutError("it is closed")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        lose_stdout()
    except OSError as error:
        lose_stdout()
        raise StdoutError(error.strerror or str(error)) from error


def lose_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own last flush stays quiet too."""
    switches.stdout_gone = True
    with open(os.devnull, "w", encoding="utf-8") as nothing:  # noqa: PTH123 - a device, not a path of ours
        os.dup2(nothing.fileno(), 1)


def stdout_is_gone() -> bool:
    """Whether the reader has closed the pipe; a command that writes for ever should end then."""
    return switches.stdout_gone


def color_wanted(stream_is_tty: bool) -> bool:
    """Colour only for a terminal that has not declined it (``NO_COLOR``, ``TERM=dumb``, ``--no-color``)."""
    declined = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream_is_tty and switches.color and not declined


def stdout_is_tty() -> bool:
    """Whether a person may be reading the result."""
    stream: TextIO | None = sys.stdout
    return stream is not None and stream.isatty()


def stderr_is_tty() -> bool:
    """Whether a person may be watching the talk."""
    stream: TextIO | None = sys.stderr
    return stream is not None and stream.isatty()


def write_err(text: str) -> None:
    """Talk to stderr, secrets hidden; with nobody to hear it, silence."""
    _put(redacted(text, switches.secrets))


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
    """Whether a live status may be drawn on stderr: by a terminal whose reader wants to be told, and not in a log."""
    return stderr_is_tty() and switches.verbosity >= 0 and not switches.logs


def leave_terminal() -> None:
    """For who ends at once, and takes no live status down: the cursor that it has hidden is shown again."""
    stream: TextIO | None = sys.__stderr__
    with suppress(OSError, ValueError):
        if stream is not None and stream.isatty() and not switches.logs:
            stream.write("\033[?25h")
            stream.flush()


def _say(message: str, *, clean: bool = True) -> None:
    write_err(f"{_clean(message) if clean else message}\n")


def _clean(message: str) -> str:
    return "\n".join(printable(line) for line in message.splitlines())


def _styled(word: str, sgr: str) -> str:
    return f"\033[1;{sgr}m{word}\033[0m" if color_wanted(stderr_is_tty()) else word
