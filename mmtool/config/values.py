"""Text to value, by the rules of Kafka's ``ConfigDef.parseType`` and Java's ``parseBoolean``.

A parser raises ``ValueError`` whose text is what was expected; the caller knows file, line and key.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

_INTEGER = re.compile(r"[+-]?[0-9]+")
_COMMA = re.compile(r"\s*,\s*")

Start = Literal["earliest", "latest"] | datetime


def parse_boolean(text: str) -> bool:
    """``ConfigDef`` BOOLEAN: true or false in any case, trimmed; anything else is an error."""
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError("true or false")
    return word == "true"


def java_parse_boolean(text: str) -> bool:
    """``Boolean.parseBoolean``: only "true" in any case is true, untrimmed; everything else is false."""
    return text.lower() == "true"


def parse_integer(text: str, minimum: int, maximum: int) -> int:
    """``ConfigDef`` INT, SHORT or LONG with bounds."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed) or not minimum <= int(trimmed) <= maximum:
        raise ValueError(f"a whole number from {minimum} to {maximum}")
    return int(trimmed)


def parse_replication_factor(text: str) -> int:
    """A replication factor, or -1: the broker's own default."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed) or not (int(trimmed) == -1 or 1 <= int(trimmed) <= 32_767):
        raise ValueError("a number of replicas, 1 or more, or -1 for the broker's default")
    return int(trimmed)


def parse_list(text: str) -> tuple[str, ...]:
    """``ConfigDef`` LIST: trimmed, empty is no element, split at commas with the white space around them.

    Duplicates are dropped, first one stays (KIP-1161).
    """
    return tuple(dict.fromkeys(split_list(text)))


def split_list(text: str) -> tuple[str, ...]:
    """The same with its duplicates."""
    trimmed = text.strip()
    return tuple(_COMMA.split(trimmed)) if trimmed else ()


def parse_choice(text: str, choices: tuple[str, ...]) -> str:
    """One of a few words, in any case."""
    word = text.strip().lower()
    if word not in choices:
        raise ValueError(" or ".join(choices))
    return word


def parse_start(text: str) -> Start:
    """``earliest``, ``latest``, or an instant with its zone."""
    word = text.strip()
    if word.lower() == "earliest":
        return "earliest"
    if word.lower() == "latest":
        return "latest"
    try:
        instant = datetime.fromisoformat(word)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError("earliest, latest or a time with its zone, as 2026-01-31T12:00:00Z")
    return instant
