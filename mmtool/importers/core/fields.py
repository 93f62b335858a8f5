"""One mapping of a document, which remembers the fields that were read: the rest has to be reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.importers.core.connector import Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Fields:
    """The fields of one mapping, read by name.

    Texts, mappings and lists are the only values: numbers and booleans are texts already.
    """

    def __init__(self, value: Mapping[str, object], path: str) -> None:
        """Begin with nothing read; ``path`` is the mapping's place, or the document's title and a blank."""
        self._value = value
        self.path = path
        self._read: set[str] = set()
        self._parts: list[Fields] = []

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}{name}" if self.path[-1:] in {"", " "} else f"{self.path}.{name}"

    def has(self, name: str) -> bool:
        """Whether a field has a value."""
        return self._value.get(name) is not None

    def text(self, name: str) -> str | None:
        """A text; None where it is missing.

        Raises:
            UsageError: It is a mapping or a list.
        """
        value = self._take(name)
        if value is not None and not isinstance(value, str):
            raise self._unexpected(name, "a text or a number")
        return value

    def required(self, name: str) -> str:
        """A text that must be there and not blank.

        Raises:
            UsageError: It is not.
        """
        text = self.text(name)
        if text is None or not text.strip():
            raise UsageError(f"{self.at(name)} is missing", remedy="add it, or correct the indentation")
        return text.strip()

    def fields(self, name: str) -> Fields | None:
        """A mapping; None where it is missing, not where it is empty.

        Raises:
            UsageError: It is no mapping.
        """
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._unexpected(name, "a mapping")
        return self._part(value, self.at(name))

    def items(self, name: str) -> list[Fields]:
        """The mappings of a list; empty where it is missing.

        Raises:
            UsageError: It is no list of mappings.
        """
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._unexpected(name, "a list of mappings")
        return [self._part(item, f"{self.at(name)}[{number}]") for number, item in enumerate(value)]

    def settings(self, name: str) -> dict[str, Setting]:
        """The texts of a mapping such as ``config``.

        Raises:
            UsageError: It has a mapping or a list, which neither Strimzi nor Connect accepts.
        """
        part = self.fields(name)
        return {} if part is None else part.all_texts()

    def all_texts(self) -> dict[str, Setting]:
        """All texts of this mapping; raises as `settings`."""
        texts = {name: self.text(name) for name in self._value}
        return {name: Setting(text, self.at(name)) for name, text in texts.items() if text is not None}

    def skip(self, name: str) -> None:
        """Count a field as read."""
        self._read.add(name)

    def rest(self) -> Iterator[str]:
        """The paths of the fields with a value that were not read, those of the parts included."""
        yield from (
            self.at(name)
            for name, value in self._value.items()
            if value is not None and name not in self._read
        )
        for part in self._parts:
            yield from part.rest()

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._value.get(name)

    def _part(self, value: Mapping[str, object], path: str) -> Fields:
        part = Fields(value, path)
        self._parts.append(part)
        return part

    def _unexpected(self, name: str, expected: str) -> UsageError:
        return UsageError(f"{self.at(name)}: expected {expected}", remedy="correct the document")
