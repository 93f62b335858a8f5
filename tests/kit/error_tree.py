"""The kinds of errors as the docstring of `mmtool.errors` draws them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mmtool import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_BRANCH = re.compile(r"^[│ ]*[├└]── (\w+) +([\d/]+) +(.+)$", re.MULTILINE)


class ErrorKind(NamedTuple):
    """One branch of the tree.

    Attributes:
        name: Of the class.
        exit_codes: As text: ``5, 6``.
        meaning: A clause.
        narrower: Its meaning is a part of that of the branch above.
    """

    name: str
    exit_codes: str
    meaning: str
    narrower: bool


def error_kinds() -> Iterator[ErrorKind]:
    """Every branch, from the top."""
    general = ""
    for name, codes, meaning in _BRANCH.findall(errors.__doc__ or ""):
        narrower = meaning.startswith("...")
        general = general if narrower else meaning
        yield ErrorKind(name, codes.replace("/", ", "), meaning.replace("...", general), narrower)
