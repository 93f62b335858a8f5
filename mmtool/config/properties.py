"""Parse the properties file into entries with their lines, without interpreting keys."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import javaproperties

from mmtool.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``key = value`` of the file.

    Attributes:
        key: As written.
        line: 1-based line on which the key starts.
        raw: The value before placeholders were resolved: what a message may quote.
        value: The value after it; may hold a secret, so it stays out of the repr.
    """

    key: str
    line: int
    raw: str = field(repr=False)
    value: str = field(repr=False)

    @property
    def has_placeholder(self) -> bool:
        """Whether a placeholder gave at least a part of the value, which may be a secret under any key."""
        return self.raw != self.value


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """All entries by key, in file order; a later duplicate wins, as in ``java.util.Properties``."""

    path: Path
    entries: dict[str, Entry]
    duplicates: tuple[Entry, ...]


def read_properties(path: Path) -> PropertiesFile:
    r"""Read a Java properties file.

    UTF-8 with or without a byte order mark; bytes that are not UTF-8 are read as Latin-1, which is what Java
    itself assumes.

    Raises:
        ConfigError: The file cannot be read, or has a broken ``\u`` escape.
    """
    text = _decode(_read_bytes(path))
    try:
        parsed = _entries(text)
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(
            f"{path}: {error.escape!r} is no character: a \\u escape needs four hexadecimal digits",
            remedy="write a backslash as \\\\",
        ) from None
    entries: dict[str, Entry] = {}
    duplicates = []
    for entry in parsed:
        earlier = entries.pop(entry.key, None)
        if earlier is not None:
            duplicates.append(earlier)
        entries[entry.key] = entry
    return PropertiesFile(path, entries, tuple(duplicates))


_UNREADABLE = {
    PermissionError: "give the user of mmtool the right to read it",
    IsADirectoryError: "name a file, not a folder, with -c/--config or MMTOOL_CONFIG",
}
"""The remedy for each reason why a file that exists cannot be read."""


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file",
            remedy="name MirrorMaker 2's properties file with -c/--config or MMTOOL_CONFIG",
        ) from None
    except OSError as error:
        remedy = _UNREADABLE.get(type(error), "check the disk and the file system that hold it")
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", remedy=remedy) from None


def _decode(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _entries(text: str) -> list[Entry]:
    entries = []
    line = 1
    for element in javaproperties.parse(io.StringIO(text, newline="")):
        if isinstance(element, javaproperties.KeyValue):
            entries.append(Entry(element.key, line, element.value, element.value))
        line += _line_breaks(element.source)
    return entries


def _line_breaks(source: str) -> int:
    return source.count("\n") + source.count("\r") - source.count("\r\n")
