"""Whatever a group is called, no stream and no page sends its control characters, or breaks a line at them."""

import json
import os
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings

from kit.names import HOSTILE, names, sent
from mmtool.errors import RefusedError
from mmtool.events import Event, Notice
from mmtool.output import Result, console, detail, emit, fail, preview, talk, warn
from mmtool.output.documents import json_document
from mmtool.output.failures import handle_failures
from mmtool.output.junit import Case, junit_xml
from mmtool.output.progress import Progress, ProgressSnapshot, Steps
from mmtool.output.render import picture
from mmtool.output.result import LogFormat, OutputFormat
from mmtool.plain_text import printable

NOW = datetime(2026, 1, 2, tzinfo=UTC)
any_name = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def rows(name):
    return Result("status", [{"group": name, "reason": f"group {name} is away"}])


def snapshot(name):
    return ProgressSnapshot(f"{name}->b", 1, 1, 1.0, 1.0, 1, 1.0, 1.0, 1, {name: 1})


def steps(name):
    with Steps(1) as shown:
        shown.begin(f"move {name}", f"why {name}")
        shown.live(f"live {name}")
        shown.note(f"note {name}")
        shown.done(f"done {name}")


def progress(name):
    with Progress(every=0) as shown:
        shown.show([snapshot(name)])


SURFACES = {
    "talk": (lambda name: talk(f"group {name} moved"), 1),
    "detail": (lambda name: detail(f"group {name} moved"), 1),
    "warning": (lambda name: warn(f"group {name} stays"), 1),
    "error and remedy": (lambda name: fail(RefusedError(f"no {name}", remedy=f"ask {name}")), 2),
    "table": (lambda name: emit(rows(name), OutputFormat.TABLE), 2),
    "csv": (lambda name: emit(rows(name), OutputFormat.CSV), 2),
    "preview": (lambda name: preview(rows(name)), 2),
    "steps": (steps, 5),
    "progress": (progress, 1),
}


@pytest.mark.parametrize("surface", SURFACES)
@any_name
@given(names)
def test_a_name_adds_no_line_and_no_control_character_to_a_stream(capsys, surface, name):
    console.switches.verbosity = 1
    show, lines = SURFACES[surface]
    capsys.readouterr()
    show(name)
    written = "".join(capsys.readouterr())
    assert sent(written) == []
    assert written.count("\n") == lines


@pytest.mark.parametrize("name", HOSTILE)
def test_a_terminal_gets_no_control_character_of_a_name_from_live_steps(capsys, terminal, monkeypatch, name):
    terminal(80)
    monkeypatch.setenv("TERM", "dumb")
    steps(name)
    progress(name)
    written = "".join(capsys.readouterr())
    assert "\x1b[2J\x1b]0" not in written
    assert not {"\u202e", "\u2028", "\x85", "\x07"} & set(written)


@any_name
@given(names)
def test_the_watch_screen_has_one_text_for_each_sentence(name):
    said = f"{name} lags"
    shown = picture(
        Result("status", [{"group": name}], warnings=[said], headlines=[said], summary=said),
        os.terminal_size((200, 50)),
        color=False,
    )
    assert sent("".join(shown)) == []
    assert not any("\n" in text for text in shown)


@any_name
@given(names)
def test_a_log_keeps_the_name_in_its_fields_and_shows_it_in_its_sentence(capsys, name):
    console.switches.log_format = LogFormat.JSON
    capsys.readouterr()
    talk(Notice(f"group {name} moved", Event.MESSAGE, group=name))
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["group"], told["message"]) == (name, f"group {printable(name)} moved")
    assert line.isprintable()


@any_name
@given(names)
def test_a_document_keeps_the_name_in_its_rows_and_shows_it_in_its_sentences(name):
    error = RefusedError(f"no {name}", remedy=f"ask {name}")
    result = Result("x", [{"group": name}], warnings=[f"{name} stays"], errors=[error])
    text = "".join(json_document(result, now=NOW))
    told = json.loads(text)
    assert told["data"] == [{"group": name}]
    assert told["warnings"] == [f"{printable(name)} stays"]
    assert told["errors"][0]["message"] == f"no {printable(name)}"
    assert sent(text) == []


@any_name
@given(names)
def test_a_junit_report_shows_the_name(name):
    report = junit_xml("smoke", [Case("step", 1.0, f"group {name}", passed=False)], NOW).decode()
    assert sent(report) == []


def test_a_traceback_shows_the_name_on_the_line_of_its_error(capsys):
    with pytest.raises(SystemExit), handle_failures("x", OutputFormat.TABLE, debug=True):
        raise RefusedError("no \x1b[2J\u202e")
    assert sent(capsys.readouterr().err) == []
