from datetime import timedelta

import pytest
import typer

from mmtool.commands import _consent
from mmtool.commands._consent import consent
from mmtool.commands._options import duration
from mmtool.commands._registry import CommandTable
from mmtool.commands.app import COMMANDS
from mmtool.errors import RefusedError

SHARED = {"-v", "-q", "--debug", "--no-color"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("8s", timedelta(seconds=8)),
        ("1.5s", timedelta(milliseconds=1500)),
        ("2m", timedelta(minutes=2)),
        ("1h", timedelta(hours=1)),
    ],
)
def test_durations_are_written_as_operators_write_them(text, expected):
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["8", "", "-1s", "8 s", "8sec", "1e3s", "\u0668s"])
def test_a_duration_without_a_plain_unit_is_refused_not_guessed(text):
    with pytest.raises(typer.BadParameter, match="write 500ms, 8s, 2m or 1h"):
        duration(text)


@pytest.mark.parametrize("text", ["0s", "0ms", "0.0001ms"])
def test_no_time_at_all_is_refused_because_nothing_could_answer_in_it(text):
    with pytest.raises(typer.BadParameter, match="write more than zero"):
        duration(text)


def leaves(command, path):
    """Every command below this one, with the words that call it."""
    children = getattr(command, "commands", None)
    if children is None:
        return [(path, command)]
    return [leaf for name in children for leaf in leaves(children[name], f"{path} {name}")]


def commands():
    table = CommandTable(COMMANDS)
    return [leaf for name in table for leaf in leaves(table[name], name)]


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_and_every_command_explains_itself(path, command):
    silent = [option.opts for option in command.params if not getattr(option, "help", None)]
    assert (bool(command.help), silent) == (True, []), path


@pytest.mark.parametrize(
    ("path", "command"), commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_the_common_switches(path, command):
    known = {option for parameter in command.params for option in parameter.opts}
    assert known >= SHARED, path


def test_without_a_terminal_consent_needs_yes():
    with pytest.raises(RefusedError, match="nobody can be asked: Move 3 groups\\?") as caught:
        consent("Move 3 groups")
    assert (caught.value.exit_code, caught.value.code) == (3, "consent_needed")


def test_yes_asks_nothing():
    consent("Move 3 groups", yes=True)


@pytest.fixture
def answering(monkeypatch):
    """A person at a terminal who types one answer; the questions they saw."""
    asked = []

    def with_(answer):
        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setattr(_consent.typer, "confirm", lambda question, **_: asked.append(question) or answer)
        return asked

    return with_


def test_a_terminal_is_asked_once(answering):
    asked = answering(True)
    consent("Move 3 groups")
    assert asked == ["Move 3 groups"]


def test_declining_is_a_refusal_that_changed_nothing(answering):
    answering(False)
    with pytest.raises(RefusedError, match="declined: nothing was changed") as caught:
        consent("Move 3 groups")
    assert (caught.value.exit_code, caught.value.code) == (3, "declined")
