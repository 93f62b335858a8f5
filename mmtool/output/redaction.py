"""Redact known secrets from every text that is about to be shown, as a last safeguard.

The first safeguard is the configuration, which never puts a secret into a message. This one covers text of others:
an exception of a client library, a traceback.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.plain_text import Lines, printable
from mmtool.runtime.secret_names import MARKING_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "[hidden]"

_ASSIGNMENT = re.compile(
    rf"""(?ix)
    ( (?<! [\w.\-] ) (?= [\w.\-]*? (?: {MARKING_WORDS} ) ) [\w.\-]++  # each word once: a name may have 32,767 letters
      ["']? (?<! \.properties ) \s* [=:] \s* )  # a file may be called after a secret; what follows is a line number
    (?! \[hidden\] )
    ( "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s,;}})\]]+ )
    """
)
_PLACE = re.compile(r"(?:\A|(?<=\s))(?:https?:/)?(?:/[\w.\-]+)+/\Z")
"""An absolute path, or a URL without a user, up to its last part: a colon and a blank after it begin a sentence."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without the given secrets, values assigned to a secret's name, and private keys."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _PRIVATE_KEY.sub(HIDDEN, text)
    return _ASSIGNMENT.sub(_without_value, text)


def _without_value(found: re.Match[str]) -> str:
    is_place = found[1].endswith(": ") and _PLACE.search(found.string, 0, found.start())
    return found[0] if is_place else found[1] + HIDDEN


def shown(text: str, secrets: Iterable[str] = ()) -> str:
    """A sentence as it may be shown: secrets hidden, names printable; only `Lines` may have line breaks."""
    kept = redacted(text, secrets)
    return kept if isinstance(text, Lines) else printable(kept)
