"""The help of every command ends with an example that can be typed as it stands."""

import re
import shlex
from pathlib import Path

import pytest

from kit.command_tree import commands, is_group, parsed
from mmtool.commands._help import examples_of


def examples_in(help_):
    """The command lines under the last heading, each in one line."""
    text = re.split(r"\n\nExamples?:\n", help_)[-1]
    return [line.strip() for line in text.replace("\\\n", " ").strip().splitlines()]


@pytest.mark.parametrize("path", commands())
def test_it_is_a_line_that_typer_takes_for_this_command(mmtool, path, monkeypatch):
    monkeypatch.delenv("MMTOOL_CONFIG", raising=False)
    lines = examples_in(mmtool(*path.split(), "--help").stdout)
    found = sorted((tool, parsed(words)[0]) for tool, *words in map(shlex.split, lines))
    ends = [one for one, command in commands().items() if not is_group(command)]
    assert found == sorted(("mmtool", end) for end in ends if f"{end} ".startswith(f"{path} "))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_an_example_fits_the_terminal_and_is_one_line_to_the_shell(mmtool, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    tail = mmtool("init", "--help").stdout.rpartition("Example:\n")[2]
    assert max(map(len, tail.splitlines())) <= width
    (line,) = tail.replace("\\\n", " ").strip().splitlines()
    assert line.split() == f"mmtool {examples_of('init')[0]}".split()


def test_the_examples_of_the_root_are_lines_that_typer_takes(mmtool):
    lines = [
        line.split("  ")[0] for line in mmtool("--help").stdout.rpartition("Examples:\n  ")[2].split("\n  ")
    ]
    typed = [shlex.split(line) for line in lines]
    assert [(tool, parsed(words)[0]) for tool, *words in typed] == [
        ("mmtool", "demo"),
        ("mmtool", "replicate"),
        ("mmtool", "failover planned"),
    ]


def test_no_example_changes_a_cluster_without_a_rehearsal():
    source = (Path(__file__).parents[2] / "commands" / "_help.py").read_text(encoding="utf-8")
    assert "--execute" not in source
