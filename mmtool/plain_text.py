"""Names in texts: shown to people, and quoted for a shell, so that neither a terminal nor a shell obeys one.

A group, a transactional id, a member's host or a header's key may hold any character: line breaks, escape sequences,
``$(reboot)``. `printable` is the one function that shows such a text, `shell_word` the one that quotes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote
from typing import Self

MARKING_WORDS = r"password|passwd|secret|passphrase|access\.key|token"
"""Words that mark a key as a secret's, for messages and the redaction of stderr: alternatives of a regular expression.

They are matched without regard to case anywhere in a name.
"""
_MARKING = re.compile(MARKING_WORDS, re.IGNORECASE)

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}
_BYTES_IN_QUOTES = "'!"
"""Printable characters written as bytes in ``$'...'``: bash's history expansion does not know this kind of quote."""

_SIMILAR = 0.75
"""How similar a word is to the nearest one, at least, from 0 to 1."""

_NO_ARGUMENT = "\0"
_SYMBOL_FOR_NUL = "\u2400"
_LONE_BYTES = range(0xDC80, 0xDD00)
"""How Python decodes the bytes of a path that is not UTF-8."""


class Lines(str):
    """A text of several lines whose line breaks are layout; a line break in any other text is part of a name."""

    __slots__ = ()

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """The lines, each of them printable, one below the other."""
        return cls("\n".join(map(printable, lines)))


def printable(text: str) -> str:
    r"""The text with control characters, direction marks and line separators spelled out: ``\n``, ``\x1b``, ``\u202e``.

    A terminal must not obey a name, a table must not break at it, and a reader must see what it holds.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def shell_word(text: str) -> str:
    """The text as one word of a command for bash and zsh, in one line that is safe to paste.

    No argument of a command can contain a NUL. In its place the word has the symbol for NUL: it names nothing that
    exists, where the bare text would be cut off at the NUL and name something else.
    """
    text = text.replace(_NO_ARGUMENT, _SYMBOL_FOR_NUL)
    if not text.isprintable():
        return f"$'{''.join(map(_in_quotes, text))}'"
    word = quote(text)
    return f"'{word}'" if word.startswith("=") else word  # zsh replaces a bare =ls by the path of ls


def shell_line(words: Iterable[str]) -> str:
    """The words as one command line."""
    return " ".join(map(shell_word, words))


def group_options(groups: Iterable[str]) -> list[str]:
    """The options of mmtool that select these groups; a name that no argument can hold is selected by a pattern."""
    return [
        word
        for name in groups
        for word in (("--groups", _pattern(name)) if _NO_ARGUMENT in name else ("-g", name))
    ]


def fits_shell(words: Iterable[str]) -> bool:
    """Whether a command line can have these words."""
    return not any(_NO_ARGUMENT in word for word in words)


def _pattern(name: str) -> str:
    return re.escape(name).replace(_NO_ARGUMENT, r"\x00")


def _in_quotes(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() and character not in _BYTES_IN_QUOTES:
        return character
    errors = "surrogateescape" if ord(character) in _LONE_BYTES else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors=errors))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar of the known words, whatever its case; None where none is similar."""
    from difflib import get_close_matches

    by_lower = {one.lower(): one for one in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=_SIMILAR)
    return by_lower[found[0]] if found else None


def did_you_mean(words: Iterable[str | None]) -> str:
    """The question at the end of an error about an unknown word; empty where no word is near."""
    near = [printable(word) for word in dict.fromkeys(words) if word is not None]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def duration(seconds: float | None) -> str:
    """A duration in its two largest units: ``0.4s``, ``12s``, ``3m 20s``, ``2h 5m``, ``4d 1h``."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for larger, smaller, names in ((86_400, 3_600, "dh"), (3_600, 60, "hm"), (60, 1, "ms")):
        if whole >= larger:
            return f"{whole // larger}{names[0]} {whole % larger // smaller}{names[1]}"
    return f"{whole}s"


def marks_secret(name: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _MARKING.search(name) is not None
