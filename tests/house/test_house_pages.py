"""What pages name in the middle of a sentence: commands, their options, and keys of the properties file."""

import re
import shlex

import pytest

from kit.doc_blocks import pages
from mmtool.commands._registry import CommandTable
from mmtool.commands.app import COMMANDS

CODE = re.compile(r"`([^`\n]+)`")
TABLE = CommandTable(COMMANDS)
OF_ALL = {"--help", "--version", "--install-completion", "--show-completion"}


def codes(page):
    """What a page sets as code within its text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return CODE.findall(text)


def wrong_in(line):
    """What is wrong with a command line, or ""."""
    _, *words = _words(line)
    command, verbs = None, TABLE
    while verbs and words and not words[0].startswith("-"):
        if any(name not in verbs for name in words[0].split("|")):
            return f"{words[0]} is no command"
        command = verbs[words.pop(0).split("|")[0]]
        verbs = getattr(command, "commands", {})
    options = {name for option in getattr(command, "params", ()) for name in option.opts} | OF_ALL
    given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return ", ".join(sorted(given - options))


def _words(line):
    try:
        return shlex.split(line)
    except ValueError:  # a quotation mark that is not closed
        return line.split()


def test_every_command_that_a_page_names_is_there_with_its_options(root):
    lines = {(page.name, code) for page in pages(root) for code in codes(page) if code.startswith("mmtool ")}
    assert len(lines) > 150
    wrong = sorted((page, line, found) for page, line in lines if (found := wrong_in(line)))
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("mmtool failover planed -g app", "planed is no command"),
        ("mmtool failover planned --exec", "--exec"),
        ("mmtool failover planned|emergency --plan FILE", ""),
        ("mmtool flow resume --topic T", ""),
    ],
)
def test_a_command_that_is_not_there_is_found(line, wrong):
    assert wrong_in(line) == wrong
