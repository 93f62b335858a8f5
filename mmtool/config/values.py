"""Parse values by the rules of Kafka's ``ConfigDef.parseType``, and ``bootstrap.servers`` as Java's clients do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from mmtool.plain_text import did_you_mean, nearest

_INTEGER = re.compile(r"[+-]?[0-9]+")
_TRIMMED = "".join(map(chr, range(0x21)))
_COMMA = re.compile(r"\s*,\s*")

_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)

Start = Literal["earliest", "latest"] | datetime
_ENDS: dict[str, Literal["earliest", "latest"]] = {"earliest": "earliest", "latest": "latest"}
RelativeStart = Start | timedelta
"""A start, or a duration before the moment at which a partition starts."""


def java_trim(text: str) -> str:
    """The text trimmed as by ``String.trim`` in ``ConfigDef`` STRING and PASSWORD: no-break spaces stay."""
    return text.strip(_TRIMMED)


def parse_boolean(text: str) -> bool:
    """Parse a ``ConfigDef`` BOOLEAN: true or false in any case, trimmed; anything else is an error."""
    word = text.strip().lower()
    if word not in {"true", "false"}:
        raise ValueError("true or false")
    return word == "true"


def java_parse_boolean(text: str) -> bool:
    """Parse as ``Boolean.parseBoolean``: true for "true" in any case, untrimmed, and false for all other text."""
    return text.lower() == "true"


def parse_integer(text: str, minimum: int, maximum: int, taken: tuple[int, int] | None = None) -> int:
    """Parse a ``ConfigDef`` INT, SHORT or LONG with bounds.

    Args:
        text: The value.
        minimum: For the message.
        maximum: For the message.
        taken: Wider bounds that are accepted, where the bounds in the message are only recommended.
    """
    trimmed = text.strip()
    least, largest = taken or (minimum, maximum)
    if not _INTEGER.fullmatch(trimmed) or not least <= int(trimmed) <= largest:
        raise ValueError(f"a whole number from {minimum} to {maximum}")
    return int(trimmed)


def parse_interval(text: str, maximum: int, taken: int) -> int:
    """Parse an interval in seconds; a negative number means never, as in MM2; 0 is refused: it ends MM2.

    Args:
        text: The value.
        maximum: For the message.
        taken: The largest number that is not refused.
    """
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed) or int(trimmed) == 0 or int(trimmed) > taken:
        raise ValueError(f"a whole number from 1 to {maximum}, or a negative one for never")
    return int(trimmed)


def parse_replication_factor(text: str) -> int:
    """Parse a replication factor, or -1 for the broker's default."""
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed) or not (int(trimmed) == -1 or 1 <= int(trimmed) <= 32_767):
        raise ValueError("a number of replicas, 1 or more, or -1 for the broker's default")
    return int(trimmed)


def parse_list(text: str) -> tuple[str, ...]:
    """Parse a ``ConfigDef`` LIST: trimmed, split at commas with the white space around them.

    Empty text has no element. Of duplicates the first one stays (KIP-1161).
    """
    return tuple(dict.fromkeys(split_list(text)))


def split_list(text: str) -> tuple[str, ...]:
    """As `parse_list`, with duplicates."""
    trimmed = text.strip()
    return tuple(_COMMA.split(trimmed)) if trimmed else ()


def parse_choice(text: str, choices: Sequence[str]) -> str:
    """Parse one of several words, in any case."""
    word = text.strip().lower()
    if word not in choices:
        raise ValueError(f"{' or '.join(choices)}{did_you_mean([nearest(word, choices)])}")
    return word


def parse_start(text: str) -> Start:
    """Parse ``earliest``, ``latest``, or an instant with its zone."""
    word = text.strip()
    if end := _ENDS.get(word.lower()):
        return end
    try:
        return parse_instant(word)
    except ValueError as error:
        raise ValueError(f"earliest, latest or {error}, as 2026-01-31T12:00:00Z") from None


