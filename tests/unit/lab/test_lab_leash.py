"""A leashed process never outlives the one that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mmtool.errors import MmtoolError
from mmtool.lab.process import LeashedProcess
from mmtool.output.redaction import shown

# Starts a process from a thread that ends at once, tells its pid, and waits.
_PARENT = """
import sys, threading, time
from pathlib import Path
from mmtool.lab.process import LeashedProcess
started = []
thread = threading.Thread(target=lambda: started.append(LeashedProcess(["sleep", "600"], Path(sys.argv[1]))))
thread.start(); thread.join()
print(started[0].pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def parent(tmp_path):
    """(the parent process, the pid of what it holds on a leash)"""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, tmp_path / "log"], stdout=subprocess.PIPE
    ) as process:
        yield process, psutil.Process(int(process.stdout.readline()))
        process.kill()


@pytest.fixture
def sleeper(tmp_path):
    process = LeashedProcess(["sleep", "600"], tmp_path / "log")
    yield process
    process.kill()


def gone_within(seconds: float, process: psutil.Process) -> bool:
    gone, _ = psutil.wait_procs([process], timeout=seconds)
    return bool(gone)


def test_kill_9_of_the_parent_ends_the_process(parent):
    holder, held = parent
    holder.kill()
    assert gone_within(5, held)


@pytest.mark.long
def test_the_end_of_the_thread_that_started_it_does_not(parent):
    _, held = parent
    time.sleep(1.5)
    assert held.is_running()


@pytest.mark.long
def test_kill_9_of_the_leash_ends_the_process(parent):
    _, held = parent
    held.parent().kill()
    assert gone_within(5, held)


def test_ctrl_c_in_the_parents_terminal_does_not_reach_the_process(parent):
    holder, held = parent
    assert os.getpgid(held.pid) != os.getpgid(holder.pid)


@pytest.mark.long
def test_a_fork_of_the_parent_that_kept_the_pipe_open_does_not_keep_the_process(tmp_path):
    code = _PARENT.replace("time.sleep(600)", "import os; os.fork(); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "log"], stdout=subprocess.PIPE) as holder:
        held = psutil.Process(int(holder.stdout.readline()))
        fork = eventually(
            lambda: [c for c in psutil.Process(holder.pid).children() if "fork" in " ".join(c.cmdline())]
        )
        holder.kill()
        assert gone_within(10, held)
        fork[0].kill()


def eventually(ask):
    deadline = time.monotonic() + 10
    while not (answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def test_pause_and_resume_stop_and_continue_it(sleeper):
    sleeper.pause()
    paused = eventually(lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED)
    sleeper.resume()
    resumed = eventually(lambda: psutil.Process(sleeper.pid).status() != psutil.STATUS_STOPPED)
    assert (paused, resumed) == (True, True)


def test_a_paused_process_can_be_terminated(sleeper):
    sleeper.pause()
    assert sleeper.terminate(timeout=5)


def test_what_ignores_sigterm_is_killed_after_the_timeout(tmp_path):
    stubborn = LeashedProcess(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], tmp_path / "log"
    )
    eventually(lambda: "ready" in stubborn.log_tail())
    assert (stubborn.terminate(timeout=0.5), stubborn.alive) == (False, False)


def test_the_exit_code_of_a_signal_is_told_as_shells_do(sleeper):
    os.kill(sleeper.pid, signal.SIGKILL)
    assert sleeper.wait(5) == 128 + signal.SIGKILL


def test_output_and_errors_go_to_the_log(tmp_path):
    process = LeashedProcess(["sh", "-c", "echo out; echo err >&2; exit 7"], tmp_path / "log")
    assert (process.wait(5), process.log_tail()) == (7, "out\nerr")


def test_the_end_of_a_log_stands_below_a_sentence_line_by_line(tmp_path):
    process = LeashedProcess(["sh", "-c", "echo one; echo two; echo three"], tmp_path / "broker.log")
    process.wait(5)
    assert shown(process.with_log("it ended", lines=2)) == "it ended; broker.log ends with:\ntwo\nthree"


def test_a_command_that_does_not_exist_is_an_error_at_once(tmp_path):
    with pytest.raises(MmtoolError, match="did not start"):
        LeashedProcess(["/no/such/command"], Path(tmp_path / "log"))
