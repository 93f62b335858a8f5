"""Sets of characters as sorted, disjoint ranges: the content of a Java character class, without its syntax."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class CodePoints:
    """A set of code points.

    Attributes:
        ranges: Inclusive (first, last) pairs, ascending and not touching.
    """

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CodePoints:
        """The set of any ranges, in any order, overlapping or not."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def chars(cls, text: str) -> CodePoints:
        return cls.of((ord(char), ord(char)) for char in text)

    def __contains__(self, point: int) -> bool:
        index = bisect_right(self.ranges, (point, _LAST)) - 1
        return index >= 0 and self.ranges[index][1] >= point

    def __or__(self, other: CodePoints) -> CodePoints:
        return CodePoints.of((*self.ranges, *other.ranges))

    def __and__(self, other: CodePoints) -> CodePoints:
        return ~(~self | ~other)

    def __invert__(self) -> CodePoints:
        gaps = []
        start = 0
        for first, last in self.ranges:
            if first > start:
                gaps.append((start, first - 1))
            start = last + 1
        if start <= _LAST:
            gaps.append((start, _LAST))
        return CodePoints(tuple(gaps))

    def any_ascii_case(self) -> CodePoints:
        """The set with both cases of every ASCII letter in it: Java's CASE_INSENSITIVE without UNICODE_CASE."""
        letters = [chr(p) for p in range(128) if chr(p).isalpha() and p in self]
        return self | CodePoints.chars("".join(letters).swapcase())

    def as_class(self) -> str:
        """The set as a character class of the ``regex`` module, every character escaped."""
        if not self.ranges:
            return "(?!)"
        return "[" + "".join(_span(first, last) for first, last in self.ranges) + "]"


def _span(first: int, last: int) -> str:
    return f"\\U{first:08x}" if first == last else f"\\U{first:08x}-\\U{last:08x}"


@lru_cache(maxsize=64)
def with_property(name: str) -> CodePoints | None:
    r"""All characters with a Unicode property of the ``regex`` module; None where it has no such property."""
    try:
        pattern = regex.compile(rf"\p{{{name}}}+", regex.V1)
    except regex.error:
        return None
    return CodePoints.of(
        (ord(m.group()[0]), ord(m.group()[-1])) for m in pattern.finditer(_every_character())
    )


@lru_cache(maxsize=1)
def _every_character() -> str:
    return "".join(chr(point) for point in range(_LAST + 1) if point not in _SURROGATES)


ASCII = CodePoints(((0, 127),))
DIGIT = CodePoints.of([(0x30, 0x39)])
UPPER = CodePoints.of([(0x41, 0x5A)])
LOWER = CodePoints.of([(0x61, 0x7A)])
ALPHA = UPPER | LOWER
WORD = ALPHA | DIGIT | CodePoints.chars("_")
SPACE = CodePoints.chars(" \t\n\x0b\f\r")
HORIZONTAL = CodePoints.chars(" \t\xa0\u1680\u180e\u202f\u205f\u3000") | CodePoints.of([(0x2000, 0x200A)])
VERTICAL = CodePoints.chars("\n\x0b\f\r\x85\u2028\u2029")
LINE_ENDS = CodePoints.chars("\n\r\x85\u2028\u2029")
PUNCTUATION = CodePoints.of([(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)])

POSIX = {
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": ASCII,
    "Alpha": ALPHA,
    "Digit": DIGIT,
    "Alnum": ALPHA | DIGIT,
    "Punct": PUNCTUATION,
    "Graph": ALPHA | DIGIT | PUNCTUATION,
    "Print": ALPHA | DIGIT | PUNCTUATION | CodePoints.chars(" "),
    "Blank": CodePoints.chars(" \t"),
    "Cntrl": CodePoints.of([(0, 0x1F), (0x7F, 0x7F)]),
    "XDigit": DIGIT | CodePoints.of([(0x41, 0x46), (0x61, 0x66)]),
    "Space": SPACE,
}
"""Java's POSIX classes: US-ASCII only."""
