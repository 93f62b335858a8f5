r"""Java's regular expressions, translated to the ``regex`` module.

MM2 passes the file's patterns to ``java.util.regex``. The two engines backtrack alike, and differ in what one
character means (``\d``, ``\w``, ``.``, case, ``&&``, ``\p{..}``) and in what is an error. So every pattern is
parsed here by Java's grammar and rewritten: character classes as plain ranges, case folding unfolded, quotes
escaped. A construct without an equivalent is refused, never guessed; a wrong filter would silently mirror the wrong
topics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import regex

from mmtool.config.codepoints import LINE_ENDS, WORD, CodePoints
from mmtool.config.javaclass import ClassReader
from mmtool.config.javatext import Cursor, PatternRefusedError

if TYPE_CHECKING:
    from regex import Pattern

__all__ = ["PatternRefusedError", "compile_java"]

_GROUP_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_BOUNDS = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_MOST_DIGITS = 10
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])")
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_WORD = WORD.as_class()
_ANCHORS = {
    "A": r"\A",
    "z": r"\Z",
    "G": r"\A",
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
_LINE_END = LINE_ENDS.as_class()
_BEFORE_LAST_LINE_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> Pattern[str]:
    """Compile a Java pattern; ``fullmatch`` on the result is Java's ``matches``.

    Raises:
        PatternRefusedError: Java refuses it too, or mmtool cannot give it the same meaning.
    """
    try:
        return regex.compile(_Translator(Cursor(pattern)).whole(), regex.V1)
    except RecursionError:
        raise PatternRefusedError(pattern, "groups are nested too deeply") from None
    except (regex.error, OverflowError) as error:
        raise PatternRefusedError(pattern, f"the regular expression is not usable: {error}") from None


@dataclass(frozen=True, slots=True)
class _Flags:
    any_case: bool = False
    dot_all: bool = False


@dataclass(slots=True)
class _Translator:
    """Walks a pattern once, left to right.

    Attributes:
        cursor: Where we are in it.
        flags: Switched on by ``(?i)`` and ``(?s)`` up to the end of the group.
        groups: Capturing groups opened so far.
        names: Of them, the named ones.
        in_lookbehind: Depth; Java wants an obvious maximum length in there.
    """

    cursor: Cursor
    flags: _Flags = _Flags()
    groups: int = 0
    names: set[str] = field(default_factory=set)
    in_lookbehind: int = 0

    def whole(self) -> str:
        text = self._alternatives()
        if not self.cursor.at_end:
            self.cursor.refuse("a closing parenthesis has no opening one")
        return text

    def _alternatives(self) -> str:
        flags = self.flags
        branches = [self._branch()]
        while self.cursor.take("|"):
            branches.append(self._branch())
        self.flags = flags
        return "|".join(branches)

    def _branch(self) -> str:
        parts = []
        while not self.cursor.at_end and self.cursor.peek() not in "|)":
            atom = self._atom()
            if atom is not None:
                parts.append(atom + self._quantifier())
        return "".join(parts)

    def _atom(self) -> str | None:
        """Read the next atom; None for a bare ``(?i)``, which matches nothing and takes no quantifier."""
        cursor = self.cursor
        char = cursor.peek()
        if char == "(":
            return self._group()
        if char == "[":
            return self._emit(ClassReader(cursor, any_case=self.flags.any_case).read())
        if char == "\\":
            return self._escape()
        cursor.advance()
        if char in "*+?{":
            cursor.refuse(f"{char} has nothing to repeat")
        simple = {"^": r"\A", "$": _BEFORE_LAST_LINE_END, ".": self._dot()}
        return simple.get(char) or self._literal(char)

    def _dot(self) -> str:
        return "(?s:.)" if self.flags.dot_all else _not_line_end()

    def _literal(self, char: str) -> str:
        points = CodePoints.chars(char)
        if self.flags.any_case and char.isascii() and char.isalpha():
            return points.any_ascii_case().as_class()
        return f"\\U{ord(char):08x}"

    def _emit(self, points: CodePoints) -> str:
        return points.as_class()

    def _escape(self) -> str | None:
        cursor = self.cursor
        following = cursor.peek(1)
        if following == "Q":
            return self._quoted()
        if following in _ANCHORS and not (following == "b" and cursor.starts("\\b{")):
            cursor.advance(2)
            return _ANCHORS[following]
        if following == "Z":
            cursor.advance(2)
            return _BEFORE_LAST_LINE_END
        if following == "k":
            return self._named_reference()
        if following in set("123456789"):
            return self._numbered_reference()
        points = ClassReader(cursor, any_case=self.flags.any_case).escape()
        single = len(points.ranges) == 1 and points.ranges[0][0] == points.ranges[0][1]
        return self._literal(chr(points.ranges[0][0])) if single else self._emit(points)

    def _quoted(self) -> str | None:
        r"""Read ``\Q...\E``, without ``\E`` to the end; a quantifier after it applies to the last character."""
        text = self.cursor.quoted()
        if not text:
            return None
        return "".join(self._literal(char) for char in text)

    def _numbered_reference(self) -> str:
        """Read a numbered reference: as many digits as still number an opened group, as Java reads them."""
        self._refuse_reference()
        self.cursor.advance()
        number = int(self.cursor.take_char())
        while not self.cursor.at_end and self.cursor.peek() in "0123456789":
            longer = number * 10 + int(self.cursor.peek())
            if longer > self.groups:
                break
            number = longer
            self.cursor.advance()
        if number > self.groups:
            self.cursor.refuse(f"\\{number} refers to a group that the pattern does not define before it")
        return f"(?:\\g<{number}>)"

    def _named_reference(self) -> str:
        self._refuse_reference()
        name = self.cursor.delimited("\\k<", ">")
        if name not in self.names:
            self.cursor.refuse(f"\\k<{name}> refers to a group that the pattern does not define before it")
        return f"(?:\\g<{name}>)"

    def _refuse_reference(self) -> None:
        if self.flags.any_case or self.in_lookbehind:
            self.cursor.refuse("a back reference under (?i) or in a lookbehind is not supported")

    def _group(self) -> str | None:
        cursor = self.cursor
        for opening in _LOOKAROUND:
            if cursor.starts(opening):
                return self._inside(opening, lookbehind="<" in opening)
        if cursor.starts("(?:") or cursor.starts("(?>"):
            return self._inside(cursor.ahead(3))
        if cursor.starts("(?<"):
            return self._named_group()
        if cursor.starts("(?"):
            return self._flag_group()
        self.groups += 1
        return self._inside("(")

    def _inside(self, opening: str, *, lookbehind: bool = False, written: str = "") -> str:
        self.cursor.advance(len(opening))
        self.in_lookbehind += lookbehind
        text = self._alternatives()
        self.in_lookbehind -= lookbehind
        if not self.cursor.take(")"):
            self.cursor.refuse("a parenthesis is not closed")
        return f"{written or opening}{text})"

    def _named_group(self) -> str:
        name = self.cursor.text_between("(?<", ">")
        if name is None or not _GROUP_NAME.fullmatch(name) or name in self.names:
            self.cursor.refuse(
                "a group name must start with a letter, have only letters and digits, and be used only once"
            )
        self.groups += 1
        self.names.add(name)
        return self._inside(f"(?<{name}>")

    def _flag_group(self) -> str | None:
        match = _FLAGS.match(self.cursor.pattern, self.cursor.position)
        if match is None:
            self.cursor.refuse("(? does not start a known kind of group")
        before = self.flags
        changed = self._flagged(match.group(1), match.group(2) or "")
        if match.group(3) == ":":
            self.flags = changed
            text = self._inside(match.group(), written="(?:")
            self.flags = before
            return text
        self.cursor.advance(len(match.group()))
        self.flags = changed
        return None

    def _flagged(self, on: str, off: str) -> _Flags:
        for letter in on + off:
            if letter not in "is":
                self.cursor.refuse(f"mmtool does not support the flag {letter}, only i and s")
        any_case = (self.flags.any_case or "i" in on) and "i" not in off
        dot_all = (self.flags.dot_all or "s" in on) and "s" not in off
        return _Flags(any_case, dot_all)

    def _quantifier(self) -> str:
        cursor = self.cursor
        if cursor.at_end or cursor.peek() not in "*+?{":
            return ""
        count = self._bounds() if cursor.peek() == "{" else cursor.take_char()
        if self.in_lookbehind and (count in "*+" or count.endswith(",}")):
            cursor.refuse("a lookbehind has no obvious maximum length")
        mode = cursor.take_char() if not cursor.at_end and cursor.peek() in "?+" else ""
        if not cursor.at_end and cursor.peek() in "*+?{":
            cursor.refuse(f"{cursor.peek()} has nothing to repeat")
        return count + mode

    def _bounds(self) -> str:
        match = _BOUNDS.match(self.cursor.pattern, self.cursor.position)
        if match is None:
            self.cursor.refuse("{ is not followed by a count: write [{] for the character")
        if any(len(digits) > _MOST_DIGITS for digits in match.groups("")):
            self.cursor.refuse("a count is too large")
        low, high = int(match.group(1)), match.group(3)
        if high and int(high) < low:
            self.cursor.refuse(f"the second count of {match.group()} is less than the first")
        self.cursor.advance(len(match.group()))
        return match.group()


def _not_line_end() -> str:
    return (~LINE_ENDS).as_class()
