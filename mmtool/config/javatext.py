"""A cursor over a Java pattern, and the error that names a position in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn


class PatternRefusedError(ValueError):
    """A pattern that Java refuses, or that mmtool cannot give Java's meaning.

    Attributes:
        pattern: As in the file.
        reason: What is wrong with it.
    """

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(f"{pattern}: {reason}")
        self.pattern = pattern
        self.reason = reason

    def __reduce__(self) -> tuple[type[PatternRefusedError], tuple[str, str]]:
        return type(self), (self.pattern, self.reason)


@dataclass(slots=True)
class Cursor:
    """Reads a pattern; ``position`` is the next character."""

    pattern: str
    position: int = 0

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.pattern)

    def peek(self, distance: int = 0) -> str:
        """The character at ``distance`` from the position, or an empty string past the end."""
        return self.pattern[self.position + distance : self.position + distance + 1]

    def ahead(self, length: int) -> str:
        return self.pattern[self.position : self.position + length]

    def starts(self, text: str) -> bool:
        return self.pattern.startswith(text, self.position)

    def advance(self, length: int = 1) -> None:
        self.position += length

    def take(self, text: str) -> bool:
        """Step over ``text`` if it is next."""
        found = self.starts(text)
        if found:
            self.advance(len(text))
        return found

    def take_char(self) -> str:
        char = self.peek()
        if not char:
            self.refuse("the pattern ends too early")
        self.advance()
        return char

    def text_between(self, opening: str, closing: str) -> str | None:
        """The text between two delimiters, without stepping over it; None where nothing closes it."""
        start = self.position + len(opening)
        end = self.pattern.find(closing, start)
        return None if end < 0 else self.pattern[start:end]

    def delimited(self, opening: str, closing: str) -> str:
        """The text between two delimiters, stepped over; the pattern is refused where they are missing."""
        text = self.text_between(opening, closing) if self.starts(opening) else None
        if text is None:
            self.refuse(f"expected {opening}NAME{closing}")
        self.advance(len(opening) + len(text) + len(closing))
        return text

    def quoted(self) -> str:
        r"""The text of ``\Q...\E``, stepped over."""
        text = self.text_between("\\Q", "\\E")
        if text is None:
            text = self.pattern[self.position + 2 :]
            self.position = len(self.pattern)
            return text
        self.advance(len(text) + 4)
        return text

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the pattern, with the reason and the position.

        Raises:
            PatternRefusedError: Always.
        """
        where = (
            f"character {self.position + 1}"
            if self.position < len(self.pattern)
            else "the end of the pattern"
        )
        raise PatternRefusedError(self.pattern, f"{reason} (at {where})")
