"""Which keys of a properties file hold a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.config.redaction import may_show_client_key
from mmtool.config.templates import may_hold_secret
from mmtool.runtime.secret_names import marks_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

_PUBLIC = (
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "sasl.username",
    "sasl.oauthbearer.client.credentials.client.id",
)
"""Keys that are not quoted in messages, and hold no secret."""


def is_secret(key: str, value: str) -> bool:
    """Whether the value of a key, with or without its scope, is a secret or contains one."""
    if key.endswith(_PUBLIC):
        return False
    if any(map(may_show_client_key, _ends(key))):
        return key.endswith(".url") and "@" in value
    return may_hold_secret(key) or ("mmtool." in key and marks_secret(key))


def _ends(key: str) -> Iterator[str]:
    """The key after each of its dots, and all of it: an alias may have dots."""
    parts = key.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))