def parse_instant(text: str) -> datetime:
    """Parse an instant with its zone."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError("a time with its zone")
    return instant


def start_text(start: RelativeStart) -> str:
    """The text of a start as in the file: the inverse of `parse_start` and `parse_reset`."""
    if isinstance(start, datetime):
        return start.isoformat().replace("+00:00", "Z")
    return f"by_duration:{_duration_text(start)}" if isinstance(start, timedelta) else start


def _duration_text(duration: timedelta) -> str:
    minutes, seconds = divmod(duration.seconds, 60)
    fraction = f".{duration.microseconds:06d}".rstrip("0").rstrip(".")
    parts = ((minutes // 60, "H"), (minutes % 60, "M"))
    time = "".join(f"{number}{unit}" for number, unit in parts if number)
    time += f"{seconds}{fraction}S" if seconds or fraction else ""
    days = f"{duration.days}D" if duration.days else ""
    return f"P{days}T{time}" if time else f"P{days or 'T0S'}"


def parse_reset(text: str) -> RelativeStart:
    """Parse ``auto.offset.reset`` of the source consumer; ``none``, with which MM2's task fails, is refused.

    ``by_duration:`` is as in Kafka (KIP-1106), followed by a duration that ``java.time.Duration.parse`` reads, not
    negative.
    """
    word = text.strip()
    if end := _ENDS.get(word.lower()):
        return end
    name, colon, duration = word.partition(":")
    if not colon or name != "by_duration":
        raise ValueError("earliest, latest or by_duration:DURATION, as by_duration:P7D")
    return _parse_duration(duration)


def _parse_duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None or len(text.lstrip("+-")) < len("P1D"):
        raise ValueError(
            "by_duration:DURATION with an ISO-8601 duration, for example by_duration:P7D or by_duration:PT12H"
        )
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    part = int((fraction or "0").ljust(9, "0")) // 1000
    micros = whole * 1_000_000 + (-part if (seconds or "").startswith("-") else part)
    micros = -micros if sign == "-" else micros
    if micros < 0:
        raise ValueError("by_duration:DURATION with a duration of zero or more, for example by_duration:P7D")
    longest = timedelta.max // timedelta(microseconds=1)
    return timedelta(microseconds=min(micros, longest))


_SERVER = re.compile(r"(?:([0-9a-zA-Z\-%._]*)://)?\[?([0-9a-zA-Z\-%._:]+)\]?:([0-9]+)")
"""``Utils.HOST_PORT_PATTERN`` of kafka-clients; an empty host, which Java takes for localhost, is left out."""

_PORTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Servers:
    """A comma list of servers.

    Attributes:
        text: ``host:port``, separated by commas, without protocols.
        protocols: The protocols in front of them, in upper case, each once.
    """

    text: str
    protocols: tuple[str, ...] = ()


def parse_servers(text: str) -> Servers:
    """Parse a comma list of servers; empty elements are skipped.

    Raises:
        ValueError: An element is not ``host:port``; the message says which and why.
    """
    found = [_parse(word) for word in parse_list(text) if word]
    protocols = dict.fromkeys(protocol.upper() for protocol, _ in found if protocol)
    return Servers(",".join(server for _, server in found), tuple(protocols))


def _parse(word: str) -> tuple[str, str]:
    match = _SERVER.fullmatch(word)
    if match is None:
        raise ValueError(f"a comma list of host:port; `{word}` is no HOST:PORT{_reason(word)}")
    protocol, host, port = match.groups()
    if not 0 < int(port) < _PORTS:
        raise ValueError(f"a comma list of host:port; `{word}` has no port from 1 to {_PORTS - 1}")
    return protocol or "", f"[{host}]:{int(port)}" if ":" in host else f"{host}:{int(port)}"


def _reason(word: str) -> str:
    """What is wrong with an element that is not a server; empty where the expected form says enough."""
    if word.startswith(("=", ":")) and word[1:2] not in {"", "/"} and _SERVER.fullmatch(word[1:]):
        return f": remove the second {word[0]}"
    if ";" in word:
        return ": servers are separated by commas, not by ;"
    if any(character.isspace() for character in word):
        return ": it holds a blank; servers are separated by commas"
    if word[0] in "\"'":
        return ": quotes are part of a value; remove them"
    return "" if word.rpartition(":")[2].isdigit() else ": it has no port"
