"""Build HTML as text; every inserted value is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from mmtool.output.values import UNKNOWN_CELL
from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any) -> Html:
    """A value as HTML for people; an unknown one as a dash."""
    if isinstance(value, Html):
        return value
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    if isinstance(value, (int, float)):
        return Html(f"{value:,}")
    return Html(escape(printable(str(value)))) if value not in (None, "") else Html(UNKNOWN_CELL)


def plain_number(value: int | None) -> Html:
    """An offset or a partition number as HTML, without separators, so that it can be copied."""
    return Html(UNKNOWN_CELL if value is None else str(value))


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An HTML element; a trailing underscore of an attribute's name is removed (``class_``)."""
    said = "".join(f' {key.rstrip("_")}="{escape(printable(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{said}>{''.join(map(text, children))}</{name}>")


def joined(parts: Iterable[Html]) -> Html:
    """The parts in order, each on its own line."""
    return Html("\n".join(parts))


def facts(pairs: Iterable[tuple[Any, Any]]) -> Html:
    """An HTML table with two columns: names and values."""
    rows = [tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in pairs]
    return tag("table", joined(rows), class_="facts")


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]]) -> Html:
    """An HTML table with headings.

    Args:
        columns: For each the heading and the kind of its values: ``number``, ``word`` (not broken), ``name`` or
            ``prose``.
        rows: The values of each row.
    """
    head = tag("tr", *(tag("th", heading, scope="col", class_=kind) for heading, kind in columns))
    kinds = [kind for _, kind in columns]
    body = [
        tag("tr", *(tag("td", value, class_=kind) for value, kind in zip(row, kinds, strict=True)))
        for row in rows
    ]
    whole = tag("table", tag("thead", head), tag("tbody", joined(body)))
    return tag("div", whole, class_="scroll")


def section(title: str, *children: Any) -> Html:
    """A section of the page with a heading."""
    return tag("section", tag("h2", title), *children)


def fold(title: Any, content: Html, *, is_open: bool) -> Html:
    """Content that can be folded on the page; folded content is not printed."""
    opened = ' open=""' if is_open else ""
    return Html(f"<details{opened}>{tag('summary', title)}{content}</details>")
