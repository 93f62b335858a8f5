"""Results for people.

Off a terminal every column is written in full, two blanks apart, as Kafka's own tools do: ``awk`` and
``grep`` see the whole value. On a terminal that is too narrow, columns without content go first, then those
that are not essential, from the right; what is left is folded, never cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.output.values import UNKNOWN_CELL, cell, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.output.result import Column, Result

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as text, column by column.

    Attributes:
        columns: What each column is.
        cells: One list of texts per column, headings not included.
    """

    columns: tuple[Column, ...]
    cells: tuple[tuple[str, ...], ...]

    def widths(self) -> list[int]:
        """Characters that each column needs."""
        return [
            max(map(len, (column.heading, *texts)))
            for column, texts in zip(self.columns, self.cells, strict=True)
        ]

    def total_width(self) -> int:
        return sum(self.widths()) + GAP * max(len(self.columns) - 1, 0)

    def without(self, index: int) -> Grid:
        """The same table without one column."""
        keep = [i for i in range(len(self.columns)) if i != index]
        return Grid(tuple(self.columns[i] for i in keep), tuple(self.cells[i] for i in keep))


def grid(result: Result) -> Grid:
    """The result as text."""
    columns = tuple(result.table_columns())
    return Grid(columns, tuple(tuple(_text(row.get(c.key), c) for row in result.rows) for c in columns))


def full_text(table: Grid) -> str:
    """Every column in full; numbers to the right."""
    widths, right = table.widths(), [_is_numeric(texts) for texts in table.cells]
    lines = [tuple(column.heading for column in table.columns), *zip(*table.cells, strict=True)]
    return "".join(_line(line, widths, right) for line in lines)


def fitted(table: Grid, width: int) -> tuple[Grid, list[str]]:
    """The table with as many columns as the width takes, and the keys of those left out."""
    left_out: list[str] = []
    while table.total_width() > width and (index := _least_wanted(table)) is not None:
        left_out.insert(0, table.columns[index].key)
        table = table.without(index)
    return table, left_out


def terminal_text(table: Grid, width: int, *, color: bool) -> str:
    """The table for a terminal of that width, drawn by rich; topic and group names are text, never markup."""
    import io  # noqa: PLC0415 - with rich, only where a terminal is

    from rich.console import Console  # noqa: PLC0415 - start-up time
    from rich.table import Table  # noqa: PLC0415 - start-up time
    from rich.text import Text  # noqa: PLC0415 - start-up time

    drawn = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for column, texts in zip(table.columns, table.cells, strict=True):
        numeric = _is_numeric(texts)
        drawn.add_column(
            column.heading, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for line in zip(*table.cells, strict=True):
        drawn.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in line))
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, no_color=not color, highlight=False
    )
    with console.capture() as capture:
        console.print(drawn)
    return capture.get()


_STYLES = {
    **dict.fromkeys(("exact", "synced", "caught_up", "completed", "identical", "done"), "green"),
    **dict.fromkeys(("bounded", "behind", "paused", "waiting", "stale", "incomplete", "undone"), "yellow"),
    **dict.fromkeys(("refused", "halted", "failed", "different", "ahead"), "red"),
}


def _text(value: object, column: Column) -> str:
    if value is None or column.human is None:
        return cell(value)
    return printable(column.human(value)) or UNKNOWN_CELL


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(texts, widths, right, strict=True)
    ]
    return (" " * GAP).join(padded).rstrip() + "\n"


def _is_numeric(texts: Sequence[str]) -> bool:
    known = [text for text in texts if text != UNKNOWN_CELL]
    return bool(known) and all(text[0].isdigit() for text in known)


def _least_wanted(table: Grid) -> int | None:
    last_first = range(len(table.columns) - 1, -1, -1)
    empty = [i for i in last_first if table.cells[i] and set(table.cells[i]) == {UNKNOWN_CELL}]
    optional = [i for i in last_first if not table.columns[i].essential]
    return next(iter((*empty, *optional)), None)
