import json
import sys
import types
from importlib.machinery import ModuleSpec

import pytest
import typer

from mmtool.commands import app as app_module
from mmtool.commands._help import first_sentence
from mmtool.commands._options import Output
from mmtool.commands.app import CommandEntry, CommandTable, load
from mmtool.errors import OwnedElsewhereError, PartlyAppliedError
from mmtool.output import OutputFormat, Result, detail, emit, talk

PROBE = CommandEntry("probe-it", "Try it", "Do as it is told")
VERBS = CommandEntry("verbs", "Try it", "Many things", group=True)


def _module(name, **symbols):
    module = types.ModuleType(name)
    module.__spec__ = ModuleSpec(name, loader=None)
    vars(module).update(symbols)
    return module


@pytest.fixture
def commands(monkeypatch):
    """Put a function behind ``mmtool probe-it``, and a group behind ``mmtool verbs``."""
    monkeypatch.setattr(app_module, "COMMANDS", (PROBE, VERBS))

    def put(*, probe=None, verbs=None):
        load.cache_clear()
        if probe is not None:
            monkeypatch.setitem(sys.modules, PROBE.module, _module(PROBE.module, probe_it=probe))
        if verbs is not None:
            monkeypatch.setitem(sys.modules, VERBS.module, _module(VERBS.module, app=verbs))

    return put


def raising(error):
    def probe(output: Output = OutputFormat.TABLE) -> None:
        """Raise."""
        raise error

    return probe


def test_a_number_returned_is_the_exit_code(mmtool, commands):
    commands(probe=lambda: 4)
    assert mmtool("probe-it").code == 4


def test_nothing_returned_is_success(mmtool, commands):
    commands(probe=lambda: None)
    assert mmtool("probe-it").code == 0


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OwnedElsewhereError("a->b is run by host-2"), 10, "error: a->b is run by host-2\n"),
        (PartlyAppliedError("3 of 5"), 6, "error: 3 of 5\n"),
        (typer.Exit(7), 7, ""),
        (typer.Abort(), 3, "error: declined: nothing was changed\n"),
        (KeyboardInterrupt(), 130, "error: stopped by SIGINT\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_however_a_command_ends_the_exit_code_is_the_contracts(mmtool, commands, error, code, said):
    commands(probe=raising(error))
    ended = mmtool("probe-it")
    assert (ended.code, ended.stdout, ended.stderr) == (code, "", said)


@pytest.mark.parametrize(
    "error", [OwnedElsewhereError("x"), KeyboardInterrupt(), ZeroDivisionError("x")], ids=repr
)
def test_however_a_command_ends_json_is_one_document(mmtool, commands, error):
    commands(probe=raising(error))
    document = json.loads(mmtool("probe-it", "-o", "json").stdout)
    assert (document["command"], document["data"], len(document["errors"])) == ("probe-it", [], 1)


@pytest.mark.parametrize(
    ("options", "heard"), [([], "a\n"), (["-q"], ""), (["-v"], "a\nb\n"), (["--quiet", "-vv"], "a\nb\n")]
)
def test_the_common_switches_work_without_being_declared(mmtool, commands, options, heard):
    def probe() -> None:
        """Talk."""
        talk("a")
        detail("b")

    commands(probe=probe)
    assert mmtool("probe-it", *options).stderr == heard


def test_one_command_line_leaves_nothing_behind_for_the_next(mmtool, commands):
    def probe(output: Output = OutputFormat.TABLE) -> None:
        """Show."""
        emit(Result("probe-it", []), output)
        talk("shown")

    commands(probe=probe)
    mmtool("probe-it", "-q", "-o", "json")
    assert (mmtool("probe-it").stderr, json.loads(mmtool("nonsense", "-o", "json").stdout)["data"]) == (
        "shown\n",
        [],
    )


def test_a_group_lists_its_verbs_with_whole_sentences(mmtool, commands):
    verbs = typer.Typer()
    sentence = "Say something that is much longer than the half line that is left for it in eighty columns"
    verbs.command("say", help=f"{sentence}. And more.")(lambda: None)
    verbs.command("go", help="Go.")(lambda: None)
    commands(verbs=verbs)
    ended = mmtool("verbs")
    assert (ended.code, ended.stdout, sentence in " ".join(ended.stderr.split())) == (2, "", True)


def test_a_verb_is_named_in_the_document(mmtool, commands):
    verbs = typer.Typer()
    verbs.command("say")(raising(PartlyAppliedError("x")))
    verbs.command("go")(lambda: None)
    commands(verbs=verbs)
    assert json.loads(mmtool("verbs", "say", "-o", "json").stdout)["command"] == "verbs say"


def test_a_line_of_the_table_without_a_module_is_not_shown():
    assert list(CommandTable((CommandEntry("no-such-thing", "x", "y"),))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("One. Two.", "One"), ("About mm2.properties here.\n\nMore", "About mm2.properties here"), (None, "")],
)
def test_a_list_shows_the_first_sentence(text, expected):
    assert first_sentence(text) == expected
