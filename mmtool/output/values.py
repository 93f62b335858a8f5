"""Convert mmtool's values to JSON, CSV fields and table cells.

Unknown is ``None`` inside, ``null`` in JSON, empty in CSV and ``-`` in a table; it is never a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import PurePath
from types import NoneType

from mmtool.plain_text import printable

UNKNOWN_CELL = "-"
_PLAIN_ALREADY = frozenset({NoneType, bool, int, str})


def plain(value: object) -> object:
    """The value converted to JSON's own types.

    Enums become their value, times ISO-8601 UTC, durations seconds, dataclasses objects. A float that is no
    number becomes null, because JSON has no word for it.

    Raises:
        TypeError: a value of a kind that has no agreed form; guessing one would become part of the contract.
    """
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime() | timedelta() | PurePath():
            return _plain_scalar(value)
        case _:
            return _plain_container(value)


def plain_row(row: Mapping[str, object]) -> dict[str, object]:
    """A row converted for JSON: ``reason`` is always a string, every other unknown value is null."""
    plained = {key: value if type(value) in _PLAIN_ALREADY else plain(value) for key, value in row.items()}
    if "reason" in plained:
        plained["reason"] = plained["reason"] or ""
    return plained


def iso(moment: datetime) -> str:
    """The time as ISO-8601 in UTC with a ``Z``, to the millisecond (the precision of Kafka's timestamps).

    Raises:
        ValueError: a time without a zone; it names no moment.
    """
    if moment.tzinfo is None:
        msg = f"{moment!r} has no time zone"
        raise ValueError(msg)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def field(value: object) -> str:
    """A value as the text of one CSV field."""
    match plain(value):
        case None:
            return ""
        case bool() as flag:
            return "true" if flag else "false"
        case dict() | list() as nested:
            return json.dumps(nested)
        case other:
            return str(other)


def cell(value: object) -> str:
    """A value as one table cell: never empty, so that scripts can count columns, and without control characters."""
    return printable(field(value)) or UNKNOWN_CELL


def _plain_scalar(value: datetime | timedelta | PurePath) -> float | str:
    match value:
        case datetime():
            return iso(value)
        case timedelta():
            return value.total_seconds()
        case _:
            return str(value)


def _plain_container(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return [plain(item) for item in value]
    msg = f"{type(value).__name__} has no agreed form in the output"
    raise TypeError(msg)
