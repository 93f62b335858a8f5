"""Write library logs, Python warnings and uncaught errors as log lines of mmtool's own."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import Any

from mmtool.events import Event, Notice
from mmtool.output import console

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


def log_what_others_tell(*, debug: bool) -> None:
    """Send everything that libraries and Python print on stderr to mmtool's log.

    Args:
        debug: Also log libraries' own log records; without it only Python's warnings and uncaught errors are logged.
    """
    logging.getLogger().addHandler(LogHandler() if debug else logging.NullHandler())
    warnings.showwarning = _log_warning
    threading.excepthook = lambda args: _log_error(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _log_error(args.exc_type, args.exc_value, args.exc_traceback)
    sys.excepthook = _log_error


class LogHandler(logging.Handler):
    """A handler of Python's ``logging`` that writes records as mmtool's log lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record; a record whose arguments do not fit its text is logged unformatted."""
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001  its arguments do not fit its text
            message = str(record.msg)
        trace = _text_of(*record.exc_info) if record.exc_info else ""
        notice = Notice(message, Event.LIBRARY_LOG, logger=record.name, traceback=trace)
        console.log(next((name for number, name in _LEVELS if record.levelno >= number), "debug"), notice)


def _log_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    console.log("warning", Notice(str(message), Event.LIBRARY_LOG, logger=category.__name__))


def _log_error(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Log an error that no caller handled, as one in a thread of a library."""
    text = _text_of(kind, error, trace) if console.switches.debug else ""
    console.log("error", Notice(f"{kind.__name__}: {error}", Event.LIBRARY_LOG, traceback=text))


def _text_of(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> str:
    return "".join(traceback.format_exception(kind, error, trace))
