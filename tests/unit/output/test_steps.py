"""A story in a log is plain numbered lines."""

import pytest

from mmtool.output import console
from mmtool.output.progress import Steps


@pytest.fixture
def clock():
    times = iter([0.0, 2.5, 10.0, 13.0])
    return lambda: next(times)


def tell(clock):
    with Steps(2, clock) as steps:
        steps.begin("start", "because")
        steps.live("half")
        steps.done("started")
        steps.begin("stop")
        steps.note("found [3] things")
        steps.done()


def test_off_a_terminal_every_step_is_numbered_and_timed(clock, capsys):
    tell(clock)
    assert capsys.readouterr() == (
        "",
        (
            "[1/2] start\n      because\n      half\n      started (2.5s)\n"
            "[2/2] stop\n      found [3] things\n      done (3.0s)\n"
        ),
    )


def test_quiet_is_quiet(clock, capsys, monkeypatch):
    monkeypatch.setattr(console.switches, "verbosity", -1)
    tell(clock)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_the_same_lines(clock, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("mmtool.output.console.stderr_is_tty", lambda: True)
    tell(clock)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert {"[1/2] start", "      found [3] things", "      done (3.0s)"} <= set(lines)
    assert "\033[3" not in "".join(lines)
