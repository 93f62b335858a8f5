"""stderr as a log: one JSON object per line, whatever is told."""

import json
import logging
import re
import sys
import threading
import warnings
from collections import Counter

import pytest

from mmtool.errors import MmtoolError, RefusedError
from mmtool.events import LOGGED_ONLY, Event, Notice
from mmtool.output import (
    LogFormat,
    OutputFormat,
    Progress,
    ProgressSnapshot,
    Result,
    bind,
    console,
    detail,
    emit,
    fail,
    finish,
    handle_failures,
    hide,
    talk,
    warn,
)
from mmtool.output.library_logs import LogHandler, log_what_others_tell
from mmtool.output.progress import Steps
from mmtool.plan.records.documents import State

SNAPSHOT = ProgressSnapshot("a->b", 10, 900, 1.23456, 9.0, 5, None, None, 2, Counter({State.RUNNING: 2}))


@pytest.fixture
def logged(capsys):
    """The lines on stderr, as a collector reads them; stderr is a log from the start."""
    console.switches.log_format = LogFormat.JSON
    bind(command="replicate")

    def read():
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    return read


def of(line, *names):
    return tuple(line.get(name) for name in names)


def test_a_line_begins_with_the_five_fields_that_every_line_has(logged, capsys):
    talk(Notice("t is halted", Event.TOPIC_HALTED, topic="t"))
    text = capsys.readouterr().err
    line = json.loads(text)
    assert list(line) == ["timestamp", "level", "event", "message", "command", "topic"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert list(line.values()) == ["warning", "topic_halted", "t is halted", "replicate", "t"]
    assert text.isascii()


def test_a_bare_sentence_is_a_message_and_a_warning_a_warning(logged):
    talk("one\ntwo é")
    warn("three")
    warn(Notice("four", Event.CONFIG_VALUE_ADJUSTED))
    assert [of(line, "level", "event", "message") for line in logged()] == [
        ("info", "message", "one\\ntwo é"),
        ("warning", "warning", "three"),
        ("warning", "config_value_adjusted", "four"),
    ]


def test_an_error_is_one_line_with_code_remedy_and_exit_code(logged):
    fail(RefusedError("no", remedy="do this", code="would_rewind"))
    (line,) = logged()
    assert of(line, "level", "event", "message", "code", "remedy", "exit_code") == (
        "error", "error", "no", "would_rewind", "do this", 3,
    )  # fmt: skip


def test_quiet_leaves_warnings_and_errors(logged):
    console.switches.verbosity = -1
    talk("x")
    detail(Notice("y", Event.STEP_STARTED))
    talk(Notice("halted", Event.TOPIC_HALTED))
    warn("z")
    fail(MmtoolError("e"))
    assert [line["level"] for line in logged()] == ["warning", "warning", "error"]


def test_an_event_that_people_read_with_verbose_is_always_logged_and_a_mere_sentence_is_not(logged):
    detail("more")
    detail(Notice("write: commits", Event.STEP_STARTED, step="write"))
    assert [of(line, "event", "level") for line in logged()] == [("step_started", "info")]


@pytest.mark.parametrize("event", sorted(LOGGED_ONLY))
def test_what_only_the_log_has_is_not_said_to_people(event, capsys):
    talk(Notice("x", event))
    assert capsys.readouterr().err == ""
    console.switches.log_format = LogFormat.JSON
    talk(Notice("x", event))
    assert json.loads(capsys.readouterr().err)["event"] == event


def test_a_secret_is_hidden_in_every_value_and_the_line_stays_json(logged):
    hide('pa"ss\\word')
    hide("tok\nen")
    bind(who='pa"ss\\word')
    talk(Notice('it is pa"ss\\word', Event.MESSAGE, at=['x pa"ss\\word', {"k": "tok\nen"}], p="password=abc"))
    fail(MmtoolError("tok\nen is wrong"))
    told, error = logged()
    assert of(told, "message", "who", "at", "p") == (
        "it is [hidden]", "[hidden]", ["x [hidden]", {"k": "[hidden]"}], "password=[hidden]",
    )  # fmt: skip
    assert error["message"] == "[hidden] is wrong"


def test_progress_is_an_event_with_figures_and_never_a_live_display(logged, terminal):
    terminal(80)
    with Progress() as progress:
        progress.show([SNAPSHOT])
    (line,) = logged()
    assert of(line, "event", "flow", "source", "target", "records", "lag_records", "states") == (
        "progress", "a->b", "a", "b", 10, 5, {"running": 2},
    )  # fmt: skip
    assert of(line, "records_per_second", "eta_seconds") == (1.235, None)


def test_steps_are_events_on_a_terminal_too(logged, terminal):
    terminal(80)
    with Steps(1, clock=lambda: 3.0) as steps:
        steps.begin("start clusters", "two of them")
        steps.live("half")
        steps.done()
    assert [of(line, "event", "step", "seconds") for line in logged()] == [
        ("step_started", "start clusters", None),
        ("message", None, None),
        ("message", None, None),
        ("step_done", "start clusters", 0.0),
    ]


@pytest.mark.parametrize("output", OutputFormat)
def test_stdout_stays_what_output_says(output, logged, capsys):
    result = Result(
        "status", [{"a": 1}], warnings=["w"], summary="s", headlines=["h"], errors=[MmtoolError("e")]
    )
    emit(result, output)
    as_log = capsys.readouterr()
    console.switches.log_format = LogFormat.TEXT
    emit(result, output)
    assert re.sub(r'"generated_at".*', "", as_log.out) == re.sub(
        r'"generated_at".*', "", capsys.readouterr().out
    )
    lines = [json.loads(line) for line in as_log.err.splitlines()]
    assert [line["message"] for line in lines][-3:] == ["s", "w", "e"]


def ended(body, output=OutputFormat.TABLE, *, debug=True):
    def run():
        with handle_failures("status", output, debug=debug, log_format=LogFormat.JSON):
            console.switches.debug = debug
            body()

    with pytest.raises(SystemExit):
        run()


def crash():
    raise KeyError("gone")


@pytest.mark.parametrize("output", [OutputFormat.TABLE, OutputFormat.JSON])
@pytest.mark.parametrize("debug", [False, True])
def test_a_crash_is_one_line_and_its_traceback_is_inside(logged, output, debug):
    ended(crash, output, debug=debug)
    (line,) = logged()
    assert of(line, "command", "event", "code", "exit_code") == ("status", "error", "unexpected", 1)
    assert line["message"].startswith("unexpected KeyError: 'gone' (")
    assert ("traceback" in line) == debug


def test_the_traceback_of_an_error_that_is_told_already_follows_it(logged):
    ended(lambda: finish(Result("status", []), OutputFormat.TABLE, RefusedError("no")))
    error, trace = logged()
    assert of(error, "event", "message") == ("error", "no")
    assert "RefusedError" in trace["traceback"]


@pytest.fixture
def taken_over(logged, monkeypatch):
    """What libraries write, taken over for one test."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    for module, name in ((warnings, "showwarning"), (threading, "excepthook"), (sys, "unraisablehook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    log_what_others_tell(debug=True)
    console.switches.debug = True
    return logged


def test_what_a_library_logs_is_a_line_with_its_logger(taken_over):
    try:
        crash()
    except KeyError:
        logging.getLogger("asyncio.base").exception("broker %s is away", 3)
    (line,) = taken_over()
    assert of(line, "event", "level", "message", "logger") == (
        "library_log", "error", "broker 3 is away", "asyncio.base",
    )  # fmt: skip
    assert "KeyError" in line["traceback"]


def test_a_record_whose_arguments_do_not_fit_costs_no_line(logged):
    LogHandler().emit(logging.LogRecord("x", logging.WARNING, "f.py", 1, "%d of %d", (1,), None))
    assert [line["message"] for line in logged()] == ["%d of %d"]


@pytest.mark.filterwarnings("default")
def test_warnings_of_python_and_errors_that_reach_nobody_are_lines(taken_over):
    warnings.showwarning("old", DeprecationWarning, "f.py", 1)
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
    warned, crashed = taken_over()
    assert of(warned, "event", "message", "logger") == ("library_log", "old", "DeprecationWarning")
    assert of(crashed, "event", "level", "message") == ("library_log", "error", "KeyError: 'gone'")
