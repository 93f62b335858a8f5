"""Output of commands: results on stdout, messages on stderr.

``emit`` writes a `Result` as a table, one JSON document or CSV; ``talk``, ``warn`` and ``fail`` write messages for
the operator; ``handle_failures`` is the one function that turns an exception into a message and an exit code.
"""

from __future__ import annotations

from mmtool.output import human
from mmtool.output.console import bind, detail, fail, hide, stdout_is_gone, stdout_is_tty, talk, warn
from mmtool.output.failures import handle_failures
from mmtool.output.progress import Progress, ProgressSnapshot
from mmtool.output.render import beside, emit, finish, preview, rows_that_fit, watch, write
from mmtool.output.result import Column, LogFormat, OutputFormat, ReportedError, Result

__all__ = [
    "Column",
    "LogFormat",
    "OutputFormat",
    "Progress",
    "ProgressSnapshot",
    "ReportedError",
    "Result",
    "beside",
    "bind",
    "detail",
    "emit",
    "fail",
    "finish",
    "handle_failures",
    "hide",
    "human",
    "preview",
    "rows_that_fit",
    "stdout_is_gone",
    "stdout_is_tty",
    "talk",
    "warn",
    "watch",
    "write",
]
