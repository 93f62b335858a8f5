"""The explicit value ``UNKNOWN``, so that no number has to stand for it."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Unknown(Enum):
    """The type of `UNKNOWN`; write ``int | Unknown`` for a number that may be unknown."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""Not known. Compare with ``is``: type checkers narrow on it."""
