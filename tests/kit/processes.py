"""mmtool as a process of its own: started, listened to, and killed part by part."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from kit.schemas import check_output
from kit.warm_start import WarmProcess
from kit.without_spark import runs_without_spark, started_module
from mmtool.errors import GateError
from mmtool.lab.ports import patience, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Role = Literal["driver", "jvm", "executor", "daemon", "worker", "helper"]
"""The command itself; Spark's JVM (for a moment the script that becomes it), and those of its executors where it has a
cluster; the process that forks Python workers; a Python worker, in which the pump runs; what else it started, such as
``java -version``."""
_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 120.0


LAST_STARTED: deque[Path] = deque(maxlen=3)
"""What the last processes write to stderr: where a test fails, it may say why."""

TIMED = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", re.MULTILINE)


def untimed(text: str) -> str:
    """Lines of ``replicate`` as a terminal shows them; in a file each starts with its time."""
    return TIMED.sub("", text)


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended; the documents on stdout are what their schemas say."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    def __post_init__(self) -> None:
        if self.code != -signal.SIGKILL:  # that ends a document anywhere
            check_output(self.stdout)

    @property
    def rows(self) -> list[dict[str, object]]:
        """The document's rows, where ``-o json`` was asked for."""
        rows: list[dict[str, object]] = json.loads(self.stdout)["data"]
        return rows

    @property
    def said(self) -> list[str]:
        """The lines on stderr, without the times of a log."""
        return untimed(self.stderr).splitlines()


