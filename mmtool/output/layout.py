"""Draw tables: rows summed up by group, fitted to a terminal's width in a fixed order of measures."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, zip_longest
from typing import Any

from mmtool.output.result import Column, OfGroup, Result, Rows
from mmtool.output.values import UNKNOWN_CELL, cell
from mmtool.plain_text import printable

_IDENTITY = ("source", "target", "group")
_MOST_NAMED = 3
_OF_SEVERAL: dict[str, dict[str, Any]] = {
    "partition": {"title": "PARTITIONS"},
    "topic": {"title": "TOPICS", "essential": False},
}
"""The columns that say it where their cells stand for several partitions; topics are the first that may be left out."""


def by_group(result: Result) -> Result:
    """The result with one row for each group, in the order in which the groups first appear."""
    columns = [(column, column.of_group) for column in result.columns or () if column.of_group is not None]
    groups: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for row in result.rows:
        groups.setdefault(tuple(row.get(key) for key in _IDENTITY), []).append(row)
    rows = [{column.key: of_group(of, column.key) for column, of_group in columns} for of in groups.values()]
    titled = [replace(column, **_OF_SEVERAL.get(column.key, {})) for column, _ in columns]
    return replace(result, rows=rows, columns=titled)


def same(rows: Rows, key: str) -> object:
    """The value that all rows of a group share, as its name."""
    return rows[0].get(key)


def partitions(rows: Rows, _: str) -> int:
    """The number of the group's partitions."""
    return sum(row.get("partition") is not None for row in rows)


def names(rows: Rows, key: str) -> str:
    """The different names, the first three in full."""
    known = sorted({str(row[key]) for row in rows if row.get(key)})
    more = len(known) - _MOST_NAMED
    return ", ".join(known[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def words(rows: Rows, key: str) -> str:
    """The word that all rows share, else how many rows have each: ``3 exact, 1 refused``; none without a word."""
    counts = Counter(str(row[key]) for row in rows if row.get(key))
    if len(counts) == 1 and counts.total() == len(rows):
        return next(iter(counts))
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))


def flag(rows: Rows, key: str) -> object:
    """The value that all rows share; else how many are true: ``3 of 4``. None if it is unknown for one."""
    values = [row.get(key) for row in rows]
    if None in values:
        return None
    return values[0] if len(set(values)) == 1 else f"{sum(map(bool, values))} of {len(values)}"


def largest(rows: Rows, key: str) -> float | None:
    """The largest number; None where none is known."""
    return max((number for row in rows if isinstance(number := row.get(key), int | float)), default=None)


def smallest(rows: Rows, key: str) -> float | None:
    """The smallest number; None where none is known."""
    return min((number for row in rows if isinstance(number := row.get(key), int | float)), default=None)


def total(concerns: Callable[[Mapping[str, object]], bool]) -> OfGroup:
    """The sum over the rows; None if one of those that ``concerns`` accepts is unknown, or no row has a number."""

    def summed(rows: Rows, key: str) -> int | None:
        numbers = [number for row in rows if isinstance(number := row.get(key), int)]
        unknown = any(row.get(key) is None and concerns(row) for row in rows)
        return None if unknown or not numbers else sum(numbers)

    return summed


def first(concerns: Callable[[Mapping[str, object]], bool]) -> OfGroup:
    """The text of the first row that ``concerns`` accepts, and how many rows have others; else the first text."""

    def chosen(rows: Rows, key: str) -> str:
        texts = [str(row[key]) for row in sorted(rows, key=lambda row: not concerns(row)) if row.get(key)]
        others = len(set(texts)) - 1
        more = "1 more reason" if others == 1 else f"{others} more reasons"
        return f"{texts[0]} ({more} with --partitions)" if others > 0 else "".join(texts[:1])

    return chosen


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
    return Layout(
        tuple(
            Strip(column, tuple(_text(row.get(column.key), column) for row in result.rows), (column.heading,))
            for column in result.table_columns()
        )
    )


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


_BOLD = "1"
_INDENT = GAP * 2
_SGR = {
    **dict.fromkeys(("exact", "synced", "caught_up", "completed", "identical", "done", "ok"), "32"),
    **dict.fromkeys(
        ("bounded", "behind", "paused", "failed_over", "waiting", "idle", "stale", "incomplete", "undone"),
        "33",
    ),
    **dict.fromkeys(("refused", "halted", "failed", "different", "ahead"), "31"),
}


def draw(shown: Layout, *, columns: int = 0, color: bool = False) -> str:
    """The layout as text; ``columns`` is the terminal's width, 0 without a terminal."""
    if shown.blocks:
        return _blocks(shown, color=color)
    return "".join(
        [*_above(shown, columns), *_heading(shown, color=color), *_rows(shown, columns, color=color)]
    )


def _above(shown: Layout, columns: int) -> list[str]:
    said = ", ".join(f"{strip.column.heading} {strip.cells[0]}" for strip in shown.above)
    if not said:
        return []
    wrapper = textwrap.TextWrapper(
        columns, subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False
    )
    return [f"{line}\n" for line in wrapper.wrap(f"In every row: {said}")]


def _heading(shown: Layout, *, color: bool) -> Iterator[str]:
    height = max(len(strip.heading) for strip in shown.strips)
    padded = [(*[""] * (height - len(strip.heading)), *strip.heading) for strip in shown.strips]
    for texts in zip(*padded, strict=True):
        yield _line(texts, shown.strips, [_BOLD if color else ""] * len(texts))


def _rows(shown: Layout, columns: int, *, color: bool) -> Iterator[str]:
    for number, row in enumerate(zip(*(strip.cells for strip in shown.strips), strict=True)):
        styles = [_SGR.get(text, "") if color else "" for text in row]
        pieces = (fold(text, strip.limit) for text, strip in zip(row, shown.strips, strict=True))
        for texts in zip_longest(*pieces, fillvalue=""):
            yield _line(texts, shown.strips, styles)
        yield from _notes([strip.cells[number] for strip in shown.notes], columns)


def _notes(texts: Iterable[str], columns: int) -> Iterator[str]:
    """The notes of a row as indented lines below it."""
    for text in texts:
        if text != UNKNOWN_CELL:
            yield from (f"{_INDENT}{piece.rstrip()}\n" for piece in fold(text, columns - len(_INDENT)))


def _line(texts: Sequence[str], strips: Sequence[Strip], styles: Sequence[str]) -> str:
    padded = []
    for text, strip, sgr in zip(texts, strips, styles, strict=True):
        blanks, painted = " " * (strip.width - width(text)), _painted(text, sgr)
        padded.append(blanks + painted if strip.numeric else painted + blanks)
    return GAP.join(padded).rstrip() + "\n"


def _blocks(shown: Layout, *, color: bool) -> str:
    label = max(width(strip.column.heading) for strip in shown.strips)
    headings = [
        _painted(strip.column.heading.ljust(label), _BOLD if color else "") + GAP for strip in shown.strips
    ]
    rows = zip(*(strip.cells for strip in shown.strips), strict=True)
    return "\n".join(
        "".join(f"{head}{text}\n" for head, text in zip(headings, row, strict=True)) for row in rows
    )


def _painted(word: str, sgr: str) -> str:
    return f"\033[{sgr}m{word}\033[0m" if sgr and word else word
