"""Parse ``bootstrap.servers`` as Java's clients do: a comma list of ``[PROTOCOL://]host:port``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmtool.config.values import parse_list

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
