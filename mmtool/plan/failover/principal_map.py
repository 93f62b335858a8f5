"""The names of producers' principals on the other cluster: the file of ``--principal-map``."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.plan.failover.acl_rules import EVERYBODY
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HEADER = ["source_principal", "target_principal"]


@dataclass(frozen=True, slots=True)
class PrincipalMap:
    """The names of principals on the target; principals that are not named keep theirs.

    Attributes:
        names: By the name on the source; an empty name stands for a principal that is not promoted.
    """

    names: Mapping[str, str] = field(default_factory=dict)

    def of(self, principal: str) -> str | None:
        """The principal's name on the target; None if it is not promoted."""
        return self.names.get(principal, principal) or None


SAME_NAMES = PrincipalMap()


def read_principal_map(lines: Iterable[str]) -> PrincipalMap:
    """Read a map from CSV: two columns, the source's principal and the target's; a header may name them.

    Raises:
        ValueError: A line is not of that form, or a principal is named twice; the message has the line's number.
    """
    names: dict[str, str] = {}
    rows = csv.reader(lines, strict=True)
    try:
        for row in rows:
            cells = [cell.strip() for cell in row]
            if any(cells) and not (rows.line_num == 1 and cells == _HEADER):
                here, there = _pair(cells, rows.line_num, names)
                names[here] = there
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from error
    return PrincipalMap(names)


def _pair(cells: list[str], line: int, names: Mapping[str, str]) -> tuple[str, str]:
    if len(cells) != len(_HEADER):
        raise ValueError(f"line {line} has {counted(len(cells), 'column')} instead of 2")
    here, there = cells
    for name in (here, there or here):
        kind, _, rest = name.partition(":")
        if not (kind and rest):
            raise ValueError(f"line {line}: {name!r} is not a principal such as User:app")
    if here in names:
        raise ValueError(f"line {line}: {here} is named twice")
    if EVERYBODY in {here, there} and there not in {"", here}:
        raise ValueError(f"line {line}: {EVERYBODY} cannot be renamed, and no principal can become it")
    return here, there
