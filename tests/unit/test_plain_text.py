"""Names are shown by one function, and quoted for a shell by one other."""

import os
import re
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.names import HOSTILE, names, sent
from mmtool.config.javaregex import compile_java
from mmtool.plain_text import Lines, fits_shell, group_options, printable, shell_line, shell_word


def typed(line, shell="bash"):
    """The words that a command gets when this line is pasted."""
    script = os.fsencode(f"printf '%s\\0' {line}\n")  # on stdin, where its length has no limit
    ran = subprocess.run([shell], input=script, check=True, capture_output=True, env={"LC_ALL": "C"})
    return ran.stdout.decode(errors="surrogateescape").split("\0")[:-1]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nrm -rf x", r"a\nrm -rf x"),
        ("\x1b[2J", r"\x1b[2J"),
        ("txt.\u202egpj", r"txt.\u202egpj"),
        ("a\u2028b\x85c\x00", r"a\u2028b\x85c\x00"),
        ("größe 漢字", "größe 漢字"),
    ],
)
def test_a_name_is_shown_with_its_control_characters_spelled_out(name, shown):
    assert printable(name) == shown


@given(names)
def test_no_name_sends_anything_to_a_terminal(name):
    assert sent(printable(name)) == []
    assert len(printable(name).splitlines()) == 1


@settings(max_examples=30)
@given(st.lists(names.map(lambda name: name.replace("\0", "")), min_size=1, max_size=30))
def test_a_shell_reads_every_word_of_a_pasted_line_as_the_exact_name(words):
    line = shell_line(words)
    assert line.isprintable()
    assert typed(line) == words


@pytest.mark.parametrize("name", [name for name in HOSTILE if fits_shell([name]) and name.isprintable()])
def test_a_printable_name_is_also_read_by_python(name):
    assert shlex.split(shell_word(name)) == [name]


def test_a_path_that_is_not_utf_8_is_quoted_as_its_bytes():
    assert typed(shell_word("f\udcff.properties")) == ["f\udcff.properties"]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("orders-app", "orders-app"),
        ("User:mm", "User:mm"),
        ("", "''"),
        ("a b", "'a b'"),
        ("=ls", "'=ls'"),
        ("a\nb", r"$'a\nb'"),
        ("it's\x1b!", r"$'it\x27s\x1b\x21'"),
    ],
)
def test_a_word_is_quoted_only_as_far_as_it_needs(name, word):
    assert shell_word(name) == word


def test_a_name_that_no_argument_can_hold_is_not_cut_to_another_one():
    assert typed(shell_word("pay\0roll")) == ["pay\u2400roll"]


@given(names, names)
def test_groups_are_selected_by_options_that_a_shell_can_pass_and_that_select_no_other(name, other):
    option, value = group_options([name])
    assert typed(shell_line([option, value])) == [option, value]
    chosen = (
        value.__eq__ if option == "-g" else lambda group: compile_java(value).fullmatch(group) is not None
    )
    assert chosen(name)
    assert not chosen(other) or other == name


@given(st.lists(names))
def test_only_layout_breaks_lines(parts):
    assert re.split("\n", Lines.of(parts)) == [printable(part) for part in parts] or parts == []
