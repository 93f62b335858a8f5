"""Which keys of a properties file hold a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.config.redaction import may_show_client_key
from mmtool.config.templates import holds_secret, may_hold_secret
from mmtool.runtime.secret_names import marks_secret

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_secret(key: str, value: str) -> bool:
    """Whether the value of a key, with or without its scope, is a secret or contains one."""
    if any(map(may_show_client_key, _ends(key))):
        return key.endswith(".url") and "@" in value
    if may_hold_secret(key):
        return holds_secret(key)
    return "mmtool." in key and marks_secret(key)


def _ends(key: str) -> Iterator[str]:
    """The key after each of its dots, and all of it: an alias may have dots."""
    parts = key.split(".")
    return (".".join(parts[start:]) for start in range(len(parts)))
