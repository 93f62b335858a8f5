"""Who types the pages' lines: bash, with what a person would answer."""

import pytest

from kit.consoles import Shell, _with_more
from kit.doc_blocks import Typed


def typed(console, line, *shown):
    console.type(Typed(line, shown, 0))
    return console.printed, console.code


@pytest.fixture
def console(tmp_path):
    return Shell(tmp_path, {}, {"east-1:9092": "127.0.0.1:4711"})


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("mmtool failover planned --execute", "mmtool failover planned --execute --yes"),
        ("mmtool failover planned --execute --yes", "mmtool failover planned --execute --yes"),
        ("mmtool groups sync -g billing > rows", "mmtool groups sync -g billing --once > rows"),
        ("mmtool status && ./go-on", "mmtool status && ./go-on"),
        ("kafka-consumer-groups --execute", "kafka-consumer-groups --execute"),
    ],
)
def test_what_nobody_is_there_to_answer_is_answered_on_the_command_line(line, more):
    assert _with_more(line) == more


def test_both_streams_are_one_text_in_order_and_the_exit_code_is_kept_for_the_next_line(console):
    assert typed(console, "echo one; echo two >&2; echo three; exit 4") == ("one\ntwo\nthree\n", 4)
    assert typed(console, "echo $?") == ("4\n", 0)


def test_an_exported_variable_and_files_carry_over(console):
    typed(console, "export WHERE=$PWD/kept")
    typed(console, "echo kept > $WHERE")
    assert typed(console, "cat kept") == ("kept\n", 0)


def test_this_machines_names_stand_in_no_page(console, tmp_path):
    assert typed(console, "echo east-1:9092 > addresses; cat addresses") == ("east-1:9092\n", 0)
    assert (tmp_path / "addresses").read_text() == "127.0.0.1:4711\n"
    assert typed(console, "echo $PWD/addresses") == ("addresses\n", 0)
