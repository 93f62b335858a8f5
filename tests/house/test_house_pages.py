"""What pages name in the middle of a sentence: commands, their options, and keys of the properties file."""

import re
import shlex

import pytest

from kit.command_tree import commands, is_group
from kit.doc_blocks import pages
from mmtool.config.load import read_file

CODE = re.compile(r"`([^`\n]+)`")
PROPERTIES = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
WHOLE = """\
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
"""
FOR_JAVA = "east.sasl.client.callback.handler.class"
"""A key that MSK's documentation has, and that only Java's clients need."""

COMMANDS = commands()
OF_ALL = {"--help", "--version", "--install-completion", "--show-completion"}


def codes(page):
    """What a page sets as code within its text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return CODE.findall(text)


def wrong_in(line):
    """What is wrong with a command line, or ""."""
    _, *words = _words(line)
    path, command = "", None
    while words and not words[0].startswith("-") and (command is None or is_group(command)):
        if words[0] == "..." or words[0].isupper():  # any verb
            return ""
        paths = [f"{path} {name}".strip() for name in words[0].split("|")]
        if any(one not in COMMANDS for one in paths):
            return f"{words[0]} is no command"
        path, command = paths[0], COMMANDS[paths[0]]
        del words[0]
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


def examples(root):
    """Every block of a properties file, one that is only a part completed; what is outside of the page replaced."""
    for page in pages(root):
        for block in PROPERTIES.findall(page.read_text(encoding="utf-8")):
            lacking = [line for line in WHOLE.splitlines() if line.split(" =")[0] not in block]
            whole = block if block.startswith("clusters") else "\n".join([*lacking, block])
            text = re.sub(r"\$\{(env|file|directory):[^}]*\}", "secret", whole)
            yield page.name, re.sub(r"^ssl\.\w+\.location.*\n", "", text, flags=re.MULTILINE)


def test_every_properties_file_of_a_page_is_read_without_an_error_and_without_an_unknown_key(root, tmp_path):
    found = []
    for page, text in examples(root):
        path = tmp_path / "mm2.properties"
        path.write_text(text, encoding="utf-8")
        remarks = [finding.message for finding in read_file(path, {}).findings]
        found.append((page, [remark for remark in remarks if FOR_JAVA not in remark]))
    assert len(found) > 5
    assert [(page, remarks) for page, remarks in found if remarks] == []
