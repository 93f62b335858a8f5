"""Tables of a scenario's files, of which every key has to be read by somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class ScenarioError(Exception):
    """A scenario's file cannot be used: which, and why."""


class Table:
    """A table of a TOML file whose every key must be taken."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self._left = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str, default: Any = None) -> Any:
        """A value; ``default`` where the file has none."""
        return self._left.pop(key, default)

    def need(self, key: str) -> Any:
        """A value that must be there.

        Raises:
            ScenarioError: It is not.
        """
        if key not in self._left:
            raise ScenarioError(f"{self.where}: {key} is missing")
        return self._left.pop(key)

    def table(self, key: str) -> Table:
        """A table in this one; an empty one where the file has none."""
        return Table(f"{self.where}, {key}", self.take(key, {}))

    def tables(self, key: str) -> list[Table]:
        """An array of tables."""
        return [Table(f"{self.where}, {key} {n}", of) for n, of in enumerate(self.take(key, []), 1)]

    def rest(self) -> list[tuple[str, Any]]:
        """Everything that is left, where keys are names."""
        left, self._left = list(self._left.items()), {}
        return left

    def close(self) -> None:
        """Every key was of use.

        Raises:
            ScenarioError: One was not.
        """
        if self._left:
            raise ScenarioError(f"{self.where}: nothing reads {', '.join(self._left)}")
