"""Everything wrong with a file, collected: an operator mends it in one go, not one error per start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.config.redaction import HIDDEN
from mmtool.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config.properties import Entry


class InvalidConfigError(ConfigError):
    """The file has problems.

    Attributes:
        problems: One line each: file, line, key, value, what is expected.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(
            "\n".join(problems), remedy="`mmtool config check` reads the file and connects nowhere"
        )
        self.problems = problems


class Report:
    """Problems and warnings in the order found, each once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._problems: dict[str, None] = {}
        self._warnings: dict[str, None] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self._problems)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def expected(self, entry: Entry, expectation: str, *, hidden: bool = False) -> None:
        """A value that cannot be used. Quotes it as the file has it, so a resolved secret never shows."""
        value = HIDDEN if hidden else entry.raw
        self._problems[f"{self._at(entry)}: {entry.key} = {value}: expected {expectation}"] = None

    def refused(self, entry: Entry, sentence: str) -> None:
        """A key that cannot be honoured; its value is not quoted."""
        self._problems[f"{self._at(entry)}: {entry.key}: {sentence}"] = None

    def problem(self, sentence: str) -> None:
        """A problem of the file as a whole."""
        self._problems[f"{self.path}: {sentence}"] = None

    def warn(self, entry: Entry, sentence: str) -> None:
        self._warnings[f"{self._at(entry)}: {entry.key}: {sentence}"] = None

    def raise_problems(self) -> None:
        """Stop here if there are problems.

        Raises:
            InvalidConfigError: There are some.
        """
        if self._problems:
            raise InvalidConfigError(self.problems)

    def _at(self, entry: Entry) -> str:
        return f"{self.path}:{entry.line}"
