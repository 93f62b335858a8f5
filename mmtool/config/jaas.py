"""Read and write ``sasl.jaas.config``: a login module and its options."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODULE = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(r"""\s*([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^\s"';=]+)""", re.DOTALL)
_REST = re.compile(r"\s*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SECRET_OPTION = re.compile("(password|secret|token|assertion|accesskey)$", re.IGNORECASE)

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MSK_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@dataclass(frozen=True, slots=True)
class Login:
    """One login module and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")


def is_secret_option(name: str) -> bool:
    """Whether the value of a login module's option is a secret."""
    return _SECRET_OPTION.search(name) is not None


def parse_jaas(text: str) -> Login:
    """Read the login module of a ``sasl.jaas.config``.

    Raises:
        ValueError: The text is none; the message says what is expected, and never quotes the text, since it holds the
            password.
    """
    match = _MODULE.fullmatch(text)
    if match is None:
        raise ValueError("one login module")
    return Login(match.group(1), _options(match.group(3)))


def jaas_text(module: str, options: Mapping[str, str]) -> str:
    """A ``sasl.jaas.config`` of one login module."""
    quoted = (f' {name}="{_quoted(value)}"' for name, value in options.items())
    return f"{module} required{''.join(quoted)};"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _options(text: str) -> dict[str, str]:
    options = {}
    position = 0
    while not _REST.fullmatch(text, position):
        match = _OPTION.match(text, position)
        if match is None:
            raise ValueError("only options after the login module")
        options[match.group(1)] = _unquoted(match.group(2))
        position = match.end()
    return options


def _unquoted(word: str) -> str:
    return _ESCAPED.sub(r"\1", word[1:-1]) if word[0] in "\"'" else word
