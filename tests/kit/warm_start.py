"""mmtool's commands as processes forked from one that has imported them, where the start is not the point.

A command takes most of its processor time to import. Promises, and tests of the start itself, start Python anew.
``python -m kit.warm_start`` is the process that forks; each command has a keeper, its parent, which tells how it ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import mmtool
from kit import forked_rounds
from kit.without_spark import started_module
from mmtool import __main__ as entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IMPORTED = (
    "commands",
    "failover",
    "insight",
    "kafka",
    "replication",
    "doctor",
    "output",
    "evidence",
    "metrics",
)


class WarmProcess:
    """One command, with what is used here of `subprocess.Popen`; it leads a session of its own."""

    def __init__(
        self, arguments: Sequence[str], cwd: Path, out: IO[bytes], err: IO[bytes], env: Mapping[str, str]
    ) -> None:
        self._keeper, theirs = socket.socketpair()
        asked = {
            "module": started_module(arguments[0]),
            "arguments": list(arguments),
            "cwd": str(cwd),
            "env": dict(env),
        }
        request = json.dumps(asked).encode()
        with theirs:
            files = [theirs.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(_forker(), [len(request).to_bytes(4, "big")], files)
            _forker().sendall(request)
        self.pid = int.from_bytes(self._keeper.recv(4), "big")
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(BlockingIOError):
            self._take(socket.MSG_DONTWAIT)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ended, _, _ = select.select([self._keeper], [], [], timeout)
            if not ended:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._take()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def _take(self, flags: int = 0) -> None:
        if self.returncode is None:
            told = self._keeper.recv(4, flags)
            assert told, "the process that forks commands is gone"
            self.returncode = int.from_bytes(told, "big", signed=True)
            self._keeper.close()


@cache
def _forker() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", "-m", __spec__.name, str(theirs.fileno())]
        subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
        )
    return ours


def _serve(control: socket.socket) -> None:
    """Fork a keeper for each request, until the process that sends them has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        size, files, _, _ = socket.recv_fds(control, 4, 3)
        if not size:
            os._exit(0)
        request = json.loads(_exactly(control, int.from_bytes(size, "big")))
        if os.fork() == 0:
            control.close()
            _keep(socket.socket(fileno=files[0]), request, *files[1:])
        for file in files:
            os.close(file)


def _exactly(control: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += control.recv(size - len(found))
    return found


def _keep(teller: socket.socket, request: dict[str, Any], out: int, err: int) -> None:
    """Fork the command; tell its pid, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        teller.close()
        _run(request, out, err)
    os.close(out)
    os.close(err)
    with suppress(BrokenPipeError):
        teller.sendall(pid.to_bytes(4, "big"))
        _, status = os.waitpid(pid, 0)
        teller.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
    os._exit(0)


def _run(request: dict[str, Any], out: int, err: int) -> None:
    """Become the command; its `SystemExit` ends this process."""
    os.setsid()
    for file, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(file, number)
        if file != number:
            os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    is_forked = request["module"] == forked_rounds.__name__
    sys.argv = [str(forked_rounds.__file__ if is_forked else entry.__file__), *request["arguments"]]
    forked_rounds.run() if is_forked else entry.main()
    sys.exit()


def _import_all() -> None:
    """Import what commands import; nothing of it starts a thread or reads the environment."""
    for package in _IMPORTED:
        folder = Path(next(iter(mmtool.__path__))) / package
        for found in pkgutil.walk_packages([str(folder)], f"mmtool.{package}."):
            if "pyspark" not in found.name and ".spark" not in found.name:
                importlib.import_module(found.name)


def _main() -> None:
    _import_all()
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    _main()
