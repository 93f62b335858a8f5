"""A command on a terminal of its own, and somebody who types."""

from __future__ import annotations

import os
import pty
import time
from contextlib import suppress
from select import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ECHO_SECONDS = 0.2
"""After a prompt, until the terminal's echo is off where the command turns it off."""
_SILENT_SECONDS = 60.0
"""Longest time without a word: the command then waits for something that is not typed."""


def on_a_terminal(
    line: Sequence[object], *typed: tuple[bytes, bytes], environ: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Run a command; return its exit code and what the terminal shows.

    Args:
        line: The command and its arguments.
        typed: One after the other: what the terminal shows before it is typed, and what is typed then.
        environ: Beside this process's environment.
    """
    words = [str(word) for word in line]
    child, terminal = pty.fork()
    if child == 0:
        os.execve(words[0], words, {**os.environ, **(environ or {})})  # noqa: S606 - no shell
    said, begun, left = b"", 0, list(typed)
    with suppress(OSError):  # the terminal is gone with the command
        while select([terminal], [], [], _SILENT_SECONDS)[0]:
            said += os.read(terminal, 4096)
            while left and (at := said.find(left[0][0], begun)) >= 0:
                time.sleep(_ECHO_SECONDS)
                begun = at + len(left[0][0])
                os.write(terminal, left.pop(0)[1])
    os.close(terminal)  # one that waits for another answer ends by SIGHUP
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said
