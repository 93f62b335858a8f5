"""Parse the properties file into entries with their lines, without interpreting keys.

``javaproperties`` undoes the escapes. Its own reader takes half a minute for a list of 20,000 continued lines.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import javaproperties

from mmtool.errors import ConfigError
from mmtool.plain_text import shell_word
from mmtool.runtime.files import did_you_mean_file

_NATURAL_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+[=:]?[ \t\f]*+", re.DOTALL)
_ESCAPED = re.compile(r"^[ \t\f]+|[^\x20-\x5b\x5d-\x7e]")
"""A leading blank, a backslash, and what is not printable ASCII: Java reads the file as Latin-1."""
_LONGEST_KEY = 4096
_BLANKS = " \t\f"


@dataclass(frozen=True, slots=True)
class PropertyEntry:
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
    entries: dict[str, PropertyEntry]
    duplicates: tuple[PropertyEntry, ...]


def read_properties(path: Path) -> PropertiesFile:
    r"""Read a Java properties file.

    UTF-8 with or without a byte order mark; bytes that are not UTF-8 are read as Latin-1, which is what Java
    itself assumes. UTF-16 is refused.

    Raises:
        ConfigError: The file cannot be read, is UTF-16, or has a broken ``\u`` escape, half of a surrogate pair or an
            endless key.
    """
    text = _decode(path, _read_bytes(path))
    parsed = [_entry(path, number, line) for number, line in _logical_lines(text) if line]
    entries: dict[str, PropertyEntry] = {}
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
            f"{path}: no such file{did_you_mean_file(path)}",
            remedy="name MirrorMaker 2's properties file with -c/--config or MMTOOL_CONFIG",
        ) from None
    except OSError as error:
        remedy = _UNREADABLE.get(type(error), "check the disk and the file system that hold it")
        raise ConfigError(f"{path}: cannot be read: {error.strerror}", remedy=remedy) from None
    except ValueError:
        raise ConfigError(f"{str(path)!r} is not a path: it has a null character") from None


def _decode(path: Path, content: bytes) -> str:
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise ConfigError(
            f"{path}: the file is UTF-16 text, not UTF-8",
            remedy=f"convert it: `iconv -f UTF-16 -t UTF-8 {shell_word(str(path))} > utf8.properties`",
        )
    content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with the lines that continue it, and its number; without comments. Some are empty."""
    parts: list[str] = []
    first = 0
    for number, found in enumerate(_NATURAL_LINE.finditer(text), 1):
        line = found[0].rstrip("\r\n").lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        is_continued = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(line[:-1] if is_continued else line)
        if not is_continued:
            yield first, "".join(parts)
            parts = []
    yield first, "".join(parts)


def _entry(path: Path, number: int, line: str) -> PropertyEntry:
    found = _KEY.match(line)
    assert found is not None  # it matches an empty text as well
    try:
        key, value = (javaproperties.unescape(part) for part in (found[1], line[found.end() :]))
        (key + value).encode()
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(
            f"{path}:{number}: `{error.escape}` is no character: a \\u escape needs four hexadecimal digits",
            remedy="complete the escape, or write \\\\ for a backslash",
        ) from None
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ConfigError(
            f"{path}:{number}: `{half}` is half of a character",
            remedy="write the character itself, or both of its \\u escapes",
        ) from None
    if len(key) > _LONGEST_KEY:
        raise ConfigError(
            f"{path}:{number}: the key has {len(key)} characters, more than {_LONGEST_KEY}",
            remedy="check the line, and the backslashes at the ends of the lines before it",
        )
    return PropertyEntry(key, number, value, value)


def escaped(value: str) -> str:
    """A value as a properties file holds it."""
    return _ESCAPED.sub(lambda match: javaproperties.escape(match[0]), value)
