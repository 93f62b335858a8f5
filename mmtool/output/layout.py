"""How much of a table fits a terminal, and what gives way first.

In this order: headings take several lines; values that are the same in every row are said once, above the
table; columns that are not essential are left out from the right, and named on stderr; long names are folded;
at last each row becomes a block of lines. Numbers are never folded and nothing is ever cut.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mmtool.output.values import UNKNOWN_CELL, cell, printable

if TYPE_CHECKING:
    from mmtool.output.result import Column, Result

GAP = "  "
"""Between two columns."""

NARROWEST_FOLD = 20
"""Cells of the terminal below which a folded name cannot be read any more."""


@dataclass(frozen=True)
class Strip:
    """One column as text. What is derived from all its cells is found once: every line of a table asks for it.

    Attributes:
        column: What it shows.
        cells: One text per row.
        heading: The heading's lines.
        limit: Texts wider than this are folded; 0 for no limit.
    """

    column: Column
    cells: tuple[str, ...]
    heading: tuple[str, ...]
    limit: int = 0

    @cached_property
    def width(self) -> int:
        """Terminal cells that the column takes."""
        widest = max(map(width, self.cells), default=0)
        return max(*map(width, self.heading), min(widest, self.limit or widest))

    @cached_property
    def numeric(self) -> bool:
        known = [text for text in self.cells if text != UNKNOWN_CELL]
        return bool(known) and all(text[0].isdigit() for text in known)

    @property
    def constant(self) -> bool:
        return len(self.cells) > 1 and len(set(self.cells)) == 1

    def narrowed(self) -> Strip:
        """The heading one word per line."""
        *words, last = self.column.heading.split("-")
        return replace(self, heading=(*(f"{word}-" for word in words), last))

    def folded(self, surplus: int) -> Strip:
        """Narrower by the surplus, as far as names can still be read; numbers stay as they are."""
        if self.numeric or self.width <= NARROWEST_FOLD:
            return self
        return replace(self, limit=max(self.width - surplus, NARROWEST_FOLD))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a result is shown at some width.

    Attributes:
        strips: The table's columns.
        above: What is said once, because it is the same in every row.
        left_out: Keys of the columns that did not fit.
        blocks: Each row is a block of lines instead.
    """

    strips: tuple[Strip, ...]
    above: tuple[Strip, ...] = ()
    left_out: tuple[str, ...] = ()
    blocks: bool = False

    @property
    def width(self) -> int:
        return sum(strip.width for strip in self.strips) + len(GAP) * max(len(self.strips) - 1, 0)


def layout(result: Result) -> Layout:
    """Every column in full."""
    return Layout(tuple(_strip(column, result) for column in result.table_columns()))


def fitted(whole: Layout, columns: int) -> Layout:
    """The first layout that fits, from the fullest to the narrowest."""
    narrowed = replace(whole, strips=tuple(strip.narrowed() for strip in whole.strips))
    thinner = _thinner(_lifted(narrowed))
    for candidate in (whole, narrowed, *thinner, _folded(thinner[-1], columns)):
        if candidate.width <= columns:
            return candidate
    return replace(whole, blocks=True)


def width(text: str) -> int:
    """Terminal cells that a text takes: East Asian wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fold(text: str, limit: int) -> list[str]:
    """The text in pieces of at most ``limit`` terminal cells, behind a blank where it has one; whole when it is 0."""
    pieces = [""]
    for character in text:
        while limit and pieces[-1] and width(pieces[-1] + character) > limit:
            kept = pieces[-1].rfind(" ") + 1 or len(pieces[-1])
            pieces[-1:] = [pieces[-1][:kept], pieces[-1][kept:]]
        pieces[-1] += character
    return pieces


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _strip(column: Column, result: Result) -> Strip:
    return Strip(column, tuple(_text(row.get(column.key), column) for row in result.rows), (column.heading,))


def _text(value: object, column: Column) -> str:
    if value is None or column.human is None:
        return cell(value)
    return printable(column.human(value)) or UNKNOWN_CELL


def _lifted(whole: Layout) -> Layout:
    above = tuple(strip for strip in whole.strips if strip.constant)
    kept = tuple(strip for strip in whole.strips if not strip.constant)
    return replace(whole, strips=kept, above=above) if kept else whole


def _thinner(whole: Layout) -> list[Layout]:
    """The layout, then one column fewer each time, until only essential ones are left."""
    thinner = [whole]
    for strip in reversed([strip for strip in whole.strips if not strip.column.essential]):
        last = thinner[-1]
        if len(last.strips) > 1:
            kept = tuple(other for other in last.strips if other is not strip)
            thinner.append(replace(last, strips=kept, left_out=(strip.column.key, *last.left_out)))
    return thinner


def _folded(whole: Layout, columns: int) -> Layout:
    """Names folded, the widest first, until the table fits or all are as narrow as can be read."""
    for strip in sorted(whole.strips, key=lambda strip: -strip.width):
        surplus = max(whole.width - columns, 0)
        strips = tuple(other.folded(surplus) if other is strip else other for other in whole.strips)
        whole = replace(whole, strips=strips)
    return whole
