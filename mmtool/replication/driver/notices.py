"""Deduplicated notices of a running flow: each is reported once until it changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class NoticeDeduplicator:
    """Reports a problem when it starts, not at every check."""

    say: Callable[[str], None]
    _said: dict[str, str] = field(default_factory=dict)

    def once(self, about: str, sentence: str) -> None:
        """Says the sentence, unless it is what was last said about the same thing."""
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            self.say(sentence)

    def is_said(self, about: str) -> bool:
        """Whether something is the matter with it, as far as was said."""
        return about in self._said

    def is_well(self, about: str) -> None:
        """What was said about it is over: the next time it is said again."""
        self._said.pop(about, None)
