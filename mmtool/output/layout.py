"""Fit a table to a terminal's width, in a fixed order of measures.

The order: headings take several lines; values that are the same in every row are shown once, above the
table; names of columns that allow it are shortened in the middle, as long as they still differ; columns that are
not essential are left out from the right, and named on stderr; sentences go below their rows; verdicts and reasons
that are the same in every row go above the table as well; long texts are folded; at last each row becomes a block of
lines with every text in full. Numbers are never folded and never cut.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from mmtool.output.group_rows import by_group
from mmtool.output.values import UNKNOWN_CELL, cell
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from mmtool.output.result import Column, Result

GAP = "  "
"""The blanks between two columns."""

ELLIPSIS = "..."
"""The mark in the middle of a shortened name."""

NAME_SHARE = 3
"""The divisor of the terminal's width that limits a shortened name: one third."""

NARROWEST_FOLD = 20
"""The smallest width of a folded name in terminal cells; narrower ones cannot be read."""

_NUMBER = re.compile(r"(?!\d+\.\d+\.)\d\S*(?: \S+)?")
"""A number, a date, or a number with its unit, as ``3m 20s`` and ``1.2 MB/s``; no address, and no longer text."""


@dataclass(frozen=True)
class Strip:
    """One column as text, with cached widths: every line of a table needs them.

    Attributes:
        column: The column that it shows.
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
        """The terminal cells that the column takes."""
        widest = max(map(width, self.cells), default=0)
        return max(*map(width, self.heading), min(widest, self.limit or widest))

    @cached_property
    def numeric(self) -> bool:
        known = [text for text in self.cells if text != UNKNOWN_CELL]
        return bool(known) and all(_NUMBER.fullmatch(text) for text in known)

    @property
    def constant(self) -> bool:
        return len(self.cells) > 1 and len(set(self.cells)) == 1

    def narrowed(self) -> Strip:
        """The column with one word of its heading per line."""
        *words, last = self.column.heading.split("-")
        return replace(self, heading=(*(f"{word}-" for word in words), last))

    def elided(self, limit: int) -> Strip:
        """The column with names shortened in the middle to ``limit`` cells; unchanged where two would look the same."""
        cells = tuple(elide(text, limit) for text in self.cells) if self.column.elide else self.cells
        is_clear = cells != self.cells and len(set(cells)) == len(set(self.cells))
        return replace(self, cells=cells) if is_clear else self

    def folded(self, surplus: int) -> Strip:
        """The column narrowed by ``surplus`` cells, as far as names can still be read; numbers stay unchanged."""
        if self.numeric or self.width <= NARROWEST_FOLD:
            return self
        limit = max(self.width - surplus, NARROWEST_FOLD)
        elided = self.elided(limit)
        return replace(self, limit=limit) if elided is self else elided


@dataclass(frozen=True, slots=True)
class Layout:
    """A result's table at some width.

    Attributes:
        strips: The table's columns.
        above: Values that are shown once, because they are the same in every row.
        left_out: Keys of the columns that did not fit.
        elided: Some names are shortened.
        notes: Columns whose texts are written below their rows.
        blocks: Each row is a block of lines instead.
    """

    strips: tuple[Strip, ...]
    above: tuple[Strip, ...] = ()
    left_out: tuple[str, ...] = ()
    elided: bool = False
    notes: tuple[Strip, ...] = ()
    blocks: bool = False

    @property
    def width(self) -> int:
        return sum(strip.width for strip in self.strips) + len(GAP) * max(len(self.strips) - 1, 0)


def layout(result: Result) -> Layout:
    """The layout with every column in full, and a row for each group where the result asks for that."""
    result = by_group(result) if result.per_group else result
    return Layout(tuple(_strip(column, result) for column in result.table_columns()))


def fitted(whole: Layout, columns: int) -> Layout:
    """The first layout that fits into ``columns`` cells, tried from the fullest to the narrowest."""
    narrowed = replace(whole, strips=tuple(strip.narrowed() for strip in whole.strips))
    lifted = _lifted(narrowed)
    thinner = _thinner(_elided(lifted, max(columns // NAME_SHARE, NARROWEST_FOLD)))
    noted = [_noted(one) for one in thinner]
    last = _lifted(noted[-1], verdicts=True)
    for candidate in (
        whole,
        narrowed,
        lifted,
        *thinner,
        _noted(narrowed),
        *noted,
        last,
        _folded(last, columns),
    ):
        if candidate.width <= columns:
            return candidate
    return replace(whole, blocks=True)


def width(text: str) -> int:
    """The terminal cells that a text takes: East Asian wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def fold(text: str, limit: int) -> list[str]:
    """The text in pieces of at most ``limit`` cells, split after a blank where there is one; whole where it is 0."""
    pieces = [""]
    for character in text:
        while limit and pieces[-1] and width(pieces[-1] + character) > limit:
            kept = pieces[-1].rfind(" ") + 1 or len(pieces[-1])
            pieces[-1:] = [pieces[-1][:kept], pieces[-1][kept:]]
        pieces[-1] += character
    return pieces


def elide(text: str, limit: int) -> str:
    """The text's start and end within ``limit`` terminal cells; the whole text where it fits."""
    if width(text) <= limit:
        return text
    room = limit - len(ELLIPSIS)
    tail = _prefix(text[::-1], room // 2)[::-1]
    return f"{_prefix(text, room - width(tail))}{ELLIPSIS}{tail}"


def _prefix(text: str, limit: int) -> str:
    used = accumulate(_cells(character) for character in text)
    return text[: sum(cells <= limit for cells in used)]


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


def _lifted(whole: Layout, *, verdicts: bool = False) -> Layout:
    above = tuple(
        strip for strip in whole.strips if strip.constant and (verdicts or not strip.column.verdict)
    )
    kept = tuple(strip for strip in whole.strips if strip not in above)
    return replace(whole, strips=kept, above=(*whole.above, *above)) if kept else whole


def _elided(whole: Layout, limit: int) -> Layout:
    strips = tuple(strip.elided(limit) for strip in whole.strips)
    return replace(whole, strips=strips, elided=strips != whole.strips)


def _thinner(whole: Layout) -> list[Layout]:
    """The layout, then one column fewer each time, until only essential columns are left."""
    thinner = [whole]
    for strip in reversed([strip for strip in whole.strips if not strip.column.essential]):
        last = thinner[-1]
        if len(last.strips) > 1:
            kept = tuple(other for other in last.strips if other is not strip)
            thinner.append(replace(last, strips=kept, left_out=(strip.column.key, *last.left_out)))
    return thinner


def _noted(whole: Layout) -> Layout:
    notes = tuple(strip for strip in whole.strips if strip.column.note)
    return replace(whole, strips=tuple(s for s in whole.strips if not s.column.note), notes=notes)


def _folded(whole: Layout, columns: int) -> Layout:
    """The layout with names folded, the widest first, until it fits or all are as narrow as can be read."""
    for strip in sorted(whole.strips, key=lambda strip: -strip.width):
        surplus = max(whole.width - columns, 0)
        narrower = strip.folded(surplus)
        strips = tuple(narrower if other is strip else other for other in whole.strips)
        is_elided = whole.elided or narrower.cells != strip.cells
        whole = replace(whole, strips=strips, elided=is_elided)
    return whole
