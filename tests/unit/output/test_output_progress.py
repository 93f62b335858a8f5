import errno
import signal
import sys
from dataclasses import replace

import pytest

from kit.terminal import on_a_terminal
from mmtool.errors import StoppedError
from mmtool.output import OutputFormat, Progress, ProgressSnapshot, Result, console, watch

SNAPSHOT = ProgressSnapshot(
    flow="east->west",
    records=1_200_000,
    bytes=1_200_000_000,
    records_per_second=73_400,
    bytes_per_second=71_200_000,
    lag_records=5_000,
    lag_seconds=1.25,
    eta_seconds=12,
    partitions=8,
    states={"running": 7, "halted": 1, "paused": 0},
)
LINE = (
    "east->west  records 1.2M  rate 73.4k rec/s  bytes 71.2 MB/s  lag 5.0k rec 1.2s  eta in 12s"
    "  partitions 1 halted, 7 running\n"
)


@pytest.fixture
def clock():
    """A clock that is moved by hand."""
    now = [100.0]

    def read():
        return now[0]

    read.forward = lambda seconds: now.__setitem__(0, now[0] + seconds)
    return read


def test_off_a_terminal_a_flow_is_one_plain_line(capsys, clock):
    with Progress(clock=clock) as progress:
        progress.show([SNAPSHOT])
    assert capsys.readouterr() == ("", LINE)


def test_lines_come_no_faster_than_asked(capsys, clock):
    with Progress(every=10, clock=clock) as progress:
        for _ in range(25):
            progress.show([SNAPSHOT])
            clock.forward(1)
        shown = capsys.readouterr().err.count("\n")
    assert shown == 3


def test_the_last_state_is_always_shown(capsys, clock):
    with Progress(clock=clock) as progress:
        progress.show([SNAPSHOT])
        progress.show([replace(SNAPSHOT, lag_records=0, lag_seconds=None, eta_seconds=0)])
    assert "lag 0 rec  eta done" in capsys.readouterr().err.splitlines()[-1]


def test_quiet_means_quiet(capsys, clock):
    console.switches.verbosity = -1
    with Progress(clock=clock) as progress:
        progress.show([SNAPSHOT])
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_live_status(capsys, clock, terminal):
    terminal(120)
    with Progress(clock=clock) as progress:
        progress.show([SNAPSHOT])
    err = capsys.readouterr().err
    assert all(word in err for word in ("east->west", "73.4k rec/s", "1 halted, 7 running"))


def test_what_is_not_known_is_not_called_no_lag(capsys, clock):
    with Progress(clock=clock) as progress:
        progress.show([replace(SNAPSHOT, lag_records=None)])
        clock.forward(60)
        progress.show([replace(SNAPSHOT, silent_seconds=31.0)])
    said = capsys.readouterr().err
    assert ("lag -  " in said, "lag unknown, no worker report for 31s" in said) == (True, True)


def _gone(_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_gone_changes_no_verdict_of_a_long_job(clock, terminal, monkeypatch):
    terminal(120)
    stream = sys.stderr

    def job():
        with Progress(clock=clock) as progress:
            progress.show([SNAPSHOT])
            monkeypatch.setattr(stream, "write", _gone)
            raise StoppedError(signal.SIGTERM)

    with pytest.raises(StoppedError):
        job()
    assert sys.stderr is stream


def test_a_terminal_that_is_gone_changes_no_verdict_of_a_watch(terminal, monkeypatch):
    terminal(120)
    stream = sys.stdout

    def looks():
        yield Result("status", rows=())
        monkeypatch.setattr(stream, "write", _gone)
        raise StoppedError(signal.SIGHUP)

    with pytest.raises(StoppedError):
        watch(looks(), OutputFormat.TABLE, every=0.0)
    assert sys.stdout is stream


_IMPATIENT = """
import asyncio, os, signal
from pathlib import Path
from mmtool.config.live import Chosen, LiveFile
from mmtool.output import Progress, talk
from mmtool.replication.driver import engine
from mmtool.replication.driver.supervisor import RunOptions

class Engine:
    def __init__(self, flows, tick):
        pass

    async def run(self):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)

engine.Engine, engine.java_binary = Engine, lambda: None
file = LiveFile(Path("mm2.properties"), lambda: Chosen(()))
with Progress() as progress:
    engine.replicate(file, RunOptions(), show=progress.show, say=talk, warn=talk)
"""


def test_who_asks_twice_to_stop_gets_the_cursor_back():
    code, shown = on_a_terminal([sys.executable, "-c", _IMPATIENT])
    assert (code, shown.rfind(b"\033[?25h") > shown.rfind(b"\033[?25l") > -1) == (130, True)
