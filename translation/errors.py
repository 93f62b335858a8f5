"""Errors of the offset algebra. Pure: the packages that use it turn them into messages."""

from __future__ import annotations

from typing import Self


class InvariantError(Exception):
    """A run contradicts the runs before it.

    Attributes:
        letter: Which invariant of `mmtool.translation.runs` is broken: A, B, C or D.
        sentence: How, with the offsets.
    """

    def __init__(self, letter: str, sentence: str) -> None:
        super().__init__(f"its offset runs contradict each other: {sentence} (invariant {letter})")
        self.letter = letter
        self.sentence = sentence

    @classmethod
    def below(cls, side: str, offset: int, end: int) -> Self:
        """Invariant B (``source``) or C (``target``) is broken: an offset lies below the end of the map."""
        letter = "B" if side == "source" else "C"
        return cls(
            letter, f"{side} offset {offset} is not above {end - 1}, the last {side} offset of the map"
        )


class UnreadableStateError(Exception):
    """Stored state that cannot be trusted. It is refused, never guessed.

    Attributes:
        what: The thing that was being read, such as ``offset-runs block``.
        why: What is wrong with it, such as ``checksum 0x1 instead of 0x2``.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why
