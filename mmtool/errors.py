"""Errors of the whole program that end a command, as one tree with exit codes.

MmtoolError                     1   unexpected
├── UsageError                  2   what was typed or configured is wrong
│   └── ConfigError             2   ... in the properties file; names file and key
├── RefusedError                3   refused by a safety check, or declined; nothing changed
├── GateError                   4   a limit or condition was not met, or time ran out; nothing half done
├── StalePlanError              5   a saved plan no longer fits the clusters
├── PartlyAppliedError          6   something was written, something was not; says what remains
├── CheckFailedError            7   applied, but a check after it failed
├── DifferencesError            8   verify found differences, or an evidence page was changed
├── UnreachableError            9   a cluster does not answer
│   └── NotAuthorisedError      9   a cluster denies a right, and the message names it
├── OwnedElsewhereError        10   another process owns the flow or the operation
├── StdoutError               1/7   stdout cannot be written; 7 when the command itself did its work
└── StoppedError          130/143   interrupted or terminated, after a clean stop

One handler (``mmtool.output.failures``) prints them: what is wrong, where, and the remedy. The numbers are
the contract's exit codes.
"""

from __future__ import annotations

import errno
import signal
from typing import TypeGuard


class MmtoolError(Exception):
    """An error that ends a command, or a call of the Python API.

    Attributes:
        message: One line: what is wrong, and where.
        remedy: One line: what the operator can do about it; empty when there is nothing.
        code: A stable snake_case word for scripts (``errors[].code`` in JSON).
        exit_code: The exit code of a command that it ends.
    """

    exit_code = 1
    code = "unexpected"

    def __init__(self, message: str, *, remedy: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if code is not None:
            self.code = code


REPORT = "run the same command with --debug, and send the traceback to the maintainers of mmtool"
"""The remedy for a defect."""


def with_remedy(error: Exception) -> str:
    """An error as one sentence for a notice: its message, and its remedy if it has one."""
    said = str(error) or type(error).__name__
    remedy = error.remedy if isinstance(error, MmtoolError) else ""
    return f"{said}; {remedy}" if remedy else said


def remedied(error: MmtoolError, remedy: str) -> MmtoolError:
    """A copy of an error with another remedy; it keeps the class, the traceback and the cause."""
    other = type(error).__new__(type(error), *error.args)
    other.__dict__.update(error.__dict__, remedy=remedy)
    other.__cause__, other.__context__ = error.__cause__, error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other.with_traceback(error.__traceback__)


class UsageError(MmtoolError):
    exit_code = 2
    code = "usage"


class ConfigError(UsageError):
    code = "config"


class RefusedError(MmtoolError):
    exit_code = 3
    code = "refused"


class GateError(MmtoolError):
    exit_code = 4
    code = "gate_not_met"


class StalePlanError(MmtoolError):
    exit_code = 5
    code = "stale_plan"


class PartlyAppliedError(MmtoolError):
    exit_code = 6
    code = "partly_applied"


class CheckFailedError(MmtoolError):
    exit_code = 7
    code = "check_failed"


class DifferencesError(MmtoolError):
    exit_code = 8
    code = "differences"


class UnreachableError(MmtoolError):
    exit_code = 9
    code = "unreachable"


class NotAuthorisedError(UnreachableError):
    code = "not_authorised"


def is_away(error: object) -> TypeGuard[UnreachableError]:
    """Whether the error says that a cluster does not answer, which may pass; a denied right does not."""
    return isinstance(error, UnreachableError) and not isinstance(error, NotAuthorisedError)


class OwnedElsewhereError(MmtoolError):
    exit_code = 10
    code = "owned_elsewhere"


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


class StdoutError(MmtoolError):
    """The result has nowhere to go. A command that changed something must not look as if it had not."""

    code = "stdout"

    def __init__(self, why: str, number: int | None = None) -> None:
        """Why stdout cannot be written, and the system's error number; without one, stdout is closed."""
        self._todo = "redirect stdout elsewhere"
        if number is None:
            self._todo = "leave stdout open, or redirect it to a file"
        elif number in _DISK_FULL:
            self._todo = "free space where stdout is redirected to, or redirect it elsewhere"
        super().__init__(
            f"stdout cannot be written: {why}", remedy=f"{self._todo}, then run the command again"
        )

    def work_is_done(self) -> None:
        """Change message, remedy and exit code for a command that has completed its work."""
        self.message += "; the command itself has completed, only its output is missing"
        self.remedy = f"do not run the command again; {self._todo} for the next command"
        self.exit_code = CheckFailedError.exit_code


class StoppedError(MmtoolError):
    """A signal ended the command after a clean stop; the exit code is 128 + the signal's number.

    Attributes:
        is_end: The command has no other end: this is no error, apart from the exit code.
    """

    code = "stopped"

    def __init__(self, signum: signal.Signals, *, is_end: bool = False) -> None:
        super().__init__(f"stopped by {signum.name}")
        self.exit_code = 128 + signum.value
        self.is_end = is_end


def install_extra(name: str) -> str:
    """How to install one of mmtool's extras, as ``msk``."""
    return (
        f"install mmtool with its extra `{name}`: `pipx install --force '.[{name}]'` in the clone, or"
        f" `pip install 'mmtool[{name}]'` in the environment that has mmtool"
    )
