"""Java's regular expressions on the ``regex`` module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from regex import Pattern


class PatternRefusedError(ValueError):
    """A pattern that Java refuses, or that cannot be had here with Java's meaning."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern}: {reason}")
        self.pattern = pattern
        self.reason = reason


def compile_java(pattern: str) -> Pattern[str]:
    """Compile; use ``fullmatch`` on the result."""
    try:
        return regex.compile(pattern, regex.V1)
    except regex.error as error:
        raise PatternRefusedError(pattern, str(error)) from None
