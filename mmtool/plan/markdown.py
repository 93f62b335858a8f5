"""Write names and sentences into a Markdown page, where neither can start markup of its own or leave its line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

_BACKQUOTES = re.compile("`+")


def prose(text: str) -> str:
    """A sentence in one line, without HTML; it may also stand in a table's cell."""
    return _cell(text).replace("<", "&lt;")


def code(text: str) -> str:
    """A name or a command as code, between more backquotes than it has itself; it may also stand in a cell."""
    shown = _cell(text)
    longest = max(map(len, _BACKQUOTES.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"


def row(cells: Iterable[str]) -> str:
    """A row of a table; its cells are prose or code."""
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")
