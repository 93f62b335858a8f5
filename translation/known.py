"""The explicit value ``UNKNOWN``, so that no number has to stand for it."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeVar

_T = TypeVar("_T")


class Unknown(Enum):
    """The type of `UNKNOWN`; write ``int | Unknown`` for a number that may be unknown."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""Not known. Compare with ``is``: type checkers narrow on it."""


def or_none(value: _T | Unknown) -> _T | None:
    """The value as JSON rows and optional fields have it: None where it is unknown."""
    return None if value is UNKNOWN else value
