import io
import json
from datetime import timedelta

import pytest
import typer

from kit.command_tree import commands, is_group
from mmtool.commands._dialogue import consent
from mmtool.commands._options import EXCLUDE, NEEDS, duration
from mmtool.errors import RefusedError
from mmtool.output import LogFormat, Result, console

SHARED = {"-v", "-q", "--debug", "--no-color", "--log-format"}


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


@pytest.mark.parametrize("text", ["169h", "99999999999h", f"{'9' * 400}s"])
def test_what_no_client_can_count_is_refused(text):
    with pytest.raises(typer.BadParameter, match="write 168h or less"):
        duration(text)


RUNNABLE = [(path, command) for path, command in commands().items() if not is_group(command)]


@pytest.mark.parametrize(
    ("path", "command"), RUNNABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_option_and_every_command_explains_itself(path, command):
    silent = [option.opts for option in command.params if not getattr(option, "help", None)]
    assert (bool(command.help), silent) == (True, []), path


@pytest.mark.parametrize(
    ("path", "command"), RUNNABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_the_common_switches(path, command):
    known = {option for parameter in command.params for option in parameter.opts}
    assert known >= SHARED, path


def test_without_a_terminal_consent_needs_yes():
    with pytest.raises(
        RefusedError, match=r'nothing was changed: no terminal is attached .* "Move 3 groups\?"'
    ) as caught:
        consent("Move 3 groups")
    assert (caught.value.exit_code, caught.value.code) == (3, "consent_needed")


def test_where_stdin_is_closed_nobody_can_be_asked_either(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(RefusedError, match="no terminal is attached"):
        consent("Move 3 groups")


def test_yes_asks_nothing():
    consent("Move 3 groups", yes=True)


@pytest.fixture
def answering(monkeypatch):
    """A person at a terminal who types one answer."""

    def with_(answer):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        for stream in ("stdin", "stderr"):
            monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)

    monkeypatch.setenv("COLUMNS", "200")
    return with_


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_a_terminal_is_asked_once_and_on_stderr(answering, capsys, answer):
    answering(answer)
    consent("Move 3 groups")
    assert capsys.readouterr() == ("", "Move 3 groups? [y/N]: ")


def test_what_is_going_to_be_written_is_shown_before_it_is_asked_about(answering, capsys, monkeypatch):
    answering("y\n")
    monkeypatch.setenv("NO_COLOR", "1")
    consent("Move it", about=lambda: Result("x", [{"group": "app", "downstream_offset": 7}]))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split() for line in lines[:-1]] == [["GROUP", "DOWNSTREAM-OFFSET"], ["app", "7"]]
    assert lines[-1] == "Move it? [y/N]: "


def test_a_person_is_asked_in_plain_text_where_stderr_is_a_log_too(answering, capsys, monkeypatch):
    monkeypatch.setattr(console, "switches", console.Switches(log_format=LogFormat.JSON))
    answering("y\n")
    consent("Move 3 groups")
    assert capsys.readouterr() == ("", "Move 3 groups? [y/N]: ")


def test_ctrl_c_is_no_answer(answering, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    answering("")
    monkeypatch.setattr("sys.stdin.readline", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consent("Move 3 groups")


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "maybe\n"])
def test_declining_is_a_refusal_that_changed_nothing(answering, answer):
    answering(answer)
    with pytest.raises(RefusedError, match="declined: nothing was changed") as caught:
        consent("Move 3 groups")
    assert (caught.value.exit_code, caught.value.code) == (3, "declined")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("failover planned -g app --all-groups", "--all-groups and --group exclude each other"),
        ("groups audit --groups app.* --all-groups", "--all-groups and --groups exclude each other"),
        ("translate-offsets --unit shop --all-groups", "--all-groups and --unit exclude each other"),
        ("failover planned -g app --fence-watch 5s", "--fence-watch has no effect without --fence"),
        (
            "failover planned -g app --fence none --fence-watch 5s",
            "--fence-watch has no effect without --fence",
        ),
        (
            "failover emergency -g app --principal-map map.csv",
            "--principal-map has no effect without --promote-acls",
        ),
        ("failover show 1 --sign key.pem", "--sign has no effect without --html"),
        ("flow forget --topic orders --yes", "--yes has no effect without --execute"),
        ("groups import reset.csv --yes", "--yes has no effect without --execute"),
        ("groups sync --once --every 5", "--once and --every exclude each other"),
        ("replicate --metrics-level flow", "--metrics-level has no effect without --metrics-port"),
        ("replicate --metrics-address 0.0.0.0", "--metrics-address has no effect without --metrics-port"),
        ("status --every 5", "--every has no effect without --watch"),
        ("status --partitions", "--partitions has no effect without --groups"),
    ],
)
def test_an_option_without_an_effect_is_refused(mmtool, line, message):
    ended = mmtool(*line.split(), "-o", "json")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, error["code"], error["message"]) == (2, "usage", message)
    plain = mmtool(*line.split())
    assert (plain.code, plain.stdout, len(plain.stderr.splitlines())) == (2, "", 2), plain.stderr


@pytest.mark.parametrize("pair", [*((one, *needed) for one, needed in NEEDS.items()), *EXCLUDE], ids=" ".join)
def test_every_pair_of_options_is_of_one_command(pair):
    assert any(set(pair) <= {parameter.name for parameter in command.params} for _, command in RUNNABLE)
