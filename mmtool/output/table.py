"""Draw tables.

Without a terminal every column is written in full, two blanks apart, as Kafka's own tools do: ``awk`` and
``grep`` see the whole value, and a line is a row.
"""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from mmtool.output.layout import GAP, fold, width
from mmtool.output.values import UNKNOWN_CELL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.output.layout import Layout, Strip

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
