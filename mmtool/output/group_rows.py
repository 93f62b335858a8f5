"""One table row for each group: the rows of its partitions, summed up column by column.

A column says by its ``of_group`` what the row of a group shows: a function of the group's rows and the column's key.
Columns without one are shown only with ``--partitions``. JSON and CSV always have a row for each partition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.output.result import Column, OfGroup, Result, Rows

_IDENTITY = ("source", "target", "group")
_MOST_NAMED = 3


def by_group(result: Result) -> Result:
    """The result with one row for each group, in the order in which the groups first appear."""
    columns = [(column, column.of_group) for column in result.columns or () if column.of_group is not None]
    groups: dict[tuple[object, ...], list[Mapping[str, object]]] = {}
    for row in result.rows:
        groups.setdefault(tuple(row.get(key) for key in _IDENTITY), []).append(row)
    rows = [{column.key: of_group(of, column.key) for column, of_group in columns} for of in groups.values()]
    return replace(result, rows=rows, columns=[_titled(column) for column, _ in columns])


def _titled(column: Column) -> Column:
    """The column with the heading that fits several partitions; a group's topics are the first that may be left out."""
    match column.key:
        case "partition":
            return replace(column, title="PARTITIONS")
        case "topic":
            return replace(column, title="TOPICS", essential=False)
        case _:
            return column


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