def last_lines(path: Path, count: int = 12) -> str:
    """The end of a file."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


def row_of(answer: Answer) -> dict[str, Any]:
    """The only row of a document."""
    (row,) = answer.rows
    return row


def error_of(answer: Answer) -> dict[str, Any]:
    """The only error of a document."""
    (error,) = json.loads(answer.stdout)["errors"]
    return dict(error)


def partitions_of(answer: Answer) -> list[Any]:
    """The partitions of all groups of the only operation that a failover has answered with."""
    groups = row_of(answer)["groups"]
    return [partition for group in groups for partition in group["partitions"]]


class MmtoolProcess:
    """One running ``mmtool`` with everything that it starts, in a session of its own.

    The session id is how its parts are found, also when their parent is dead already. A context manager that
    leaves nothing behind.

    It works in a folder where something else is called mmtool as well, as the folder above a clone is: neither it nor
    Spark's Python workers may take that for the package. Inside `without_spark` it is forked from a process that has
    mmtool imported already.
    """

    def __init__(self, directory: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        (directory / "mmtool").mkdir(parents=True, exist_ok=True)
        self._stdout, self._stderr = directory / "stdout", directory / "stderr"
        LAST_STARTED.append(self._stderr)
        self.started_at = time.monotonic()
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            env = {**os.environ, **(environ or {})}
            self._process: WarmProcess | subprocess.Popen[bytes]
            if runs_without_spark() and not any(name.startswith("PYTHON") for name in environ or ()):
                self._process = WarmProcess(arguments, directory, out, err, env)
                return
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", started_module(arguments[0]), *arguments],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=env,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait_line(self, pattern: str, timeout: float = 60.0) -> float:
        """Until a line on stderr matches; the seconds since the start of the process.

        Raises:
            AssertionError: The process ended without saying it.
            GateError: It did not say it in time.
        """

        def said() -> bool:
            ended = not self.alive
            if re.search(pattern, self.stderr, re.MULTILINE):
                return True
            assert not ended, f"mmtool ended with {self._process.returncode}:\n{self.stderr}"
            return False

        wait_until(said, f"{pattern!r} in:\n{self.stderr}", timeout, poll=_POLL_SECONDS)
        return time.monotonic() - self.started_at

    def wait(self, timeout: float = _ANSWER_SECONDS) -> Answer:
        """Until it ends by itself.

        Raises:
            subprocess.TimeoutExpired: It did not.
        """
        code = self._process.wait(patience(timeout))
        seconds = time.monotonic() - self.started_at
        return Answer(code, self._stdout.read_text(), self.stderr, seconds)

    def stop(
        self, signum: signal.Signals = signal.SIGTERM, timeout: float = 60.0, *, alone: bool = False
    ) -> Answer:
        """Asks for a clean end and waits for it.

        Args:
            signum: What is sent to its process group, as a terminal and timeout(1) do.
            timeout: How long to wait, in seconds.
            alone: It is sent to the command only, as kill(1) does.
        """
        if alone:
            self._process.send_signal(signum)
        else:
            os.killpg(self.pid, signum)
        return self.wait(timeout)

    def pids(self, role: Role) -> list[int]:
        """The living processes of one role."""
        if role == "driver":
            return [self.pid] if self.alive else []
        return [pid for pid, of in self._members().items() if of == role]

    def kill(self, *roles: Role) -> list[int]:
        """SIGKILL to every process of these roles, in one go; their pids."""
        return self._send(signal.SIGKILL, roles)

    def freeze(self, *roles: Role) -> list[int]:
        """SIGSTOP to all of it, or to every process of these roles; their pids.

        Its connections stay open and nothing moves.
        """
        return self._send(signal.SIGSTOP, roles or get_args(Role))

    def thaw(self) -> None:
        """It goes on where it was."""
        self._send(signal.SIGCONT, get_args(Role))

    def _send(self, signum: signal.Signals, roles: Sequence[Role]) -> list[int]:
        pids = [pid for role in roles for pid in self.pids(role)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        return pids

    def kill_all(self) -> None:
        """SIGKILL to all of it, repeated until nothing is left that was being forked meanwhile."""
        while self.kill(*get_args(Role)):
            self._process.wait()
            time.sleep(_POLL_SECONDS)

    def wait_until_gone(self, timeout: float = 15.0) -> float:
        """Until no process of the session lives; the seconds it took.

        Raises:
            GateError: Something outlived the command, or ended later than that, however busy the machine is.
        """
        try:
            seconds = wait_until(
                lambda: not (self.alive or self._members()), "mmtool and its parts to end", timeout
            )
        except GateError as error:
            raise GateError(f"{error.message}: {self._members()} live on", code=error.code) from None
        if seconds > timeout:
            raise GateError(f"parts of mmtool lived for {seconds:.1f} s, not {timeout:g}", code="timeout")
        return seconds

    def peak_rss(self, pid: int) -> int:
        """The largest resident set that a process has had, in bytes; 0 when it is gone."""
        with suppress(OSError):
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            return int(found[1]) * 1024 if found else 0
        return 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()
        self._process.wait()

    def _members(self) -> dict[int, Role]:
        """Pid to role of the session's living processes, the driver left out."""
        found: dict[int, Role] = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == self.pid:
                continue
            with suppress(OSError):
                state, parent, session = _stat(folder)
                if session == self.pid and state != "Z":
                    command = (folder / "cmdline").read_bytes()
                    found[int(folder.name)] = _role(command, parent, driver=self.pid)
        return found


def _stat(folder: Path) -> tuple[str, int, int]:
    """State, parent and session of a process (proc_pid_stat(5))."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[3])


def _role(command: bytes, parent: int, *, driver: int) -> Role:
    if b"kit.warm_start" in command or b"kit.forked_rounds" in command:
        return "daemon" if parent == driver else "worker"
    if b"CoarseGrainedExecutorBackend" in command:
        return "executor"
    if b"pyspark.daemon" not in command and b"pyspark/daemon" not in command:
        return "jvm" if b"spark" in command else "helper"
    with suppress(OSError):
        if b"java" in Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")[0]:
            return "daemon"
    return "worker"


def run_mmtool(
    directory: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    timeout: float = _ANSWER_SECONDS,
) -> Answer:
    """One command to its end; whatever it left running is killed."""
    with MmtoolProcess(directory, *arguments, environ=environ) as process:
        return process.wait(timeout)
