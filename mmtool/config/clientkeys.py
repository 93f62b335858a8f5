"""The table of Java client properties: their types, limits and roles, and their librdkafka equivalents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mmtool.config.keys import TABLES
from mmtool.config.scopes import Role
from mmtool.config.values import parse_boolean, parse_integer

_LARGEST = {"int": 2**31 - 1, "long": 2**63 - 1}


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One property of Java's clients.

    Attributes:
        name: Without scope.
        roles: Which clients have it, by first letters.
        kind: int, long, boolean, word or text.
        words: The limits of a number, or the valid words.
    """

    name: str
    roles: str
    kind: str
    words: tuple[str, ...]

    def check(self, text: str) -> None:
        """Raise ValueError for a value that Java's clients refuse; the message says what they expect."""
        if self.kind in _LARGEST:
            greatest = _LARGEST[self.kind]
            least, most = (*map(int, self.words), *(-greatest - 1, greatest)[len(self.words) :])
            parse_integer(text, least, most)
        elif self.kind == "boolean":
            parse_boolean(text)
        elif self.kind == "word" and text.strip().lower() not in self.words:
            raise ValueError(" or ".join(self.words))


def _key(name: str, row: str) -> ClientKey:
    roles, kind, *words = row.split()
    return ClientKey(name, roles, kind, tuple(words))


CLIENT_KEYS = {name: _key(name, row) for name, row in TABLES["client"].items()}
"""Properties of Java's clients, without security keys."""

HIDDEN_SECURITY_KEYS = frozenset(TABLES["security"]["hidden"])
"""Java's and librdkafka's security keys that mmtool reads and never shows."""

_SHOWN_SECURITY_KEYS = frozenset(TABLES["security"]["shown"])
_SHOWN_TEXTS = {"auto.offset.reset", "client.id", "client.rack", "ssl.enabled.protocols", "ssl.protocol"}

SECURITY_KEYS = HIDDEN_SECURITY_KEYS | _SHOWN_SECURITY_KEYS
"""Java's and librdkafka's security keys that mmtool reads."""

UNUSED_SECURITY_KEYS = frozenset(TABLES["security"]["unused"])
"""Java's other security keys: without effect, or refused where ignoring them would be wrong."""


@dataclass(frozen=True, slots=True)
class _Equal:
    """What librdkafka calls a property of Java's clients, and the values that it takes."""

    name: str
    least: int
    greatest: int


_CONNECTING = {name: _Equal(**row) for name, row in TABLES["librdkafka"].items()}
"""Properties that reach a client: how librdkafka connects. mmtool fetches and writes by itself."""

_OFF = {"connections.max.idle.ms", "receive.buffer.bytes", "send.buffer.bytes"}
"""Properties whose -1 in Java is 0 in librdkafka: never, or the system's own size."""

_DNS = "client.dns.lookup"
_NO_DEFAULT = "Kafka 4.0 removed the value `default`; mmtool uses use_all_dns_ips"
_READ_BY_FLOWS = {"isolation.level", "auto.offset.reset"}


@dataclass(frozen=True, slots=True)
class Passed:
    """The value of a property that a librdkafka client gets.

    Attributes:
        name: librdkafka's.
        value: Within its bounds; None: left out.
        note: How that differs from the file; empty when it does not.
    """

    name: str
    value: str | None
    note: str = ""


def librdkafka_value(java_name: str, text: str) -> Passed | None:
    """The librdkafka property that a Java property sets, with its value; None where it does not reach a client.

    Args:
        java_name: The property, without its scope.
        text: A value that Java's clients take.
    """
    if java_name == _DNS:
        word = text.strip().lower()
        gone = word == "default"
        return Passed(_DNS, None if gone else word, _NO_DEFAULT if gone else "")
    equal = _CONNECTING.get(java_name)
    if equal is None:
        return None
    asked = int(text)
    if asked < 0 and java_name in _OFF:
        return Passed(equal.name, "0")
    used = min(max(asked, equal.least), equal.greatest)
    bounds = f"librdkafka accepts {equal.least} to {equal.greatest}; mmtool uses {used}"
    return Passed(equal.name, str(used), "" if used == asked else bounds)


def java_names(librdkafka_name: str) -> tuple[str, ...]:
    """Java's names of a librdkafka property."""
    return tuple(name for name, equal in _CONNECTING.items() if equal.name == librdkafka_name)


def has_effect(role: Role, name: str) -> bool:
    """Whether a property of that role's clients has an effect; of a producer none has: mmtool's is its own."""
    if role == "consumer" and name in _READ_BY_FLOWS:
        return True
    return role != "producer" and (name in _CONNECTING or name == _DNS)


def may_show_client_key(name: str) -> bool:
    """Whether the value of a client property, without its scope, can be printed; of an unknown one it cannot."""
    key = CLIENT_KEYS.get(name)
    return name in _SHOWN_SECURITY_KEYS | _SHOWN_TEXTS or (key is not None and key.kind != "text")


@cache
def client_keys(role: Role) -> frozenset[str]:
    """Every property that a Java client of that role may have, without security keys."""
    return frozenset(name for name, key in CLIENT_KEYS.items() if role[0] in key.roles)
