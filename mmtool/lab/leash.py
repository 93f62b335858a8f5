"""Run one command that must not outlive the process which started it.

Started as a script, by ``mmtool.lab.process``: ``python -I -S leash.py PARENT_PID COMMAND...``. Standard
input is a pipe whose other end only the parent holds, so its end of file means that the parent is gone,
however it ended. (PR_SET_PDEATHSIG on the command itself would fire when the *thread* that forked ends; here
the forking process has one thread, so it is right for the second leg: leash killed, command killed.)

Single letters on the pipe ask for signals; each is echoed on standard output when it was sent. Only the
leash signals the command, and it reaps it too, so no letter ever hits a recycled process id.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PARENT_CHECK_SECONDS = 1.0  # covers a fork of the parent that kept the pipe's other end open
SIGNALS = {
    b"T": signal.SIGTERM,
    b"K": signal.SIGKILL,
    b"S": signal.SIGSTOP,
    b"C": signal.SIGCONT,
}


def main(arguments: list[str]) -> int:
    parent, command = int(arguments[0]), arguments[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wakeup = _wake_on_child_exit()
    child = _start(command)
    os.write(1, f"{child.pid}\n".encode())
    while child.poll() is None:
        if not _serve(child, parent, wakeup):
            child.kill()
            child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer)
    return reader


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_the_leash() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        preexec_fn=die_with_the_leash,  # noqa: PLW1509 - this process has one thread, so the hook is safe
    )


def _serve(child: subprocess.Popen[bytes], parent: int, wakeup: int) -> bool:
    """Wait for a letter that requests a signal, the command's exit or a second; False if the parent has ended."""
    readable, _, _ = select.select([0, wakeup], [], [], PARENT_CHECK_SECONDS)
    if wakeup in readable:
        os.read(wakeup, 64)
    if 0 not in readable:
        return os.getppid() == parent
    letter = os.read(0, 1)
    if letter in SIGNALS:
        child.send_signal(SIGNALS[letter])
        os.write(1, letter)
    return letter != b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
