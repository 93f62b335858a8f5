r"""Java's character classes and escapes as sets: ``[a-z&&[^aeiou]]``, ``\p{Lu}``, ``\h``, ``\x{1F600}``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.config.codepoints import (
    ALPHA,
    DIGIT,
    HORIZONTAL,
    POSIX,
    SPACE,
    VERTICAL,
    WORD,
    CodePoints,
    with_property,
)

if TYPE_CHECKING:
    from mmtool.config.javatext import Cursor

_SETS = {"d": DIGIT, "w": WORD, "s": SPACE, "h": HORIZONTAL, "v": VERTICAL}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_HEX = re.compile(r"x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))|u([0-9a-fA-F]{4})")
_PROPERTY = re.compile(r"[pP](?:\{([^}]*)\}|([A-Za-z]))")
_CATEGORIES = frozenset(
    [
        "L",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "S",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Z",
        "Zs",
        "Zl",
        "Zp",
        "Cc",
        "Cf",
        "Co",
    ]
)
_CASED = frozenset({"Lu", "Ll", "Lt", "Lower", "Upper"})
_BINARY = {
    "alphabetic": "Alphabetic",
    "ideographic": "Ideographic",
    "letter": "L",
    "white_space": "White_Space",
    "control": "Cc",
    "punctuation": "P",
    "digit": "Nd",
    "hex_digit": "Hex_Digit",
}
_SURROGATES = range(0xD800, 0xE000)
_NOT_CLOSED = "a character class is not closed"


@dataclass(slots=True)
class ClassReader:
    """Reads one class or escape at the cursor.

    Attributes:
        cursor: Stands on ``[`` or on the backslash.
        any_case: Whether ``(?i)`` is on: ASCII letters stand for both cases.
    """

    cursor: Cursor
    any_case: bool

    def read(self) -> CodePoints:
        """Read a bracketed class."""
        self.cursor.advance()
        negated = self.cursor.take("^")
        points = self._operand(first=True)
        while self.cursor.take("&&"):
            points &= self._operand(first=False)
        if not self.cursor.take("]"):
            self.cursor.refuse(_NOT_CLOSED)
        return ~points if negated else points

    def escape(self) -> CodePoints:
        """Read an escape that stands for a set of characters, outside a class or in one."""
        cursor = self.cursor
        cursor.advance()
        char = cursor.peek()
        if char in _SETS or char.lower() in _SETS:
            cursor.advance()
            return _SETS[char] if char in _SETS else ~_SETS[char.lower()]
        if char in {"p", "P"}:
            return self._property()
        return self._folded(CodePoints.chars(self._escaped_char()))

    def _operand(self, *, first: bool) -> CodePoints:
        """Read a union up to ``&&`` or ``]``; a ``]`` at the start of a class is an ordinary character."""
        union: CodePoints | None = None
        while not self.cursor.at_end and not self.cursor.starts("&&"):
            if not first and self.cursor.peek() == "&":
                self.cursor.refuse("&& is followed by a single &")
            if self.cursor.peek() == "]" and (union is not None or not first):
                break
            item = self._item()
            union = item if union is None else union | item
        if union is None:
            self.cursor.refuse(_NOT_CLOSED if self.cursor.at_end else "one side of a && is empty")
        return union

    def _item(self) -> CodePoints:
        if self.cursor.peek() == "[":
            return ClassReader(self.cursor, self.any_case).read()
        if self.cursor.starts("\\Q"):
            return self._quoted()
        if self.cursor.peek() == "\\" and self.cursor.peek(1) in set("dDwWsShHvVpP"):
            return self.escape()
        return self._range(self._char())

    def _quoted(self) -> CodePoints:
        text = self.cursor.quoted()
        if not text or self.cursor.peek() == "-":
            self.cursor.refuse("\\Q...\\E in a character class is empty or starts a range")
        return self._folded(CodePoints.chars(text))

    def _range(self, first: str) -> CodePoints:
        """Read ``a-z``; only the first character where the dash ends the class or is followed by a nested one."""
        if self.cursor.peek() != "-" or self.cursor.peek(1) in {"]", "["}:
            return self._folded(CodePoints.chars(first))
        self.cursor.advance()
        if self.cursor.at_end or self.cursor.starts("&&") or self.cursor.starts("\\Q"):
            self.cursor.refuse("a range in a character class has no end")
        last = self._char()
        if last < first:
            self.cursor.refuse(f"the range {first}-{last} in a character class is in reverse order")
        return self._folded(CodePoints.of([(ord(first), ord(last))]))

    def _char(self) -> str:
        if self.cursor.peek() != "\\":
            return self.cursor.take_char()
        self.cursor.advance()
        return self._escaped_char()

    def _escaped_char(self) -> str:
        """Read the character of an escape; the cursor is after the backslash."""
        cursor = self.cursor
        for pattern, base in ((_OCTAL, 8), (_HEX, 16)):
            match = pattern.match(cursor.pattern, cursor.position)
            if match is not None:
                cursor.advance(len(match.group()))
                return self._numbered(next(filter(None, match.groups())), base)
        char = cursor.take_char()
        if char == "c":
            return chr(ord(cursor.take_char()) ^ 64)
        if char in _CONTROLS:
            return _CONTROLS[char]
        if ord(char) in ALPHA or ord(char) in DIGIT:
            cursor.advance(-2)  # to the backslash
            cursor.refuse(f"the escape \\{char} is unknown or not supported")
        return char

    def _numbered(self, digits: str, base: int) -> str:
        number = int(digits, base)
        if number > 0x10FFFF or number in _SURROGATES:
            self.cursor.refuse(f"{digits} is not the code of a character")
        return chr(number)

    def _folded(self, points: CodePoints) -> CodePoints:
        return points.any_ascii_case() if self.any_case else points

    def _property(self) -> CodePoints:
        match = _PROPERTY.match(self.cursor.pattern, self.cursor.position)
        if match is None:
            self.cursor.refuse("\\p is not followed by the name of a property")
        name = match.group(1) or match.group(2)
        points = self._named(name)
        if points is None:
            self.cursor.refuse(f"the property {name} is unknown or not supported")
        self.cursor.advance(len(match.group()))
        return ~points if match.group().startswith("P") else points

    def _named(self, name: str) -> CodePoints | None:
        """The set of a POSIX class, general category, script or binary property; None for other names."""
        if self.any_case and name.removeprefix("Is") in _CASED:
            self.cursor.refuse(f"the property {name} under (?i) is not supported")
        if name in POSIX:
            return POSIX[name]
        key, equals, value = name.partition("=")
        if equals:
            return _by_key(key.lower(), value)
        if name.removeprefix("Is") in _CATEGORIES:
            return with_property(name.removeprefix("Is"))
        return _is_property(name[2:]) if name.startswith("Is") else None


def _by_key(key: str, value: str) -> CodePoints | None:
    if key in {"gc", "general_category"}:
        return with_property(value) if value in _CATEGORIES else None
    return with_property(f"Script={value}") if key in {"sc", "script"} else None


def _is_property(name: str) -> CodePoints | None:
    binary = _BINARY.get(name.lower())
    return with_property(binary or f"Script={name}")
