"""Filters of topics, groups and topic configs: include and exclude patterns over whole names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from mmtool.config.javaregex import PatternRefusedError, compile_java

__all__ = ["LITERAL", "NameFilter", "PatternRefusedError"]

LITERAL = re.compile(r"[\w.-]+", re.ASCII)
"""A pattern that is the literal name of one topic or group."""


@dataclass(frozen=True, slots=True)
class NameFilter:
    """MM2's ``DefaultTopicFilter`` and its siblings.

    The patterns of a list are joined with ``|`` and must match the whole name. An empty include matches
    nothing, an empty exclude excludes nothing, an exclude wins.

    Attributes:
        include: Java regular expressions, as in the file.
        exclude: Likewise.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an invalid pattern at once, rather than at the first name.

        Raises:
            PatternRefusedError: One pattern is not Java's, or mmtool cannot give it the same meaning.
        """
        compile_list(self.include)
        compile_list(self.exclude)

    def accepts(self, name: str) -> bool:
        """Whether the filter includes a name of a topic, group or topic config, and does not exclude it."""
        return _matches(self.include, name) and not self.excludes(name)

    def excludes(self, name: str) -> bool:
        """Whether the filter excludes a name, which its patterns may include."""
        return _matches(self.exclude, name)

    def literals(self) -> tuple[str, ...] | None:
        """The names that the filter includes, where each is literal; None where one is a pattern."""
        return self.include if all(map(LITERAL.fullmatch, self.include)) else None

    def refusal(self, name: str) -> str:
        """The reason why a name is not accepted, with the pattern; empty where it is accepted."""
        if self.excludes(name):
            return f"excluded by {self._pattern_of(name) or ', '.join(self.exclude)}"
        if _matches(self.include, name):
            return ""
        return f"not matched by {', '.join(self.include)}" if self.include else "not matched by an empty list"

    def _pattern_of(self, name: str) -> str:
        """The first exclude that matches alone; none may, since a list is joined before it is compiled, as in MM2."""
        for pattern in self.exclude:
            try:
                if _matches((pattern,), name):
                    return pattern
            except PatternRefusedError:
                continue
        return ""

    def select(self, names: Iterable[str]) -> list[str]:
        """The accepted names, in the order given."""
        return [name for name in names if self.accepts(name)]


@lru_cache(maxsize=256)
def compile_list(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """The list joined to one compiled pattern; None for an empty list.

    When only the joined text fails, the error names the whole list: MM2 joins before it compiles, so a list
    such as ``a(b, c)d`` is one valid pattern.
    """
    if not patterns:
        return None
    try:
        return compile_java("|".join(patterns))
    except PatternRefusedError:
        for pattern in patterns:
            compile_java(pattern)
        raise


def matches_java(pattern: str, name: str) -> bool:
    """Whether a regular expression of Java matches a whole name."""
    return _matches((pattern,), name)


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    compiled = compile_list(patterns)
    return compiled is not None and compiled.fullmatch(name) is not None
