"""A Java process that ends with its parent, even when the parent is killed by ``kill -9``."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from mmtool.errors import MmtoolError
from mmtool.java import java_binary
from mmtool.plain_text import Lines, shell_word

_LEASH = Path(__file__).with_name("leash.py")
STOP_SECONDS = 20.0  # a broker's controlled shutdown takes 1-3 s here


def java_command(
    classpath: Sequence[Path], main_class: str, *arguments: str, jvm: Sequence[str] = ()
) -> list[str]:
    """The command line ``java -cp ... MAIN ARGS``."""
    joined = os.pathsep.join(str(jar) for jar in classpath)
    return [str(java_binary()), *jvm, "-cp", joined, main_class, *arguments]


class LeashedProcess:
    """One running command; its standard output and error go to ``log``, appended."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self._lock = threading.Lock()
        with log.open("ab") as sink:
            self._leash = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                start_new_session=True,  # Ctrl-C in a terminal is for us, we then stop it cleanly
                bufsize=0,
            )
        assert self._leash.stdout is not None
        line = self._leash.stdout.readline()
        if not line:
            raise MmtoolError(
                self.with_log("a process of the lab did not start", lines=3),
                remedy=f"read the whole log: {self.log}",
            )
        self.pid = int(line)

    @property
    def alive(self) -> bool:
        return self._leash.poll() is None

    def terminate(self, timeout: float = STOP_SECONDS) -> bool:
        """End the process with SIGTERM, after ``timeout`` seconds with SIGKILL; return whether SIGTERM sufficed."""
        self._send(b"C")
        self._send(b"T")
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._close()
        return True

    def kill(self) -> None:
        """Kill the process with SIGKILL; return when it has ended."""
        self._send(b"K")
        self._leash.wait()
        self._close()

    def pause(self) -> None:
        """Suspend the process with SIGSTOP: connections stay open, nothing answers."""
        self._send(b"S")

    def resume(self) -> None:
        self._send(b"C")

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process, and return its exit code; 128 + n where signal n ended it.

        Raises:
            subprocess.TimeoutExpired: The process still runs after ``timeout`` seconds.
        """
        return self._leash.wait(timeout)

    def with_log(self, said: str, lines: int = 20) -> Lines:
        """A sentence, and below it the last lines of the log."""
        tail = self.log_tail(lines).splitlines()
        return Lines.of([f"{said}; {self.log.name} {'ends with:' if tail else 'is empty'}", *tail])

    def log_tail(self, lines: int = 20) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _send(self, letter: bytes) -> None:
        assert self._leash.stdin is not None
        assert self._leash.stdout is not None
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):  # it has ended already
            self._leash.stdin.write(letter)
            self._leash.stdout.read(1)

    def _close(self) -> None:
        for pipe in (self._leash.stdin, self._leash.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def down_command(directory: Path) -> str:
    """The command that stops the lab of a state directory and deletes its clusters."""
    return f"`mmtool lab down --state-dir {shell_word(str(directory))}`"
