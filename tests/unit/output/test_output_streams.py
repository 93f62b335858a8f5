import subprocess
import sys

import pytest

from mmtool.errors import RefusedError
from mmtool.events import Event, Notice
from mmtool.output import console, detail, fail, hide, talk, warn

STREAM = """
from mmtool.output import OutputFormat, Result, emit, handle_failures, stdout_is_gone, talk
with handle_failures("status", OutputFormat.JSON):
    written = 0
    while not stdout_is_gone() and written < 100_000:
        emit(Result("status", [{"line": written}]), OutputFormat.JSON, one_line=True)
        written += 1
    talk(str(written < 100_000))
    raise SystemExit(4)
"""


def test_a_reader_that_has_seen_enough_leaves_the_verdict_as_it_is():
    line = f"{sys.executable} -c '{STREAM}' | head -1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.count("\n"), ran.stderr) == (4, 1, "True\n")


def test_with_nobody_to_talk_to_the_work_goes_on():
    line = f"{sys.executable} -c '{STREAM.replace('100_000', '3')}' 2>&-"
    ran = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.count("\n")) == (4, 3)


@pytest.mark.parametrize(
    ("verbosity", "heard"),
    [(-1, "warning: c\nerror: d\n"), (0, "a\nwarning: c\nerror: d\n"), (1, "a\nb\nwarning: c\nerror: d\n")],
)
def test_quiet_keeps_what_matters_and_verbose_adds(capsys, verbosity, heard):
    console.switches.verbosity = verbosity
    talk("a")
    detail("b")
    warn("c")
    fail(RefusedError("d"))
    assert capsys.readouterr() == ("", heard)


def test_quiet_keeps_a_halt_as_the_log_format_does(capsys):
    console.switches.verbosity = -1
    talk(Notice("east->west: orders-0 is halted", Event.PARTITION_HALTED))
    talk(Notice("east->west: owner of the flow", Event.OWNERSHIP_ACQUIRED))
    assert capsys.readouterr().err == "east->west: orders-0 is halted\n"


def test_words_are_coloured_on_a_terminal_only(capsys, terminal):
    terminal(80)
    warn("careful")
    assert capsys.readouterr().err == "\x1b[1;33mwarning\x1b[0m: careful\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_declined(capsys, terminal, monkeypatch, name, value):
    terminal(80)
    monkeypatch.setenv(name, value)
    warn("careful")
    assert capsys.readouterr().err == "warning: careful\n"


def test_a_hidden_value_is_hidden_in_every_message(capsys):
    hide("s3cr3t")
    talk("user app with s3cr3t")
    assert capsys.readouterr().err == "user app with [hidden]\n"


def test_an_empty_secret_hides_nothing(capsys):
    hide("")
    talk("abc")
    assert capsys.readouterr().err == "abc\n"
