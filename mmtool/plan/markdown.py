"""Write names and sentences into a Markdown page: in one line, names as code, and without HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_BACKQUOTES = re.compile("`+")
BAR = "\\|"
"""A bar inside a table's cell; outside of tables, code would show the backslash."""


def prose(text: str) -> str:
    """A sentence in one line, without HTML."""
    return printable(text).replace("<", "&lt;")


def code(text: str) -> str:
    """A name or a command as code, between more backquotes than it has itself."""
    shown = printable(text)
    longest = max(map(len, _BACKQUOTES.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"


def row(cells: Iterable[str]) -> str:
    """A row of a table; its cells are prose or code, whose bars end no cell."""
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"
