"""Phrases that stand where the field has a word, and the word: see docs/reference/glossary.md.

Run as a program it lists what is left: ``python tests/house/plain_words.py [FOLDER OR FILE ...]``.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

BANNED = {
    r"\bat home\b": "belongs to ALIAS",
    r"\b(go|goes|going|gone|went|come|comes|came|bring|brings|brought|led|way) home\b": "back to ALIAS",
    r"\bhome-?(coming|ward)": "failback",
    r"\bways? back\b": "the reverse flow, or failback",
    r"\bover (there|here)\b": "the cluster's alias, source or target",
    r"\b(somebody|someone|somebody's)\b": "name the actor: another process, another producer, an operator",
    r"\bnobody\b": "name the actor: no process, no owner, no group",
    r"\bwhoever\b": "name the actor: the owner, the running replicate",
    r"\bwho (runs|owns|has|holds|took|takes) (it|them|the flow)\b": "the owner",
    r"\bthe books\b": "stored state, or offset runs",
    r"\b(un)?booked\b": "recorded, unrecorded",
    r"\b(put )?on record\b": "recorded",
    r"\banew\b": "recreated, again, from the start",
    r"\btak(e|en|es|ing) again\b": "reacquire",
    r"\bbeg(un|an|in|ins) again\b": "restart, restarted",
    r"\b(took|tak(e|es|en|ing)) up\b": "start, resume",
    r"\b(took|tak(e|es|en|ing)) back\b": "undo, roll back",
    r"\bput(s|ting)? back\b": "restore",
    r"\bpumps?\b": "worker",
    r"\bseats?\b": "ownership lease, or operation lock",
    r"\blatecomers?\b": "deferred flow",
    r"\bregain(s|ed|ing)?\b": "reacquire",
    r"\bput off\b": "deferred",
    r"\bfinish(es|ed)? forward\b": "roll forward",
    r"\bwhat lies behind\b": "diverged tail",
    r"\b(by|on) the (fresh |last )?word of\b": "as reported by",
    r"\bin no time\b": "at once",
    r"\bmirrored on\b": "mirroring continues",
    r"\b(is|are|was|were|be|been|cannot be|not) told\b": "known, reported, listed",
    r"\bcannot tell\b": "does not know",
    r"\b(is|are|was|were|stays?) away\b": "does not answer, is unreachable",
    r"\bfor ever\b": "without end, forever",
    r"\bwhich way\b": "in which direction",
    r"\bgives? up its claim\b": "releases ownership",
    r"\blost its claim\b": "lost ownership",
    r"\bfor good\b": "permanently",
    r"\bwho (asks|writes|reads|knows|is|wants)\b": "name the actor",
    r"\bas it lies\b": "as stored",
}
"""A pattern, and what to write in its place."""

ALLOWED = (
    r"spark-pump",
    r"^pump$",  # part of client ids, which quotas name
    r"``[^`]*``",  # names of code in docstrings
    r"`[^`]*`",  # names of code, options and files keep their letters
    r"\]\([^)]*\)",  # so do the targets of links
    r"https?://\S+",
)
"""What is not read as prose."""

_FIELD = re.compile(r"(?m)^ +[a-z0-9_]+(, [a-z0-9_]+)*:")
"""The name of an attribute or argument in a docstring."""

PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs")
SHIPPED = ("mmtool", "commands", "translation")
READ = {".md", ".py", ".j2", ".toml"}
NOT_READ = ("tests/kit", "docs/reference/glossary.md", "docs/_tools")


def offences(paths):
    """``file:line: phrase -> word`` for every banned phrase in strings, in docstrings and in pages."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: write {word}"
        for path in paths
        for line, text in _prose(path)
        for prose in [_without_code(text)]
        for pattern, word in BANNED.items()
        if (match := re.search(pattern, prose, re.IGNORECASE))
    ]


def files(folders):
    """Pages, modules and templates below these folders."""
    found = []
    for folder in folders:
        path = ROOT / folder
        some = [path] if path.is_file() else sorted(path.rglob("*"))
        found += [file.resolve() for file in some if file.suffix in READ]
    return [file for file in dict.fromkeys(found) if not str(file.relative_to(ROOT)).startswith(NOT_READ)]


def _without_code(text):
    for pattern in ALLOWED:
        text = re.sub(pattern, "", text)
    return text


def _prose(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tree = ast.parse(text)
        return [*_strings(tree), *_docstrings(tree)]
    if path.suffix == ".toml":
        return [(0, value) for value in _values(tomllib.loads(text))]
    return _paragraphs(text)


def _values(table):
    """The texts of a table of data."""
    for value in table.values():
        if isinstance(value, dict):
            yield from _values(value)
        elif isinstance(value, str):
            yield value


def _paragraphs(text):
    """Lines outside of code blocks."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def _strings(tree):
    """String constants but docstrings: what a program can say."""
    silent = {
        id(statement.value)
        for node in ast.walk(tree)
        for statement in (node.body if isinstance(getattr(node, "body", None), list) else ())
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def _docstrings(tree):
    """Docstrings of modules and classes, paragraph by paragraph: where a reader of the code begins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef) and (text := ast.get_docstring(node)):
            for paragraph in text.split("\n\n"):
                yield node.body[0].lineno, " ".join(_FIELD.sub("", paragraph).split())


if __name__ == "__main__":
    found = offences(files(sys.argv[1:] or (*SHIPPED, *PAGES)))
    sys.stdout.write("\n".join([*found, f"{len(found)} left", ""]))
